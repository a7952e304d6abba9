"""Titles, labels and what is stored are shown on the terminal, never obeyed by it."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from fedbench.base.text import printable, without_passwords
from fedbench.specs.expand import expand
from fedbench.store.execute import execute, record_failure
from fedbench.store.store import Store
from tests.commands import report, search, study, verify
from tests.helpers import forge

Command = Callable[..., tuple[int, str, str]]

STUDY = r"""
title: "Mine\e[2J\a"
shows: Something.
base: {data.train_size: 100, data.test_size: 200, clients.count: 2, rounds: 1}
grid:
  method: {"a\e]0;owned\a": {}, "b\u202e\x9b31m": {method.name: fixed_gamma}}
seeds: [8]
baseline: {method: "a\e]0;owned\a"}
tables:
  accuracy: {rows: [method], columns: []}
  gain: {rows: [], columns: [method], show: difference}
scales: {quick: {}}
"""
SPACE = r"""
title: "Mine\e[2J\a"
tunes: something
base: {data.train_size: 100, data.test_size: 200, clients.count: 2, rounds: 2}
methods:
  "a\e]0;owned\a": {method.name: fedavg}
parameters:
  clients.lr: {choice: [0.05, 0.1]}
trials: 1
suggestion_seeds: [1]
seeds: [8]
scales: {quick: {}}
"""


def shown(said: tuple[int, str, str], code: int = 0) -> str:
    """All that a command printed, if nothing of it moves a cursor, rings a bell or turns text around."""
    assert said[0] == code, said
    text = said[1] + said[2]
    hidden = [character for character in text if not (character.isprintable() or character == "\n")]
    assert not hidden, ascii(hidden)
    return text


@pytest.fixture
def stored(tmp_path: Path) -> tuple[str, str]:
    """A hostile study, and a results folder with one trial that is done and one that failed for a hostile reason."""
    file, out = tmp_path / "mine.yaml", tmp_path / "out"
    file.write_text(STUDY)
    store = Store(out)
    done, failed = expand(str(file), "quick", changes={}, only={}, seeds=None).trials.values()
    execute(done, store, None)
    try:
        raise RuntimeError("why\x1b[2J\x1b]8;;http://evil\x07")
    except RuntimeError as error:
        record_failure(store, failed.hash, error)
    entry = store.trials / done.hash

    def hostile(text: str) -> str:
        return json.dumps({**json.loads(text), "device_name": "x\x1b[2J"})

    forge(entry, "environment.json", hostile)
    return str(file), str(out)


def test_a_study_and_its_report_do_not_obey_titles_labels_and_reasons(
    command: Command, stored: tuple[str, str]
) -> None:
    file, out = stored
    text = shown(command(study, file, "--out", out, "--dry-run"))
    assert r"Mine\x1b[2J\x07 (scale quick" in text
    text = shown(command(report, file, "--out", out, "--check"))
    assert r"why\x1b[2J\x1b]8;;http://evil\x07" in text
    assert r"a\x1b]0;owned" in text.replace("\n", "").replace(" ", "")
    shown(command(report, file, "--out", out, "--compare", out))
    shown(command(report, "--compare", out, out, file))


def test_a_search_does_not_obey_titles_and_labels(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(SPACE)
    assert r"a\x1b]0;owned\x07: 1 of 1" in shown(
        command(search, str(file), "--out", str(tmp_path / "out"), "--dry-run")
    )


def test_verify_does_not_obey_what_is_stored(command: Command, stored: tuple[str, str]) -> None:
    text = shown(command(verify, stored[1], "--dry-run"))
    assert r"x\x1b[2J" in text


def test_text_for_the_terminal_keeps_what_people_read() -> None:
    plain = "Größe ± 1\u00a0%\n日本語 [bold] \\x1b"
    assert printable(plain) == plain
    assert printable("\r\t\udc80\u200b") == r"\r\t\udc80\u200b"


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("s3://key:se/cr@et@bucket/x is full", "s3://***@bucket/x is full"),
        ("hdfs://me@host:9000/x", "hdfs://***@host:9000/x"),
        ("abfs://box/x?account_key=abc&region=eu", "abfs://box/x?account_key=***&region=eu"),
        ("file:///tmp/a@b and http://host:80/c", "file:///tmp/a@b and http://host:80/c"),
    ],
)
def test_passwords_in_addresses_are_not_shown(given: str, wanted: str) -> None:
    assert without_passwords(given) == wanted
