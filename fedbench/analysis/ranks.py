"""Ranks over all cells of a study: who is ahead along an axis, by how much, and who cannot be told apart."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from fedbench.analysis.statistics.ranking import (
    Ahead,
    Array,
    MeanRanks,
    Practical,
    fewest_cells,
    improvements,
    mean_ranks,
    practically,
)
from fedbench.analysis.values import Trials, outcomes
from fedbench.metrics import METRICS
from fedbench.specs.expand import ScaledStudy
from fedbench.specs.names import Label, named
from fedbench.specs.parts import RanksSpec


@dataclass(frozen=True)
class Ranks:
    """Competitors, from the best mean rank on.

    labels: their labels, in the same order; axis: all labels of the ranked axis, in the study's order; margin: points
    within which two are no different; ahead: [i][j] is the probability that i is ahead of j; missing, diverged: trials
    of each; cells: that have any result; empty: that have none; value: the metric by which trials are ranked;
    practical: [i][j] is how i stands to j by more than the margin.
    """

    names: Sequence[str]
    labels: Sequence[Label]
    axis: Sequence[Label]
    mean: MeanRanks
    ahead: Sequence[Sequence[Ahead]]
    missing: Sequence[int]
    diverged: Sequence[int]
    left_out: Sequence[str]
    cells: int
    empty: int
    margin: float
    value: str = "test_accuracy"
    practical: Sequence[Sequence[Practical]] = ()

    @property
    def by(self) -> str:
        """Return the metric by which trials are ranked, in words."""
        return "final accuracy" if self.value == "test_accuracy" else METRICS.get(self.value).label

    @property
    def sentence(self) -> str:
        """Return one sentence with the conclusion."""
        if len(self.names) < 2:
            return "There is nothing to compare."
        if self.too_few:
            return f"no two can be told apart: {self.too_few}"
        behind = next((j for j in range(1, len(self.names)) if self.ahead[0][j].sure), None)
        first = self._alike(0)
        if behind is None:
            return f"{self._listed(first)} cannot be told apart"
        found = self.ahead[0][behind]
        lead = f"{self.names[0]} is ahead of {self.names[behind]}: "
        lead += f"probability {found.text} over {found.cells} cells, p {found.p:.2g}"
        if len(first) == 1:
            first = self._alike(behind)
        return f"{lead}; {self._listed(first)} cannot be told apart" if len(first) > 1 else lead

    @property
    def in_practice(self) -> str:
        """How the first stands to the others by more than the margin, in one sentence."""
        if len(self.names) < 2 or not self.practical:
            return ""
        words = {"ahead": "ahead of", "equal": "practically equal to", "behind": "behind", "open": "open against"}
        parts = []
        for decision, said in words.items():
            others = [j for j in range(1, len(self.names)) if self.practical[0][j].decision == decision]
            told = [f"{self.names[j]} ({_counts(self.practical[0][j], decision)})" for j in others]
            parts += [f"{said} {', '.join(told)}"] if told else []
        unit = "points" if METRICS.get(self.value).label.endswith("(%)") else ""
        margin = " ".join(filter(None, (f"{self.margin:g}", unit)))
        return f"with a margin of {margin}, {self.names[0]} is {'; '.join(parts)}"

    @property
    def too_few(self) -> str:
        """Return why no two can be told apart whatever their scores are; empty if there are cells enough."""
        pairs = len(self.names) * (len(self.names) - 1) // 2
        most = max((found.cells for row in self.ahead for found in row), default=0)
        takes = fewest_cells(pairs)
        there = "there is 1 cell" if most == 1 else f"there are {most} cells"
        named = "1 pair" if pairs == 1 else f"{pairs} pairs"
        return f"{there}, and for {named} it takes at least {takes}" if most < takes else ""

    def _alike(self, first: int) -> list[int]:
        """Return the longest run of competitors from `first` on of which no two are told apart."""
        group = [first]
        for other in range(first + 1, len(self.names)):
            if not any(self.ahead[one][other].sure or self.ahead[other][one].sure for one in group):
                group.append(other)
        return group

    def _listed(self, numbers: Sequence[int]) -> str:
        names = [self.names[number] for number in numbers]
        return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _counts(found: Practical, decision: str) -> str:
    """In how many cells it is so, in words; of an open pair, all three counts."""
    if decision == "open":
        return f"ahead in {found.ahead}, within the margin in {found.within}, behind in {found.behind} cells"
    number = {"ahead": found.ahead, "equal": found.within, "behind": found.behind}[decision]
    return f"in {number} of {found.cells} cells, p {found.p:.2g}"


@dataclass(frozen=True)
class Scores:
    """Values of a metric [cells, seeds, competitors], negative where low ones are better; diverged: trials of each.

    nan where there is none, minus infinity where a trial diverged.
    """

    axis: str
    labels: Sequence[Label]
    values: Array
    diverged: Sequence[int]
    margin: float
    value: str = "test_accuracy"


def study_ranks(study: ScaledStudy, trials: Trials) -> Ranks | None:
    """Return the ranks along the axis that the study names; None without one, or with fewer than two competitors.

    A trial that diverged is behind all that did not. One that is missing is left out of every pair that needs it.
    """
    scores = study_scores(study, trials)
    return rank(scores) if scores else None


def rank(scores: Scores, elsewhere: Sequence[str] = ()) -> Ranks | None:
    """Return the ranks of all that have a result; None for fewer than two.

    elsewhere: names left out for other reasons.
    """
    values, names = scores.values, [named(scores.axis, label) for label in scores.labels]
    there = [k for k in range(len(names)) if not np.isnan(values[:, :, k]).all()]
    if len(there) < 2:
        return None
    mean = mean_ranks(values[:, :, there])
    order = [there[k] for k in np.argsort(mean.ranks, kind="stable")]
    return Ranks(
        names=[names[k] for k in order],
        labels=[scores.labels[k] for k in order],
        axis=scores.labels,
        mean=mean._replace(ranks=np.sort(mean.ranks)),
        ahead=improvements(values[:, :, order], scores.margin),
        practical=practically(values[:, :, order], scores.margin),
        missing=[int(np.isnan(values[:, :, k]).sum()) for k in order],
        diverged=[scores.diverged[k] for k in order],
        left_out=[*elsewhere, *(name for k, name in enumerate(names) if k not in there)],
        cells=int((~np.isnan(values)).any(axis=(1, 2)).sum()),
        empty=int(np.isnan(values).all(axis=(1, 2)).sum()),
        margin=scores.margin,
        value=scores.value,
    )


def study_scores(study: ScaledStudy, trials: Trials) -> Scores | None:
    """Return the scores to rank in a study: by cell without the ranked axis, seed, and label.

    None if it has no such axis.
    """
    if study.study.variance and not study.study.ranks:
        return None  # its cells are repetitions of one experiment, not different ones
    if study.home == "searches":
        return None  # its two cells are no sample of conditions
    spec = study.study.ranks or RanksSpec()
    if spec.axis not in study.axes or len(study.axes[spec.axis]) < 2:
        return None
    labels = list(study.axes[spec.axis])
    seeds = [seed for seed in study.seeds if seed in study.plan.seeds] or study.seeds
    sign = -1 if METRICS.get(spec.value).better == "lower" else 1
    rest = [tuple(label for axis, label in cell.labels.items() if axis != spec.axis) for cell in study.cells]
    places = {key: number for number, key in enumerate(dict.fromkeys(rest))}
    values, diverged = np.full((len(places), len(seeds), len(labels)), np.nan), [0] * len(labels)
    for cell, key in zip(study.cells, rest, strict=True):
        k = labels.index(cell.labels[spec.axis])
        values[places[key], :, k] = sign * outcomes(study, [cell], trials, spec.value, "value", seeds)
        ended = [trials.get(config.hash) for seed, config in cell.trials.items() if seed in seeds]
        diverged[k] += sum(trial is not None and trial.status == "diverged" for trial in ended)
    return Scores(spec.axis, labels, values, diverged, spec.margin, spec.value)


def together(parts: Sequence[Scores]) -> tuple[Scores, list[str]]:
    """Return the joint scores of several studies for the labels that all have, and the names of the others.

    Seeds are counted, not matched between studies: pairs are within a cell. The margin is the widest.
    """
    labels = [label for label in parts[0].labels if all(label in part.labels for part in parts)]
    seeds = max(part.values.shape[1] for part in parts)
    kept, left = [], dict[str, None]()
    for part in parts:
        values = part.values[:, :, [list(part.labels).index(label) for label in labels]]
        kept.append(np.pad(values, ((0, 0), (0, seeds - values.shape[1]), (0, 0)), constant_values=np.nan))
        left |= {named(part.axis, label): None for label in part.labels if label not in labels}
    diverged = [sum(part.diverged[list(part.labels).index(label)] for part in parts) for label in labels]
    margin = max(part.margin for part in parts)
    return Scores(parts[0].axis, labels, np.concatenate(kept), diverged, margin, parts[0].value), list(left)


def ranks_frame(ranks: Ranks) -> pd.DataFrame:
    """Return ranks.csv: a row for each competitor, with the probabilities that it is ahead of the others."""
    rows = []
    for k, name in enumerate(ranks.names):
        row = {"name": name, "mean_rank": ranks.mean.ranks[k]}
        row |= {"friedman_p": ranks.mean.p, "cells": ranks.mean.cells}
        row |= {"missing": ranks.missing[k], "diverged": ranks.diverged[k]}
        others = [(other, ranks.ahead[k][j]) for j, other in enumerate(ranks.names) if j != k]
        row |= {f"ahead of {other}": found.value for other, found in others}
        row |= {f"p against {other}": found.p for other, found in others}
        near = [(other, ranks.practical[k][j]) for j, other in enumerate(ranks.names) if j != k]
        row |= {f"cells ahead of {other} by more than {ranks.margin:g}": found.ahead for other, found in near}
        row |= {f"cells within {ranks.margin:g} of {other}": found.within for other, found in near}
        rows.append({**row, **{f"in practice against {other}": found.decision for other, found in near}})
    return pd.DataFrame(rows)
