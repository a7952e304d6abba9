"""Writing a study's page, its summary, and the index: when its report is made, and while it runs."""

import os
from pathlib import Path

from fedbench.render.pages.content import StudyPage, study_page
from fedbench.render.pages.index import INDEX, StudySummary, write_index, write_summary
from fedbench.render.pages.live import Live
from fedbench.render.pages.render import RELOAD, rendered
from fedbench.render.report import Report
from fedbench.specs.expand import ScaledStudy
from fedbench.store.store import Store

PAGE = "report.html"


def write_pages(study: ScaledStudy, report: Report, folder: Path, store: Store, live: Live | None = None) -> list[Path]:
    """Write report.json and report.html into a study's folder, then the index; returns the first two."""
    up = os.path.relpath(store.reports / INDEX, folder)
    page = study_page(study, report, folder, store.out, up=up, live=live)
    reload = RELOAD if live and live.running else 0
    files = [write_summary(_summary(study, page), folder), rendered("study.html", folder / PAGE, reload, page=page)]
    write_index(store.reports)
    return files


def _summary(study: ScaledStudy, page: StudyPage) -> StudySummary:
    running = page.live is not None and page.live.running
    state = "running" if running else "unfinished" if page.counts.get("not run") else "finished"
    return StudySummary(
        title=page.title,
        name=page.name,
        scale=page.scale,
        variant=study.variant,
        trials=len(study.trials),
        counts=page.counts,
        claims=page.verdicts,
        ranks=page.ranks.ranks.sentence if page.ranks else "",
        state=state,
        share=page.live.share if page.live else 1.0,
    )
