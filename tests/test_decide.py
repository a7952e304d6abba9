"""Studies that are run until they are decided, on a real Ray: from one command, in steps, and from Python."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import fedbench
from fedbench.base.errors import UserError
from tests.commands import report as report_main
from tests.commands import study as main
from tests.helpers import STUDY, results

Command = Callable[..., tuple[int, str, str]]


def own_study(folder: Path) -> str:
    """Write a study of two cells and one comparison, which one round leaves open after three seeds."""
    path = folder / "mine.yaml"
    path.write_text((STUDY % (1, [8])).replace("[100, 1]", "[1]") + "decide: 5\n")
    return str(path)


@pytest.mark.usefixtures("two_cpus")
def test_a_study_is_decided_look_by_look_within_its_budget(command: Command, tmp_path: Path) -> None:
    file, out = own_study(tmp_path), tmp_path / "out"
    arguments = (file, "--out", str(out))
    code, text, error = command(main, *arguments, "--dry-run")
    assert (code, error) == (0, "")
    assert "looks at 3 and 5 seeds (8, 9, 10, 11, 12); 1 of 1 comparisons open" in text
    assert "6 trials to run" in text and "at most: 10 trials to run" in text
    assert "expected: not known before the first look" in text
    assert not out.exists()

    code, text, error = command(main, *arguments, "--budget", "0")
    assert (code, error) == (0, "")
    assert "budget: " in text and "the next look needs about" in text
    folder = out / "studies" / "mine" / "quick"
    plan = json.loads((folder / "plan.json").read_text())
    assert (plan["seeds"], [seeds for seeds, _ in plan["looks"]]) == ([8, 9, 10, 11, 12], [3, 5])
    assert len(list((out / "trials").iterdir())) == 6
    (compared,) = pd.read_csv(folder / "comparisons.csv").itertuples()
    assert (compared.verdict, compared.looks, compared.n) == ("open", 1, 3)

    code, text, _ = command(main, *arguments, "--dry-run")
    assert code == 0 and "at most: 4 trials to run" in text and "by the spreads so far" in text

    code, text, error = command(main, *arguments)
    assert (code, error) == (0, "")
    assert "1 of 1 comparisons open: 4/4 done" in text, "progress tells what is open"
    (compared,) = pd.read_csv(folder / "comparisons.csv").itertuples()
    assert (compared.looks, compared.n) == (2, 5)
    page = (folder / "report.html").read_text()
    assert ">3</text>" in page and ">5</text>" in page, "an interval for each look"

    before = results(out)
    for arguments_again in (arguments, (*arguments, "--decide", "--most-seeds", "5")):
        code, text, _ = command(main, *arguments_again)
        assert code == 0 and "10 trials, 10 of them done" in text
        assert results(out) == before
    code, _, _ = command(report_main, *arguments)
    assert code == 0 and results(out) == before
    code, _, error = command(main, *arguments, "--decide", "--most-seeds", "12")
    assert code == 2 and "results have been seen" in error


@pytest.mark.usefixtures("two_cpus")
def test_python_decides_a_study_and_loads_all_its_seeds(tmp_path: Path) -> None:
    file, out = own_study(tmp_path), tmp_path / "out"
    found = fedbench.run(file, out=out, decide=True, most_seeds=5)
    assert len(found.trials) == 10
    (compared,) = found.comparisons.itertuples()
    assert compared.looks == 2
    assert len(fedbench.load(file, out=out, table="trials")) == 10


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("smoke", "--budget", "1"), "--budget: goes with --decide"),
        (("smoke", "--decide", "--seeds", "1,2"), "--seeds: goes without --decide"),
    ],
)
def test_what_cannot_be_decided_is_one_line(
    command: Command, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    code, _, error = command(main, *arguments, "--out", str(tmp_path / "out"))
    assert code == 2 and error.startswith(f"error: {message}") and error.count("\n") == 1


def test_searches_are_not_decided(tmp_path: Path) -> None:
    options: Any = {"decide": True}
    with pytest.raises(UserError, match="is for studies, not for searches"):
        fedbench.search("fixed_gamma", out=tmp_path, **options)
