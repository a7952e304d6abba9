"""Searches on a real Ray: from one command to the best settings, through kills and continuations."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import pandas as pd
import pytest
import ray
from optuna.trial import TrialState

from fedbench import simulate
from fedbench.base.settings import load_yaml
from fedbench.searches.suggestions import AGAIN, Suggestions, default_url, open_storage, outcome
from fedbench.specs.expand import expand
from fedbench.specs.space import ScaledSpace, expand_space
from fedbench.store.store import Store
from tests.commands import search as main
from tests.commands import trial as trial_main
from tests.conftest import heed_interrupts

Command = Callable[..., tuple[int, str, str]]
ONE = ("--max-concurrent", "1")  # for tiny runs: a second worker takes longer to start than it saves

SPACE = """
title: Mine
tunes: something
base: {data.train_size: 300, data.test_size: 200, clients.count: 5, rounds: %d, method.name: fixed_gamma}
parameters:
  method.gamma: {uniform: [0.5, 1]}
trials: 3
suggestion_seeds: [1, 2]
seeds: [8, 9]
scales: {quick: {}}
"""
TWO_METHODS = """
title: Two
tunes: something
base: {data.train_size: 300, data.test_size: 200, clients.count: 5, clients.batch_size: 32, clients.lr: 0.08, rounds: 2}
methods:
  FedAvg: {method.name: fedavg}
  FedAvg twice: {method.name: fedavg, clients.epochs: 2}
parameters:
  clients.lr: {choice: [0.05, 1e30]}
  clients.momentum: {uniform: [0, 0.9]}
  clients.weight_decay: {loguniform: [1e-5, 1e-3], when: {clients.epochs: 2}}
