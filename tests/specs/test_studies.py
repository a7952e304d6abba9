from pathlib import Path
from typing import Any

import pytest

from fedbench.base.errors import UserError
from fedbench.specs.expand import expand, load_study, study_files
from tests.methods.helpers import IGNORE_SIZES

MINIMAL = """
title: Mine
shows: Something.
base: {data.train_size: 300, clients.count: 5, rounds: 2, method.name: fixed_gamma}
grid:
  data.alpha: [100, 1]
  method.gamma: [1.0, 0.9]
seeds: [8, 9]
baseline: {method.gamma: 1.0}
tables:
  accuracy: {rows: [data.alpha], columns: [method.gamma], best: row}
scales:
  quick: {}
"""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(MINIMAL)
    return path


def expanded(name: str | Path, scale: str = "quick", **options: Any) -> Any:
    return expand(str(name), scale, **{"changes": {}, "only": {}, "seeds": None, **options})


def test_the_gamma_study_is_the_papers_at_scale_paper() -> None:
    study = expanded("fixed_gamma", "paper")
    assert len(study.cells) == 6 * 3 * 6
    assert len(study.trials) == 324
    config = next(iter(study.cells[0].trials.values()))
    assert (config.data.name, config.model, config.clients.epochs, config.rounds) == ("cifar10", "simple_cnn", 2, 200)
    assert (config.clients.holdout, config.clients.momentum_state, config.clients.count) == (0.3, "keep", 20)
    assert set(next(iter(study.cells)).trials) == {8, 9, 10}


def test_the_gamma_study_at_scale_quick_is_five_gammas_two_alphas_three_seeds() -> None:
    study = expanded("fixed_gamma")
    assert {key: len(labels) for key, labels in study.axes.items()} == {"data.alpha": 2, "model": 1, "method.gamma": 5}
    assert len(study.trials) == 30
    assert {config.data.name for config in study.trials.values()} == {"mnist5k"}


def test_the_papers_numbers_cover_the_whole_table() -> None:
    _, study = load_study("fixed_gamma")
    assert study.reference is not None
    rows = (study.reference.model_extra or {})["accuracy"]
    assert {(row[0], row[1]) for row in rows} == {(a, m) for a in study.grid["data.alpha"] for m in study.grid["model"]}
    assert all(len(row) == 2 + 6 for row in rows)


@pytest.mark.parametrize("name", sorted(study_files()))
def test_every_built_in_study_expands_at_every_scale(name: str) -> None:
    for scale in ("quick", "paper", "tiny"):
        assert expanded(name, scale).trials
    tiny = expanded(name, "tiny")
    assert {len(cell.trials) for cell in tiny.cells} == {1}
    assert {config.rounds for config in tiny.trials.values()} == {2}


def test_changes_cells_and_seeds_can_be_chosen(mine: Path) -> None:
    study = expanded(mine, changes={"rounds": 7}, only={"method.gamma": ["0.9"], "data.alpha": ["100"]}, seeds=[1])
    (config,) = study.trials.values()
    assert (config.rounds, config.data.alpha, config.seed) == (7, 100.0, 1)
    assert study.axes["method.gamma"] == [0.9]


def test_where_it_runs_is_no_change_of_the_study(mine: Path) -> None:
    study = expanded(mine, changes={"run": {"device": "cpu"}})
    assert study.changed == {}
    assert study.trials.keys() == expanded(mine).trials.keys()


def test_a_label_with_a_comma_can_be_picked() -> None:
    study = expanded("gradient_coherence", only={"method": ["LAW, stopped early", "FedAvg,adaptive GWS"]})
    assert study.axes["method"] == ["FedAvg", "LAW, stopped early", "adaptive GWS"]


def test_what_is_picked_may_leave_nothing_for_a_plot() -> None:
    assert len(expanded("adaptive_gws", only={"clients.epochs": ["1", "4"]}).trials) == 24


def test_a_smaller_pick_shares_its_trials_with_the_whole(mine: Path) -> None:
    assert expanded(mine, only={"method.gamma": ["1"]}).trials.keys() < expanded(mine).trials.keys()


