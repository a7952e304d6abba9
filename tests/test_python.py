"""The functions run, load, search, report and verify: what they return and refuse, and what the docs say."""

import re
from collections.abc import Iterator
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import fedbench
from fedbench import Results, UserError
from fedbench.cli.main import parser_of
from fedbench.cli.options import request_of
from fedbench.jobs.options import RunKeywords, StudyKeywords, request, select
from tests.simulation.test_module import score

PAGE = Path(__file__).parent.parent / "docs" / "python.md"
STUDY = """
title: <script>alert("title")</script> & [red]
shows: Something.
base: {data.train_size: 100, data.test_size: 200, clients.count: 2, rounds: 2}
grid:
  method:
    <b>good</b>: {}
    blowup: {clients.lr: 1e30}
seeds: [8]
tables: {accuracy: {rows: [], columns: [method], best: row}}
plots: {curves: {colour: method}}
claims:
  - {says: <i>late</i>, check: higher_than, value: best_accuracy, than: last_accuracy}
scales: {quick: {}}
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, one_cpu: None) -> Iterator[tuple[Path, Results]]:
    """A folder with a study of one's own, and its results."""
    folder = tmp_path_factory.mktemp("python")
    (folder / "mine.yaml").write_text(STUDY)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield folder, fedbench.run(folder / "mine.yaml", out=folder / "out", save_model=True)


def test_a_run_writes_what_the_command_writes_and_returns_it(made: tuple[Path, Results]) -> None:
    folder, results = made
    report = folder / "out" / "studies" / "mine" / "quick"
    for name, frame in {
        "table.csv": results.tables["accuracy"],
        "cells.csv": results.cells,
        "claims.csv": results.claims,
        "trials.csv": results.trials,
        "rounds.csv.gz": results.rounds,
    }.items():
        pd.testing.assert_frame_equal(pd.read_csv(report / name), pd.read_csv(_text(frame)), obj=name)
    assert list(results.trials.status) == ["done", "diverged"]


def _text(frame: pd.DataFrame) -> Any:
    from io import StringIO

    return StringIO(frame.to_csv(index=False))


def test_stored_results_are_the_same(made: tuple[Path, Results]) -> None:
    folder, results = made
    stored = fedbench.load(folder / "mine.yaml", out=folder / "out")
    pd.testing.assert_frame_equal(stored.cells, results.cells)
    pd.testing.assert_frame_equal(
        stored.rounds, fedbench.load(folder / "mine.yaml", out=folder / "out", table="rounds")
    )
    part = fedbench.load(folder / "mine.yaml", out=folder / "out", only={"method": "blowup"})
    assert list(part.trials.status) == ["diverged"]
    with pytest.raises(UserError, match="holds no trial"):
        fedbench.load(folder / "mine.yaml", out=folder / "nowhere")
    with pytest.raises(UserError, match=r"holds no trial of .*mine\.yaml at scale quick, seeds=77; run it first"):
        fedbench.load(folder / "mine.yaml", out=folder / "out", seeds=[77])
    with pytest.raises(UserError, match="at scale quick, rounds=7, method=blowup; run it first"):
        fedbench.load(folder / "mine.yaml", out=folder / "out", changes={"rounds": 7}, only={"method": "blowup"})


def test_dir_lists_what_users_call_and_nothing_else() -> None:
    assert dir(fedbench) == sorted(fedbench.__all__)
    assert all(getattr(fedbench, name) is not None for name in dir(fedbench))


def test_results_are_still_a_frame_of_rounds_to_who_takes_them_for_one(made: tuple[Path, Results]) -> None:
    results = made[1]
    assert len(results) == len(results.rounds) == 3
    assert results["round"].tolist() == [1, 2, 1]
    assert results.groupby("method")["round"].max().to_dict() == {"<b>good</b>": 2, "blowup": 1}
    assert results.shape == results.rounds.shape
    with pytest.raises(AttributeError, match="no attribute 'cell'"):
        _ = results.cell


def test_results_give_the_model_of_a_trial_by_its_place_or_its_hash(made: tuple[Path, Results]) -> None:
    results = made[1]
    trial = results.trials.iloc[0]
    module = results.model(only={"method": "<b>good</b>"}, seed=8)
    assert not module.training
    (config,) = (config for hash_, config in results.study.trials.items() if hash_ == trial.hash)
    assert score(module, fedbench.Simulation(config).federation.test)[0] == trial.last_accuracy
    same = results.model(trial.hash[:10]).state_dict()
    assert all(torch.equal(tensor, same[name]) for name, tensor in module.state_dict().items())


