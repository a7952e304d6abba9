"""Wrong input of every kind is one line, exit code 2, no traceback, and nothing is written."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import ray

from fedbench.base import plugins
from tests import commands

Command = Callable[..., tuple[int, str, str]]
COMMANDS: dict[str, Any] = {name: getattr(commands, name) for name in commands.__all__}
PUBLISHED = Path(__file__).parents[1] / "published"
OPTIONS: list[tuple[str, str]] = [
    ("fedbench", "name a command: study, report, search"),
    ("study smoke --seeds 8,8", "--seeds 8,8: 8 stands twice; name it once"),
    ("study smoke --seeds 8,,9", "expected whole numbers, such as 8,9,10"),
    ("study smoke --out=", "argument --out: name a folder"),
    (f"study smoke --out {'x' * 300}", "cannot be written (File name too long)"),
    (f"search fixed_gamma --out {'x' * 300} --dry-run", "cannot be written (File name too long)"),
    ("study smoke --address=", "argument --address: name a cluster, HOST:PORT or auto"),
    ("study smoke --address localhost:1", "--address localhost:1: no Ray cluster there"),
    ("study smoke --address nonsense", "expected HOST:PORT, such as 10.0.0.5:6379, or auto"),
    ("study smoke --cpus-per-trial 4096", "--cpus-per-trial 4096: this machine has"),
    ("study smoke --cpus-per-trial inf", "; ask for less"),
    ("study smoke --gpus-per-trial 99", "--gpus-per-trial 99: this machine has"),
    ("study smoke --gpus-per-trial 99 --dry-run", "; ask for less"),
    ("study smoke --gpus-per-trial many", "'many': expected a share, such as 0.25, or auto"),
    ("study smoke --resources A100", "'A100': expected NAME=N, N whole or below 1"),
    ("study smoke --resources fast=1.5", "expected NAME=N, N whole or below 1"),
    ("study smoke --resources GPU=1", "'GPU=1': use --gpus-per-trial"),
    ("study smoke --resources fast=1", "--resources fast=1: this machine has 0"),
    ("speed --models mpl", "did you mean 'mlp'?"),
    ("speed --models mlp,mlp", "mlp stands twice; name it once"),
    ("speed --models=,", "name at least one model"),
    ("speed --seconds 0", "--seconds 0: must be from 1 to 86400"),
    (f"speed --out {'x' * 300}", "cannot be written (File name too long)"),
    ("study smoke --set run.device=cuda:99", "run.device = cuda:99: "),
    ("study smoke --set data.name=cifar10 --data-dir .", "data set 'cifar10' is not in ., "),
    *(
        (
            f"{line} --data-dir nowhere",
            "--data-dir nowhere: does not exist; name the folder that contains the data sets",
        )
        for line in (
            "study smoke",
            "study smoke --dry-run",
            "trial",
            "search fixed_gamma",
            "search fixed_gamma --dry-run",
            f"verify {PUBLISHED}",
            "data check mnist5k",
        )
    ),
    ("study smoke --gpus-per-trial 1.5", "'1.5': expected a share below 1, such as 0.25, a whole number, or auto"),
    ("study smoke --gpus-per-trial inf", "'inf': expected a share below 1"),
    ("study smoke --fre --dry-run", "unrecognized arguments: --fre"),
    ("trial --resum --out x", "unrecognized arguments: --resum"),
    ("report smoke --compare=", "argument --compare: name a results folder"),
    ("study smoke --track tensorbord", "did you mean 'tensorboard'?"),
    ("study smoke --only data.alpha=1.5", "--only data.alpha=1.5: unknown value '1.5'; did you mean '1'?"),
    ("study smoke --only data.alpha=nan", "--only data.alpha=nan: unknown value 'nan'; Known: 1, 100"),
    ("study smoke --only data.alpha=7", "--only data.alpha=7: unknown value '7'; Known: 1, 100"),
    ("study nowhere.yaml", "nowhere.yaml: cannot be read (No such file or directory)"),
    ("search fixed_gamma --storage=", "argument --storage: name a storage"),
    ("search fixed_gamma --gpus-per-trial 99", "--gpus-per-trial 99: this machine has"),
    ("search fixed_gamma --address localhost:1", "--address localhost:1: no Ray cluster there"),
    ("search fixed_gamma --trials 1000000000", "(trials x suggestion_seeds); must be at most 20000"),
    (f"search fixed_gamma --seeds {','.join(map(str, range(201)))}", "fixed_gamma: 201 seeds; must be at most 200"),
    (
        f"study smoke --seeds {','.join(map(str, range(30_000)))}",
        "trials; must be at most 20000: pick some",
    ),
    ("search fixed_gamma --trials 0", "--trials 0: must be at least 1"),
    ("report smoke", "holds no results; run python -m fedbench.study smoke first"),
    ("publish smoke", "--out results: holds no results; run python -m fedbench.study smoke first"),
    ("publish smoke --seeds 9", "unrecognized arguments: --seeds 9"),
    ("verify nowhere", "nowhere: holds no results; name a folder with trials, such as published"),
    ("verify nowhere --trials 0", "--trials 0: must be at least 1"),
    ("verify --seed first", "argument --seed: invalid int value: 'first'"),
    ("trial --config=", "argument --config: name a file"),
    ("trial --set data.alpha=1e99", "data.alpha = 1e+99: must be a number above 0 and at most 1e+30"),
    ("trial --set method.name=krum --set method.f=0.5", "method.f = 0.5: must be a number at least 0 and below 0.5"),
    ("trial --set method.name=median --set method.pre=nmm", "must be one of none, nnm (did you mean 'nnm'?)"),
    ("trial --set method.name=fedlws --set method.inner=fedavg", "must be settings, such as {name: fedavg}"),
    ("trial --set clients.corruption=flip --set clients.corruption_scale=2", "clients.corruption=flip has no scale"),
    ("data check mnist5", "unknown data set 'mnist5'; did you mean 'mnist5k'?"),
    ("clean --out nowhere", "--out nowhere: is not there; name a folder with results"),
    ("new method none", "means something else in Python already; choose one such as my_none"),
    (f"new study {'m' * 300}", "too long for a file; must have at most 247 letters"),
]


@pytest.fixture
def refused(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Run a command line in an empty folder, or one with files of the test's; the one line that it ends with."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ray, "init", None)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(plugins, "_OUTSIDE", set(plugins._OUTSIDE))

    def run(line: str) -> str:
        before = everything(tmp_path)
        name, *arguments = line.split()
        code, _, error = command(COMMANDS[name], *arguments)
        assert (code, len(error.strip().splitlines())) == (2, 1), error
        assert error.startswith("error: ")
        assert everything(tmp_path) == before
        return error

    return run


def everything(folder: Path) -> list[Path]:
    """All files and folders but what Python itself leaves behind."""
    return sorted(path for path in folder.rglob("*") if "__pycache__" not in path.parts)


@pytest.mark.parametrize(("line", "message"), OPTIONS)
def test_a_wrong_option_is_one_line_and_nothing_is_written(
    refused: Callable[[str], str], line: str, message: str
) -> None:
    assert message in refused(line)


STUDY = """title: Mine
shows: That it works.
base: {data.train_size: 400, data.test_size: 300, clients.count: 5, rounds: 3}
grid:
  data.alpha: [100, 1]
  method: {A: {method.name: fedavg}, B: {method.name: fixed_gamma}}
