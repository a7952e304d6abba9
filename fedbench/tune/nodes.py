"""The nodes of a cluster: which may run trials, and what share of a GPU a trial takes there."""

import time
from collections.abc import Callable, Collection, Iterable
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from fedbench.base.errors import UserError
from fedbench.base.versions import complaint, versions
from fedbench.cost.shares import Packing, default_share, mixed_types, too_much
from fedbench.store.gpu import smallest_gpu
from fedbench.tune.options import RunOptions

ASK_SECONDS = 60.0
PENDING = 16  # trials that wait for resources, at least
PENDING_TO_GROW = 200  # the same where the cluster grows with what is asked for
NODE_ID = "ray.io/node-id"  # a label that Ray gives every node
Say = Callable[[str], None]


def alive() -> dict[str, str]:
    """Return the address of every node that is alive, by its id."""
    return {node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]}


def ask(
    nodes: Iterable[str], question: Callable[..., Any], *arguments: Any, seconds: float = ASK_SECONDS
) -> dict[str, Any]:
    """Call a function on each of the nodes; nodes that die, fail or take too long are missing in the answer.

    The function takes no resources of a node, so that it never waits for trials, and its process ends afterwards.
    """
    task: Any = ray.remote(num_cpus=0, max_retries=1, max_calls=1)(question)
    asked = {
        node: task.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote(*arguments)
        for node in nodes
    }
    answers, deadline = {}, time.monotonic() + seconds
    for node, answer in asked.items():
        try:
            answers[node] = ray.get(answer, timeout=max(0.1, deadline - time.monotonic()))
        except ray.exceptions.GetTimeoutError:
            ray.cancel(answer, force=True)
        except Exception:  # Ray raises its own, and whatever the function did
            continue
    return answers


def found_versions() -> Callable[[], dict[str, str]]:
    """Return a function that finds a node's versions, and can be sent to one with another fedbench, or with none."""

    def find() -> dict[str, str]:
        import platform
        from contextlib import suppress
        from importlib import import_module
        from importlib.metadata import version

        try:
            return dict(import_module("fedbench.base.versions").versions())
        except Exception:
            found = {"Python": ".".join(platform.python_version_tuple()[:2])}
            with suppress(Exception):
                found["torch"] = version("torch").partition("+")[0]
            with suppress(Exception):
                found["fedbench"] = import_module("fedbench").__version__
            return found

    return find


class Nodes:
    """The nodes of a cluster, each asked once for its versions. `refused` are those that may not run trials.

    A cluster that this process has started itself is never asked.
    """

    def __init__(self, *, started_here: bool) -> None:
        self.started_here = started_here
        self.refused: set[str] = set()
        self._asked: set[str] = set()

    def check(self) -> None:
        """Ask all nodes before anything runs; raise UserError if one has other versions."""
        if complaints := self._look():
            more = f" (and {len(complaints) - 1} more nodes)" if len(complaints) > 1 else ""
            raise UserError(complaints[0] + more)

    def check_new(self) -> list[str]:
        """Ask the nodes that have joined since; return a line for each that gets no trials.

        Raise UserError if no node is left that may run trials.
        """
        complaints = self._look()
        if complaints and not alive().keys() - self.refused:
            raise UserError(complaints[0])
        return [f"{line}; it gets no trials" for line in complaints]

    def _look(self) -> list[str]:
        """Return a line for each new node with other versions. A node that does not answer is asked again later."""
        if self.started_here:
            return []
        there, complaints = alive(), []
        for node, found in sorted(ask(there.keys() - self._asked, found_versions()).items()):
            self._asked.add(node)
            if line := complaint(there[node], found, versions()):
                self.refused.add(node)
                complaints.append(line)
        return complaints

    def resources(self) -> list[dict[str, float]]:
        """Return the resources of every node that may run trials."""
        return [node["Resources"] for node in ray.nodes() if node["Alive"] and node["NodeID"] not in self.refused]


def without(nodes: Collection[str]) -> dict[str, Any]:
    """Return arguments for a placement group of one bundle that keeps away from some nodes."""
    return {"bundle_label_selector": [{NODE_ID: f"!in({','.join(sorted(nodes))})"}]} if nodes else {}


def check_fit(options: RunOptions, say: Say) -> None:
    """Raise UserError if no node can hold a trial; say that the command waits if the cluster grows on demand."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    problem = too_much(options.wanted(), nodes, "the cluster's largest node has")
    if problem and not options.autoscaling:
        raise UserError(f"{problem}; ask for less, or say --autoscaling if it grows")
    if problem:
        say(f"waiting for the cluster to grow ({problem})")


def gpu_share(options: RunOptions, say: Say) -> float:
    """Return the share of a GPU for each trial: the one that was asked for or, if torch can use GPUs, a default."""
    share, nodes = options.gpus_per_trial, [node for node in ray.nodes() if node["Alive"]]
    with_gpus = [node["NodeID"] for node in nodes if node["Resources"].get("GPU", 0)]
    if share is None and with_gpus:
        known = ask(with_gpus, smallest_gpu)
        gpus = [known.get(node) for node in with_gpus]
        share, line = default_share(options.gpu_memory, gpus, options.gpu_trials, options.gpu_context)
        say(line)
    if share and (line := mixed_types([node["Resources"] for node in nodes], options.resources)):
        say(line)
    return share or 0.0


def packing_of(count: int, options: RunOptions, share: float, nodes: Nodes, *, ahead: bool = True) -> Packing:
    """Return how some trials are distributed over the cluster, each with at least a share of a GPU.

    They are spread over all GPUs unless other commands use these, too: then a large share could wait for ever.

    ahead: whether more trials may be handed to Tune than run at a time, so that workers never wait.
    """
    have, resources = ray.cluster_resources(), options.wanted(share)
    slots, gpus = options.slots(have.get("CPU", 1), have.get("GPU", 0), share), have.get("GPU", 0)
    alone = nodes.started_here or ray.available_resources().get("GPU", 0) == gpus
    if 0 < share < 1 < gpus and alone and not options.autoscaling:
        return Packing(count, resources, slots, nodes.resources())
    waiting = PENDING_TO_GROW if options.autoscaling else max(PENDING, 2 * slots)
    return Packing(count, resources, (options.max_concurrent or waiting) if ahead else slots)
