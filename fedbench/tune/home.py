"""The one actor on the driver's machine that writes the store, for workers on this machine and on any other."""

import json
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from fedbench.base.errors import UserError, one_line
from fedbench.base.files import scratch, write_bytes
from fedbench.base.plugins import import_modules
from fedbench.data.own import dataset_of
from fedbench.store.leases import HeldElsewhereError, Lease
from fedbench.store.store import Store
from fedbench.tune.code import importable

CLOSE_SECONDS = 10.0


class Home:
    """Gives trials to workers, tells them when to stop, stores their results, and sends data sets to other nodes.

    It keeps nothing that matters: Ray starts it again if its process dies, and every call may be repeated.

    out: the results folder; shared: what all trials of the command have in common; trials: a JSON file with the config
    and the name of every trial by its hash.
    """

    def __init__(self, out: str, shared: Mapping[str, Any], trials: str) -> None:
        self.store = Store(Path(out))
        self.trials: Mapping[str, Mapping[str, Any]] = json.loads(Path(trials).read_text())
        self.shared = {"home_node": ray.get_runtime_context().get_node_id(), **shared}
        self._leases: dict[str, ExitStack] = {}
        self._stopping = False
        self._uncaptured: set[str] = set()
        self._sent: dict[str, dict[str, Any]] = {}

    def common(self) -> dict[str, Any]:
        """Return what all trials of the command have in common."""
        return {**self.shared, "uncaptured": sorted(self._uncaptured)}

    def uncaptured(self, model: str) -> None:
        """Note that the steps of a model cannot be captured; a worker that tries in vain has to end its process."""
        self._uncaptured.add(model)

    def stop(self) -> None:
        """Let running trials stop after their round, and start no others."""
        self._stopping = True

    def begin(self, hash_: str) -> dict[str, Any]:
        """Take the lease of a trial for a worker.

        The answer has a `status`: "run" with what the worker needs to know, "stopped", "elsewhere" with the `reason`,
        or the status of the trial's entry if another command has stored it meanwhile.
        """
        if self._stopping:
            return {"status": "stopped", "reason": ""}
        try:
            if not self.store.finished([hash_]):
                self._hold(hash_)
                self.store.mend()
        except HeldElsewhereError as error:
            return {"status": "elsewhere", "reason": str(error)}
        stored = self.store.get(hash_)
        if stored and stored.status != "failed":
            self.release(hash_)
            return {"status": stored.status, "reason": stored.reason or "", "found": True, **_last(stored.summary)}
        complaints, self.store.complaints = self.store.complaints, []
        return {"status": "run", "warnings": complaints, **self.trials[hash_]}

    def stopping(self, hash_: str) -> bool:
        """Return whether a running trial is to stop; its lease is taken again if this process is a new one."""
        with suppress(HeldElsewhereError):  # since this process started again; at worst the trial is run twice
            self._hold(hash_)
        return self._stopping

    def commit(
        self, hash_: str, files: Mapping[str, bytes], model: bytes | None, more: Mapping[str, bytes]
    ) -> tuple[str, str]:
        """Store the entry of a trial, its model, and files of trackers from another node.

        Returns a kind of error and its message: "" for none, "OSError" or "UserError".
        """
        try:
            for name, content in more.items():
                if not {"..", "/"} & set(PurePosixPath(name).parts):
                    place = Path(self.store.out, name)
                    place.parent.mkdir(parents=True, exist_ok=True)
                    write_bytes(place, content)
            self.store.accept(hash_, files, model)
        except OSError as error:
            return "OSError", one_line(error)
        except (UserError, ValueError) as error:
            return "UserError", one_line(error)
        return "", ""

    def release(self, hash_: str) -> None:
        """Give the lease of a trial back."""
        if lease := self._leases.pop(hash_, None):
            lease.close()

    def release_all(self) -> None:
        """Give all leases back: no trial of this command runs now."""
        for hash_ in list(self._leases):
            self.release(hash_)

    @ray.method(concurrency_group="data")
    def dataset(self, name: str, path: str | None = None, content: str | None = None) -> dict[str, Any]:
        """Return references to the arrays of a data set and their digest, or the reason why there are none."""
        from fedbench.simulation.federation import load_arrays  # late: it imports torch

        key = content or name
        if key not in self._sent:
            try:
                import_modules(*importable(self.shared["modules"], self.shared["folder"]))
                data_dir = self.shared["data_dir"]
                arrays = load_arrays(dataset_of(name, path, content), Path(data_dir) if data_dir else None)
            except UserError as error:
                return {"reason": str(error)}
            parts = {key: ray.put(np.asarray(array)) for key, array in arrays._asdict().items() if array is not None}
            self._sent[key] = {"digest": arrays.digest(), "parts": parts}
        return self._sent[key]

    def _hold(self, hash_: str) -> None:
        """Take the lease of a trial, unless this process has it; HeldElsewhereError if another command has."""
        if hash_ not in self._leases:
            with ExitStack() as lease:
                lease.enter_context(Lease(self.store.lease(hash_)))
                self._leases[hash_] = lease.pop_all()


def _last(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return the accuracy of the last round, if a summary has it."""
    last = summary.get("last_accuracy")
    return {} if last is None else {"last_accuracy": last}


@contextmanager
def home_of(
    out: Path, shared: Mapping[str, Any], trials: Mapping[str, Mapping[str, Any]] | None = None
) -> Iterator[tuple[str, Any]]:
    """Start a `Home` on this node for the time of a block; yield the name by which workers find it, and its handle.

    Data sets are sent by a thread of their own, so that a large one does not keep trials waiting.
    """
    name = f"fedbench-{uuid.uuid4().hex}"
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    remote: Any = ray.remote
    actor = remote(num_cpus=0, max_restarts=-1, max_task_retries=-1, concurrency_groups={"data": 1})(Home)
    # A file, since Ray may have lost a large argument when it restarts the actor.
    file = scratch(out.resolve() / "checkpoints" / "trials.json")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(trials or {}))
    handle = actor.options(name=name, scheduling_strategy=here).remote(str(out.resolve()), dict(shared), str(file))
    try:
        yield name, handle
    finally:
        file.unlink(missing_ok=True)
        try:
            ray.get(handle.release_all.remote(), timeout=CLOSE_SECONDS)
            ray.kill(handle)
        except Exception:  # Ray has died, and its actors with it
            pass