seeds: [8, 9]
baseline: {method: A}
tables: {accuracy: {rows: [data.alpha], columns: [method], best: row}}
plots: {curves: {y: test_accuracy, colour: method, panels: [data.alpha]}}
claims: [{says: B is better, check: beats, point: {method: B}}]
scales: {quick: {}}
"""
ALPHAS = "  data.alpha: [100, 1]\n"
CURVES = "{y: test_accuracy, colour: method, panels: [data.alpha]}"
BEATS = "check: beats, point: {method: B}"
SHOWN = "baseline: {method: A}\ntables: {accuracy: {rows: [data.alpha], columns: [method], "
STUDIES: list[tuple[str, str, str]] = [
    ("seeds: [8, 9]\n", "", "mine.yaml: seeds is missing; write seeds: [8, 9, 10]"),
    (
        STUDY[STUDY.index("seeds") :],
        "",
        "mine.yaml: seeds, tables, scales are missing; write seeds: [8, 9, 10], tables",
    ),
    ("[100, 1]", "0.1", "grid.data.alpha = 0.1: must be a list, each of it anything or keys and values; write [0.1]"),
    ("[8, 9]", "8", "seeds = 8: must be a list that is not empty, each of it a whole number at least 0 and at most"),
    ("rows: [data.alpha]", "rows: data.alpha", "rows = 'data.alpha': must be a list, each of it a word; write [data"),
    ("[8, 9]", "[8, 8]", "mine.yaml: seeds: 8 stands twice; name it once"),
    ("[100, 1]", "[1, 1.0]", "mine: grid.data.alpha: 1 stands twice; name it once"),
    ("fixed_gamma", "fixed_gamma, data.alpha: 3", "grid.method: sets data.alpha, as the axis 'data.alpha' does"),
    ("fixed_gamma", "fixed_gamma, seed: 3", "mine: grid.method: sets seed; name seeds under seeds"),
    ("base: {", "base: {3: 4, ", "mine.yaml: base: 3 is not a key; must be a word"),
    ("base: {", "base: &a {data: *a, ", "mine.yaml: an alias refers to itself"),
    ("{method: A}", "{methd: A}", "mine: baseline: unknown axis 'methd'; did you mean 'method'?"),
    ("best: row", "value: rounds_to_200", "unknown metric 'rounds_to_200'; did you mean 'rounds_to_80'?"),
    ("best: row", "costs: server", "tables.accuracy.costs = 'server': must be true or false"),
    (SHOWN, SHOWN[22:] + "show: difference, ", "tables.accuracy: show = 'difference' needs a baseline"),
    ("tables: {accuracy: ", "tables: {}\nskip: [] # ", "tables = {}: must be one or more keys and values"),
    (CURVES, "{kind: worst, x: data.alpha, y: method, over: method}", "plots.curves: method stands for two things"),
    (
        CURVES,
        "{kind: worst, x: method, y: a, over: b, value: gamma}",
        "value = 'gamma': neither high nor low",
    ),
    (CURVES, "curves", "plots.curves = 'curves': must be settings, such as {kind: curves}"),
    (BEATS, "point: {method: B}", "claims.1.check: is missing; must be one of beats, comparable"),
    (BEATS, "check: within", "claims.1: needs a bound; give it low, or high, or both"),
    (BEATS, "check: within, low: 3, high: 1", "claims.1: low = 3: must be below high, 1"),
    (BEATS, f"{BEATS}, where: {{data.alpha: []}}", "claims.1.where.data.alpha is empty; name labels"),
    (BEATS, f"{BEATS}, source: 3", "claims.1.source = 3: must be a word or null"),
    ("quick", "fast", "mine.yaml: scales: 'fast' is not a key; must be one of quick, desk, paper, tiny"),
    ("seeds", "skip: [{method: [A, B]}]\nseeds", "mine: nothing is left to run: the study skips everything"),
    (
        "Mine",
        "&a [x, x, x]\nx: &b [*a, *a, *a]\ny: [" + "*b, " * 10_000 + "]",
        "mine.yaml: its aliases stand for more than",
    ),
    ("Mine", '!!int ""', "mine.yaml: not valid YAML (string index out of range)"),
    ("Mine", "x" * 300_000, "mine.yaml: cannot be read (More than 262144 bytes)"),
    ("title", '"\\e[31m"', r"mine.yaml: unknown key '\x1b[31m'"),
    ("seeds", "import: [not_there]\nseeds", "mine.yaml: import not_there: cannot be imported"),
]


@pytest.mark.parametrize(("old", "new", "message"), STUDIES)
def test_a_mistake_in_a_study_file_is_one_line(
    refused: Callable[[str], str], tmp_path: Path, old: str, new: str, message: str
) -> None:
    assert old in STUDY
    (tmp_path / "mine.yaml").write_text(STUDY.replace(old, new, 1))
    assert message in refused("study mine.yaml")


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: os.symlink("/dev/zero", path)])
def test_a_study_file_without_an_end_is_not_waited_for(
    refused: Callable[[str], str], tmp_path: Path, make: Callable[[Path], None]
) -> None:
    make(tmp_path / "mine.yaml")
    assert "mine.yaml: cannot be read (Not a regular file)" in refused("study mine.yaml")


@pytest.mark.parametrize(
    ("left", "message"), [("", "scale paper has no axis 'data.alpha'; give it one there"), (ALPHAS, "a number or null")]
)
def test_numbers_of_the_paper_are_such_and_have_a_place(
    refused: Callable[[str], str], tmp_path: Path, left: str, message: str
) -> None:
    text = STUDY.replace(ALPHAS, left)
    scales = f"scales: {{quick: {{grid: {{{ALPHAS.strip()}}}}}}}"
    reference = f"reference: {{tolerance: 1, accuracy: [[1, 1, 1{'0' * 400}]]}}"
    (tmp_path / "mine.yaml").write_text(text.replace("scales: {quick: {}}", f"{scales}\n{reference}"))
    assert message in refused("study mine.yaml")


def test_an_anchor_may_be_used_again(command: Command, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("clients: {count: &n 5, epochs: *n}\nproxy: {size: &n 10, pool: *n}\n")
    assert command(commands.trial, "--config", str(tmp_path / "c.yaml"), "--show")[::2] == (0, "")


def test_what_was_typed_stays_on_one_line(command: Command) -> None:
    code, _, error = command(commands.trial, "a\nb\x1b", "x" * 10_000)
    assert (code, len(error.splitlines())) == (2, 1)
    assert r"unrecognized arguments: a b\x1b xxx" in error
    assert len(error) < 3000


SPACE = """title: Mine
tunes: gamma
base: {data.train_size: 400, data.test_size: 300, clients.count: 5, rounds: 3}
methods: {A: {method.name: fixed_gamma}, B: {method.name: fedprox}}
parameters: {clients.lr: {loguniform: [1e-3, 0.1]}}
trials: 3
suggestion_seeds: [1]
seeds: [8]
scales: {quick: {}}
"""
RANGE = "{loguniform: [1e-3, 0.1]}"
SPACES: list[tuple[str, str, str]] = [
    (
        "suggestion_seeds: [1]\nseeds: [8]\n",
        "",
        "suggestion_seeds, seeds are missing; write suggestion_seeds: [1, 2, 3]",
    ),
    ("[8]", "[8, 8]", "mine.yaml: seeds: 8 stands twice; name it once"),
    ("[1]", "[1, 1]", "mine.yaml: suggestion_seeds: 1 stands twice; name it once"),
    ("base: {", "base: {seed: 3, ", "mine: base.seed: name seeds under seeds, and suggestion_seeds"),
    ("fedprox", "fedprox, seed: 3", "mine: methods.B.seed: name seeds under seeds"),
    (f"clients.lr: {RANGE}", "seed: {int: [1, 9]}", "a search cannot choose it; name seeds under seeds"),
    (RANGE, "{choice: []}", "clients.lr.choice = []: must be a list of values that is not empty"),
    (RANGE, "{choice: [0.1, 0.1]}", "0.1 stands twice; name it once"),
    (RANGE, "0.1", "clients.lr = 0.1: must be settings, such as {loguniform: [0.01, 1]}"),
    ("quick: {}", "quick: {methods: [A, A]}", "scales.quick.methods: A stands twice; name it once"),
    ("quick: {}", "quick: {methods: [C]}", "scales.quick.methods: C: unknown method 'C'; Known: A, B"),
]


@pytest.mark.parametrize(("old", "new", "message"), SPACES)
def test_a_mistake_in_a_space_file_is_one_line(
    refused: Callable[[str], str], tmp_path: Path, old: str, new: str, message: str
) -> None:
    assert old in SPACE
    (tmp_path / "mine.yaml").write_text(SPACE.replace(old, new, 1))
    assert message in refused("search mine.yaml")


def test_a_name_inside_a_method_must_be_a_word(refused: Callable[[str], str], tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("method: {name: fedlws, inner: {name: {a: 1}}}")
    assert "method.inner.name: unknown method" in refused("trial --config c.yaml")


def test_a_mistake_in_a_config_file_names_the_file(refused: Callable[[str], str], tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("round: 3\n")
    assert "c.yaml: unknown key 'round'; did you mean 'rounds'?" in refused("trial --config c.yaml")


METHOD = """import torch
from typing import Literal
from fedbench.methods import Correction, Method, MethodSettings, Update, register_method
from fedbench.methods.base import PathPoint