@pytest.mark.parametrize(
    ("keywords", "says"),
    [
        ({}, "model: 2 trials match; name one by its hash, or by only={axis: label} and seed="),
        ({"seed": 9}, "model: no trial matches"),
        ({"hash_": "x"}, "model: no trial matches"),
        ({"only": {"methd": "blowup"}}, "model: unknown axis 'methd'; did you mean 'method'?"),
        ({"only": {"method": "blowup"}}, "is diverged; only a trial that is done has a final model"),
    ],
)
def test_a_model_that_cannot_be_had_is_one_line(made: tuple[Path, Results], keywords: Any, says: str) -> None:
    with pytest.raises(UserError) as refused:
        made[1].model(**keywords)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_trial_that_was_stored_without_its_model_says_how_to_get_it(
    made: tuple[Path, Results], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, good = made[0], {"method": "<b>good</b>"}
    how: dict[str, Any] = {"only": good, "out": folder / "plain"}
    results = fedbench.run(folder / "mine.yaml", **how)
    with pytest.raises(UserError, match=r"was stored without its model; to get it, run .* --save-model --fresh"):
        results.model()
    capsys.readouterr()
    fedbench.run(folder / "mine.yaml", **how, save_model=True)
    said = capsys.readouterr().err.splitlines()
    assert said == [
        "warning: --save-model: 1 stored trial was run without it and has no model; add --fresh to run everything that "
        "the command names again and keep its models"
    ]
    model = fedbench.run(folder / "mine.yaml", **how, save_model=True, fresh=True).model()
    kept = made[1].model(only=good).state_dict()
    assert all(torch.equal(tensor, kept[name]) for name, tensor in model.state_dict().items())
    assert capsys.readouterr().err == ""


def test_figures_are_matplotlibs_and_leave_pyplot_alone(made: tuple[Path, Results]) -> None:
    import matplotlib.pyplot as plt

    before, results = plt.get_backend(), made[1]
    assert results.figures == ["curves"]
    figure = results.figure("curves")
    assert len(figure.axes[0].get_lines()) >= 1
    figure.savefig(made[0] / "curves.png")
    assert (plt.get_backend(), plt.get_fignums()) == (before, [])
    with pytest.raises(UserError, match="did you mean 'curves'"):
        results.figure("curvs")
    with pytest.raises(UserError, match="no trial that it could show is done"):
        fedbench.load(made[0] / "mine.yaml", out=made[0] / "out", only={"method": ["blowup"]}).figure("curves")


def test_a_notebook_shows_tables_claims_and_failures_and_every_label_is_escaped(made: tuple[Path, Results]) -> None:
    shown = made[1]._repr_html_()
    assert "<script>" not in shown and "<b>good" not in shown
    assert "&lt;script&gt;alert(&quot;title&quot;)&lt;/script&gt; &amp; [red]" in shown
    assert "&lt;b&gt;good&lt;/b&gt;" in shown
    assert "no data" in shown and "diverged: " in shown and "non-finite" in shown
    assert shown.count("<table>") == shown.count("</table>") == 2
    assert "2 of 2 trials" in repr(made[1])


@pytest.mark.parametrize(
    ("keywords", "says"),
    [
        ({"sale": "tiny"}, "unknown option 'sale'; did you mean 'scale'?"),
        ({"list": True}, "unknown option 'list'"),
        ({"scale": "huge"}, "unknown scale 'huge'"),
        ({"fresh": 1}, "fresh = 1: must be True or False"),
        ({"only": "data.alpha=1"}, "only = 'data.alpha=1': must be a mapping"),
        ({"only": {"method": ["goood"]}}, "unknown value 'goood'"),
        ({"out": ["a", "b"]}, "must be one value"),
        ({"out": ""}, "name a folder"),
        ({"seeds": "x"}, "expected whole numbers"),
        ({"max_concurrent": 0}, "must be at least 1"),
        ({"track": "wandbb"}, "did you mean 'wandb'?"),
        ({"set": {"round": 3}}, "did you mean 'rounds'?"),
    ],
)
def test_what_the_command_refuses_is_one_line(made: tuple[Path, Results], keywords: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError) as refused:
        fedbench.run(made[0] / "mine.yaml", **{"out": made[0] / "out", **keywords})
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)
    with pytest.raises(UserError, match="one after the other"):
        fedbench.run("all")


