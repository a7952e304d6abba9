"""Every cell of a study held against its baseline: better, worse, too small to matter, or open.

A comparison is judged like the claim that the cell beats its baseline, by the first metric of the study's first table
of which one side is better. q values are over all comparisons of the study, apart from those of its claims.
"""

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from fedbench.analysis.claims import Finding, claims_frame, findings_of, with_q
from fedbench.analysis.statistics.verdicts import Verdict
from fedbench.analysis.values import Trials
from fedbench.metrics import METRICS
from fedbench.specs.expand import ScaledStudy
from fedbench.specs.names import named
from fedbench.specs.parts import CHECKS

COMPARED_WORDS: dict[Verdict, str] = {  # of verdicts on "the cell beats its baseline"
    "holds": "better",
    "fails": "worse",
    "too small": "too small to matter",
    "open": "open",
    "preliminary": "preliminary",
    "no data": "without data",
}


def compared_by(study: ScaledStudy) -> str | None:
    """The metric by which cells are compared with the baseline; None without a baseline, or where no side is better."""
    metrics = [metric for table in study.study.tables.values() for metric in table.metrics]
    ordered = (metric for metric in metrics if METRICS.get(metric).better)
    return next(ordered, None) if study.study.baseline else None


def comparisons(study: ScaledStudy, trials: Trials) -> list[Finding]:
    """A finding for every cell that has a baseline other than itself."""
    metric, baseline = compared_by(study), study.study.baseline
    if metric is None:
        return []
    points = dict.fromkeys(tuple(cell.labels[axis] for axis in baseline) for cell in study.cells)
    found: list[Finding] = []
    for labels in points:
        point = dict(zip(baseline, labels, strict=True))
        if point != baseline:
            says = " against ".join(", ".join(named(*one) for one in each.items()) for each in (point, baseline))
            claim = {
                "says": says,
                "check": "beats",
                "point": point,
                "value": metric,
                "wins": METRICS.get(metric).better,
            }
            found += findings_of(study, trials, CHECKS.get("beats").model_validate(claim))
    return with_q([finding for finding in found if finding.cells])


def in_words(finding: Finding) -> str:
    """The verdict on a comparison, with the margin where the difference is within it."""
    return finding.decision if finding.verdict == "too small" else COMPARED_WORDS[finding.verdict]


def comparisons_frame(found: Sequence[Finding]) -> pd.DataFrame:
    """The comparisons, a row each."""
    frame = claims_frame([replace(finding, paper=None) for finding in found])
    frame["verdict"] = frame["verdict"].replace(COMPARED_WORDS)
    return frame.rename(columns={"claim": "comparison"}).drop(columns=["paper", "guessed"])
