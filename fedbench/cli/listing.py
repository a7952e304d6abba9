"""What --list prints, with few imports."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fedbench.base.files import write_json
from fedbench.base.text import printable, say
from fedbench.config import TrialConfig
from fedbench.cost.work import flops, round_samples
from fedbench.data.official import cache_dir
from fedbench.specs.expand import ScaledStudy, expand_study, load_study, study_files
from fedbench.specs.names import ScaleName
from fedbench.specs.space import expand_space, space_files
from fedbench.store.store import Store

LISTED: tuple[ScaleName, ...] = ("quick", "desk", "paper")
GROUPS = {"paper": "Studies of the paper", "beyond": "Beyond the paper", "checks": "Checks of ours"}
CORE_SPEED = 50e9  # FLOP/s that one core of a server reached in training small networks
COSTS = "trials done, and the core time that all of them take (at 50 GFLOP/s a core); --dry-run knows this machine's"
Rows = list[dict[str, Any]]


def print_list(folder: str, out: Path, *, as_json: bool) -> None:
    """Print the built-in files of a folder, `studies` or `search_spaces`, as a table or as JSON."""
    rows = study_rows(out) if folder == "studies" else space_rows()
    if as_json:
        say(json.dumps(rows, indent=2))
        return
    if folder != "studies":
        _print_table(rows)
        return
    for group, title in GROUPS.items():
        say(f"\n{title}")
        _print_table([{k: v for k, v in row.items() if k != "group"} for row in rows if row["group"] == group])
    say(COSTS)


def _print_table(rows: Rows) -> None:
    table = Table(*rows[0])
    for row in rows:
        table.add_row(*(escape(printable(_text(value))) for value in row.values()))
    Console().print(table)


def study_rows(out: Path) -> Rows:
    """Return a row for each built-in study: its name, group and what it shows, and at each scale what there is to run.

    That is: its trials, how many are done, and roughly how many core hours all of them take.
    """
    store, rows, operations = Store(out), Rows(), Operations(cache_dir() / "operations.json")
    for name in study_files():
        stem, study = load_study(name)
        about = {"name": name, "group": study.listed_under, "shows": study.shows}
        row: dict[str, Any] = {**about, **dict.fromkeys(LISTED)}
        for scale in (scale for scale in LISTED if scale in study.scales):
            scaled = expand_study(stem, study, scale, changes={}, only={}, seeds=None)
            done = sum(store.status(hash_) in ("done", "diverged") for hash_ in scaled.trials)
            row[scale] = {"trials": len(scaled.trials), "done": done, "core_hours": _core_hours(scaled, operations)}
        rows.append(row)
    operations.keep()
    return rows


class Operations:
    """Floating-point operations of a training sample, by model and data; counting takes a while, so a file keeps them.

    They are a rough guide: a model that has changed since keeps its number.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.known, self.new = path, dict[str, int](), False
        with suppress(OSError, ValueError):
            self.known = {str(key): int(value) for key, value in json.loads(path.read_text()).items()}

    def of(self, config: TrialConfig) -> int:
        """Return those of a trial's model on its data."""
        key = f"{config.model} {config.dataset.shape} {config.dataset.num_classes}"
        if key not in self.known:
            self.known[key], self.new = flops(config), True
        return self.known[key]

    def keep(self) -> None:
        """Write the file, if there is anything new; a cache that cannot be written to is none."""
        if self.new:
            with suppress(OSError):
                self.path.parent.mkdir(parents=True, exist_ok=True)
                write_json(self.path, self.known)


def _core_hours(study: ScaledStudy, operations: Operations) -> float:
    """Roughly how many core hours training takes, in two digits; the seeds of a cell cost the same."""
    total, seen = 0.0, set[str]()
    for cell in study.cells:
        config = next(iter(cell.trials.values()))
        if config.hash not in seen:
            total += len(cell.trials) * operations.of(config) * config.rounds * round_samples(config)
        seen.add(config.hash)
    return float(f"{total / CORE_SPEED / 3600:.2g}")


def space_rows() -> Rows:
    """Return a row for each built-in space: its name, what it tunes, its methods and suggestions for each by scale."""
    rows = Rows()
    for name in space_files():
        scaled = {scale: expand_space(name, scale, changes={}) for scale in ("quick", "paper")}
        budget = {scale: space.trials for scale, space in scaled.items()}
        methods = [arm.label for arm in scaled["quick"].arms]
        rows.append({"name": name, "tunes": scaled["quick"].space.tunes, "methods": methods, **budget})
    return rows


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, dict):
        hours = value["core_hours"]
        return f"{value['done']}/{value['trials']}\n" + (
            f"{hours:g} h" if hours >= 1 else f"{max(1, round(60 * hours))} min"
        )
    return ", ".join(value) if isinstance(value, list) else str(value)
