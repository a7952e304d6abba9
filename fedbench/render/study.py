"""What is shown of a study: its stored trials, analysed, with every sheet built once for all formats."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from fedbench.analysis.claims import Finding, check_claims
from fedbench.analysis.clients import TABLE as CLIENTS
from fedbench.analysis.clients import ClientsTable, clients_table
from fedbench.analysis.comparisons import comparisons
from fedbench.analysis.ranks import Ranks, study_ranks
from fedbench.analysis.tables import Place, Tables, fill_tables
from fedbench.analysis.trials import mixed
from fedbench.analysis.variance import VarianceRow, study_variance
from fedbench.render.sheets import Sheet
from fedbench.render.study_sheets import claims_sheet, table_sheet, variance_sheet
from fedbench.specs.expand import ScaledStudy
from fedbench.store.store import Store, StoredTrial

PAGE = "report.html"


class StudyTable(NamedTuple):
    """A table of a study that has cells, and its sheet; stem: the name of its files without the suffix."""

    study: ScaledStudy
    name: str
    cells: Sequence[Place]
    sheet: Sheet
    stem: str


@dataclass(frozen=True)
class Tuning:
    """What the report of a search has beside that of a study.

    sheet: how each method was tuned; warnings: what must be known before a conclusion is drawn; suggestions: how many
    were tried; best: the row of the best method, by head; files: all that the search has written, figures among them.
    """

    sheet: Sheet
    warnings: Sequence[str]
    suggestions: int
    best: Mapping[str, str]
    files: Sequence[Path]


@dataclass(frozen=True)
class StudyReport:
    """The stored trials of a study, analysed, and the files that were written of them.

    tables: the cells of the study's tables, by name; clients: the table of the accuracy of clients, None if the study
    has one of its own; files: the paths of all files, in the order in which they were written; tuning: of the search
    whose result it is.
    """

    study: ScaledStudy
    trials: dict[str, StoredTrial]
    tables: Tables
    findings: Sequence[Finding] = ()
    ranks: Ranks | None = None
    variance: Sequence[VarianceRow] = ()
    clients: ClientsTable | None = None
    comparisons: Sequence[Finding] = ()
    files: list[Path] = field(default_factory=list)
    tuning: Tuning | None = None

    @cached_property
    def remarks(self) -> list[str]:
        """Return remarks that belong below every table: whether its trials ran in different environments."""
        return mixed(self.trials)

    @cached_property
    def own_tables(self) -> list[StudyTable]:
        """Return the tables that the study's file names, without those of which --only has left no cell."""
        return [
            StudyTable(self.study, name, cells, table_sheet(self.study, name, cells), file_stem(self.study, name))
            for name, cells in self.tables.items()
            if cells
        ]

    @cached_property
    def all_tables(self) -> list[StudyTable]:
        """Return the same tables and, if there is one, the table of the accuracy of clients."""
        if self.clients is None:
            return self.own_tables
        study, cells = self.clients.study, self.clients.filled
        return [*self.own_tables, StudyTable(study, CLIENTS, cells, table_sheet(study, CLIENTS, cells), CLIENTS)]

    @cached_property
    def claims_sheet(self) -> Sheet | None:
        """Return the sheet of the claims; None if the study has no claims."""
        return claims_sheet(self.study, self.findings) if self.findings else None

    @cached_property
    def variance_sheet(self) -> Sheet | None:
        """Return the sheet of the variance components; None if the study has none."""
        return variance_sheet(self.study, self.variance) if self.variance else None


def analyse(study: ScaledStudy, trials: Mapping[str, StoredTrial]) -> StudyReport:
    """Compute everything that a report shows of the stored trials of a study."""
    stored = dict(trials)
    return StudyReport(
        study,
        stored,
        fill_tables(study, stored),
        check_claims(study, stored),
        study_ranks(study, stored),
        study_variance(study, stored),
        clients_table(study, stored),
        comparisons(study, stored),
    )


def file_stem(study: ScaledStudy, name: str) -> str:
    """Return the file name of one of the study's own tables without its suffix: `table` for the first one."""
    return "table" if name == next(iter(study.study.tables)) else f"table-{name}"


def folder_of(study: ScaledStudy, store: Store) -> Path:
    """Return the folder of a study's report; what options changed or picked has a folder of its own below."""
    return store.reports / study.home / study.name / study.scale / study.variant
