"""What was measured on a machine, kept in a file, and how long trials take by it."""

import csv
import io
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from fedbench.base.errors import UserError
from fedbench.base.files import write_json, write_text
from fedbench.config import TrialConfig
from fedbench.cost.cases import PLAIN, Case, Found, Machine, Row, Setting
from fedbench.cost.work import flops, paper_config, round_samples
from fedbench.data.official import cache_dir

FOLDER, FILE, VERSION = "speed", "speed.json", 1
NEARLY = 0.97  # of the best speed: where so much is reached with fewer trials at once, those are taken


@dataclass(frozen=True)
class Speeds:
    """All rows, model by model, and the hardware's own speed: FLOP/s in products of large matrices, by precision.

    date: as YYYY-MM-DD; left_out: what could not be measured, and why; context: bytes of GPU memory that CUDA itself
    takes for a process; mps: whether NVIDIA's multi-process service was running.
    """

    date: str
    machine: Machine
    matrices: dict[str, float]
    rows: tuple[Row, ...]
    left_out: dict[str, str]
    context: int | None = None
    mps: bool = False

    def best(self) -> Setting:
        """The setting in which all models together train fastest, in float32, with as few trials at once as nearly do.

        By the geometric mean over models of samples a second.
        """
        plain = {s: mean for s, mean in self.means().items() if s.precision == PLAIN and self.machine.used(s)}
        if not plain:
            raise UserError("no setting could be measured for all models; choose others with --models")
        enough = NEARLY * max(plain.values())
        return min((s for s, mean in plain.items() if mean >= enough), key=lambda s: (s.at_once, s.threads))

    def means(self) -> dict[Setting, float]:
        """Samples a second of every setting, the geometric mean over all models; where all could be measured."""
        rates: dict[Setting, dict[str, float]] = {}
        for row in self.rows:
            rates.setdefault(row.setting, {})[row.model] = row.samples
        models = {row.model for row in self.rows}
        return {s: geometric_mean(of_each.values()) for s, of_each in rates.items() if of_each.keys() == models}

    def by_precision(self) -> dict[str, float]:
        """How much faster than in float32 one trial alone is in each other precision."""
        alone = {s.precision: mean for s, mean in self.means().items() if (s.at_once, s.threads) == (1, 1)}
        return {name: mean / alone[PLAIN] for name, mean in alone.items() if name != PLAIN and PLAIN in alone}

    def seconds(self, config: TrialConfig, setting: Setting, *, scaled: bool = True) -> float | None:
        """Seconds of one trial while as many others run as the setting says; None if nothing like it was measured.

        Where its model was not, it is by operations, if `scaled`: at the speed of the one that is nearest in them.
        Local training and scoring count; what else the server and the indicators do does not.
        """
        row = self._nearest(config, setting)
        if row is None or (row.model != config.model and not scaled):
            return None
        training = config.rounds * round_samples(config) / row.samples
        scoring = config.rounds / config.eval_every * config.test_samples / row.scored
        return (training + scoring) * row.at_once * flops(config) / row.flops

    def _nearest(self, config: TrialConfig, setting: Setting) -> Row | None:
        """The row for a trial: of its precision and, on CPUs, threads; as near as can be in all else."""
        fit = [row for row in self.rows if row.precision == config.precision]
        if self.machine.device == "cpu":
            fit = [row for row in fit if row.threads == setting.threads]

        def distance(row: Row) -> tuple[bool, float, float, bool]:
            other = 0.0 if row.model == config.model else abs(math.log(row.flops / flops(config)))
            return row.model != config.model, other, abs(row.at_once - setting.at_once), row.engine != setting.engine

        return min(fit, key=distance, default=None)

    def save(self, folder: Path) -> list[Path]:
        """Write speed.json, and its rows as speed.csv; returns the files."""
        rows = io.StringIO()
        table = csv.DictWriter(rows, [field.name for field in fields(Row)], lineterminator="\n")
        table.writeheader()
        table.writerows(asdict(row) for row in self.rows)
        files = [write_json(folder / FILE, {"version": VERSION, **asdict(self)})]
        return [*files, write_text(folder / "speed.csv", rows.getvalue())]

    @classmethod
    def load(cls, folder: Path) -> "Speeds | None":
        """What was saved in a folder; None if there is nothing that this version can read."""
        try:
            content: dict[str, Any] = json.loads((folder / FILE).read_text())
            if content.pop("version") != VERSION:
                return None
            rows = tuple(Row(**row) for row in content.pop("rows"))
            return cls(machine=Machine(**content.pop("machine")), rows=rows, **content)
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None


def known_speeds(out: Path, machine: Machine) -> Speeds | None:
    """What was measured on this machine: kept with some results, else in the cache."""
    stored = (Speeds.load(folder / FOLDER) for folder in (out, cache_dir()))
    return next((speeds for speeds in stored if speeds and speeds.machine == machine), None)


def row_of(case: Case, found: Sequence[Found], matrices: float) -> Row:
    """A case with what its trials found; matrices: FLOP/s of the hardware itself."""
    setting, memory = case.setting._replace(engine=found[0].engine), max(each.memory for each in found)
    config = paper_config(case.data, case.model)
    trained, scored = sum(each.trained for each in found), sum(each.scored for each in found)
    seconds = round_samples(config) / trained + config.test_samples / scored
    share = trained * flops(config) / matrices
    return Row(case.data, case.model, *setting, trained, scored, 60 / seconds, memory, flops(config), share)
