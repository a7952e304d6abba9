"""The index over all studies and searches of a folder."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fedbench.render.pages.index import StudySummary, write_index, write_summary
from fedbench.render.report import make_report
from fedbench.store.store import Store
from tests.analysis.helpers import fill
from tests.render.test_pages import accuracy, mine

EVIL = "<script>alert(1)</script>"


def folder(out: Path, *parts: str) -> Path:
    path = out.joinpath(*parts)
    path.mkdir(parents=True)
    return path


def filled(out: Path) -> str:
    """The index of a folder with a study that was run in part, one that runs, and a search."""
    study, store = mine(out), Store(out)
    fill(store, study, accuracy)
    make_report(study, store)
    running = StudySummary(EVIL, "b", "quick", "x=1", 4, {"done": 1}, {}, "[red]", "running", 0.25)
    write_summary(running, folder(out, "studies", "b", "quick", "x=1"))
    best = {"method": "FedLAW", "default": "50.00", "tuned": "60.00 ± 1.00", "settings": "lr=0.1"}
    found: dict[str, Any] = {"suggestions": 7, "best": best, "warnings": ["FedLAW: not better"], "files": ["tuning.md"]}
    search = StudySummary("Search", "fair", "tiny", "", 4, {"done": 4}, {"open": 1}, **found)
    write_summary(search, folder(out, "searches", "fair", "tiny"))
    damaged = folder(out, "studies", "c", "quick") / "report.json"
    damaged.write_text('{"title": ')
    return write_index(out).read_text()


def test_it_says_of_every_study_and_search_how_it_stands(tmp_path: Path) -> None:
    text = filled(tmp_path)
    assert '<a href="studies/mine/quick/report.html">Mine</a>' in text
    assert "15 of 18 done" in text and "1 diverged" in text and "1 failed" in text
    assert "unfinished" in text and "2 hold" in text
    assert 'href="studies/b/quick/x%3D1/report.html"' in text and 'value="0.250"' in text
    assert "FedLAW" in text and "60.00 ± 1.00" in text and 'href="searches/fair/tiny/tuning.md"' in text
    assert '<a href="searches/fair/tiny/report.html">Search</a>' in text and "FedLAW: not better" in text
    assert "2 studies, 1 search<" in text  # what is damaged is not there
    assert '<body data-reload="5"' in text
    assert EVIL not in text and "&lt;script&gt;" in text and "[red]" in text


def test_it_rests_when_nothing_runs(tmp_path: Path) -> None:
    study, store = mine(tmp_path), Store(tmp_path)
    fill(store, study, lambda labels, seed: 0.5)
    make_report(study, store)
    first = (tmp_path / "index.html").read_bytes()
    assert b"<body>" in first and b"finished" in first
    make_report(study, store)
    assert (tmp_path / "index.html").read_bytes() == first


def test_it_opens_in_a_browser_and_leads_to_the_pages_and_back(tmp_path: Path, opened: Callable[..., Any]) -> None:
    filled(tmp_path)
    page = opened(tmp_path / "index.html", viewport={"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.get_by_role("link", name="Mine").click()
    assert page.locator("h1").inner_text() == "Mine"
    page.get_by_role("link", name="All results").click()
    assert page.locator("tbody tr").count() == 3


def test_a_page_without_news_says_so_and_rests(tmp_path: Path, opened: Callable[..., Any]) -> None:
    filled(tmp_path)
    file = tmp_path / "index.html"
    file.write_text(
        re.sub(r'data-reload="5" data-written="\d+"', 'data-reload="0.1" data-written="1"', file.read_text())
    )
    page = opened(file)
    page.locator("#news", has_text="Nothing new").wait_for()
