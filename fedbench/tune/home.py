"""The one actor on the driver's machine that writes the store, for workers on this machine and on any other."""

import json
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from fedbench.base.errors import UserError
from fedbench.base.files import scratch
from fedbench.base.plugins import import_modules
from fedbench.data.own import dataset_of
from fedbench.store.keeper import Keeper
from fedbench.store.store import Store
from fedbench.tune.code import importable

CLOSE_SECONDS = 10.0


class Home(Keeper):
    """The keeper of the store as an actor, which also tells workers what trials have in common, and sends data sets.

    It keeps nothing that matters: Ray starts it again if its process dies.

    out: the results folder; shared: what all trials of the command have in common; trials: a JSON file with the config
    and the name of every trial by its hash.
    """

    def __init__(self, out: str, shared: Mapping[str, Any], trials: str) -> None:
        super().__init__(Store(Path(out)), json.loads(Path(trials).read_text()))
        self.shared = {"home_node": ray.get_runtime_context().get_node_id(), **shared}
        self._uncaptured: set[str] = set()
        self._sent: dict[str, dict[str, Any]] = {}

    def common(self) -> dict[str, Any]:
        """Return what all trials of the command have in common."""
        return {**self.shared, "uncaptured": sorted(self._uncaptured)}

    def uncaptured(self, model: str) -> None:
        """Note that the steps of a model cannot be captured; a worker that tries in vain has to end its process."""
        self._uncaptured.add(model)

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
