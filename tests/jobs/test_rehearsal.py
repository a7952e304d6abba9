"""A mistake in somebody's own code costs seconds: each kind of trial is tried for one round before the study runs."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import ray

from fedbench.base import plugins
from fedbench.jobs.rehearsal import FirstTrials, first_of_kinds, kind_of, order, tiny, to_try
from fedbench.specs.expand import expand
from tests.commands import study as main

Command = Callable[..., tuple[int, str, str]]
PLUGIN = """import torch
from typing import Literal
from fedbench.base.fields import Strict
from fedbench.indicators import Indicator, register_indicator
from fedbench.methods import Method, MethodSettings, Update, register_method
from fedbench.metrics import Metric, register_metric
from fedbench.models import register_model
from fedbench.render.plots.base import Plot, register_plot

class S(MethodSettings):
    name: Literal["own_rule"] = "own_rule"

@register_method()
class Rule(Method[S]):
    Settings = S
    def aggregate(self, cohort, state, server):
        return Update(cohort.combine(cohort.p), cohort.p)  # method

@register_model("own_net")
def own_net(shape, classes):
    channels, height, width = shape
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(channels * height * width, classes))  # model

class Look(Strict):
    own_look: bool = False

@register_indicator()
class Own(Indicator[Look]):
    name = "own_look"
    Settings = Look
    final_tables = {"own_end": ("a",)}
    def conclude(self, settings, moment):
        return {"own_end": [(1,)]} if settings.own_look else {}  # conclude

def read(trial):
    return trial.summary["final_accuracy"]  # metric

register_metric("own_metric", Metric("own metric", read))

@register_plot
class OwnPlot(Plot):
    '''One bar.'''

    kind: Literal["own_plot"] = "own_plot"

    def draw(self, ax, scene):
        return ax.bar([0], [1])  # plot
"""
STUDY = """title: Mine
shows: That it works.
import: [own_code]
base:
  data.train_size: 400
  data.test_size: 300
  clients.count: 5
  rounds: 300
  model: own_net
  indicators.own_look: true
grid:
  data.alpha: [100, 1]
  method: {A: {method.name: fedavg}, B: {method.name: own_rule}}
seeds: [8, 9]
tables: {accuracy: {rows: [data.alpha], columns: [method], value: own_metric}}
plots: {own: {kind: own_plot}}
scales: {quick: {}}
"""
MISTAKES = {
    "method": "NameError",
    "model": "NameError",
    "conclude": "indicator 'own_look': conclude failed",
    "metric": "metric 'own_metric' cannot be read (NameError",
    "plot": "plot 'own' cannot be drawn (NameError",
}


@pytest.fixture
def own(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forgotten: None
) -> Iterator[Callable[..., Any]]:
    """Run the study with options, and somebody's own code in which one line has a mistake; no Ray is there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ray, "init", None)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(plugins, "_OUTSIDE", set(plugins._OUTSIDE))

    def run(mistake: str, *options: str) -> tuple[int, str, str]:
        lines = PLUGIN.splitlines()
        at = [number for number, line in enumerate(lines) if line.endswith(f"# {mistake}")]
        for number in at:
            lines[number] = lines[number].replace("return ", "return nothing_known or ")
        sys.modules.pop("own_code", None)
        (tmp_path / "own_code.py").write_text("\n".join(lines))
        (tmp_path / "mine.yaml").write_text(STUDY)
        return command(main, "mine.yaml", *options)

    yield run
    sys.modules.pop("own_code", None)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_own_code_ends_the_command_before_ray_has_started_and_names_file_and_line(
    own: Callable[..., Any], tmp_path: Path, mistake: str
) -> None:
    code, _, error = own(mistake)
    line = next(n for n, text in enumerate(PLUGIN.splitlines(), start=1) if text.endswith(f"# {mistake}"))
    assert code == 2
    assert len(error.strip().splitlines()) == 1
    assert MISTAKES[mistake] in error
    assert f"own_code.py, line {line}" in error
    assert "nothing was run (--no-try runs it anyway)" in error
    assert not (tmp_path / "results" / "trials").exists()


def test_dry_run_with_try_runs_one_round_of_each_kind_of_trial(own: Callable[..., Any], tmp_path: Path) -> None:
    code, text, error = own("nothing", "--dry-run", "--try")
    assert (code, error) == (0, "")
    assert "tried 2 kinds of trials for one round on tiny data, and the report: all well (" in text
    assert not (tmp_path / "results").exists()


def test_a_dry_run_alone_runs_nothing(own: Callable[..., Any]) -> None:
    code, text, error = own("method", "--dry-run")
    assert (code, error) == (0, "")
    assert "tried" not in text


