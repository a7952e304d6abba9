"""What the paper's own numbers say of its claims: yes, no, or nothing where there are not enough."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fedbench.analysis.claims import Finding, check_claims
from fedbench.specs.expand import expand
from fedbench.store.store import Store
from tests.analysis.helpers import MINE, fill
from tests.commands import report as main

STUDY = f"""{MINE}seeds: [1, 2, 3]
tables:
  accuracy: {{rows: [data.alpha], columns: [method.gamma]}}
  gain: {{rows: [data.alpha], columns: [method.gamma], show: relative}}
scales: {{paper: {{}}, quick: {{}}}}
claims: [{{says: It is so, %s}}]
reference:
  tolerance: 1
  accuracy:
    - [100, 50, 51.5, 49]
    - [1, 40, 39, null]
  gain:
    - [1, null, null, -7.5]
"""


def found(folder: Path, claim: str, scale: str = "paper", **options: Any) -> list[Finding]:
    """What is found for one claim where no trial has been run."""
    path = folder / "mine.yaml"
    path.write_text(STUDY % claim)
    study = expand(str(path), scale, **{"changes": {}, "only": {}, "seeds": None, **options})
    return check_claims(study, {})


def own(folder: Path, claim: str) -> list[str]:
    """The paper's own answers, place by place."""
    return [str(finding.paper or "not enough") for finding in found(folder, claim)]


@pytest.mark.parametrize(
    ("claim", "wanted"),
    [
        ("check: beats, point: {method.gamma: 0.9}", ["yes, 1.50", "no, -1.00"]),
        ("check: beats, point: {method.gamma: 0.9}, by: 2", ["no, 1.50", "no, -1.00"]),
        ("check: beats, point: {method.gamma: 0.8}, wins: lower", ["yes, 1.00", "not enough"]),
        ("check: comparable, margin: 1.2, point: {method.gamma: 0.9}", ["no, 1.50", "yes, -1.00"]),
        ("check: some_point_beats_baseline, axis: method.gamma", ["yes, 1.50", "not enough"]),
        ("check: inner_optimum, axis: method.gamma", ["yes, 1.50", "not enough"]),
        ("check: trend, axis: method.gamma, direction: rises", ["yes, 0.500", "not enough"]),
        ("check: extreme, axis: method.gamma, at: 0.8, which: smallest", ["yes, 1.00", "not enough"]),
        ("check: within, low: 40, where: {method.gamma: [0.9]}", ["yes, 51.50", "no, 39.00"]),
        ("check: within, low: 0, show: difference, where: {method.gamma: [0.9]}", ["yes, 1.50", "no, -1.00"]),
        ("check: within, low: 0, show: relative, where: {method.gamma: [0.9]}", ["yes, 3.00", "no, -2.50"]),
        ("check: within, low: 0, show: relative, where: {method.gamma: [0.8]}", ["no, -2.00", "no, -7.50"]),
        ("check: beats, point: {method.gamma: 0.9}, over: [data.alpha]", ["yes, 0.25"]),
        ("check: beats, point: {method.gamma: 0.8}, over: [data.alpha]", ["not enough"]),
        ("check: within, value: test_loss, low: 0, where: {method.gamma: [0.9]}", ["not enough"] * 2),
    ],
)
def test_the_same_check_answers_with_the_papers_numbers(tmp_path: Path, claim: str, wanted: list[str]) -> None:
    assert own(tmp_path, claim) == wanted


def test_at_another_scale_the_paper_has_no_numbers(tmp_path: Path) -> None:
    claim = "check: beats, point: {method.gamma: 0.9}"
    assert [finding.paper for finding in found(tmp_path, claim, "quick")] == [None, None]


def test_numbers_that_are_left_out_are_not_used(tmp_path: Path) -> None:
    claim = "check: inner_optimum, axis: method.gamma"
    (finding,) = found(tmp_path, claim, only={"method.gamma": ["1", "0.9"], "data.alpha": ["100"]})
    assert finding.paper is None


def shipped(name: str) -> set[tuple[str, str, str]]:
    """(claim, place, number) of all that a built-in study's own reference contradicts."""
    study = expand(name, "paper", changes={}, only={}, seeds=[8])
    return {(f.says, f.at, str(f.paper)) for f in check_claims(study, {}) if f.paper and not f.paper.agree}


def test_the_papers_main_table_contradicts_eight_claims() -> None:
    proxy = "FedLAW makes better use of the proxy set than"
    assert shipped("methods") == {
        ("FedLAW beats FedAvg", "setting FMNIST 100 MLP", "no, -0.78"),
        ("FedLAW beats FedAvg", "setting C100 0.1 ResNet20", "no, -0.08"),
        ("FedLAW with SWA beats FedAvg", "setting FMNIST 100 MLP", "no, -1.02"),
        ("FedLAW with SWA beats FedAvg", "setting FMNIST 100 LeNet", "no, -0.03"),
        ("FedLAW beats FedDyn as in the authors' code", "setting C100 0.1 ResNet20", "no, -4.16"),
        (f"{proxy} FedDF", "setting C10 0.1 ResNet20", "no, -1.26"),
        (f"{proxy} FedBE", "setting C10 0.1 ResNet20", "no, -0.03"),
        (f"{proxy} Server-FT", "setting FMNIST 100 MLP", "no, -0.58"),
    }


def test_a_shifted_proxy_set_with_balanced_sampling_contradicts_two_claims() -> None:
    claim, at = "FedLAW still works with a shifted proxy set: it beats", "alpha 1, proxy long-tailed, balanced sampling"
    assert shipped("proxy_shift") == {(f"{claim} FedAvg", at, "no, -3.04"), (f"{claim} FedDF", at, "no, -2.72")}


def test_both_local_epochs_together_contradict_the_product_of_size_and_heterogeneity() -> None:
    assert shipped("weight_correlation") == {("and more than heterogeneity", "", "no, -0.040")}


@pytest.mark.parametrize("name", ["fixed_gamma", "adaptive_gws", "local_weight_decay", "global_lr", "num_clients"])
def test_elsewhere_the_papers_numbers_bear_its_claims_out(name: str) -> None:
    study = expand(name, "paper", changes={}, only={}, seeds=[8])
    answers = [finding.paper for finding in check_claims(study, {}) if finding.paper]
    assert len(answers) > 10
    assert all(answer.agree for answer in answers)


def test_screen_csv_and_markdown_say_it_alike(command: Any, tmp_path: Path) -> None:
    study, store = expand("proxy_shift", "paper", changes={}, only={}, seeds=None), Store(tmp_path)
    fill(store, study, lambda labels, seed: 0.7 + 0.01 * (labels["method"] == "FedLAW") + 0.0001 * seed)
    code, text, _ = command(main, "proxy_shift", "--scale", "paper", "--check", "--out", str(tmp_path))
    assert code == 0
    words = "the paper's own numbers: no, -3.04"
    assert [line.split("  ")[0] for line in text.splitlines() if words in line] == ["holds"]
    folder = tmp_path / "studies" / "proxy_shift" / "paper"
    frame = pd.read_csv(folder / "claims.csv").set_index(["claim", "at"])
    at = (
        "FedLAW still works with a shifted proxy set: it beats FedAvg",
        "alpha 1, proxy long-tailed, balanced sampling",
    )
    assert frame.loc[at, "paper"] == "no, -3.04"
    lines = [line for line in (folder / "claims.md").read_text().splitlines() if words in line]
    assert len(lines) == 1
    assert lines[0].startswith("| holds")
