"""What runs on a Ray worker: one trial after the other, each from its lease to its entry in the store."""

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import ray
from ray import tune

from fedbench.base.environment import variables
from fedbench.base.errors import UserError, one_line
from fedbench.base.plugins import import_modules
from fedbench.base.settings import merge
from fedbench.base.versions import complaint, versions
from fedbench.config import TrialConfig
from fedbench.config.naming import RunName
from fedbench.data.base import Arrays, Dataset
from fedbench.data.official import arrays_folder
from fedbench.data.own import FileSource
from fedbench.data.supply import supply_from
from fedbench.simulation import Record
from fedbench.simulation.checkpoint import Stopped, StopRequest
from fedbench.simulation.engines import CaptureFailed
from fedbench.store.away import cached_once, node_folder, tidy_node, tracked_files
from fedbench.store.execute import record_failure, run_trial
from fedbench.store.gpu import assigned_device, failed_captures_raised, worn_out
from fedbench.store.mark import UNCAPTURED, UNSTORED
from fedbench.store.memory import release_memory
from fedbench.store.mirror import Mirror
from fedbench.trackers import tracked
from fedbench.trackers.guard import Guarded
from fedbench.tune.code import importable
from fedbench.tune.nodes import without
from fedbench.tune.watch import Watched, worker_name

REPORT_SECONDS = 1.0  # between two reports of a running trial
ASK_SECONDS = 0.5  # between two questions whether to stop
Result = dict[str, Any]


class OtherVersionError(Exception):
    """This node has other versions than the driver; another node may run the trial."""


class WornError(Exception):
    """This process has reported the end of its trial, and gets no other one."""


class Worker(tune.Trainable):
    """A process that runs one piece of work after the other, and reports to Tune about once a second.

    A subclass says what the work is: `reports` yields a result every time that there is news, the last one with `done`.
    Ray's dashboard shows the name of the class, its representation, and what it prints as its log.
    """

    trials = 0  # that this process has begun

    def setup(self, config: dict[str, Any]) -> None:
        """Take in a config. The work begins with the first step: Tune may give it to another process before that."""
        self._reports: Iterator[Result] | None = None
        self.trials, self.worn = self.trials + 1, False

    def step(self) -> Result:
        """Work until there is something to report.

        A process that is not to get another trial fails in the step after its last report: Tune then starts a new one.
        """
        if self.worn:
            raise WornError
        if self._reports is None:
            home = ray.get_actor(self.config["home"])
            common: Any = ray.get(home.common.remote())
            self._reports = self.reports(home, common)
        result = next(self._reports)
        if result.get("done") and (result["status"] == UNCAPTURED or worn_out(self.trials)):
            self.worn, result["done"] = True, False
        return result

    def reports(self, home: Any, common: Mapping[str, Any]) -> Iterator[Result]:
        """Yield results; `home` is the command's `Home`, and `common` what it has for all workers."""
        raise NotImplementedError

    def cleanup(self) -> None:
        """End the work, however far it is."""
        if self._reports is not None:
            self._reports.close()  # type: ignore[attr-defined]
            self._reports = None
        release_memory()

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Take in the next config in the same process."""
        self.cleanup()
        self.setup(new_config)
        return True

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Save nothing: trials write their own checkpoints."""

    def load_checkpoint(self, checkpoint: object) -> None:
        """Load nothing."""

    def __repr__(self) -> str:
        return worker_name(self.config["command"])

    @classmethod
    def default_resource_request(cls, config: dict[str, Any]) -> tune.PlacementGroupFactory:
        """Return what one trial takes of the cluster; it keeps away from nodes with other versions."""
        return tune.PlacementGroupFactory([config["resources"]], **without(config["refused"]))


class FederatedRun(Worker):
    """A worker that runs the trials of a study."""

    def reports(self, home: Any, common: Mapping[str, Any]) -> Iterator[Result]:
        """Run the trial of the config. Every outcome except for the death of this process is reported."""
        hash_ = self.config["hash"]
        trial = ray.get(home.begin.remote(hash_))
        if trial["status"] != "run":
            yield {"round": 0, **trial, "done": True}
            return
        name, sent = RunName(**trial["name"]), 0.0
        remote = RemoteStore(home, common)
        remote.complaints += trial["warnings"]
        try:
            with Watched(name, hash_, remote.complaints.append) as watched:
                for _ in self._run(trial["config"], name, remote, common, watched):
                    if time.monotonic() - sent >= REPORT_SECONDS:
                        sent = time.monotonic()
                        yield {**watched.last, "status": "running", "reason": ""}
                ended = remote.ended or {"status": "failed", "reason": "it has no outcome"}
                reason = f" ({ended['reason']})" if ended["reason"] else ""
                score = f", last round {100 * ended['last_accuracy']:.2f} %" if "last_accuracy" in ended else ""
                watched.log(f"{ended['status']}{reason}{score}")
            if not remote.at_home:
                tidy_node(remote.folder.name, {hash_: ended["status"]})
        finally:
            ray.get(home.release.remote(hash_))
        said = list(map(one_line, remote.complaints))  # passwords are masked: Tune writes it down
        yield {**watched.last, **ended, "warnings": said, "done": True}

    def _run(
        self,
        settings: Mapping[str, Any],
        name: RunName,
        remote: "RemoteStore",
        common: Mapping[str, Any],
        watched: Watched,
    ) -> Iterator[Record]:
        """Run the trial and yield its rounds; `remote.ended` then says how it ended."""
        hash_, home, warn = self.config["hash"], remote.home, remote.complaints.append
        try:
            prepare(home, common)
            config = TrialConfig(**merge(settings, {"run": run_settings(settings["model"], common)}))
            if config.hash != hash_:
                raise UserError("this worker has other code than the driver: install the same fedbench and plugins")
            with ExitStack() as stack:
                stack.enter_context(variables(common["environment"]))
                stack.enter_context(failed_captures_raised())
                tracking = tracked(common["trackers"], config, remote.folder, warn, name)
                remote.trackers, mirror = stack.enter_context(tracking), None
                if common["checkpoints"]:
                    place = Mirror(common["checkpoints"], hash_, remote.checkpoints(hash_), warn)
                    mirror = stack.enter_context(place)
                stop = StopRequest(asked_to_stop(home, hash_), remote.checkpoints(hash_))
                data_dir = Path(common["data_dir"]) if common["data_dir"] else None
                share = self.config["resources"].get("GPU", 0.0)
                device = partial(assigned_device, ray.get_gpu_ids(), share, common["gpu_context"])
                heard = [watched, *remote.trackers, stop]
                yield from run_trial(config, remote, data_dir, heard, device, mirror, common["save_model"])
        except Stopped as error:
            remote.ended = {"status": "stopped", "reason": str(error)}
        except OtherVersionError as error:
            remote.ended = {"status": "refused", "reason": str(error)}
        except CaptureFailed as error:
            ray.get(home.uncaptured.remote(settings["model"]))
            remote.ended, remote.complaints = {"status": UNCAPTURED, "reason": str(error)}, []
        except OSError as error:  # a full disk, say: the next command goes on from the checkpoint
            remote.ended = {"status": UNSTORED, "reason": one_line(error)}
        except UserError as error:  # the driver could import a module that this worker cannot
            remote.trackers = []  # they know
            try:
                record_failure(remote, hash_, error)
                remote.ended["reason"] = str(error)
            except OSError as problem:
                remote.ended = {"status": UNSTORED, "reason": one_line(f"{error}; {problem}")}


