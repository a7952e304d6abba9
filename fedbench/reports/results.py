"""A study's results for Python: frames, figures, and how a notebook shows them."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

import pandas as pd

from fedbench.base.errors import UserError, unknown
from fedbench.reports.beside import beside
from fedbench.reports.claims import Finding, check_claims
from fedbench.reports.figures import drawn
from fedbench.reports.report import claims_frame, mixed, rounds_frame, trials_frame
from fedbench.reports.sheets import Entry, Sheet
from fedbench.reports.shown import claims_sheet, note, sheet
from fedbench.reports.tables import Tables, cells_frame, fill_tables, layout
from fedbench.specs.expand import ScaledStudy
from fedbench.store.store import StoredTrial

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Results:
    """What is stored of a study. Frames are made when they are asked for, and kept.

    What is asked for beyond its own names, such as `results["seed"]` or `results.groupby("seed")`, goes to `rounds`,
    which is what `fedbench.load` gave before.
    """

    def __init__(self, study: ScaledStudy, stored: Mapping[str, StoredTrial]) -> None:
        self.study = study
        self.stored = dict(stored)

    @cached_property
    def rounds(self) -> pd.DataFrame:
        """Every round of every trial, with its place on the axes, seed and hash in front."""
        return rounds_frame(self.study, self.stored)

    @cached_property
    def trials(self) -> pd.DataFrame:
        """A row a trial, with how it ended, its scores (fractions) and its cost."""
        return trials_frame(self.study, self.stored)

    @cached_property
    def cells(self) -> pd.DataFrame:
        """A row a place of a table: mean, spread, interval, difference to the baseline, cost."""
        return cells_frame(self.study, self._filled)

    @cached_property
    def claims(self) -> pd.DataFrame:
        """A row a claim and place: evidence with its interval, and the verdict."""
        return claims_frame(self._findings)

    @cached_property
    def tables(self) -> dict[str, pd.DataFrame]:
        """Every table by its name, as it stands in the paper: the mean in every column."""
        specs = self.study.study.tables
        return {name: layout(specs[name], filled, beside(specs[name], filled)) for name, filled in self._filled.items()}

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
        """What a notebook shows: tables, claims, and trials that went wrong."""
        sheets = [sheet(self.study, name, filled) for name, filled in self._filled.items() if filled]
        sheets += [claims_sheet(self.study, self._findings)] if self._findings else []
        wrong = [f"{t.status}: {t.hash[:12]}: {t.reason}" for t in self.stored.values() if t.status != "done"]
        lines = [*mixed(self.stored), *wrong]
        return "\n".join([f"<h4>{escape(self._title)}</h4>", *map(_table, sheets), *_list(lines)])

    def __getattr__(self, name: str) -> Any:
        """What the frame of all rounds has."""
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
    """A sheet in HTML, numbers to the right, the best in bold."""
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
