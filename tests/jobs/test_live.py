"""Pages of studies that run, without Ray: told by hand what becomes of the trials."""

import json
import time
from pathlib import Path

import pytest
from rich.console import Console

from fedbench.console.progress import Score, StudyProgress
from fedbench.jobs import live
from fedbench.jobs.live import LivePages
from fedbench.specs.expand import ScaledStudy
from fedbench.store.store import Store
from tests.analysis.helpers import fill
from tests.render.test_pages import mine


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


def numbers(now: int, rounds: int, accuracy: str, scored: int | str) -> str:
    """What a page shows of a trial that runs: its round, of how many, the last accuracy, and the round of that."""
    return "".join(f'<td class="number">{number}</td>' for number in (now, rounds, accuracy, scored))


def test_a_page_says_what_runs_and_what_has_ended_and_in_the_end_that_it_was_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LivePages, "every", 0.05)
    study, store = mine(tmp_path), Store(tmp_path)
    progress, file = told(study), tmp_path / "studies" / "mine" / "quick" / "report.html"
    first, second, *_ = study.trials
    with LivePages([study], store, progress):
        until(file, "0 of 18 trials have ended, 0 run, 18 wait")
        progress.update(first, 1, Score(0.25, 1))
        text = until(file, "0 of 18 trials have ended, 1 run, 17 wait")
        assert "data-reload=" in text and ">25.00<" in text
        fill(store, study, lambda labels, seed: 0.5 if (labels["data.alpha"], seed) == (100, 8) else None)
        progress.ended(first, "done", "")
        progress.update(second, 2, None)
        text = until(file, numbers(2, study.trials[second].rounds, "-", "-"))
        assert ">nan<" not in text
        progress.update(second, 3, Score(0.75, 2))
        text = until(file, numbers(3, study.trials[second].rounds, "75.00", 2))
        assert "1 of 18 trials have ended, 1 run, 16 wait" in text
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
    assert pauses == pytest.approx([0.0, 5.0, pages.every, 90.0])
    assert live.SHARE == 0.1


def test_a_page_is_written_again_when_something_has_changed_or_to_show_that_the_study_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, now, written = mine(tmp_path), [0.0], list[float]()
    progress, (first, second, *_) = told(study), study.trials
    pages = LivePages([study], Store(tmp_path), progress)
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(live, "write_pages", lambda *_: written.append(now[0]))

    def write(at: float) -> bool:
        """Whether a page is written at a time."""
        before, now[0] = len(written), at
        assert pages._try(running=True)
        return len(written) > before

    assert write(0.0)
    assert not write(4.0)
    progress.update(first, 1, Score(0.25, 1))
    assert write(8.0)
    assert not write(12.0)
    fill(pages.store, study, lambda labels, seed: 0.5)
    progress.ended(first, "done", "")
    assert write(16.0)
    progress.update(second, 2, None)
    assert write(20.0)
    assert not write(20.0 + live.LONGEST - 1)
    assert write(20.0 + live.LONGEST)
    assert pages._try(running=False)
    assert len(written) == 6, "the last page says that the study was stopped"