class S(MethodSettings):
    name: Literal["wrong_rule"] = "wrong_rule"
    # settings

@register_method()
class Wrong(Method[S]):
    Settings = S
    # hooks

    def aggregate(self, cohort, state, server):
        return Update(cohort.combine(cohort.p), cohort.p)
"""
MEAN, HOOKS, SETTINGS = "Update(cohort.combine(cohort.p), cohort.p)", "# hooks", "# settings"
METHODS: dict[str, tuple[str, str, str]] = {
    "brackets": ("register_method()", "register_method", "Wrong: write @register_method() before it"),
    "subclass": ("Wrong(Method[S])", "Wrong", "Wrong: a method must be a subclass of Method"),
    "settings": ("    Settings = S\n", "", "Wrong: a method must have Settings, a subclass of MethodSettings"),
    "no_rule": ("def aggregate", "def agregate", "must have a rule aggregate(self, cohort, state, server)"),
    "short_rule": ("(self, cohort, state, server)", "(self, cohort)", "its rule must be aggregate(self, cohort, state"),
    "metric_list": (HOOKS, "metrics = ['x']", "metrics must be labels by name"),
    "metric_taken": (HOOKS, "metrics = {'gamma': 'x'}", "column 'gamma': the name is used by two"),
    "metric_word": (MEAN, f"{MEAN[:-1]}, metrics={{'x': 'a'}})", "Wrong.aggregate: metrics must be numbers by name"),
    "path": (MEAN, f"{MEAN[:-1]}, path=(1, 2))", "Wrong.aggregate: path must be of PathPoints"),
    "raises": (MEAN, "1 / 0", "own_raises.py, line 16, in aggregate: ZeroDivisionError: division by zero"),
    "stops": (MEAN, "next(iter([]))", "own_stops.py, line 16, in aggregate: RuntimeError: generator raised StopIter"),
    "exits": (MEAN, "exit(0)", "own_exits.py, line 16, in aggregate: SystemExit: 0"),
    "base": ("import torch", "raise GeneratorExit", "cannot be imported (GeneratorExit:; own_base.py, line 1)"),
    "mute": (
        HOOKS,
        "class E(Exception): __str__ = None\n    raise E",
        "cannot be imported (E: its message cannot be shown;",
    ),
    "unasked": (MEAN, "cohort.losses", "line 16, in aggregate: RuntimeError: a rule used the clients' loss without"),
    "start": (HOOKS, "def start(self, n, w): pass", "Wrong.start: state must be tensors by name, is a NoneType"),
    "tensor": (HOOKS, "def correction(self, s, c, w): return w", "Wrong.correction: must return a Correction or None"),
    "linear": (HOOKS, "def correction(self, s, c, w): return Correction(w[:3])", "is float32 [3]"),
    "report": (SETTINGS, "reports = ('losses',)", "reports = 'losses': must be one of loss, class_counts, gradient"),
    "proxy": (SETTINGS, "proxy_use = 'all'", "proxy_use = 'all': must be one of none, unlabelled, labelled"),
    "import": (
        "import torch",
        "1 / 0",
        "cannot be imported (ZeroDivisionError: division by zero; own_import.py, line 1)",
    ),
}
SMALL = "--set rounds=1 --set data.train_size=100 --set data.test_size=100 --set clients.count=3 --set proxy.size=10"


@pytest.mark.usefixtures("forgotten")
@pytest.mark.parametrize("case", METHODS)
def test_a_method_that_breaks_a_rule_is_one_line(refused: Callable[[str], str], tmp_path: Path, case: str) -> None:
    old, new, message = METHODS[case]
    assert old in METHOD
    text = METHOD.replace(old, new, 1)
    if old == SETTINGS:
        text = text.replace(new, f"@property\n    def {new.split(' = ')[0]}(self): return {new.split(' = ')[1]}")
    (tmp_path / f"own_{case}.py").write_text(text)
    assert message in refused(f"trial --import own_{case} {SMALL} --set method.name=wrong_rule --set data.alpha=100")


PARTITION = """import numpy as np
from typing import Literal
from fedbench.data.partitions import DataSettings, Partition, register_partition

