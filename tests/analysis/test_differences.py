"""report --compare A B NAME: two result folders, cell by cell."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedbench.analysis.differences import differences, trials_in
from fedbench.specs.expand import ScaledStudy, expand
from fedbench.store.execute import execute
from fedbench.store.store import Store
from tests.commands import report
from tests.helpers import forge

Command = Callable[..., tuple[int, str, str]]

STUDY = """
title: Mine
shows: Something.
base: {data.train_size: 200, data.test_size: 200, clients.count: 2, rounds: 2, method.name: fixed_gamma}
grid: {method.gamma: [1.0, 0.9]}
seeds: [8, 9]
tables:
  accuracy: {rows: [], columns: [method.gamma]}
  times: {rows: [], columns: [method.gamma], value: seconds}
scales: {quick: {}}
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A study's file, and a folder with its four trials."""
    folder = tmp_path_factory.mktemp("differences")
    (folder / "mine.yaml").write_text(STUDY)
    file = str(folder / "mine.yaml")
    for config in expanded(file).trials.values():
        assert execute(config, Store(folder / "a"), None).status == "done"
    return file, folder / "a"


def expanded(file: str) -> ScaledStudy:
    return expand(file, "quick", changes={}, only={}, seeds=None)


@pytest.fixture
def folders(made: tuple[str, Path], tmp_path: Path) -> tuple[str, Path, Path]:
    """The study's file, the folder, and a copy of it."""
    return *made, Path(shutil.copytree(made[1], tmp_path / "b"))


def doctor(out: Path, hash_: str, name: str, change: Callable[[Any], None]) -> None:
    """Change a JSON file of an entry, and what tells of it."""

    def changed(text: str) -> str:
        content = json.loads(text)
        change(content)
        return json.dumps(content)

    forge(out / "trials" / hash_, name, changed)


def compared(folders: tuple[str, Path, Path], command: Command, *arguments: str) -> tuple[int, str, str]:
    file, a, b = folders
    return command(report, "--compare", str(a), str(b), file, *arguments)


def test_equal_folders_have_no_difference_though_their_times_do(
    folders: tuple[str, Path, Path], command: Command
) -> None:
    hash_ = next(iter(expanded(folders[0]).trials))
    doctor(folders[2], hash_, "trial.json", lambda mark: mark["summary"].update(seconds_train=1e6))
    code, said, _ = compared(folders, command)
    assert code == 0
    assert "environments: the same" in said
    assert "4 trials in both folders, 4 of them equal in every round" in said
    assert "0 of 2 cells differ beyond rounding" in said
    assert not (folders[2] / "studies").exists(), "folders are only read"


def test_cells_that_differ_are_shown_with_how_much_and_the_exit_code_follows_the_tolerance(
    folders: tuple[str, Path, Path], command: Command
) -> None:
    config = next(config for config in expanded(folders[0]).trials.values() if config.method.gamma == 0.9)  # type: ignore[attr-defined]
    doctor(folders[2], config.hash, "trial.json", lambda mark: raised(mark["summary"], 0.004))
    doctor(folders[2], config.hash, "environment.json", lambda content: content.update(torch="1.0.0"))
    code, said, _ = compared(folders, command)
    assert code == 1
    assert "1 of 2 cells differ beyond rounding, at most 0.2 apart" in said  # 0.4 points of one seed in two
    assert "gamma 0.9" in said and "gamma 1" not in said
    assert "torch: " in said and "1.0.0" in said and "environments: the same" not in said
    code, said, _ = compared(folders, command, "--tolerance", "0.21")
    assert (code, "; 0 beyond the tolerance of 0.21" in said) == (0, True)
    code, said, _ = compared(folders, command, "--tolerance", "0.19")
    assert (code, "; 1 beyond the tolerance of 0.19" in said) == (1, True)


def raised(summary: dict[str, Any], by: float) -> None:
    summary["final_accuracy"] += by


