"""The folder of one run: config.yaml, environment.json, partition.csv, rounds.csv, clients.csv, summary.json."""

import csv
import json
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

import torch

from fedbench.config import TrialConfig
from fedbench.errors import UserError
from fedbench.files import write_bytes, write_json
from fedbench.results.environment import environment, peak_memory
from fedbench.results.summary import summarise
from fedbench.settings import dump_yaml, load_yaml
from fedbench.simulation import Record, Simulation

ROUND_COLUMNS = (
    "round",
    "test_accuracy",
    "test_loss",
    "train_loss",
    "gamma",
    "r",
    "norm_opt",
    "norm_reg",
    "norm_w",
    "coherence_def",
    "coherence_mean",
    "seconds_train",
    "seconds_server",
    "seconds_eval",
)
VALIDATION_COLUMNS = ("validation_accuracy", "validation_loss")
CLIENT_COLUMNS = ("round", "client", "lambda", "samples")


class TrialFolder:
    """Where a run writes. Used as a context manager around its rounds; every round is flushed."""

    def __init__(self, path: Path, config: TrialConfig) -> None:
        self.path = path
        self.columns = ROUND_COLUMNS + (VALIDATION_COLUMNS if config.data.validation else ())
        self._streams: list[TextIO] = []

    @property
    def checkpoints(self) -> Path:
        """Where the run's checkpoints are while it runs."""
        return self.path / "checkpoints"

    @property
    def occupied(self) -> bool:
        """Whether something is there already."""
        return self.path.exists() and not (self.path.is_dir() and not any(self.path.iterdir()))

    def stored_config(self) -> TrialConfig:
        """The config of the run that is there."""
        return TrialConfig(**load_yaml(self.path / "config.yaml"))

    def stored_summary(self) -> dict[str, Any] | None:
        """The summary of a run that has ended, or None."""
        try:
            content: dict[str, Any] = json.loads((self.path / "summary.json").read_text())
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise UserError(f"{self.path / 'summary.json'}: damaged ({error}); remove it to go on") from error
        return content

    def open(self, simulation: Simulation) -> None:
        """Write config and environment, and both CSV files with the rounds that the simulation has behind it."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            text = dump_yaml(simulation.config.model_dump(mode="json"))
            write_bytes(self.path / "config.yaml", text.encode())
            write_json(self.path / "environment.json", environment(simulation))
            self._write_partition(simulation)
            self._streams = [self._table("rounds.csv", self.columns), self._table("clients.csv", CLIENT_COLUMNS)]
            self.add(simulation.state.history)
        except OSError as error:
            raise UserError(f"{self.path}: cannot be written ({error.strerror or error})") from error

    def _write_partition(self, simulation: Simulation) -> None:
        """partition.csv: how many samples of which class each client holds."""
        counts = simulation.federation.split.class_counts
        lines = ["client,class,samples", *(f"{i},{c},{k}" for i, row in enumerate(counts) for c, k in enumerate(row))]
        write_bytes(self.path / "partition.csv", ("\n".join(lines) + "\n").encode())

    def add(self, records: Iterable[Record]) -> None:
        """Append rounds to both tables."""
        rounds, clients = map(_writer, self._streams)
        for record in records:
            values = record.as_dict()
            rounds.writerow([_cell(values[column]) for column in self.columns])
            if record.lambda_:
                rows = zip(record.clients, record.lambda_, record.samples, strict=True)
                clients.writerows([record.round, client, repr(weight), size] for client, weight, size in rows)
        for stream in self._streams:
            stream.flush()

    def finish(self, simulation: Simulation, save_model: bool) -> dict[str, Any]:
        """Write summary.json (and model.pt), drop the checkpoints; returns the summary."""
        content = summary(simulation)
        if save_model and content["status"] == "done":
            simulation.model.load(simulation.state.w, simulation.state.buffers)
            torch.save(simulation.model.state_dict(), self.path / "model.pt")
        write_json(self.path / "summary.json", content)
        shutil.rmtree(self.checkpoints, ignore_errors=True)
        return content

    def _table(self, name: str, columns: Sequence[str]) -> TextIO:
        stream = (self.path / name).open("w", newline="")
        _writer(stream).writerow(columns)
        return stream

    def __enter__(self) -> "TrialFolder":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for stream in self._streams:
            stream.close()


def summary(simulation: Simulation) -> dict[str, Any]:
    """All that summary.json holds: the config's hash, scores, traffic, memory, seconds."""
    up, down = simulation.traffic()
    content = summarise(simulation.state.history, simulation.config.rounds)
    return {
        "hash": simulation.config.hash,
        **content,
        "seed": simulation.config.seed,
        "parameters": len(simulation.state.w),
        "bytes_up": up * content["rounds"],
        "bytes_down": down * content["rounds"],
        **peak_memory(simulation.device),
        "partition_redraws": simulation.federation.split.redraws,
        "test_samples": len(simulation.federation.test),
        "swapped_labels": {str(client): pair for client, pair in simulation.federation.split.swapped.items()},
    }


def _writer(stream: TextIO) -> Any:
    return csv.writer(stream, lineterminator="\n")


def _cell(value: float | None) -> str:
    """Shortest text that reads back as the same number; empty for None."""
    return "" if value is None else repr(value)