class S(DataSettings):
    partition: Literal["wrong_pieces"] = "wrong_pieces"

@register_partition()
class Wrong(Partition[S]):
    Settings = S
    def draw(self, settings, clients, samples, labels, rng):
        return SHARDS
"""
SHARDS: dict[str, tuple[str, str]] = {
    "nothing": ("None", "a list of 3 arrays, one for each client, gave a NoneType"),
    "too_few": ("[samples]", "a list of 3 arrays, one for each client, gave 1"),
    "floats": ("[samples / 2] * clients", "a one-dimensional array of whole numbers, gave float64"),
    "others": ("[samples + 99999] * clients", "each client some of the given samples, gave others"),
    "raises": ("1 / 0", "line 12, in draw: ZeroDivisionError: division by zero"),
}


@pytest.mark.usefixtures("forgotten")
@pytest.mark.parametrize("case", SHARDS)
def test_a_partition_that_deals_out_nonsense_is_one_line(
    refused: Callable[[str], str], tmp_path: Path, case: str
) -> None:
    shards, message = SHARDS[case]
    (tmp_path / f"own_pieces_{case}.py").write_text(PARTITION.replace("SHARDS", shards))
    assert message in refused(f"trial --import own_pieces_{case} {SMALL} --set data.partition=wrong_pieces")


INDICATOR = """from fedbench.base.fields import Strict
from fedbench.indicators import Column, Indicator, Observation, register_indicator

