"""Pages of studies that run, without Ray: told by hand what becomes of the trials."""

import json
import time
from pathlib import Path

import pytest
from rich.console import Console

from fedbench.specs.expand import ScaledStudy
from fedbench.store.store import Store
from fedbench.terminal import live
from fedbench.terminal.live import LivePages
from fedbench.terminal.progress import StudyProgress
from tests.reports.helpers import fill
from tests.reports.test_pages import mine


def told(study: ScaledStudy) -> StudyProgress:
    names = {c.hash: str(study.name_of(cell, seed)) for cell in study.cells for seed, c in cell.trials.items()}
    return StudyProgress(study.trials, names, Console(force_terminal=False))


def until(file: Path, text: str) -> str:
    """What a page says once it says this."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if file.is_file() and text in (content := file.read_text()):
            return content
        time.sleep(0.02)
    raise AssertionError(f"{text} never came")


def test_a_page_says_what_runs_and_what_has_ended_and_in_the_end_that_it_was_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LivePages, "every", 0.05)
    study, store = mine(tmp_path), Store(tmp_path)
    progress, file = told(study), tmp_path / "studies" / "mine" / "quick" / "report.html"
    first, second, *_ = study.trials
    with LivePages([study], store, progress):
        until(file, "0 of 18 trials have ended, 0 run, 18 wait")
        progress.update(first, 1, 0.25)
        text = until(file, "0 of 18 trials have ended, 1 run, 17 wait")
        assert "data-reload=" in text and ">25.00<" in text
        fill(store, study, lambda labels, seed: 0.5 if (labels["data.alpha"], seed) == (100, 8) else None)
        progress.ended(first, "done", "")
        progress.update(second, 2, 0.75)
        text = until(file, "1 of 18 trials have ended, 1 run, 16 wait")
        assert "50.00" in text and 'data-values="2:75"' in text
        assert json.loads(file.with_name("report.json").read_text())["state"] == "running"
    text = file.read_text()
    assert "Stopped: 1 of 18 trials have ended" in text and "data-reload=" not in text
    assert json.loads(file.with_name("report.json").read_text())["state"] == "unfinished"
    assert "data-reload=" not in (tmp_path / "index.html").read_text()


def test_a_page_that_cannot_be_written_is_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(LivePages, "every", 0.05)
    study = mine(tmp_path)
    (tmp_path / "studies").write_text("in the way")
    with LivePages([study], Store(tmp_path), told(study)) as pages:
        pages._writer.join(20)
        assert not pages._writer.is_alive()
    error = capsys.readouterr().err
    assert error.startswith("warning: pages are not kept up to date (") and error.count("\n") == 1


def test_pages_take_a_small_share_of_the_drivers_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = mine(tmp_path)
    pages = LivePages([study], Store(tmp_path), told(study))
    pauses: list[float] = []

    def wait(seconds: float) -> bool:
        pauses.append(seconds)
        return len(pauses) > 3

    monkeypatch.setattr(pages._over, "wait", wait)
    clock = iter((0.0, 0.5, 10.0, 10.001, 20.0, 29.0))
    monkeypatch.setattr(time, "thread_time", lambda: next(clock))
    pages._keep_writing()
    assert pauses == pytest.approx([0.0, 10.0, pages.every, live.LONGEST])