WRONG = [
    ("title: Mine", "titel: Mine", "unknown key 'titel'; did you mean 'title'?"),
    ("best: row", "best: cell", "tables.accuracy: best = 'cell': must be one of row, column, data.alpha"),
    ("method.gamma: [1.0, 0.9]", "method.gama: [1.0, 0.9]", "unknown key 'method.gama' of fixed_gamma"),
    ("rows: [data.alpha]", "rows: [data.alpa]", "unknown axis 'data.alpa'; did you mean 'data.alpha'?"),
    ("rows: [data.alpha]", "rows: []", "data.alpha has several values, so it must be among rows or columns"),
    ("data.alpha: [100, 1]", "data.alpha: []", "grid.data.alpha is empty"),
    ("data.alpha: [100, 1]", "data.alpha: [100, -1]", "at data.alpha=-1"),
    ("quick: {}", "quik: {}", "scales"),
    ("seeds: [8, 9]", "seeds: []", "seeds"),
    ("seeds: [8, 9]", 'seeds: ["8", 9.0]', "seeds.1 = '8': must be a whole number"),
    ("grid:", "grid:\n  norm_w: {a: {}}", "a column of the results is called so"),
    (
        "clients.count: 5",
        "data.alpha: 5",
        "base.data.alpha: every point of the axis 'data.alpha' sets it",
    ),
    ("quick: {}", "quick: {base: {method.gamma: 1.0}}", "scales.quick.base.method.gamma: every point of the axis"),
    ("rows: [data.alpha]", "rows: [data.alpha, method.gamma]", "method.gamma stands twice in rows and columns"),
    (
        "scales:",
        "plots: {a: {kind: worst, x: method.gamma, y: data.alpha, over: method.gamma}}\nscales:",
        "plots.a: method.gamma stands for two things; name another axis for one of them",
    ),
    (
        "scales:",
        "claims: [{says: x, check: beats, point: {method.gamma: 1.0}}]\nscales:",
        "claims.1: compares 1 with itself",
    ),
    (
        "scales:",
        "claims: [{says: x, check: beats, point: {method.gamma: 0.9}, against: {method.gamma: 0.9}}]\nscales:",
        "claims.1: compares 0.9 with itself",
    ),
    (
        "quick: {}",
        "quick: {}\n  paper: {grid: {clients.epochs: [1, 2]}}\nplots: {a: {panels: [clients.epochs]}}",
        "plots.a: scale quick has no axis 'clients.epochs'",
    ),
    ("title: Mine", "title: [", "not valid YAML"),
    ("title: Mine", "5: Mine", "5 is not a key"),
    ("  data.alpha: [100, 1]", "  seed: [1, 2]", "name seeds under seeds"),
    ("clients.count: 5", "seed: 5", "name seeds under seeds"),
    ("grid:", "grid:\n  gamma: {a: {}}", "a column of the results is called so"),
    ("  accuracy: {", "  a/b: {", "becomes a file's name"),
    ("best: row", "value: []", "tables.accuracy.value"),
    ("best: row", "kind: table", "unknown key 'tables.accuracy.kind'"),
    ("scales:", "plots: {a: {y: test_acuracy}}\nscales:", "did you mean 'test_accuracy'?"),
    ("scales:", "plots: {a: {kind: [x]}}\nscales:", "plots.a.kind: unknown kind"),
    ("scales:", "plots: {a: {5: 6}}\nscales:", "is not a key"),
    ("scales:", "plots: {a: {kind: partition}}\nscales:", "has several values, so it must be among panels"),
    ("scales:", "marks: {data.alfa: W}\nscales:", "did you mean 'data.alpha'?"),
    ("scales:", 'marks: {data.alpha: {"2": W}}\nscales:', "unknown value '2'"),
    ("scales:", "marks: {method.lrr: I}\nscales:", "did you mean 'method.lr'?"),
    ("scales:", "marks: {data.alpha: [{mark: X}]}\nscales:", "marks.data.alpha.1.mark = 'X': must be one of S, I, W"),
    ("scales:", "marks: {rounds: [{mark: W, tables: [b]}]}\nscales:", "marks.rounds: unknown table 'b'"),
    ("scales:", "marks: {rounds: [{mark: W, values: [rr]}]}\nscales:", "unknown metric 'rr'"),
    ("scales:", "marks: {rounds: [{mark: W, where: {data.alpha: [3]}}]}\nscales:", "marks.rounds: unknown value of"),
    ("scales:", "marks: {rounds: [{mark: W, where: {data.alfa: [1]}}]}\nscales:", "marks.rounds: unknown axis"),
    ("scales:", "reference: {tolerance: 1, accuracy: 5}\nscales:", "must be a list of rows"),
    ("scales:", "reference: {tolerance: 1, accuracy: [[100, 1]]}\nscales:", "has 2 entries"),
    ("scales:", "reference: {tolerance: 1, accuracy: [[100, x, 1]]}\nscales:", "must be a number or null"),
    ("scales:", "reference: {tolerance: 1, accuracy: [[7, 1, 1]]}\nscales:", "unknown value of data.alpha"),
    ("scales:", "reference: {tolerance: {acc: 1}, accuracy: [[100, 1, 1]]}\nscales:", "tolerance"),
    (
        "scales:",
        "reference: {tolerance: 1, not_comparable: [{where: {data.alfa: [1]}, why: x}]}\nscales:",
        "not_comparable: unknown axis 'data.alfa'",
    ),
    (
        "scales:",
        "claims: [{says: x, check: comparable, margin: 1, point: {data.alpha: 1}}]\nscales:",
        "has nothing to compare with",
    ),
    (
        "scales:",
        "claims: [{says: x, check: beats, point: {method.gamma: 0.9}, against: {data.alpha: 1}}]\nscales:",
        "against names data.alpha, so point must name it too",
    ),
]