def test_less_than_the_last_digit_is_rounding(folders: tuple[str, Path, Path], command: Command) -> None:
    hash_ = next(iter(expanded(folders[0]).trials))
    doctor(folders[2], hash_, "trial.json", lambda mark: raised(mark["summary"], 0.00005))
    code, said, _ = compared(folders, command)
    assert (code, "0 of 2 cells differ beyond rounding" in said) == (0, True)
    assert "4 trials in both folders, 3 of them equal in every round" in said


def test_trials_that_one_folder_lacks_are_named_and_move_no_cell(
    folders: tuple[str, Path, Path], command: Command
) -> None:
    first, *_, last = expanded(folders[0]).trials
    shutil.rmtree(folders[2] / "trials" / first)
    code, said, _ = compared(folders, command)
    assert code == 0
    assert f"only in {folders[1]}, and left out (1): gamma 1, seed 8" in said
    assert "3 trials in both folders, 3 of them equal" in said
    doctor(folders[2], last, "trial.json", lambda mark: mark.update(status="diverged", reason="on its own"))
    code, said, _ = compared(folders, command, "--tolerance", "1000")
    assert code == 0, "the other seed has a number, and it is the same"


def test_a_cell_that_has_a_number_in_one_folder_alone_is_beyond_any_tolerance(
    folders: tuple[str, Path, Path], command: Command
) -> None:
    for config in expanded(folders[0]).trials.values():
        if config.method.gamma == 0.9:  # type: ignore[attr-defined]
            doctor(folders[2], config.hash, "trial.json", lambda mark: mark.update(status="diverged", reason="why not"))
    code, said, _ = compared(folders, command, "--tolerance", "1000")
    assert (code, "none" in said, "1 beyond the tolerance of 1000" in said) == (1, True, True)


def test_trials_of_another_version_are_found_by_their_settings(folders: tuple[str, Path, Path]) -> None:
    file, a, b = folders
    study = expanded(file)
    old, new = next(iter(study.trials)), "0" * 64
    doctor(b, old, "trial.json", lambda mark: mark.update(hash=new))
    (b / "trials" / old).rename(b / "trials" / new)
    found = trials_in(study, Store(b))
    assert set(found) == set(study.trials)
    assert differences(study, trials_in(study, Store(a)), found).equal == 4


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("--compare A B", "name a study: "),
        ("--compare A nowhere FILE", "--compare nowhere: holds no results"),
        ("--compare A B FILE --out A", "--out: does not go with two folders"),
        ("--compare A B FILE --check", "--check: does not go with two folders"),
        ("--compare A B FILE --tolerance -1", "must be a number at least 0"),
        ("--compare A B FILE --tolerance nan", "must be a number at least 0"),
        ("--compare A B C FILE", "takes one results folder, or two"),
        ("--compare A FILE --tolerance 1", "--tolerance: goes with --compare A B"),
        ("--compare A", "name a study"),
        ("--compare A B FILE --scale desk", "has no scale"),
        ("--compare A B FILE --seeds 99", "is in both"),
    ],
)
def test_what_does_not_go_together_is_one_line(
    folders: tuple[str, Path, Path], command: Command, arguments: str, says: str
) -> None:
    words = {"A": str(folders[1]), "B": str(folders[2]), "FILE": folders[0]}
    code, _, error = command(report, *(words.get(word, word) for word in arguments.split()))
    assert (code, len(error.splitlines())) == (2, 1)
    assert says in error


def test_the_form_with_one_folder_takes_the_name_on_either_side(
    folders: tuple[str, Path, Path], command: Command
) -> None:
    file, a, b = folders
    for arguments in ((file, "--out", str(b), "--compare", str(a)), ("--out", str(b), "--compare", str(a), file)):
        code, said, _ = command(report, *arguments)
        assert (code, "4 trials in both folders: 4 equal" in said) == (0, True)
