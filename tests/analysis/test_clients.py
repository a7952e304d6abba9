"""What every study shows of its clients."""

from pathlib import Path

import pandas as pd
import pytest

from fedbench.analysis.clients import clients_frame, clients_table
from fedbench.analysis.trials import stored_trials
from fedbench.render.pages.content import study_page
from fedbench.render.report import make_report
from fedbench.specs.expand import ScaledStudy, expand
from fedbench.store.execute import execute
from fedbench.store.store import Store

TEXT = """
title: Mine
shows: Something.
base: {data.name: tiny_testing, proxy.size: 12, clients.count: 3, data.alpha: 0.5}
grid:
  method: {FedAvg: {method.name: fedavg}, uniform: {method.name: fedavg, method.weights: uniform}}
seeds: [8, 9]
tables:
  accuracy: {rows: [], columns: [method]}
plots:
  by_client: {kind: clients, colour: method}
scales: {quick: {base: {rounds: 1}}}
"""


@pytest.fixture
def run(tmp_path: Path) -> tuple[ScaledStudy, Store]:
    import fedbench.testing  # noqa: F401  (its data set)

    (tmp_path / "mine.yaml").write_text(TEXT)
    study = expand(str(tmp_path / "mine.yaml"), "quick", changes={}, only={}, seeds=None)
    store = Store(tmp_path / "out")
    for config in study.trials.values():
        execute(config, store, None)
    return study, store


def test_every_study_has_a_table_of_its_clients_on_its_page_and_in_files(run: tuple[ScaledStudy, Store]) -> None:
    study, store = run
    report = make_report(study, store)
    names = {path.name for path in report.files}
    assert {"clients.csv", "clients.md", "clients.tex", "client_accuracy.csv.gz", "by_client.png"} <= names
    page = study_page(report, report.files[0].parent)
    assert [table.name for table in page.tables] == ["accuracy", "clients"]
    assert "expected under their label mixes" in page.tables[1].caption
    assert list(report.tables) == ["accuracy"], "the study's own tables stay as they are"


def test_the_table_and_the_rows_by_client_agree(run: tuple[ScaledStudy, Store]) -> None:
    study, store = run
    trials = stored_trials(study, store)
    frame, table = clients_frame(study, trials), clients_table(study, trials)
    assert table and len(frame) == 2 * 2 * 3 and set(frame.basis) == {"expected"}
    by_trial = frame.groupby(["method", "seed"])
    worst = 100 * by_trial.accuracy.min().groupby("method").mean()
    shown = {
        place.cells[0].labels["method"]: place.numbers["mean"]
        for place in table.filled
        if place.metric == "worst_client"
    }
    assert shown == pytest.approx(worst.to_dict())
    sizes = pd.read_csv(store.where(frame.hash[0]) / "partition.csv").groupby("client").samples.sum()
    assert frame[frame.hash == frame.hash[0]].samples.tolist() == sizes.tolist()


def test_a_study_that_shows_its_worst_client_has_no_second_table(tmp_path: Path) -> None:
    own = TEXT.replace("columns: [method]}", "columns: [method], value: worst_client}")
    (tmp_path / "own.yaml").write_text(own)
    study = expand(str(tmp_path / "own.yaml"), "quick", changes={}, only={}, seeds=None)
    assert clients_table(study, {}) is None
