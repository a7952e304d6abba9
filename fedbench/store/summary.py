"""One run in numbers: the final score and its companions."""

from collections import Counter
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedbench.config import score_rounds
from fedbench.indicators.heterogeneity import class_shares, heterogeneity_degree, weight_correlations
from fedbench.simulation import Record
from fedbench.simulation.record import WORK

TARGETS = (0.5, 0.6, 0.7, 0.8, 0.9)


def summarise(records: Sequence[Record], rounds: int) -> dict[str, Any]:
    """Return the scores and mid-run indicators of a run of `rounds` rounds.

    final_*: mean of the last rounds (see `score_rounds`); best_*: the best evaluated round; last_*: the last one.
    Indicators: mean of the rounds with 0.45 T <= t <= 0.55 T (the middle one if T is too small for any). A diverged run
    has no scores.
    Accuracies are fractions.
    """
    diverged = records[-1].diverged if records else None
    finished = bool(records) and not diverged and records[-1].round == rounds
    scored = [record for record in records if record.test_accuracy is not None]
    last = [record for record in scored if record.round > rounds - score_rounds(rounds)]
    best = max(scored, key=_accuracy, default=None)
    middle = [record for record in records if 0.45 * rounds <= record.round <= 0.55 * rounds]
    middle = middle or [record for record in records if record.round == max(1, round(rounds / 2))]
    return {
        "status": "diverged" if diverged else "done" if finished else "unfinished",
        "reason": diverged,
        "rounds": len(records),
        "final_accuracy": _mean(last, _accuracy) if finished else None,
        "final_loss": _mean(last, lambda record: record.test_loss) if finished else None,
        "best_accuracy": best.test_accuracy if best and finished else None,
        "best_round": best.round if best and finished else None,
        "last_accuracy": scored[-1].test_accuracy if finished else None,
        "last_loss": scored[-1].test_loss if finished else None,
        "final_validation_accuracy": _mean(last, lambda record: record.validation_accuracy) if finished else None,
        "middle_gamma": _mean(middle, lambda record: record.gamma),
        "middle_r": _mean(middle, lambda record: record.r),
        "middle_norm_opt": _mean(middle, lambda record: record.norm_opt),
        "middle_norm_reg": _mean(middle, lambda record: record.norm_reg),
        "critical_round": critical_round(records),
        "rounds_to_accuracy": {str(target): rounds_to_accuracy(records, target) for target in TARGETS},
        "seconds_train": sum(record.seconds_train for record in records),
        "seconds_server": sum(record.seconds_server for record in records),
        "seconds_eval": sum(record.seconds_eval for record in records),
    }


def work_done(records: Sequence[Record], epochs: int) -> dict[str, dict[str, Any]]:
    """In how many rounds each client was absent, and did a part of `epochs`; the rounds without update, with reasons.

    Clients are numbers as text, as in JSON. Empty for a run in which all clients do all work.
    """
    if not any(WORK in record.tables for record in records):
        return {}
    rows = [row for record in records for row in record.tables.get(WORK, ())]
    absent = Counter(str(client) for client, done in rows if done == 0)
    partial = Counter(str(client) for client, done in rows if isinstance(done, int) and 0 < done < epochs)
    skipped = {str(record.round): record.skipped for record in records if record.skipped}
    return {"rounds_absent": dict(absent), "rounds_partial": dict(partial), "skipped_rounds": skipped}


def critical_round(records: Sequence[Record]) -> int | None:
    """Return the critical point: the first round whose coherence is not above zero."""
    negative = (record.round for record in records if record.coherence_mean is not None and record.coherence_mean <= 0)
    return next(negative, None)


def rounds_to_accuracy(records: Sequence[Record], target: float) -> int | None:
    """Return the first evaluated round that reaches a test accuracy (a fraction); None if no round does."""
    return next((record.round for record in records if _accuracy(record) >= target), None)


def correlations(
    records: Sequence[Record], sizes: NDArray[np.int64], class_counts: NDArray[np.int64]
) -> dict[str, float | None]:
    """Return the Pearson correlations of each client's weight, summed over rounds, with its data."""
    sums = np.zeros(len(sizes))
    for record in records:
        if record.lambda_:
            sums[list(record.clients)] += record.lambda_
    degrees = heterogeneity_degree(class_shares(class_counts))
    return weight_correlations(sums, sizes.astype(np.float64), degrees)


def _accuracy(record: Record) -> float:
    return record.test_accuracy or 0.0


def _mean(records: Sequence[Record], value: Callable[[Record], float | None]) -> float | None:
    values = [x for x in map(value, records) if x is not None]
    return fmean(values) if values else None
