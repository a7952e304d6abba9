"""The index of all studies and searches in a results folder, made from the summary in each report's folder."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from fedbench.base.files import write_json
from fedbench.render.pages.render import RELOAD, rendered

SUMMARY, INDEX = "report.json", "index.html"


@dataclass(frozen=True)
class StudySummary:
    """The summary of a study, or of the result of a search, for the index.

    state: finished, unfinished or running; share: of the rounds that are done. Of a search alone: suggestions: how
    many were tried; best: the row of its best method, by head; warnings: what must be known before a conclusion is
    drawn; files: the names of its own files.
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
    suggestions: int = 0
    best: Mapping[str, str] = field(default_factory=dict)
    warnings: Sequence[str] = ()
    files: Sequence[str] = ()


def write_summary(summary: StudySummary, folder: Path) -> Path:
    """Write report.json into the folder of a report."""
    return write_json(folder / SUMMARY, asdict(summary))


def write_index(out: Path) -> Path:
    """Write OUT/index.html, which reloads itself while any study is running."""
    studies, searches = _found(out, "studies"), _found(out, "searches")
    content = {"studies": studies, "searches": searches, "folder": out.resolve().name}
    out.mkdir(parents=True, exist_ok=True)
    reload = RELOAD if any(one.state == "running" for _, one in [*studies, *searches]) else 0
    return rendered("index.html", out / INDEX, reload, **content)


def _found(out: Path, kind: str) -> list[tuple[str, StudySummary]]:
    """Return the folder, relative to the index, and the summary of every report; unreadable summaries are left out."""
    found = []
    for path in sorted((out / kind).glob(f"*/*/**/{SUMMARY}")):
        with suppress(OSError, ValueError, TypeError):
            found.append((path.parent.relative_to(out).as_posix(), StudySummary(**json.loads(path.read_text()))))
    return found
