"""An entry of the store: what its files must be, and how they are read."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from fedbench.base.errors import UserError, describe_error
from fedbench.base.packs import LARGEST_FILE, read
from fedbench.base.settings import Settings, nest, parse_settings
from fedbench.store import mark as marks
from fedbench.store.columns import Columns, columns_of, parse_together
from fedbench.store.mark import Mark, Status, read_environment, read_mark, read_summary

if TYPE_CHECKING:
    import pandas as pd

MARKER, SUMMARY, ENVIRONMENT = "trial.json", "summary.json", "environment.json"
LIMITS = dict.fromkeys((MARKER, SUMMARY, ENVIRONMENT), marks.LARGEST)  # bytes of a file; others: LARGEST_FILE
ROUNDS = "rounds"
BATCH = 2**24  # bytes of tables that are parsed together
COLUMNS = {  # of numbers, in tables that every trial has
    ROUNDS: ("round",),
    "clients": ("round", "client", "lambda", "samples"),
    "partition": ("client", "class", "samples"),
    "indicators": ("round", "value"),
}


class DamagedError(UserError):
    """A file of the entry of trial `hash` is not what it was when the entry was looked up, or not what it must be."""

    def __init__(self, hash_: str, problem: str) -> None:
        super().__init__(f"damaged entry {hash_[:12]}: {problem}")
        self.hash, self.problem = hash_, problem


@dataclass(frozen=True)
class StoredTrial:
    """One entry of the store: a run that finished, diverged, or failed with a reason. sums: its files' checksums."""

    hash: str
    status: Status
    reason: str | None
    summary: dict[str, Any]
    path: Path
    sums: Mapping[str, str] = field(default_factory=dict, repr=False)
    _kept: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)  # what was read; copies share it

    def read(self, name: str) -> bytes:
        """Return the bytes of a file of the entry.

        Raise FileNotFoundError if the entry has no such file, and DamagedError if the file is not as it was at the
        lookup.
        """
        if name not in self.sums:
            raise FileNotFoundError(2, "No such file in the entry", str(self.path / name))
        try:
            content = read_file(self.path / name)
        except (OSError, ValueError) as error:
            raise DamagedError(self.hash, f"{name} has just changed; the same command again leaves it out") from error
        if hashlib.sha256(content).hexdigest() != self.sums[name]:
            raise DamagedError(self.hash, f"{name} has just changed; the same command again leaves it out")
        return content

    @property
    def model(self) -> Path:
        """Return the path of the trial's final model, which exists if a command ran it with --save-model."""
        return model_path(self.path.parent.parent, self.hash)

    def table(self, name: str) -> "pd.DataFrame":
        """Return one of the run's CSV files (see `store.folder`) as a data frame; empty if there is none.

        name: without suffix.
        """
        return self.rounds.frame() if name == ROUNDS else self._parsed(name)

    @property
    def kept(self) -> dict[str, Any]:
        """Results that several metrics of the trial share, by name; copies of the trial share them as well."""
        found: dict[str, Any] = self._kept.setdefault("metrics", {})
        return found

    @property
    def rounds(self) -> Columns:
        """The columns of rounds.csv by name [rounds], which are read once; empty if there is none."""
        read_rounds([self])
        return cast(Columns, self._kept[ROUNDS])

    def _parsed(self, name: str) -> "pd.DataFrame":
        import pandas as pd

        try:
            table = _table(self.read(f"{name}.csv"))
        except FileNotFoundError:
            return pd.DataFrame()
        except ValueError as error:  # pandas' own errors are such
            raise DamagedError(self.hash, f"{name}.csv is not a table ({describe_error(error)})") from error
        for column in (*COLUMNS.get(name, ()), *(table if name == ROUNDS else ())):
            if column not in table or not pd.api.types.is_numeric_dtype(table[column]):
                raise DamagedError(self.hash, f"{name}.csv has no numbers in its column '{column}'")
        return table.copy()

    def settings(self) -> Settings:
        """Return the run's settings, nested, as config.yaml holds them."""
        return nest(parse_settings(self.read("config.yaml").decode()))

    def scored_over(self, rounds: int | None) -> "StoredTrial":
        """Return the trial with a final score that is the mean over `rounds` last rounds; None: over the usual number.

        The score is taken from the rounds: older entries have the mean of the last ten in their summary.
        """
        if self._has_score(rounds):
            return self
        import pandas as pd

        from fedbench.config import score_rounds  # late: it imports torch

        table, count = self.rounds, rounds or score_rounds(int(self.summary["rounds"]))
        last = table["round"] > table["round"].max() - count
        scores = {
            f"final_{name}": float(pd.Series(table[f"test_{name}"][last]).mean()) for name in ("accuracy", "loss")
        }
        return replace(self, summary={**self.summary, **scores})

    def _has_score(self, rounds: int | None) -> bool:
        """Return whether the summary has the score over these last rounds already, or cannot have one."""
        if self.status != "done":
            return True
        from fedbench.config import LAST_ROUNDS, score_rounds

        total = int(self.summary["rounds"])
        return rounds is None and score_rounds(total) == min(total, LAST_ROUNDS)  # as older entries have it

    def environments(self) -> list[str]:
        """Return descriptions of the environments in which the trial ran, the latest first."""
        if ENVIRONMENT not in self.sums:
            return ["unknown"]
        if ENVIRONMENT not in self._kept:
            where = read_environment(self.read(ENVIRONMENT))
            self._kept[ENVIRONMENT] = list(dict.fromkeys(map(str, (where, *reversed(where.earlier)))))
        return list(self._kept[ENVIRONMENT])

    def environment(self) -> str:
        """Return the same descriptions in one line."""
        return ", before that on ".join(self.environments())

    def files(self) -> dict[str, bytes]:
        """Return all files of the entry by name, its mark included."""
        return {MARKER: read_file(self.path / MARKER), **{name: self.read(name) for name in self.sums}}