@pytest.mark.parametrize("name", ["smoke", "successors", "robustness", "architectures", "corrupted_clients"])
def test_every_kind_of_a_built_in_study_can_be_tried(name: str) -> None:
    study = expand(name, "quick", changes={}, only={}, seeds=None)
    for config in first_of_kinds(study.trials).values():
        small = tiny(config, None)
        assert (small.rounds, small.run.device, small.method.methods) == (1, "cpu", config.method.methods)
        assert small.train_samples <= 20 * small.clients.count or small.train_samples <= 200


def test_only_kinds_with_own_code_of_which_nothing_is_done_are_tried_unless_all_are_asked_for() -> None:
    study = expand("successors", "quick", changes={}, only={}, seeds=None)
    assert to_try(study, study.trials, everything=False) == {}
    kinds = first_of_kinds(study.trials)
    assert to_try(study, study.trials, everything=True) == kinds
    assert len(kinds) == len(study.axes["method"]) - 1, "FedAvg without momentum runs the code of FedAvg"
    assert list(order(study.trials))[: len(kinds)] == list(kinds)
    assert order(study.trials) == study.trials


def first_trials(count: int, *, works: bool = False) -> tuple[FirstTrials, list[list[str]]]:
    """What watches the trials of a study, and the hashes of some of its kinds, each with all of its trials."""
    study = expand("successors", "quick", changes={}, only={}, seeds=None)
    names = {config.hash: str(study.name_of(cell, s)) for cell in study.cells for s, config in cell.trials.items()}
    kinds: dict[Any, list[str]] = {}
    for hash_, config in study.trials.items():
        kinds.setdefault(kind_of(config), []).append(hash_)
    return FirstTrials(study.trials, names, works=works), list(kinds.values())[:count]


def test_a_study_stops_when_the_first_trials_of_three_kinds_fail_alike() -> None:
    watch, (one, two, three) = first_trials(3)
    watch.ended(one[0], "failed", "failed: ValueError: no")
    watch.ended(one[1], "failed", "failed: ValueError: no")
    watch.ended(one[2], "failed", "failed: ValueError: no")
    watch.ended(two[0], "failed", "failed: ValueError: no")
    assert not watch.verdict, "three trials, but of two kinds"
    watch.ended(three[0], "failed", "failed: ValueError: no")
    assert watch.verdict.count("seed 8") == 3
    assert watch.verdict.endswith(": failed: ValueError: no")


@pytest.mark.parametrize("outcome", ["done", "diverged"])
def test_a_study_goes_on_if_any_trial_has_worked(outcome: str) -> None:
    watch, (one, two, three, four) = first_trials(4)
    watch.ended(one[0], outcome, "")
    for kind in (two, three, four):
        watch.ended(kind[0], "failed", "failed: ValueError: no")
    assert not watch.verdict


def test_a_study_of_which_some_trial_was_done_before_goes_on() -> None:
    watch, kinds = first_trials(4, works=True)
    for kind in kinds:
        watch.ended(kind[0], "failed", "failed: ValueError: no")
    assert not watch.verdict


def test_a_study_goes_on_if_kinds_fail_for_different_reasons() -> None:
    watch, kinds = first_trials(5)
    for number, kind in enumerate(kinds):
        watch.ended(kind[0], "failed", f"failed: ValueError: {'no' if number < 2 else number}")
    assert not watch.verdict


@pytest.mark.usefixtures("two_cpus", "forgotten")
def test_a_study_of_which_nothing_can_work_stops_early_unless_it_is_to_keep_going(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hopeless_look.py").write_text(
        "from fedbench.base.fields import Strict\n"
        "from fedbench.indicators import Indicator, register_indicator\n"
        "class S(Strict):\n    hopeless: bool = False\n"
        "@register_indicator(version='1')\n"
        "class Hopeless(Indicator[S]):\n"
        "    name = 'hopeless'\n    Settings = S\n"
        "    def observe(self, settings, moment):\n        raise ArithmeticError('out of luck')\n"
    )
    (tmp_path / "mine.yaml").write_text(
        "title: Mine\nshows: x\nimport: [hopeless_look]\n"
        "base: {data.train_size: 100, data.test_size: 200, clients.count: 2, rounds: 2}\n"
        "grid:\n  method: {A: {method.name: fedavg}, B: {method.name: median}, C: {method.name: fedavgm}}\n"
        f"seeds: {list(range(20))}\ntables: {{accuracy: {{rows: [], columns: [method]}}}}\nscales: {{quick: {{}}}}\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    code, text, error = command(main, "mine.yaml", "--no-try", "--max-concurrent", "1")
    assert code == 1, error
    assert "kinds have failed alike, and none is done: A, seed 0; B, seed 0; C, seed 0: failed: indicator" in text
    assert "hopeless_look.py, line 10, in observe)" in text
    assert "trials are left; go on with:" in error
    assert len(list((tmp_path / "results" / "trials").iterdir())) < 10
    code, text, _ = command(main, "mine.yaml", "--no-try", "--keep-going", "--seeds", "0,1,2")
    assert code == 1
    assert "9 trials: " in text and "stopped:" not in text