class S(Strict):
    wrong_look: bool = False

@register_indicator()
class Wrong(Indicator[S]):
    name = "wrong_look"
    Settings = S
    tables = {"wrong_rows": ("a",)}
    def columns(self):
        return (Column("wrong_number", "label"),)
    def observe(self, settings, moment):
        return Observation({"wrong_number": 1.0})
"""
SEEN, COLUMN = 'Observation({"wrong_number": 1.0})', 'Column("wrong_number", "label")'
INDICATORS: dict[str, tuple[str, str, str]] = {
    "nothing": (SEEN, "None", "observe must return an Observation, returned NoneType"),
    "a_word": (SEEN, "Observation({'wrong_number': 'x'})", "observe gave a str for wrong_number; must be a number"),
    "a_row": (SEEN, "Observation(tables={'wrong_rows': [(1, 2)]})", "gave 2 values for a row of wrong_rows; must be 1"),
    "unannounced": (SEEN, "Observation({'other': 1.0})", "records the column 'other' without declaring it"),
    "raises": (SEEN, "1 / 0", "indicator 'wrong_look': observe failed (ZeroDivisionError"),
    "raises_at": (SEEN, "1 / 0", "division by zero; own_look_raises_at.py, line 15, in observe)"),
    "a_number": (SEEN, "Observation(1.0)", "observe must give numbers by column, gave float"),
    "words": (COLUMN, "'wrong_number'", "columns must give Columns, such as Column('name', 'label')"),
    "taken": (COLUMN, "Column('gamma', 'x')", "column 'gamma': the name is used by two"),
    "no_default": ("bool = False", "bool", "its setting 'wrong_look' needs a default that turns it off"),
}


@pytest.mark.usefixtures("forgotten")
@pytest.mark.parametrize("case", INDICATORS)
def test_an_indicator_that_breaks_a_rule_is_one_line(refused: Callable[[str], str], tmp_path: Path, case: str) -> None:
    old, new, message = INDICATORS[case]
    (tmp_path / f"own_look_{case}.py").write_text(INDICATOR.replace(old, new))
    line = f"trial --import own_look_{case} {SMALL} --set indicators.wrong_look=true --set data.alpha=100"
    assert message in refused(line)


CONCLUDE = """    def conclude(self, settings, moment):
        return RESULT
    final_tables = {"wrong_end": ("a", "b")}
