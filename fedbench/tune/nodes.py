"""The nodes of a cluster: asking every one of them, and which may run trials."""

import time
from collections.abc import Callable, Collection, Iterable
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from fedbench.base.errors import UserError
from fedbench.tune.versions import complaint, versions

ASK_SECONDS = 60.0
NODE_ID = "ray.io/node-id"  # a label that Ray gives every node


def alive() -> dict[str, str]:
    """The nodes that there are now: the address of each by its id."""
    return {node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]}


def ask(
    nodes: Iterable[str],
    question: Callable[..., Any],
    *about: Any,
    seconds: float = ASK_SECONDS,
    last: bool = False,
) -> dict[str, Any]:
    """What each of the nodes answers; one that dies, fails or takes too long is left out.

    The question is a task that takes nothing of a node, so that it never waits for trials. last: whether the process
    that answers ends then.
    """
    task: Any = ray.remote(num_cpus=0, max_retries=1, max_calls=int(last))(question)
    asked = {
        node: task.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote(*about)
        for node in nodes
    }
    answers, deadline = {}, time.monotonic() + seconds
    for node, answer in asked.items():
        try:
            answers[node] = ray.get(answer, timeout=max(0.1, deadline - time.monotonic()))
        except ray.exceptions.GetTimeoutError:
            ray.cancel(answer, force=True)
        except Exception:  # Ray raises its own, and whatever the task did
            continue
    return answers


def question() -> Callable[[str, str], dict[str, Any]]:
    """What a node is asked, as a function that travels whole: fedbench may not be there, or be another one."""

    def answer(sign: str, owner: str) -> dict[str, Any]:
        import platform
        from contextlib import suppress
        from importlib import import_module
        from importlib.metadata import version

        try:
            away, versions = (import_module(f"fedbench.tune.{name}") for name in ("away", "versions"))
            return {"shares": away.sees(sign, owner), "versions": dict(versions.versions())}
        except Exception:
            found = {"Python": ".".join(platform.python_version_tuple()[:2])}
            with suppress(Exception):
                found["torch"] = version("torch").partition("+")[0]
            with suppress(Exception):
                found["fedbench"] = import_module("fedbench").__version__
            return {"shares": False, "versions": found}

    return answer


class Fleet:
    """The nodes of a cluster, asked once each. `refused`: those that may not run trials; `sharing`: see the folder."""

    def __init__(self, sign: str, owner: str) -> None:
        self.refused: set[str] = set()
        self.sharing: set[str] = set()
        self._about = (sign, owner)
        self._asked: set[str] = set()

    def look(self) -> list[str]:
        """Ask the nodes that are new; a line for each with other versions.

        One that does not answer is asked again another time: its workers look at their versions, too.
        """
        there = alive()
        answers = ask(there.keys() - self._asked, question(), *self._about)
        complaints = []
        for node, answer in sorted(answers.items()):
            self._asked.add(node)
            if answer["shares"]:
                self.sharing.add(node)
            if line := complaint(there[node], answer["versions"], versions()):
                self.refused.add(node)
                complaints.append(line)
        return complaints

    def check(self) -> None:
        """Look before anything runs; a node that is not fit is an error then."""
        if complaints := self.look():
            more = f" (and {len(complaints) - 1} more nodes)" if len(complaints) > 1 else ""
            raise UserError(complaints[0] + more)

    def late(self) -> list[str]:
        """Look again, later; nodes that are not fit get no more trials. If none is left, that is an error."""
        complaints = self.look()
        if complaints and not self.fit():
            raise UserError(complaints[0])
        return complaints

    def fit(self) -> set[str]:
        """The nodes that there are now and may run trials."""
        return alive().keys() - self.refused

    def apart(self) -> set[str]:
        """Those of them that do not see the folder, or were not asked yet."""
        return self.fit() - self.sharing


def without(nodes: Collection[str]) -> dict[str, Any]:
    """What to tell a placement group, of one bundle, that is to keep away from some nodes."""
    return {"bundle_label_selector": [{NODE_ID: f"!in({','.join(sorted(nodes))})"}]} if nodes else {}
