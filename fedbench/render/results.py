"""The results of a study for Python: data frames, figures, and HTML for notebooks."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

import pandas as pd

from fedbench.analysis.beside import noted
from fedbench.analysis.claims import Finding, check_claims, claims_frame
from fedbench.analysis.clients import clients_frame
from fedbench.analysis.comparisons import comparisons, comparisons_frame
from fedbench.analysis.tables import Tables, cells_frame, fill_tables, layout
from fedbench.analysis.trials import rounds_frame, trials_frame, troubles
from fedbench.base.errors import UserError, unknown
from fedbench.config import TrialConfig
from fedbench.render.figures import drawn
from fedbench.render.sheets import Entry, Sheet
from fedbench.render.study import StudyReport
from fedbench.render.study_sheets import note
from fedbench.specs.expand import ScaledStudy
from fedbench.specs.names import text_label, text_labels
from fedbench.store.store import StoredTrial

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import nn


class Results:
    """The stored results of a study. Frames are computed when they are first used.

    What is asked for beyond its own names, such as `results["seed"]` or `results.groupby("seed")`, goes to `rounds`,
    which is what `fedbench.load` gave before.
    """

    def __init__(self, study: ScaledStudy, stored: Mapping[str, StoredTrial]) -> None:
        self.study = study
        self.stored = dict(stored)

    @cached_property
    def rounds(self) -> pd.DataFrame:
        """Every round of every trial, with its labels on the axes, seed and hash in front."""
        return rounds_frame(self.study, self.stored)

    @cached_property
    def trials(self) -> pd.DataFrame:
        """A row for each trial: how it ended, its scores (fractions) and its cost."""
        return trials_frame(self.study, self.stored)

    @cached_property
    def clients(self) -> pd.DataFrame:
        """A row for each client of each trial: its samples, its accuracy (a fraction), and what that rests on."""
        return clients_frame(self.study, self.stored)

    @cached_property
    def cells(self) -> pd.DataFrame:
        """A row for each cell of a table: mean, spread, interval, difference to the baseline, cost."""
        return cells_frame(self.study, self._filled)

    @cached_property
    def claims(self) -> pd.DataFrame:
        """A row for each claim and point: evidence with its interval, and the verdict."""
        return claims_frame(self._findings)

    @cached_property
    def comparisons(self) -> pd.DataFrame:
        """A row a cell that has a baseline: the paired difference with its interval, and the verdict."""
        return comparisons_frame(comparisons(self.study, self.stored))

    @cached_property
    def tables(self) -> dict[str, pd.DataFrame]:
        """Every table by its name, in the paper's layout: the mean in every column."""
        specs = self.study.study.tables
        return {name: layout(specs[name], filled, *noted(specs[name], filled)) for name, filled in self._filled.items()}

    @property
    def figures(self) -> list[str]:
        """The names of the study's figures."""
        return list(self.study.study.plots)

    def figure(self, name: str) -> "Figure":
        """One of the study's figures, drawn with matplotlib."""
        plots = self.study.study.plots
        if name not in plots:
            raise UserError(unknown("figure", name, plots))
        with drawn(self.study, self.stored, plots[name]) as made:
            if made is None:
                raise UserError(f"figure '{name}': no trial that it could show is done")
            return made[0]

    def model(
        self, hash_: str | None = None, *, only: Mapping[str, Any] | None = None, seed: int | None = None
    ) -> "nn.Module":
        """Return the final model of one trial, stored by `study --save-model`: a module on the CPU, in eval mode.

        hash_: the trial's hash, or its first characters; or only, seed: the trial's place on the axes, such as
        {"method": "FedAvg", "data.alpha": 0.1}, and its seed, as far as they are needed to tell it from the others.
        UserError where they name no trial or several, or where the trial has no model.
        """
        from fedbench.store.models import loaded_model

        found = self._named(hash_, only or {}, seed)
        if len(found) != 1:
            named = f"{len(found)} trials match" if found else "no trial matches"
            raise UserError(f"model: {named}; name one by its hash, or by only={{axis: label}} and seed=")
        (config,) = found.values()
        trial = self.stored.get(config.hash)
        if trial is None or trial.status != "done":
            ended = trial.status if trial else "not stored"
            raise UserError(f"model: trial {config.hash[:12]} is {ended}; only a trial that is done has a final model")
        if not trial.model.is_file():
            again = "run its study with --save-model --fresh"
            raise UserError(f"model: trial {config.hash[:12]} was stored without its model; to get it, {again}")
        return loaded_model(trial.model, config)

    def _named(self, hash_: str | None, only: Mapping[str, Any], seed: int | None) -> dict[str, TrialConfig]:
        """Return the trials of the study that have this hash, these labels and this seed, as far as they are given."""
        for axis in only:
            if axis not in self.study.axes:
                raise UserError(f"model: {unknown('axis', axis, self.study.axes)}")
        picked = {axis: text_labels(labels) for axis, labels in only.items()}
        cells = [
            cell
            for cell in self.study.cells
            if all(text_label(cell.labels[axis]) in labels for axis, labels in picked.items())
        ]
        configs = {c.hash: c for cell in cells for s, c in cell.trials.items() if seed is None or s == seed}
        return {name: config for name, config in configs.items() if name.startswith(hash_ or "")}

    @cached_property
    def _filled(self) -> Tables:
        return fill_tables(self.study, self.stored)

    @cached_property
    def _findings(self) -> list[Finding]:
        return check_claims(self.study, self.stored)

    @property
    def _title(self) -> str:
        there = f"{len(self.stored)} of {len(self.study.trials)} trials"
        return f"{self.study.study.title}{note(self.study)}: {there}"

    def __repr__(self) -> str:
        return f"<fedbench.Results of {self.study.name}, {self._title}>"

    def _repr_html_(self) -> str:
        """Return the tables, the claims and the trials that failed or diverged, as HTML for a notebook."""
        report = StudyReport(self.study, self.stored, self._filled, self._findings)
        sheets = [table.sheet for table in report.own_tables] + ([report.claims_sheet] if report.claims_sheet else [])
        wrong = [trouble.sentence for trouble in troubles(self.study, self.stored)]
        lines = [*report.remarks, *wrong]
        return "\n".join([f"<h4>{escape(self._title)}</h4>", *map(_table, sheets), *_list(lines)])

    def __getattr__(self, name: str) -> Any:
        """Return the attribute of the data frame of all rounds."""
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return getattr(self.rounds, name)
        except AttributeError:
            raise AttributeError(f"results have no attribute '{name}'") from None

    def __getitem__(self, key: Any) -> Any:
        return self.rounds[key]

    def __len__(self) -> int:
        return len(self.rounds)


def _table(sheet: Sheet) -> str:
    """Return a sheet as HTML, numbers to the right, the best in bold."""
    sides = ["right" if numeric else "left" for numeric in sheet.numeric]
    rows = [_row("th", map(escape, sheet.heads), sides)]
    rows += [_row("td", row, sides) for row in sheet.texts(_entry, escape)]
    return f"<table><caption>{escape(sheet.caption)}</caption>{''.join(rows)}</table>"


def _row(kind: str, cells: Any, sides: Sequence[str]) -> str:
    written = [f'<{kind} style="text-align: {side}">{cell}</{kind}>' for cell, side in zip(cells, sides, strict=True)]
    return f"<tr>{''.join(written)}</tr>"


def _entry(entry: Entry) -> str:
    text = escape(entry.text())
    return f"<b>{text}</b>" if entry.best else text


def _list(lines: Sequence[str]) -> list[str]:
    return [f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>"] if lines else []