"""
CONCLUSIONS: dict[str, tuple[str, str]] = {
    "observation": ("Observation({'wrong_number': 1.0})", "conclude must give rows by table"),
    "number": ("{'wrong_end': 1.0}", "conclude gave float for wrong_end; must be a list of rows"),
    "flat": ("{'wrong_end': [1, 2]}", "conclude gave int for a row of wrong_end; must be a tuple of a, b"),
    "short": ("{'wrong_end': [(1,)]}", "conclude gave 1 values for a row of wrong_end; must be 2 (a, b)"),
    "raises": ("1 / 0", "conclude failed (ZeroDivisionError: division by zero; own_end_raises"),
}


@pytest.mark.usefixtures("forgotten")
@pytest.mark.parametrize("kept", ["", "--out kept"])
@pytest.mark.parametrize("case", CONCLUSIONS)
def test_a_conclude_that_breaks_a_rule_is_one_line_with_and_without_out(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str, kept: str
) -> None:
    result, message = CONCLUSIONS[case]
    module = f"own_end_{case}{len(kept)}"
    (tmp_path / f"{module}.py").write_text(INDICATOR + CONCLUDE.replace("RESULT", result))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(plugins, "_OUTSIDE", set(plugins._OUTSIDE))
    line = f"--import {module} {SMALL} --set indicators.wrong_look=true --set data.alpha=100 {kept}"
    code, _, error = command(commands.trial, *line.split())
    assert (code, len(error.strip().splitlines())) == (2, 1), error
    assert f"error: indicator 'wrong_look': {message}" in error
