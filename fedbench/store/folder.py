"""The folder of one run: config.yaml, environment.json, partition.csv, rounds.csv, clients.csv, summary.json."""

import csv
import json
import os
import shutil
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from fedbench.base.errors import UserError
from fedbench.base.files import make_folder, read_bytes, write_bytes, write_json, write_text
from fedbench.base.settings import dump_yaml, load_yaml
from fedbench.config import TrialConfig
from fedbench.config.resolve import without_obsolete
from fedbench.indicators.heterogeneity import partition_heterogeneity
from fedbench.simulation import Callback, Record, Simulation
from fedbench.simulation.environment import Environment, environment, environment_history
from fedbench.simulation.observe import final_tables
from fedbench.simulation.record import columns, round_columns, tables
from fedbench.store.mark import LARGEST, read_summary
from fedbench.store.memory import peak_memory
from fedbench.store.models import final_model
from fedbench.store.store import StoredTrial
from fedbench.store.summary import correlations, summarise, work_done

NEAR_ZERO = 0.01  # the paper counts parameters "close to zero" without saying how close
CLIENT_COLUMNS = ("round", "client", "lambda", "samples")


class TrialFolder(Callback[Simulation, Record]):
    """The folder to which a run writes: a context manager around its rounds, which are flushed one by one.

    `summary` is there once the run is done.
    """

    summary: dict[str, Any]

    def __init__(self, path: Path, config: TrialConfig, *, save_model: bool = False) -> None:
        self.path = path
        self.save_model = save_model
        self._columns = round_columns(validation=bool(config.validation_samples))
        self._tables = tables()
        self._streams: dict[str, TextIO] = {}

    @property
    def checkpoints(self) -> Path:
        """Return the folder of the checkpoints, which exists while the run is not finished."""
        return self.path / "checkpoints"

    @property
    def occupied(self) -> bool:
        """Return whether the folder, or a file of that name, exists and is not empty."""
        try:
            return self.path.exists() and not (self.path.is_dir() and not any(self.path.iterdir()))
        except OSError as error:
            raise UserError(f"{self.path}: {error.strerror}") from error

    def stored_summary(self) -> dict[str, Any] | None:
        """Return the summary of a run that has ended, or None."""
        path = self.path / "summary.json"
        if not path.exists():
            return None
        try:
            content: dict[str, Any] = read_summary(read_bytes(path, LARGEST))
            if content["status"] != "diverged":
                float(content["final_accuracy"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(f"{path}: damaged ({type(error).__name__}); remove it to go on") from error
        return content

    def prepare(self) -> None:
        """Create the folder; UserError with the reason if it cannot be written to."""
        make_folder(self.path, str(self.path))

    def start(self, run: Simulation) -> None:
        """Write config and environment, and all tables with the rounds that a resumed run has already."""
        self.path.mkdir(parents=True, exist_ok=True)
        write_text(self.path / "config.yaml", dump_yaml(run.config.plain()))
        self._write_environment(run)
        counts = run.federation.split.class_counts.tolist()
        cells = [(i, c, k) for i, row in enumerate(counts) for c, k in enumerate(row)]
        self._append("partition", ("client", "class", "samples"), cells)
        for name in self._tables:
            (self.path / f"{name}.csv").unlink(missing_ok=True)
        self._append("rounds", self._columns, [])
        self._append("clients", CLIENT_COLUMNS, [])
        self.add(run.state.history)

    def _write_environment(self, simulation: Simulation) -> None:
        """Write environment.json: the environment now and, under `earlier`, those before the run was resumed.

        The earlier ones are in the checkpoint from which it was resumed; otherwise they are read from the folder.
        """
        path, now = self.path / "environment.json", environment(simulation)
        before = environment_history(simulation)[:-1]
        if not simulation.earlier:
            with suppress(OSError, ValueError, AttributeError):
                stored: Environment = json.loads(path.read_text())
                before = stored.pop("earlier", []) + ([stored] if stored != now else [])
        write_json(path, {**now, "earlier": before} if before else now)

    def round(self, run: Simulation, seen: Record) -> None:
        """Append a round to all tables."""
        self.add([seen])

    def add(self, records: Iterable[Record]) -> None:
        """Append rounds to all tables."""
        long = [name for name, column in columns().items() if column.file == "indicators"]
        for record in records:
            self._append("rounds", self._columns, [[getattr(record, column) for column in self._columns]])
            if record.lambda_:
                cohort = zip(record.clients, record.lambda_, record.samples, strict=True)
                self._append("clients", CLIENT_COLUMNS, [(record.round, *row) for row in cohort])
            values = [(name, record.indicators[name]) for name in long if name in record.indicators]
            for name, rows in {"indicators": values, **record.tables}.items():
                if rows:
                    self._append(name, self._tables[name], [(record.round, *row) for row in rows])
        for stream in self._streams.values():
            stream.flush()

    def end(self, run: Simulation) -> None:
        """Write the tables of the final model, summary.json and, if asked for, model.pt; then remove the checkpoints.

        The tables are on the disk before the summary says that the run has ended, and before the checkpoints go.
        """
        self.summary = summary(run)
        if self.summary["status"] == "done":
            for name, (header, rows) in final_tables(run).items():
                self._append(name, header, rows)
            if self.save_model:
                write_bytes(self.path / "model.pt", final_model(run))
        for stream in self._streams.values():
            stream.flush()
            os.fsync(stream.fileno())
        write_json(self.path / "summary.json", self.summary)
        shutil.rmtree(self.checkpoints, ignore_errors=True)

    def _append(self, name: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Append rows to a table, whose file is created with the first ones."""
        if name not in self._streams:
            self._streams[name] = (self.path / f"{name}.csv").open("w", newline="")
            self._streams[name].write(",".join(columns) + "\n")
        csv.writer(self._streams[name], lineterminator="\n").writerows([_cell(value) for value in row] for row in rows)

    def __enter__(self) -> "TrialFolder":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for stream in self._streams.values():
            stream.close()


def config_of(trial: StoredTrial) -> TrialConfig:
    """Return the config of a stored trial.

    UserError if its entry has none, or names something that is not installed.
    """
    if "config.yaml" not in trial.sums:
        raise UserError(f"{trial.path}: has no config.yaml")
    return stored_config(trial.path)


def stored_config(folder: Path) -> TrialConfig:
    """The config of the run in a folder, as this or an earlier version wrote it."""
    settings = load_yaml(folder / "config.yaml")
    if not settings:
        raise UserError(f"{folder / 'config.yaml'}: empty; name the run's settings with --config or --set")
    return TrialConfig(**without_obsolete(settings))


def summary(simulation: Simulation) -> dict[str, Any]:
    """All that summary.json holds: the config's hash, scores, traffic, memory, seconds."""
    up, down = simulation.traffic()
    split = simulation.federation.split
    content = summarise(simulation.state.history, simulation.config.rounds)
    work = work_done(simulation.state.history, simulation.config.clients.epochs)
    absences = sum(work.get("rounds_absent", {}).values())
    return {
        "hash": simulation.config.hash,
        **content,
        **correlations(simulation.state.history, split.sizes, split.class_counts),
        "seed": simulation.config.seed,
        "parameters": len(simulation.state.w),
        "near_zero_share": float((simulation.state.model.abs() < NEAR_ZERO).double().mean()),
        "bytes_up": up * content["rounds"] - absences * (up // simulation.config.participants),
        "bytes_down": down * content["rounds"],
        **peak_memory(simulation.device),
        "partition_redraws": split.redraws,
        **partition_heterogeneity(split.class_counts[: simulation.config.clients.count]),
        "test_samples": len(simulation.federation.test),
        "corrupted_clients": split.corrupted,
        **({"shift_levels": levels} if (levels := simulation.federation.levels) else {}),
        **work,
        "swapped_labels": {str(client): pair for client, pair in split.swapped.items()},
    }


def _cell(value: object) -> str:
    """Return the shortest text that is parsed as the same number; empty for None."""
    return "" if value is None else repr(value) if isinstance(value, float) else str(value)