@pytest.mark.parametrize(("right", "wrong", "message"), WRONG)
def test_a_wrong_study_file_is_one_line_that_names_it(mine: Path, right: str, wrong: str, message: str) -> None:
    mine.write_text(MINIMAL.replace(right, wrong))
    with pytest.raises(UserError) as raised:
        expanded(mine)
    assert message in str(raised.value)
    assert "mine" in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"only": {"data.alfa": ["1"]}}, "unknown axis 'data.alfa'; did you mean 'data.alpha'?"),
        ({"only": {"data.alpha": ["7"]}}, "unknown value '7'"),
        ({"scale": "paper"}, "has no scale 'paper'; it has quick"),
        ({"changes": {"clients": {"cuont": 3}}}, "did you mean 'clients.count'?"),
        ({"changes": {"data": {"alpha": 3}}}, "every point of the axis 'data.alpha' sets its own"),
        ({"changes": {"data": 5}}, "data is a group of settings"),
        ({"changes": {"seed": 5}}, "use --seeds"),
        ({"seeds": [8, -1]}, "seed = -1: must be a whole number at least 0"),
    ],
)
def test_wrong_options_are_one_line(mine: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as raised:
        expanded(mine, **options)
    assert message in str(raised.value)


def test_an_unknown_study_gets_the_nearest_name() -> None:
    with pytest.raises(UserError, match="did you mean 'fixed_gamma'"):
        expanded("fixed_gama")


PLUGIN = """
from fedbench.metrics import Metric, register_metric
register_metric("of_%s", Metric("of a plugin", lambda trial: 1.0))
"""


@pytest.mark.parametrize("written", ["%s.py", "%s", "below/%s.py"])
def test_a_study_file_names_the_modules_that_it_needs_from_its_own_folder(mine: Path, written: str) -> None:
    name = f"study_plugin_{len(written)}"
    file = mine.parent / (written % name if written.endswith(".py") else f"{name}.py")
    file.parent.mkdir(exist_ok=True)
    file.write_text(PLUGIN % name)
    text = MINIMAL.replace("best: row", f"best: row, value: of_{name}")
    mine.write_text(f"import: [{written % name}]\n{text}")
    assert expanded(mine).study.import_ == [str(file)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("import: [nowhere.py]", "nowhere.py: is not there"),
        ("import: [no_such_module_at_all]", "cannot be imported (ModuleNotFoundError"),
        ("import: mine.py", "import = 'mine.py': must be a list"),
        ("import: [5]", "import.1 = 5: must be a word"),
        ("imports: [x]", "unknown key 'imports'; did you mean 'import'?"),
    ],
)
def test_a_wrong_import_is_one_line(mine: Path, line: str, message: str) -> None:
    mine.write_text(f"{line}\n{MINIMAL}")
    with pytest.raises(UserError) as raised:
        expanded(mine)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_trial_is_called_by_what_differs(mine: Path) -> None:
    study = expanded("fixed_gamma")
    assert str(study.name_of(study.cells[0], 8)) == "alpha 100, gamma 1, seed 8"  # there is one model only


UNWEIGHTED = {*IGNORE_SIZES, "feddisco"}  # which starts from data sizes, but ends near uniform weights


@pytest.mark.parametrize("name", list(study_files()))
def test_where_rules_ignore_data_sizes_there_is_a_row_of_uniform_weights(name: str) -> None:
    for scale in load_study(name)[1].scales:
        methods = [config.method for config in expanded(name, scale, seeds=[8]).trials.values()]
        uniform = any(method.name == "fedavg" and method.weights == "uniform" for method in methods)
        assert uniform == bool(UNWEIGHTED & {method.name for method in methods})


@pytest.mark.parametrize("scale", ["quick", "paper"])
@pytest.mark.parametrize("name", ["aggregators", "successors", "large_cohorts"])
def test_rules_for_plain_sgd_have_a_row_without_momentum_beside_fedavg_without(name: str, scale: str) -> None:
    study = expanded(name, scale)
    plain = {config.method.name for config in study.trials.values() if config.clients.momentum == 0}
    assert plain == {"fedavg", "scaffold", "fedexp"}
    assert "rows without momentum are to be read against FedAvg without momentum" in study.study.shows


@pytest.mark.parametrize("text", ["1.0", "1", "1e0", "01"])
def test_only_takes_a_number_in_every_form(mine: Path, text: str) -> None:
    assert expanded(mine, only={"method.gamma": [text]}).axes["method.gamma"] == [1.0]
    assert expanded(mine, only={"data.alpha": [f"100,{text}"]}).axes["data.alpha"] == [100, 1]
