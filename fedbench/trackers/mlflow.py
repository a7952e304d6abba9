"""MLflow: an experiment for each study, a run for each trial."""

import os
import time
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from fedbench.simulation import Record, Simulation
from fedbench.store.folder import summary
from fedbench.trackers.base import Tracker, folder_key, numbers, parameters, register_tracker
from fedbench.trackers.guard import reach

ADDRESS, EXPERIMENT = "MLFLOW_TRACKING_URI", "fedbench"
KEY, STATUS, REASON = "fedbench.key", "fedbench.status", "fedbench.reason"
SEND_SECONDS = 1.0  # between two batches of rounds
MOST = 1000, 100  # metrics and parameters of a batch
LONGEST = 5000  # letters of a parameter or a reason


@register_tracker("mlflow")
class MLflow(Tracker):
    """MLflow runs in the experiment fedbench/STUDY, at MLFLOW_TRACKING_URI or, without it, in OUT/mlflow."""

    package = "mlflow"
    variables = ("MLFLOW_",)
    patience: ClassVar = {
        "MLFLOW_HTTP_REQUEST_TIMEOUT": "5",
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
        "MLFLOW_LOGGING_LEVEL": "WARNING",
    }

    def start(self, run: Simulation) -> None:
        """Continue the existing run, or create one; then send the rounds that it lacks."""
        self._open()
        self._add(run.state.history)
        self._send()

    def round(self, run: Simulation, seen: Record) -> None:
        """One point for every number; the step is the round. Rounds go out once a second at most."""
        self._add([seen])
        if time.monotonic() - self._sent >= SEND_SECONDS:
            self._send()

    def end(self, run: Simulation) -> None:
        """Send the numbers of the summary at the last round, then end the run."""
        content = summary(run)
        last, known = content["rounds"], self.client.get_run(self.id).data.metrics
        named = {f"summary/{name}": value for name, value in numbers(content).items()}
        self._waiting += [_point(name, value, last) for name, value in named.items() if known.get(name) != value]
        self._send()
        if content["status"] == "done":
            self._close("FINISHED", "done")
        else:
            self._close("FAILED", content["status"], content["reason"])

    def stopped(self) -> None:
        """Send what there is; the run is taken up again."""
        self._send()
        self._close("KILLED", "stopped")

    def crashed(self, reason: str) -> None:
        """Mark the run as failed, with the reason."""
        if "id" not in vars(self):
            self._open()
        self._send()
        self._close("FAILED", "failed", reason)

    @cached_property
    def client(self) -> Any:
        """Return MLflow's client."""
        return _client(self.out)

    def _open(self) -> None:
        experiment = _experiment(self.client, self.out, self.name.study)
        settings = {name: str(value)[:LONGEST] for name, value in parameters(self.config).items()}
        tags = {"fedbench.study": self.name.study, "fedbench.hash": self.config.hash}
        self.id, new = _run(self.client, experiment, self.key, str(self.name), tags)
        self._waiting: list[Any] = []
        self._sent = 0.0
        self._last = 0
        if new:
            _log_parameters(self.client, self.id, settings)
        else:
            self.client.update_run(self.id, status="RUNNING")
            self._last = int(self.client.get_run(self.id).data.metrics.get("round", 0))
        self.client.set_tag(self.id, STATUS, "running")

    def _add(self, records: Iterable[Record]) -> None:
        """Rounds that the run does not have; `round` tells how far it is."""
        for record in records:
            if record.round > self._last:
                values = {**record.numbers(), "round": record.round}
                self._waiting += [_point(name, value, record.round) for name, value in values.items()]
                self._last = record.round

    def _send(self) -> None:
        waiting, self._waiting = self._waiting, []
        for first in range(0, len(waiting), MOST[0]):
            self.client.log_batch(self.id, metrics=waiting[first : first + MOST[0]])
        self._sent = time.monotonic()

    def _close(self, mark: str, status: str, reason: str | None = None) -> None:
        self.client.set_tag(self.id, STATUS, status)
        self.client.set_tag(self.id, REASON, (reason or "")[:LONGEST])
        self.client.set_terminated(self.id, mark)

    @classmethod
    def prepare(cls, out: Path, study: str) -> None:
        """The experiment, made once and where the command runs: its artifacts may be in the current folder."""
        _experiment(_client(out), out, study)

    @classmethod
    def report(cls, out: Path, study: str, scale: str, files: Sequence[Path]) -> None:
        """Store the files as artifacts of a further run in the experiment of the study."""
        client = _client(out)
        tags = {"fedbench.study": study, "fedbench.scale": scale}
        key = f"report-{scale}-{folder_key(out)}"
        run, _ = _run(client, _experiment(client, out, study), key, f"report, {scale}", tags)
        for path in files:
            client.log_artifact(run, str(path), "report")
        client.set_terminated(run, "FINISHED")

    @classmethod
    def environment(cls) -> dict[str, str]:
        """Return MLflow's variables; a store in a file is named by its absolute path."""
        found = super().environment()
        return {**found, ADDRESS: _whole(found[ADDRESS])} if ADDRESS in found else found


def _client(out: Path) -> Any:
    """Return a client of the store that the environment names, else of a file in the results folder."""
    address = os.environ.get(ADDRESS, "")
    if address:
        reach(address)
    else:
        (out / "mlflow").mkdir(parents=True, exist_ok=True)
        address = f"sqlite:///{(out / 'mlflow' / 'mlflow.db').resolve()}"
    from mlflow.tracking import MlflowClient  # seconds to import: for those who want it

    return MlflowClient(tracking_uri=address)


def _experiment(client: Any, out: Path, study: str) -> str:
    """Return the id of a study's experiment, which is created if there is none."""
    from mlflow.exceptions import MlflowException

    if given := os.environ.get("MLFLOW_EXPERIMENT_ID"):
        return given
    name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or (f"{EXPERIMENT}/{study}" if study else EXPERIMENT)
    own = None if os.environ.get(ADDRESS) else (out / "mlflow" / "artifacts").resolve().as_uri()
    found = client.get_experiment_by_name(name)
    if found is None:
        try:
            return str(client.create_experiment(name, artifact_location=own))
        except MlflowException:  # another process may have been first
            found = client.get_experiment_by_name(name)
            if found is None:
                raise
    return str(found.experiment_id)


def _run(client: Any, experiment: str, key: str, name: str, tags: dict[str, str]) -> tuple[str, bool]:
    """Return the id of the run with a key, and whether it is new."""
    found = client.search_runs([experiment], filter_string=f"tags.`{KEY}` = '{key}'", max_results=1)
    if found:
        return str(found[0].info.run_id), False
    return str(client.create_run(experiment, run_name=name, tags={KEY: key, **tags}).info.run_id), True


def _log_parameters(client: Any, run: str, settings: dict[str, str]) -> None:
    from mlflow.entities import Param

    params = [Param(name, value) for name, value in settings.items()]
    for first in range(0, len(params), MOST[1]):
        client.log_batch(run, params=params[first : first + MOST[1]])


def _point(name: str, value: float, step: int) -> Any:
    from mlflow.entities import Metric

    return Metric(name, float(value), int(1000 * time.time()), step)


def _whole(address: str) -> str:
    """The address of a store with the whole path, if it is a file's."""
    scheme, marks, path = address.rpartition(":///" if address.startswith("sqlite") else "file:")
    if "://" in path or (not marks and ":" in path) or path.startswith(("/", "databricks")):
        return address
    return f"{scheme}{marks}{Path(path).resolve()}"
