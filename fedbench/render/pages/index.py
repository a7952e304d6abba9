"""The index of all studies and searches in a results folder, made from the summary in each report's folder."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fedbench.base.files import write_json
from fedbench.render.pages.render import RELOAD, rendered

SUMMARY, INDEX = "report.json", "index.html"


@dataclass(frozen=True)
class StudySummary:
    """The summary of a study for the index.

    state: finished, unfinished or running; share: of the rounds that are done.
    """

    title: str
    name: str
    scale: str
    variant: str
    trials: int
    counts: Mapping[str, int]
    claims: Mapping[str, int]
    ranks: str = ""
    state: str = "finished"
    share: float = 1.0


@dataclass(frozen=True)
class SearchSummary:
    """The summary of a search for the index: the best row of its table, by head, and its files."""

    title: str
    name: str
    scale: str
    variant: str
    suggestions: int
    best: Mapping[str, str]
    files: Sequence[str] = field(default_factory=list)


def write_summary(summary: StudySummary | SearchSummary, folder: Path) -> Path:
    """Write report.json into the folder of a report."""
    return write_json(folder / SUMMARY, asdict(summary))


def write_index(out: Path) -> Path:
    """Write OUT/index.html, which reloads itself while any study is running."""
    studies, searches = _found(out, "studies", StudySummary), _found(out, "searches", SearchSummary)
    content = {"studies": studies, "searches": searches, "folder": out.resolve().name}
    out.mkdir(parents=True, exist_ok=True)
    reload = RELOAD if any(study.state == "running" for _, study in studies) else 0
    return rendered("index.html", out / INDEX, reload, **content)


def _found(out: Path, kind: str, summary: type[Any]) -> list[tuple[str, Any]]:
    """Return the folder, relative to the index, and the summary of every report; unreadable summaries are left out."""
    found = []
    for path in sorted((out / kind).glob(f"*/*/**/{SUMMARY}")):
        with suppress(OSError, ValueError, TypeError):
            found.append((path.parent.relative_to(out).as_posix(), summary(**json.loads(path.read_text()))))
    return found