class RemoteStore:
    """The command's store as a worker sees it: entries go to `Home`, checkpoints to a folder of this machine.

    folder: the results folder on the driver's node, elsewhere a folder in the node's cache; trackers: those that are to
    be told of a failure, before their files are sent; ended: how the trial ended.
    """

    def __init__(self, home: Any, common: Mapping[str, Any]) -> None:
        self.home, self.complaints, self.ended = home, list[str](), Result()
        self.trackers: list[Guarded] = []
        self.at_home = is_home(common)
        self.folder = Path(common["out"]) if self.at_home else node_folder(common["store"])

    def checkpoints(self, hash_: str) -> Path:
        """Return the folder for the checkpoints of a trial."""
        return self.folder / "checkpoints" / hash_

    def accept(self, hash_: str, files: Mapping[str, bytes], model: bytes | None) -> None:
        """Send an entry, its model and, from another node, what trackers wrote."""
        from fedbench.store.mark import read_mark
        from fedbench.store.store import MARKER

        mark = read_mark(files[MARKER])
        for tracker in self.trackers if mark.status == "failed" else ():
            tracker.crashed(mark.reason or "")
        more = {} if self.at_home else tracked_files(self.folder, hash_)
        kind, problem = ray.get(self.home.commit.remote(hash_, dict(files), model, more))
        if kind:
            raise (OSError if kind == "OSError" else UserError)(problem)
        if not self.at_home and mark.status != "failed":  # a mirror removes then what it has of them
            shutil.rmtree(self.checkpoints(hash_), ignore_errors=True)
        last = mark.summary.get("last_accuracy") if mark.status == "done" else None
        self.ended = {"status": mark.status, "reason": mark.reason or ""}
        self.ended |= {} if last is None else {"last_accuracy": last}


def prepare(home: Any, common: Mapping[str, Any]) -> None:
    """Make this process ready for trials of a command: its code, and the data sets that this node lacks.

    OtherVersionError if this node has other versions, UserError for a module that cannot be imported.
    """
    if line := complaint(ray.util.get_node_ip_address(), versions(), common["versions"]):
        raise OtherVersionError(line)
    if not is_home(common):
        supply_from(partial(fetch, home))
    import_modules(*importable(common["modules"], common["folder"]))


def fetch(home: Any, dataset: Dataset) -> Arrays:
    """Return a data set from the driver's machine; of many processes on this node, one fetches it into the cache."""
    name, source = dataset.name, dataset.load
    own = (source.path, source.content) if isinstance(source, FileSource) else ()
    sent = ray.get(home.dataset.remote(name, *own))
    if "reason" in sent:
        raise UserError(sent["reason"])

    def receive() -> Arrays:
        arrays = Arrays(**{key: ray.get(part) for key, part in sent["parts"].items()})
        if arrays.digest() != sent["digest"]:
            raise UserError(f"data set '{name}': what came from the driver does not have its checksum")
        return arrays

    return cached_once(arrays_folder(name, sent["digest"][:16]), receive)


def is_home(common: Mapping[str, Any]) -> bool:
    """Return whether this is the driver's node, which has the results folder."""
    return bool(ray.get_runtime_context().get_node_id() == common["home_node"])


def run_settings(model: str, common: Mapping[str, Any]) -> dict[str, Any]:
    """Return how the runs of a model are carried out here: the threads, and the engine if captures have failed."""
    return {"threads": common["threads"], **({"engine": "eager"} if model in common["uncaptured"] else {})}


def asked_to_stop(home: Any, hash_: str) -> Callable[[], bool]:
    """Return a function that asks `Home` whether a trial is to stop, at most twice a second."""
    asked = time.monotonic()

    def ask() -> bool:
        nonlocal asked
        if time.monotonic() - asked < ASK_SECONDS:
            return False
        asked = time.monotonic()
        return bool(ray.get(home.stopping.remote(hash_)))

    return ask