trials: 3
suggestion_seeds: [1]
seeds: [8]
scales: {quick: {}}
"""


def space_file(folder: Path, rounds: int = 3, text: str = SPACE) -> str:
    path = folder / "mine.yaml"
    path.write_text(text % rounds if "%d" in text else text)
    return str(path)


def opened(file: str, out: Path, **options: Any) -> list[Suggestions]:
    """The suggestions of all methods, in the default storage."""
    space: ScaledSpace = expand_space(file, "quick", changes={}, **options)
    folder = out / "searches" / "mine" / "quick"
    folder.mkdir(parents=True, exist_ok=True)
    storage = open_storage(default_url(folder))
    return [Suggestions.open(storage, space, arm) for arm in space.arms]


def values(search: Suggestions) -> list[tuple[int, float, float | None]]:
    """Number, gamma and score of all suggestions that count."""
    return [(trial.number, trial.params["method.gamma"], trial.value) for trial in search.settled]


@pytest.mark.usefixtures("two_cpus")
def test_a_search_ends_with_the_best_adds_nothing_when_repeated_and_the_difference_when_enlarged(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, out = space_file(tmp_path), tmp_path / "out"
    code, text, error = command(main, file, "--out", str(out), "--trials", "2", "--scheduler", "none", *ONE)
    assert code == 0
    assert all(line.startswith("warning: fixed_gamma: ") for line in error.splitlines()), error
    assert "2 suggestions, 0 of them done" in text
    folder = out / "searches" / "mine" / "quick"
    assert {path.name for path in folder.iterdir()} >= {
        *("best.yaml", "suggestions.csv", "tuning.csv", "tuning.md", "tuning.tex", "optuna.sqlite3", ".lock"),
        *("table.csv", "table.md", "table.tex", "claims.csv", "trials.csv", "report.json", "report.html"),
        *(f"{plot}.{ending}" for plot in ("history", "importance", "slice") for ending in ("png", "svg", "pdf")),
    }
    index = (out / "index.html").read_text()
    assert "1 search<" in index and "method.gamma=" in index and 'href="searches/mine/quick/best.yaml"' in index
    assert "of a variant" not in text
    assert "optuna-dashboard sqlite:///" in text
    assert "rounds: 6 of 6 run, each with 2 seeds; ASHA saved 0" in text

    # the score is the validation score of runs that anybody can repeat
    (search,) = opened(file, out, trials=2)
    for trial in search.settled:
        runs = [list(simulate(c)) for c in search.space.suggestion(search.arm.settings(trial.params))]
        assert trial.value == fmean(fmean(r.validation_accuracy or 0.0 for r in records) for records in runs)
        assert list(trial.intermediate_values) == [1, 2, 3]
    assert search.trials[0].params == {"method.gamma": 0.95}  # the default comes first

    # best.yaml is a trial's config and a study's base, and the table's runs are the study's
    best = search.best
    assert best is not None
    code, shown, _ = command(trial_main, "--config", str(folder / "best.yaml"), "--set", "seed=9", "--show")
    assert code == 0
    assert f"gamma: {best.params['method.gamma']!r}" in shown
    hash_ = shown.rpartition("hash: ")[2].strip()
    assert Store(out).get(hash_)
    study = tmp_path / "study.yaml"
    indented = "".join(f"  {line}\n" for line in (folder / "best.yaml").read_text().splitlines())
    study.write_text(
        f"title: x\nshows: x\nbase:\n{indented}grid: {{data.alpha: [1.0]}}\nseeds: [8, 9]\n"
        "tables: {accuracy: {rows: [data.alpha], columns: []}}\nscales: {quick: {}}\n"
    )
    expanded = expand(str(study), "quick", changes={}, only={}, seeds=None)
    assert all(Store(out).get(other) for other in expanded.trials)

    # again: nothing, nor for a table of fewer seeds, which has a folder of its own; one more: one more
    before = values(search)
    written = {path: path.read_bytes() for path in folder.glob("t*")}
    with monkeypatch.context() as patch:
        patch.setattr(ray, "is_initialized", lambda: False)
        patch.setattr(ray, "init", None)  # Ray is not even asked for
        code, text, _ = command(main, file, "--out", str(out), "--trials", "2")
        assert (code, "2 suggestions, 2 of them done" in text) == (0, True)
        code, text, _ = command(main, file, "--out", str(out), "--trials", "2", "--seeds", "9")
    assert code == 0
    assert f"these are of a variant of the search; the whole search's go to {folder}\n" in text
    assert "Mine (scale quick; only seeds=9): test accuracy (%), scored over the last 3 rounds, one seed (9)" in text
    assert (folder / "seeds=9" / "tuning.tex").exists()
    assert not (folder / "seeds=9" / "optuna.sqlite3").exists()  # the suggestions are the whole search's
    assert {path: path.read_bytes() for path in written} == written
    assert values(search) == before
    code, text, _ = command(main, file, "--out", str(out), "--trials", "3", *ONE)
    assert code == 0
    assert values(search)[:2] == before
    assert len(search.trials) == len(search.settled) == 3
    assert len({gamma for _, gamma, _ in values(search)}) == 3


@pytest.mark.usefixtures("two_cpus")
def test_methods_get_the_same_budget_and_what_diverges_is_never_the_best(command: Command, tmp_path: Path) -> None:
    file, out = space_file(tmp_path, text=TWO_METHODS), tmp_path / "out"
    code, _, _ = command(main, file, "--out", str(out), "--sampler", "random", "--trials", "4", *ONE)
    assert code == 0
    one, two = opened(file, out, trials=4)
    assert len(one.settled) == len(two.settled) == 4
    found = {outcome(trial) for search in (one, two) for trial in search.settled}
    assert "done" in found
    for search in (one, two):
        for trial in search.settled:
            assert (outcome(trial) == "diverged") == (trial.params["clients.lr"] == 1e30)
            assert ("clients.weight_decay" in trial.params) == (search is two)
        best = search.best
        assert best is not None
        assert best.params["clients.lr"] == 0.05
        assert search.study.best_trial.number == best.number
    folder = out / "searches" / "mine" / "quick"
    table = pd.read_csv(folder / "tuning.csv")
    assert list(table["method"]) == ["FedAvg", "FedAvg twice"]
    assert table[["default_mean", "tuned_mean", "difference_mean"]].notna().all().all()
    assert (table["difference_mean"] - (table["tuned_mean"] - table["default_mean"])).abs().max() < 1e-9
    assert load_yaml(folder / "best-fedavg-twice.yaml")["clients"]["epochs"] == 2
    code, _, _ = command(main, file, "--out", str(out), "--trials", "4", "--strict")
    assert code == ("diverged" in found)

    # what --only leaves has a table of its own; what --set changes is another search, what the file does is refused
    code, text, _ = command(main, file, "--out", str(out), "--trials", "4", "--only", "method=FedAvg twice")
    assert code == 0
    assert "4 suggestions, 4 of them done" in text
    assert list(pd.read_csv(folder / "method=FedAvg-twice" / "tuning.csv")["method"]) == ["FedAvg twice"]
    assert list(pd.read_csv(folder / "tuning.csv")["method"]) == ["FedAvg", "FedAvg twice"]
    code, text, _ = command(main, file, "--out", str(out), "--trials", "4", "--set", "data.alpha=7", "--dry-run")
    assert (code, text.count("4 of 4 suggestions to run")) == (0, 2)
    Path(file).write_text(TWO_METHODS.replace("clients.count: 5", "clients.count: 4"))
    code, _, error = command(main, file, "--out", str(out))
    assert code == 2
    assert "of another space (other settings)" in error
    assert len(error.strip().splitlines()) == 1
    node: Any = ray._private.worker._global_node
    logs = Path(node.get_logs_dir_path()).glob("worker-*.err")
    log = "".join(path.read_text() for path in logs)  # of its workers, for who watches the dashboard
    for search in (one, two):
        for trial in search.settled:
            line = f"{search.arm.label}, suggestion {trial.number}: "
            assert (log.count(f"{line}starts\n"), log.count(f"{line}{outcome(trial)}")) == (1, 1)
            rounds = log.count(f"{line}round ")
            assert rounds == 2 if outcome(trial) == "done" else rounds < 2
    assert "FedAvg twice, tuned, seed 8: starts (trial " in log


@pytest.mark.slow
@pytest.mark.usefixtures("two_cpus")
def test_a_crash_is_told_with_its_reason_and_tried_again_by_the_next_command(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flag = tmp_path / "mended"
    (tmp_path / "sometimes_plugin.py").write_text(
        "from pathlib import Path\nfrom typing import Literal\n"
        "from fedbench.methods import Method, MethodSettings, register_method\n"
        "from fedbench.methods.base import size_weighted\n"
        "class S(MethodSettings):\n    name: Literal['sometimes'] = 'sometimes'\n    x: float = 0.5\n"
        "@register_method(version='1')\n"
        "class Sometimes(Method[S]):\n    Settings = S\n"
        "    def aggregate(self, cohort, state, server):\n"
        f"        if not Path({str(flag)!r}).exists():\n            raise ArithmeticError('out of luck')\n"
        "        return size_weighted(cohort)\n"
    )
    text = SPACE.replace("fixed_gamma", "sometimes").replace("method.gamma", "method.x")
    file, out = space_file(tmp_path, 1, text), tmp_path / "out"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    arguments = [
        file,
        "--out",
        str(out),
        "--no-try",
        "--import",
        "sometimes_plugin",
        "--trials",
        "1",
        "--sampler",
        "random",
        *ONE,
    ]
    code, shown, error = command(main, *arguments)
    assert code == 1
    assert "ArithmeticError: out of luck" in shown
    assert f"go on with: {sys.executable} -m fedbench.search" in error
    flag.write_text("")
    code, shown, _ = command(main, *arguments)
    assert code == 0
    assert "1 that were interrupted or failed are run again" in shown
    (search,) = opened(file, out, trials=1)
    assert [trial.params for trial in search.trials] == [{"method.x": 0.5}] * 2
    assert [outcome(trial) for trial in search.ended] == ["done"]


def start(file: str, out: Path, *more: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "fedbench.search", file, "--out", str(out), *more]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heed_interrupts
    )


def in_the_middle(search: Suggestions, finished: int) -> bool:
    """Whether so many suggestions have ended while another one has got to a round."""
    running = [t for t in search.trials if t.state == TrialState.RUNNING and t.intermediate_values]
    return len(search.settled) >= finished and bool(running)


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.timeout(600)  # three starts of Ray, which take their time on a busy machine
@pytest.mark.usefixtures("two_cpus")
def test_a_search_that_is_interrupted_and_killed_loses_and_repeats_nothing(command: Command, tmp_path: Path) -> None:
    one_seed = SPACE.replace("suggestion_seeds: [1, 2]", "suggestion_seeds: [1]")
    file, out = space_file(tmp_path, 20, one_seed), tmp_path / "out"
    budget = 8  # so many that neither stop comes near the end
    (search,) = opened(file, out, trials=budget)
    options = ["--trials", str(budget), "--scheduler", "none", "--seeds", "8", *ONE]
    kept: set[tuple[int, float, float | None]] = set()
    stale: dict[int, Any] = {}
    for victim in (signal.SIGINT, signal.SIGKILL):
        process = start(file, out, *options)
        deadline, wanted = time.monotonic() + 120, len(kept) + 1
        while not in_the_middle(search, wanted) and time.monotonic() < deadline:
            time.sleep(0.1)
        process.send_signal(victim)
        _, error = process.communicate(timeout=60)
        if victim == signal.SIGINT:
            assert process.returncode == 130
            assert f"go on with: {sys.executable} -m fedbench.search" in error
        assert kept <= set(values(search))
        kept = set(values(search))
        running = {t.number: t.params for t in search.trials if t.state == TrialState.RUNNING}
        stale |= running
        assert wanted <= len(kept) < budget
        assert running
    code, text, error = command(main, file, "--out", str(out), *options)
    assert code == 0, error
    assert f"{len(running)} that were interrupted or failed are run again" in text
    assert kept <= set(values(search))  # none lost
    assert len({gamma for _, gamma, _ in values(search)}) == len(search.settled) == budget  # none repeated
    again = {t.user_attrs[AGAIN]: t.params for t in search.trials if AGAIN in t.user_attrs}
    assert again.keys() == stale.keys()
    drawn = {number: params for number, params in stale.items() if params}  # one may have been stopped before it drew
    assert drawn
    assert {number: again[number] for number in drawn} == drawn  # with the same parameters
    assert all(t.state.is_finished() for t in search.trials)