def test_what_fails_raises_where_the_command_would_end_with_code_1(made: tuple[Path, Results]) -> None:
    with pytest.raises(UserError, match="failed or diverged"):
        fedbench.run(made[0] / "mine.yaml", out=made[0] / "out", strict=True)


KEYWORDS: dict[str, Any] = {
    **{"seeds": [8, 9], "set": {"rounds": 3, "proxy.pool": None}, "only": {"data.alpha": [100, 0.1]}},
    **{"modules": ["a", "b"], "track": ("mlflow", "wandb"), "data_dir": Path("data"), "dry_run": True, "fresh": True},
    **{"strict": False, "address": "auto", "autoscaling": True, "cpus_per_trial": 2, "gpus_per_trial": 0.5},
    **{"resources": {"TPU": 1}, "max_concurrent": 3, "max_failures": 1, "dashboard": False, "ship": True},
    **{"checkpoints": "s3://bucket", "rehearse": False, "keep_going": True},
    **{"decide": False, "budget": 2.0},
}
WORDS = (
    "smoke --scale tiny --out here --seeds 8,9 --set rounds=3 --set proxy.pool=null --only data.alpha=100 "
    "--only data.alpha=0.1 --import a --import b --track mlflow --track wandb --data-dir data --dry-run --fresh "
    "--address auto --autoscaling --cpus-per-trial 2 --gpus-per-trial 0.5 --resources TPU=1 --max-concurrent 3 "
    "--max-failures 1 --ship --checkpoints s3://bucket --no-try --keep-going "
    "--budget 2"
)


def test_keywords_and_options_request_the_same() -> None:
    options = parser_of("study").parse_args(WORDS.split())
    assert request_of(options) == request("smoke", "tiny", "here", KEYWORDS)
    changes = {**KEYWORDS, "changes": KEYWORDS["set"], "set": None}
    assert request("smoke", "tiny", "here", changes) == request("smoke", "tiny", "here", KEYWORDS)


@pytest.mark.parametrize(
    ("command", "function", "kind"), [("study", fedbench.run, StudyKeywords), ("search", fedbench.search, RunKeywords)]
)
def test_every_option_of_a_command_is_a_keyword(command: str, function: Any, kind: type) -> None:
    words = {action.dest for action in parser_of(command)._actions} - {"help", "list", "json", "name"}
    keywords = {*signature(function).parameters, *kind.__annotations__} - {"keywords", "study", "space"}
    known = set(StudyKeywords.__annotations__) - {"changes"}  # another name of set
    assert {*KEYWORDS, "most_seeds"} == known
    assert words == keywords - {"changes"}


def test_numbers_of_numpy_are_numbers(made: tuple[Path, Results]) -> None:
    given = {"rounds": np.int64(2), "clients.lr": np.float32(0.5), "x": [np.bool_(True), {"y": np.arange(2)}]}
    wanted = {"rounds": 2, "clients": {"lr": 0.5}, "x": [True, {"y": [0, 1]}]}
    keywords = {"changes": given, "seeds": np.arange(8, 10), "max_concurrent": np.int64(2)}
    both = request("smoke", "quick", "out", keywords)
    assert (both.selection.changes, both.selection.seeds, both.options.max_concurrent) == (wanted, [8, 9], 2)
    stored = fedbench.load(made[0] / "mine.yaml", out=made[0] / "out", changes={"rounds": np.int64(2)})
    assert len(stored.trials) == 2
    with pytest.raises(UserError, match=r"set: rounds = \{3\}: must be made of numbers, words, lists and mappings"):
        select("smoke", keywords={"set": {"rounds": {3}}})


def test_the_code_of_the_docs_runs(
    one_cpu: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 8
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    assert set(names["results"].tables["accuracy"].columns) >= {"1", "0.99"}
    assert list(names["stored"].cells["method.gamma"].unique()) == [1.0]
    assert (len(names["frame"]), names["best"].score > 0) == (4, True)
    assert names["accuracy"] == names["trial"].last_accuracy
    assert names["right"].shape == (100,) and names["right"].float().mean() > 0.3
    assert names["filters"].shape == names["spans"][0].shape
    assert len(names["filters"].shape) == 4 and names["w"].equal(names["state"].w)
    assert (tmp_path / "curves.png").stat().st_size > 1000
