"""Search spaces: what ships is sound, and what is wrong is one line before anything runs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import ray

from fedbench import ConfigError, UserError
from fedbench.methods import METHODS
from fedbench.specs.parameters import MISSING, corners, look_up
from fedbench.specs.space import ScaledSpace, expand_space, space_files
from tests.commands import search as main
from tests.methods.helpers import BOUNDS

Command = Callable[..., tuple[int, str, str]]

GOOD = """
title: Mine
tunes: something
base: {data.train_size: 300, data.test_size: 200, clients.count: 5, rounds: 3}
parameters:
  clients.lr: {loguniform: [0.01, 0.1]}
trials: 4
suggestion_seeds: [1, 2]
seeds: [8, 9]
scales: {quick: {}}
"""


def space(folder: Path, text: str = GOOD, **options: Any) -> ScaledSpace:
    path = folder / "mine.yaml"
    path.write_text(text)
    return expand_space(str(path), options.pop("scale", "quick"), changes=options.pop("changes", {}), **options)


def test_all_spaces_are_there() -> None:
    wanted = {"fedlaw", "fedprox", "feddyn", "fedadam", "feddf", "fedbe", "server_ft", "fixed_gamma", "client", "fair"}
    wanted |= {"robust", "gains_that_survive"}
    assert set(space_files()) == wanted


def test_seeds_of_the_command_line_may_not_be_those_that_settings_were_chosen_by(tmp_path: Path) -> None:
    assert space(tmp_path, seeds=[3, 4]).seeds == [3, 4]
    with pytest.raises(ConfigError, match=r"mine: seeds = 1, 2: suggestion_seeds has the same"):
        space(tmp_path, seeds=[1, 2, 3])


@pytest.mark.parametrize(
    ("rounds", "score", "scored"),
    [(3, "", 3), (16, "", 3), (50, "", 5), (200, "", 10), (16, "score: {rounds: 10}\n", 10)],
)
def test_the_fingerprint_of_a_search_follows_its_score(tmp_path: Path, rounds: int, score: str, scored: int) -> None:
    """Those that have no such entry are of searches that were scored over ten rounds, whatever their length."""
    found = space(tmp_path, GOOD.replace("rounds: 3", f"rounds: {rounds}") + score)
    assert found.score_rounds(found.arms[0]) == scored
    assert found.fingerprint(found.arms[0]).get("score_rounds", 10) == scored


@pytest.mark.parametrize("scale", ["quick", "paper", "tiny"])
@pytest.mark.parametrize("name", space_files())
def test_every_parameter_of_a_shipped_space_is_a_config_key_at_every_scale(name: str, scale: str) -> None:
    scaled = expand_space(name, scale, changes={})
    for arm in scaled.arms:
        assert scaled.suggestion(arm.fixed)[0].validation_samples
        for settings in corners(arm.fixed, arm.parameters)[1:]:
            resolved = scaled.suggestion(settings)[0].model_dump(mode="json")
            for parameter in arm.parameters:
                assert look_up(resolved, parameter.key) == look_up(settings, parameter.key) is not MISSING


def test_shipped_spaces_hold_the_defaults() -> None:
    for name in space_files():
        for scale in ("quick", "paper"):
            scaled = expand_space(name, scale, changes={})
            for arm in scaled.arms:
                default = arm.default(scaled.suggestion(arm.fixed)[0])
                assert bool(default) == bool(arm.parameters), (name, scale, arm.label)


def test_fair_tunes_local_training_of_the_papers_methods_at_quick() -> None:
    fair = expand_space("fair", "quick", changes={})
    assert [arm.label for arm in fair.arms] == [
        *("FedAvg", "FedAvg, uniform weights"),
        *("FedProx", "FedDyn", "FedDF", "FedBE", "Server-FT", "FedLAW", "FedLAW (SWA)"),
    ]
    for arm in fair.arms:
        tuned = {parameter.key: parameter for parameter in arm.parameters}
        assert {"clients.lr", "clients.momentum", "clients.weight_decay"} <= tuned.keys()
        assert tuned["clients.lr"].values == (1e-3, 0.5)
        assert tuned["clients.momentum"].values == (0.0, 0.9)


def test_fair_and_robust_tune_every_method_that_has_something_to_tune() -> None:
    fair, robust = (expand_space(name, "paper", changes={}) for name in ("fair", "robust"))
    tuned = {arm.fixed["method"]["name"] for space in (fair, robust) for arm in space.arms}
    gamma = {
        "fixed_gamma",
        "adaptive_gws",
        "attentive_law",
    }  # parts of FedLAW, with a space of their own or its settings
    built_in = {name for name in METHODS if METHODS.version(name) is None}  # other tests may have added theirs
    assert tuned == built_in - gamma - BOUNDS - {"flower"}
    for arm in fair.arms:
        assert {"clients.lr", "clients.weight_decay"} <= {parameter.key for parameter in arm.parameters}


def test_a_scale_may_take_some_of_the_methods_and_only_any_of_them(tmp_path: Path) -> None:
    fair = expand_space("fair", "quick", changes={}, only=["SCAFFOLD"])
    assert [arm.label for arm in fair.arms] == ["SCAFFOLD"]
    text = GOOD.replace("quick: {}", "quick: {methods: [nobody]}")
    assert text != GOOD
    with pytest.raises(UserError, match=r"mine: scales.quick.methods: nobody: unknown method 'nobody'"):
        space(tmp_path, text)


def test_final_runs_use_all_data_and_are_those_of_a_study(tmp_path: Path) -> None:
    scaled = space(tmp_path)
    (arm,) = scaled.arms
    settings = arm.settings({"clients.lr": 0.05})
    assert [config.data.validation for config in scaled.suggestion(settings)] == [0.2, 0.2]
    assert [config.data.validation for config in scaled.final(settings).values()] == [0.0, 0.0]
    assert [config.seed for config in scaled.suggestion(settings)] == [1, 2]
    assert list(scaled.final(settings)) == [8, 9]


def test_a_condition_may_hang_on_another_parameter(tmp_path: Path) -> None:
    text = GOOD.replace(
        "  clients.lr: {loguniform: [0.01, 0.1]}\n",
        "  method.name: {choice: [fedavg, fedprox, fedlaw]}\n"
        "  method.mu: {loguniform: [0.001, 1], when: {method.name: fedprox}}\n",
    )
    (arm,) = space(tmp_path, text).arms
    assert arm.settings({"method.name": "fedavg"})["method"] == {"name": "fedavg"}
    assert arm.settings({"method.name": "fedprox", "method.mu": 0.1})["method"] == {"name": "fedprox", "mu": 0.1}


def test_both_ends_of_a_conditional_range_are_tried(tmp_path: Path) -> None:
    text = GOOD.replace(
        "trials: 4",
        "  clients.epochs: {int: [1, 6]}\n  clients.momentum: {uniform: [0, 2], when: "
        "{clients.epochs: [3, 4]}}\ntrials: 4",
    )
    with pytest.raises(ConfigError, match=r"clients\.momentum = 2\.0: must be a number at least 0 and below 1"):
        space(tmp_path, text)


def test_one_key_may_have_a_range_for_each_method(tmp_path: Path) -> None:
    text = GOOD.replace(
        "  clients.lr: {loguniform: [0.01, 0.1]}\n",
        "  method.lr:\n    - {loguniform: [0.001, 0.1], when: {method.name: feddf}}\n"
        "    - {loguniform: [0.01, 1], when: {method.name: fedadam}}\n",
    ).replace("parameters:", "methods:\n  A: {method.name: feddf}\n  B: {method.name: fedadam}\nparameters:")
    a, b = space(tmp_path, text).arms
    assert [(p.name, p.values) for p in a.parameters] == [("method.lr", (0.001, 0.1))]
    assert [(p.name, p.values) for p in b.parameters] == [("method.lr", (0.01, 1.0))]


def test_the_fingerprint_is_the_space_without_its_budget(tmp_path: Path) -> None:
    def print_of(text: str = GOOD, **options: Any) -> Any:
        scaled = space(tmp_path, text, **options)
        return scaled.fingerprint(scaled.arms[0])

    assert print_of() == print_of(trials=9) == print_of(seeds=[3]) == print_of(GOOD.replace("Mine", "Yours"))
    for other in ("[0.01, 0.2]", "[0.005, 0.1]"):
        assert print_of(GOOD.replace("[0.01, 0.1]", other)) != print_of()
    assert print_of(GOOD.replace("loguniform", "uniform")) != print_of()
    assert print_of(GOOD.replace("[1, 2]", "[1]")) != print_of()
    assert print_of(changes={"data": {"alpha": 5}}) != print_of()
    assert print_of(changes={"data": {"validation": 0.3}}) != print_of()


WRONG: list[tuple[str, str, str]] = [
    ("clients.lr:", "clients.lrr:", "did you mean 'clients.lr'?"),
    ("[0.01, 0.1]", "[0.1, 0.1]", "an empty range"),
    ("[0.01, 0.1]", "[]", "must be [low, high], two numbers"),
    ("[0.01, 0.1]", "[0.2, 0.1]", "low is above high"),
    ("[0.01, 0.1]", "[0, 0.1]", "a logarithm needs numbers above 0"),
    ("[0.01, 0.1]", "[0.01, .inf]", "must be [low, high], two numbers"),
    ("{loguniform: [0.01, 0.1]}", "{choice: []}", "must be a list of values that is not empty"),
    ("{loguniform: [0.01, 0.1]}", "{int: [0.5, 2]}", "two whole numbers"),
    ("{loguniform: [0.01, 0.1]}", "{normal: [0, 1]}", "must have one of uniform, loguniform, int, choice"),
    ("{loguniform: [0.01, 0.1]}", "{uniform: [0, 1], step: 2}", "unknown key 'parameters.clients.lr.step'"),
    ("{loguniform: [0.01, 0.1]}", "[{uniform: [1, 2]}, {uniform: [2, 3]}]", "one without a condition must be the last"),
    (
        "{loguniform: [0.01, 0.1]}",
        "{uniform: [1, 2], when: {clients.epochs: 2}}\n  clients.epochs: {int: [1, 2]}",
        "its condition is on clients.epochs, which comes later",
    ),
    ("title: Mine", "5: Mine", "5 is not a key"),
    ("{loguniform: [0.01, 0.1]}", "{uniform: [0, 1]}", "clients.lr = 0.0: must be a number above 0"),
    ("{loguniform: [0.01, 0.1]}", "{uniform: [1, 2], when: {method.name: fedprox}}", "there is nothing to search"),
    ("  clients.lr: {loguniform: [0.01, 0.1]}", "  rounds: {int: [1, 9]}", "a search cannot choose it"),
    ("parameters:\n  clients.lr: {loguniform: [0.01, 0.1]}", "parameters: {}", "parameters: is empty"),
    ("trials: 4", "trials: 0", "trials = 0: must be a whole number at least 1"),
    ("trials: 4", "trial: 4", "unknown key 'trial'; did you mean 'trials'?"),
    ("trials: 4", "trials: 4\nmetric: test_accuracy", "must be one of validation_accuracy, validation_loss"),
    ("trials: 4", "trials: 4\nmode: max", "unknown key 'mode'"),
    ("rounds: 3}", "rounds: 3, data.validation: 0}", "must be between 0 and 1"),
    ("rounds: 3}", "rounds: 3, data.alpha: -1}", "data.alpha = -1"),
    ("suggestion_seeds: [1, 2]", "suggestion_seeds: []", "suggestion_seeds"),
    (
        "seeds: [8, 9]",
        "seeds: [8, 2]",
        "mine: seeds = 2: suggestion_seeds has the same; name other seeds for the table",
    ),
]


@pytest.mark.parametrize(("old", "new", "message"), WRONG)
def test_a_bad_space_is_one_line_before_anything_runs(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, message: str
) -> None:
    monkeypatch.setattr(ray, "init", None)
    assert old in GOOD
    (tmp_path / "mine.yaml").write_text(GOOD.replace(old, new))
    code, _, error = command(main, str(tmp_path / "mine.yaml"), "--out", str(tmp_path / "out"))
    assert code == 2
    assert message in error
    assert len(error.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


OPTIONS: list[tuple[list[str], str]] = [
    (["fixed_gama"], "did you mean 'fixed_gamma'?"),
    ([], "name a search space"),
    (["fixed_gamma", "--trials", "0"], "--trials 0: must be at least 1"),
    (["fixed_gamma", "--sampler", "grid"], "invalid choice"),
    (["fixed_gamma", "--sampler", "cmaes"], "needs two or more numeric parameters"),
    (["fixed_gamma", "--storage", "nonsense"], "not a URL"),
    (["fixed_gamma", "--only", "data.alpha=1"], "a search is picked by method"),
    (["fair", "--only", "method=FedLAV"], "did you mean 'FedLAW'?"),
    (["fair", "--set", "method.name=fedavg"], "every point of the axis 'method' sets its own"),
    (["fair", "--set", "seed=3"], "use --seeds"),
    (["fair", "--set", "data=5"], "data is a group of settings"),
    (["fair", "--json"], "--json: goes with --list"),
    (["fixed_gamma", "--storage", "mysql://localhost:abc/x"], "not a URL"),
    (["fair", "--set", "data.validation=0"], "must be between 0 and 1"),
    (["fair", "--seeds", "x"], "expected whole numbers"),
    (["fair", "--max-concurrent", "0"], "--max-concurrent 0: must be at least 1"),
]


@pytest.mark.parametrize(("arguments", "message"), OPTIONS)
def test_wrong_options_are_one_line_before_anything_runs(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.setattr(ray, "init", None)
    code, _, error = command(main, *arguments, "--out", str(tmp_path / "out"))
    assert code == 2
    assert message in error
    assert len(error.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_a_condition_that_never_holds_is_an_error(tmp_path: Path) -> None:
    text = GOOD.replace("rounds: 3}", "rounds: 3, method.name: fedavg}").replace(
        "trials: 4", "  method.mu: {uniform: [0, 1], when: {method.name: fedprx}}\ntrials: 4"
    )
    with pytest.raises(ConfigError, match=r"method\.mu: its condition never holds"):
        space(tmp_path, text)


def test_a_method_whose_name_has_a_comma_can_be_picked(tmp_path: Path) -> None:
    methods = 'methods:\n  "A, small": {method.name: fedavg}\n  B: {method.name: fedprox}\n  C: {method.name: feddyn}\n'
    text = GOOD.replace("parameters:", f"{methods}parameters:")
    assert [arm.label for arm in space(tmp_path, text, only=["A, small"]).arms] == ["A, small"]
    assert [arm.label for arm in space(tmp_path, text, only=["B,C"]).arms] == ["B", "C"]


def test_what_options_change_of_a_search_has_a_name_and_is_told_in_the_title() -> None:
    whole = expand_space("fair", "quick", changes={})
    assert (whole.variant, whole.other, whole.title) == ("", "", "Every method with the same budget (scale quick)")
    options: dict[str, Any] = {
        "changes": {"rounds": 9, "data": {"alpha": 0.1}},
        "only": ["FedAvg,FedLAW"],
        "seeds": [8],
    }
    space = expand_space("fair", "quick", **options, trials=99)
    assert space.variant == "rounds=9+data.alpha=0.1+method=FedAvg,FedLAW+seeds=8"
    assert space.title.endswith("(scale quick; changed: rounds=9, data.alpha=0.1; only method=FedAvg,FedLAW, seeds=8)")
    # suggestions are shared by all that only picks methods and seeds of the table; other settings have their own
    picked = expand_space("fair", "quick", changes={}, only=["FedLAW"], seeds=[8])
    assert picked.study_name(picked.arms[0]) == "fair/quick/FedLAW"
    assert space.other == "rounds=9+data.alpha=0.1"
    assert space.study_name(space.arms[0]) == "fair/quick/rounds=9+data.alpha=0.1/FedAvg"
    elsewhere = expand_space("fair", "quick", changes={"run": {"device": "cpu"}})
    assert (elsewhere.variant, elsewhere.title) == ("", whole.title)  # where it runs is no change of the search