def scored_over(trials: Mapping[str, StoredTrial], rounds: int | None) -> dict[str, StoredTrial]:
    """Score all trials over `rounds` last rounds, see `StoredTrial.scored_over`; their rounds are read together."""
    read_rounds(trial for trial in trials.values() if not trial._has_score(rounds))
    return {hash_: trial.scored_over(rounds) for hash_, trial in trials.items()}


def read_rounds(trials: Iterable[StoredTrial]) -> None:
    """Read the rounds of trials, all those together that have not been read before.

    Raise DamagedError if the file of a trial is not what it was, or not a table of numbers.
    """
    batch, size = list[tuple[StoredTrial, bytes]](), 0
    for trial in trials:
        if ROUNDS in trial._kept:
            continue
        if f"{ROUNDS}.csv" not in trial.sums:
            trial._kept[ROUNDS] = Columns({})
            continue
        content = trial.read(f"{ROUNDS}.csv")
        batch.append((trial, content))
        size += len(content)
        if size > BATCH:
            _keep_rounds(batch)
            batch, size = [], 0
    _keep_rounds(batch)


def _keep_rounds(batch: Sequence[tuple[StoredTrial, bytes]]) -> None:
    """Parse the rounds of trials, and keep them with the trials."""
    together = parse_together([content for _, content in batch])
    for (trial, _), columns in zip(batch, together, strict=True):
        sound = columns is not None and all(name in columns for name in COLUMNS[ROUNDS])
        trial._kept[ROUNDS] = columns if sound else columns_of(trial._parsed(ROUNDS))


def look_up(entry: Path, hash_: str) -> tuple[StoredTrial | None, str]:
    """Return the entry at a path if all its files have their checksums; otherwise None, and what is wrong with it.

    The problem is empty if there is no entry at all.
    """
    if entry.is_symlink():
        return None, "it is a symbolic link"
    if not entry.exists():
        return None, ""
    try:
        mark = read_mark(read_file(entry / MARKER))
        known = _verified(entry, mark)
        if mark.hash != hash_:
            raise ValueError("it belongs to another trial")
        if SUMMARY in known and not _agree(mark, read_summary(known[SUMMARY])):
            raise ValueError(f"{MARKER} does not say what {SUMMARY} does")
        if ENVIRONMENT in known:
            read_environment(known[ENVIRONMENT])
        return StoredTrial(hash_, mark.status, mark.reason, mark.summary, entry, mark.files), ""
    except FileNotFoundError as error:  # a file is missing; or another command is just replacing a failed entry
        return None, f"{Path(error.filename).name} is missing" if entry.exists() else ""
    except OSError as error:
        name = f"{Path(error.filename).name}: " if error.filename else ""
        return None, f"{name}{error.strerror or error}"
    except ValueError as error:
        return None, str(error)


def _verified(entry: Path, mark: Mark) -> dict[str, bytes]:
    """Read every file of an entry once, and return the summary and the environment.

    Raise ValueError if a file does not have its checksum.
    """
    known = {}
    for name, wanted in mark.files.items():
        content = read_file(entry / name)
        if hashlib.sha256(content).hexdigest() != wanted:
            raise ValueError(f"{name} does not have its checksum")
        if name in (SUMMARY, ENVIRONMENT):
            known[name] = content
    return known


def model_path(out: Path, hash_: str) -> Path:
    """Return the path of the final model of a trial; out: the results folder."""
    return out / "models" / f"{hash_}.pt"


def _agree(mark: Mark, summary: Mapping[str, Any]) -> bool:
    """Return whether the mark of an entry, which has no checksum, agrees with its summary, which has one."""
    ended = all(getattr(mark, name) == summary.get(name, getattr(mark, name)) for name in ("status", "reason"))
    return ended and json.dumps(mark.summary, sort_keys=True) == json.dumps(summary, sort_keys=True)


def read_file(path: Path) -> bytes:
    """Return the bytes of a file of an entry, which must be a regular file and not too large for its kind."""
    return read(path, LIMITS.get(path.name, LARGEST_FILE))


@lru_cache(maxsize=256)
def _table(content: bytes) -> "pd.DataFrame":
    import pandas as pd

    return pd.read_csv(BytesIO(content))


def sha256_of(path: Path) -> str:
    """Return the sha256 of a file of an entry."""
    return hashlib.sha256(read_file(path)).hexdigest()
