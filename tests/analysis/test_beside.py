"""What stands beside a table's numbers: what methods see, and what they cost."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd
import pytest

from fedbench.analysis.tables import fill_tables
from fedbench.analysis.trials import stored_trials
from fedbench.console.tables import show
from fedbench.render.pages.tables import page_table
from fedbench.render.report import make_report
from fedbench.render.study import StudyReport, folder_of
from fedbench.specs.expand import ScaledStudy, expand
from fedbench.store.store import Store
from tests.analysis.helpers import fill, on_screen, summary


@pytest.fixture
def aggregators() -> ScaledStudy:
    wanted = ["FedAvg", "SCAFFOLD", "FedDisco", "q-FedAvg", "FedDF", "FedLAW"]
    return expand("aggregators", "paper", changes={}, only={"method": wanted}, seeds=[8])


def test_a_table_says_what_each_method_sees(aggregators: ScaledStudy, tmp_path: Path) -> None:
    store = Store(tmp_path)
    fill(store, aggregators, lambda labels, seed: 0.5)
    shown = on_screen(aggregators, stored_trials(aggregators, store), "accuracy").set_index("method")
    assert shown["uses proxy"].to_dict() == {
        **dict.fromkeys(["FedAvg", "SCAFFOLD", "FedDisco", "q-FedAvg"], "no"),
        "FedDF": "images",
        "FedLAW": "labels",
    }
    told = {"SCAFFOLD": "mean gradient", "FedDisco": "class counts", "q-FedAvg": "loss"}
    assert shown["clients report"].to_dict() == {method: told.get(method, "no") for method in shown.index}


def test_costs_are_those_of_a_round_in_the_mean_over_a_row(aggregators: ScaledStudy, tmp_path: Path) -> None:
    store = Store(tmp_path)

    def outcome(labels: dict[str, object], seed: int) -> object:
        if labels["method"] == "FedDF":
            return "diverged"
        server = 4.0 if labels["data.alpha"] == 100 else 8.0  # over two rounds
        return {**summary(0.5), "seconds_server": server, "bytes_up": 3_000_000, "bytes_down": 1_000_000}

    fill(store, aggregators, outcome)  # type: ignore[arg-type]
    make_report(aggregators, store)
    table = pd.read_csv(folder_of(aggregators, store) / "table.csv").set_index("method")
    assert table.loc["FedAvg", "server s a round"] == 3.0
    assert table.loc["FedAvg", "MB a round"] == 2.0
    assert pd.isna(table.loc["FedDF", "MB a round"])
    shown = on_screen(aggregators, stored_trials(aggregators, store), "accuracy").set_index("method")
    assert shown.loc["FedAvg", "server s a round"] == "3.000"
    assert shown.loc["FedDF", "MB a round"] == "-"


def test_tables_without_costs_have_no_such_columns(aggregators: ScaledStudy, tmp_path: Path) -> None:
    store = Store(tmp_path)
    fill(store, aggregators, lambda labels, seed: 0.5)
    shown = on_screen(aggregators, stored_trials(aggregators, store), "gain")
    assert "MB a round" not in shown
    assert "uses proxy" in shown


METHODS_AS_COLUMNS = """
title: Mine
shows: Something.
base: {data.train_size: 200, data.test_size: 200, clients.count: 2, rounds: 2, proxy.size: 20}
grid:
  data.alpha: [100, 1]
  method:
    FedAvg: {method.name: fedavg}
    FedAvg + proxy: {method.name: fedavg, method.proxy_client: true}
    FedDF: {method.name: feddf}
seeds: [8]
tables:
  accuracy: {rows: [data.alpha], columns: [method], costs: COSTS}
scales: {quick: {}}
"""
SEES = "uses proxy: FedAvg no; FedAvg + proxy labels; FedDF images"


def methods_as_columns(folder: Path, store: Store, costs: str) -> ScaledStudy:
    """A study whose columns are methods, filled: FedDF takes a thousand times the server's time of the others."""
    file = folder / "mine.yaml"
    file.write_text(METHODS_AS_COLUMNS.replace("COSTS", costs))
    study = expand(str(file), "quick", changes={}, only={}, seeds=None)

    def outcome(labels: Mapping[str, object], seed: int) -> object:
        server = 8.0 if labels["method"] == "FedDF" else 0.008  # over two rounds
        return {**summary(0.5), "seconds_server": server, "bytes_up": 3_000_000, "bytes_down": 1_000_000}

    fill(store, study, outcome)
    return study


def test_a_table_whose_columns_are_methods_says_what_each_sees_and_costs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store(tmp_path / "out")
    study = methods_as_columns(tmp_path, store, "true")
    cost = "server s a round: FedAvg 0.004; FedAvg + proxy 0.004; FedDF 4.000"
    report = make_report(study, store)
    show(report)
    screen = capsys.readouterr().out
    assert SEES in screen and cost in screen
    assert "1.336" not in screen, "nobody asks for a mean over methods"
    written = folder_of(study, store) / "table.md"
    assert SEES in written.read_text() and cost in written.read_text()
    table = pd.read_csv(written.with_suffix(".csv"))
    assert table["uses proxy: FedAvg + proxy"].tolist() == ["labels", "labels"]
    assert table["server s a round: FedDF"].tolist() == [4.0, 4.0]
    assert table["MB a round: FedAvg"].tolist() == [2.0, 2.0]
    assert "server s a round" not in table


def test_a_page_gives_costs_by_method_where_columns_are_methods(tmp_path: Path) -> None:
    store = Store(tmp_path / "out")
    study = methods_as_columns(tmp_path, store, "false")
    trials = stored_trials(study, store)
    (table,) = StudyReport(study, trials, fill_tables(study, trials)).own_tables
    page = page_table(table, [])
    assert list(page.heads) == ["alpha", "FedAvg", "FedAvg + proxy", "FedDF"]
    assert SEES in page.remarks
    assert "server s a round: FedAvg 0.004; FedAvg + proxy 0.004; FedDF 4.000" in page.remarks
