"""What runs on a Ray worker: one trial after the other, each from its lease to its entry in the store."""

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import ray
from ray import tune

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
from fedbench.store.away import cached_once, tidy_node
from fedbench.store.gpu import assigned_device, worn_out
from fedbench.store.mark import UNCAPTURED
from fedbench.store.memory import release_memory
from fedbench.trackers.run import RemoteStore, run_remotely
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
            yield {"hash": hash_, "round": 0, **trial, "done": True}
            return
        name, settings, sent = RunName(**trial["name"]), trial["config"], 0.0
        remote = RemoteStore(lambda *entry: ray.get(home.commit.remote(*entry)), common, at_home=is_home(common))
        remote.complaints += trial["warnings"]
        share = self.config["resources"].get("GPU", 0.0)
        device = partial(assigned_device, ray.get_gpu_ids(), share, common["gpu_context"])

        def prepared() -> TrialConfig:
            prepare(home, common)
            return TrialConfig(**merge(settings, {"run": run_settings(settings["model"], common)}))

        try:
            with Watched(name, hash_, remote.complaints.append) as watched:
                asked = asked_to_stop(home, hash_)
                for _ in run_remotely(prepared, hash_, name, remote, common, watched, asked, device):
                    if time.monotonic() - sent >= REPORT_SECONDS:
                        sent = time.monotonic()
                        yield {**watched.last, "status": "running", "reason": ""}
                ended = remote.ended or {"status": "failed", "reason": "it has no outcome"}
                reason = f" ({ended['reason']})" if ended["reason"] else ""
                score = f", last round {100 * ended['last_accuracy']:.2f} %" if "last_accuracy" in ended else ""
                watched.log(f"{ended['status']}{reason}{score}")
            if not remote.at_home:
                tidy_node(remote.folder.name, {hash_: ended["status"]})
        except OtherVersionError as error:
            ended = {"status": "refused", "reason": str(error)}
        finally:
            ray.get(home.release.remote(hash_))
        if ended["status"] == UNCAPTURED:
            ray.get(home.uncaptured.remote(settings["model"]))
        said = list(map(one_line, remote.complaints))  # passwords are masked: Tune writes it down
        yield {**watched.last, **ended, "warnings": said, "done": True}


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
