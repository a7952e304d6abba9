"""What stands beside a table's numbers: what methods see, and what they cost."""

from pathlib import Path

import pandas as pd
import pytest

from fedbench.reports.report import folder_of, make_report, stored_trials
from fedbench.specs.expand import ScaledStudy, expand
from fedbench.store.store import Store
from tests.reports.helpers import fill, on_screen, summary


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
