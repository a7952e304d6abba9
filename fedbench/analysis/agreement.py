"""Whether two runs of one trial agree: exactly, within the rounding differences of another processor, or not.

Rounding makes a run another one of the same settings, so its score may move as scores of other seeds do.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from fedbench.analysis.statistics.spread import spread
from fedbench.analysis.values import Trials
from fedbench.specs.expand import ScaledStudy
from fedbench.specs.names import text_label
from fedbench.store.store import StoredTrial

Verdict = Literal["equal", "close", "differs"]
VERDICTS: tuple[Verdict, ...] = ("equal", "close", "differs")
NUMBERS = ("ours", "published", "difference", "tolerance", "verdict")
POINTS, SPREADS = 0.5, 3
RULE = (
    f"equal: the same numbers in every round; close: final scores at most {POINTS} points apart, or at most {SPREADS} "
    "standard deviations of the other published seeds where that is more"
)


@dataclass(frozen=True)
class Agreement:
    """Two final scores in percent (None: diverged), their tolerance, and the verdict."""

    ours: float | None
    published: float | None
    tolerance: float
    verdict: Verdict

    @property
    def difference(self) -> float | None:
        """Return our score less the published one, in points; None if one diverged."""
        return None if self.ours is None or self.published is None else self.ours - self.published


def tolerance(others: Sequence[StoredTrial]) -> float:
    """Return by how many points scores may differ, from the published trials with other seeds.

    The trial itself is not among them: of three seeds, one that is wrong is always within two standard deviations.
    """
    between = spread([score for trial in others if (score := _score(trial)) is not None]).std
    return max(POINTS, SPREADS * (between or 0.0))


def agreement(ours: StoredTrial, published: StoredTrial, tolerance: float) -> Agreement:
    """Return how two runs of one trial agree."""
    scores, verdict = (_score(ours), _score(published)), _verdict(ours, published, tolerance)
    return Agreement(*scores, tolerance, verdict)


def _verdict(ours: StoredTrial, published: StoredTrial, tolerance: float) -> Verdict:
    one, other = _score(ours), _score(published)
    if ours.status != published.status:
        return "differs"
    if one == other and _rounds(ours).equals(_rounds(published)):
        return "equal"
    return "close" if one is None or other is None or abs(one - other) <= tolerance else "differs"


def _score(trial: StoredTrial) -> float | None:
    return 100 * float(trial.summary["final_accuracy"]) if trial.status == "done" else None


def _rounds(trial: StoredTrial) -> pd.DataFrame:
    """Return every round without its times."""
    table = trial.table("rounds")
    return table[[name for name in table if not name.startswith("seconds")]]


def compared(study: ScaledStudy, ours: Trials, published: Trials) -> pd.DataFrame:
    """Return a row for each trial that both have: its cell, both scores, their difference and the verdict."""
    rows: dict[str, dict[str, object]] = {}  # by hash: cells may share trials
    for cell in study.cells:
        seeds = {config.hash: published[config.hash] for config in cell.trials.values() if config.hash in published}
        for seed, config in cell.trials.items():
            if config.hash in rows or config.hash not in ours or config.hash not in seeds:
                continue
            allowed = tolerance([trial for hash_, trial in seeds.items() if hash_ != config.hash])
            found = agreement(ours[config.hash], published[config.hash], allowed)
            where = {axis: text_label(label) for axis, label in cell.labels.items()}
            rows[config.hash] = {**where, "seed": seed, **{name: getattr(found, name) for name in NUMBERS}}
    return pd.DataFrame(list(rows.values()), columns=[*study.axes, "seed", *NUMBERS])
