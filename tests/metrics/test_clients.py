"""The accuracy of clients: what is expected under label mixes, and what is measured on held-out data."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedbench.base.errors import ConfigError
from fedbench.metrics import METRICS
from fedbench.metrics.clients import EXPECTED, MEASURED, NOT_KNOWN, basis, client_accuracies
from fedbench.simulation import Simulation
from fedbench.simulation.evaluation import predictions
from fedbench.simulation.lockstep import Lockstep
from fedbench.store.execute import execute
from fedbench.store.store import Store, StoredTrial
from fedbench.testing import tiny

PUBLISHED = Path(__file__).parents[2] / "published"
NAMES = ("client_accuracy", "worst_client", "worst_tenth", "client_spread")


@dataclass
class Trial:
    """A finished trial of some clients with these tables."""

    clients: int
    tables: dict[str, pd.DataFrame]
    partition: str = "dirichlet"
    summary: dict[str, Any] = field(default_factory=dict)
    kept: dict[str, Any] = field(default_factory=dict)

    def settings(self) -> dict[str, Any]:
        return {"clients": {"count": self.clients}, "data": {"partition": self.partition}}

    def table(self, name: str) -> pd.DataFrame:
        return self.tables.get(name, pd.DataFrame())


def tables(counts: list[list[int]], by_class: list[float]) -> dict[str, pd.DataFrame]:
    cells = [(i, c, k) for i, row in enumerate(counts) for c, k in enumerate(row)]
    partition = pd.DataFrame(cells, columns=["client", "class", "samples"])
    classes = pd.DataFrame({"class": range(len(by_class)), "samples": 10, "accuracy": by_class})
    return {"partition": partition, "classes": classes}


def read(trial: Any) -> list[float | None]:
    return [METRICS.get(name).read(trial) for name in NAMES]


def test_what_is_expected_of_a_client_is_the_mean_over_classes_by_its_shares() -> None:
    trial = Trial(2, tables([[30, 10], [0, 20]], [0.8, 0.4]))
    assert client_accuracies(trial).accuracy.tolist() == pytest.approx([0.7, 0.4])  # type: ignore[union-attr]
    assert read(trial) == pytest.approx([60.0, 40.0, 40.0, 15.0]), "the mean is by data size: (40 * 70 + 20 * 40) / 60"


def test_the_worst_tenth_is_rounded_up_to_whole_clients() -> None:
    by_class = [k / 11 for k in range(11)]
    trial = Trial(11, tables(np.eye(11, dtype=int).tolist(), by_class))
    assert METRICS.get("worst_tenth").read(trial) == pytest.approx(100 * (0 + 1 / 11) / 2)


def test_a_proxy_set_that_takes_part_as_a_client_is_no_client() -> None:
    with_proxy = Trial(2, tables([[30, 10], [10, 30], [1, 0]], [0.0, 1.0]))
    assert read(with_proxy) == read(Trial(2, tables([[30, 10], [10, 30]], [0.0, 1.0])))


def test_a_class_that_is_not_in_the_test_set_leaves_nothing_to_expect_unless_no_client_has_it() -> None:
    assert read(Trial(2, tables([[1, 1], [1, 0]], [0.5, float("nan")]))) == [None] * 4
    assert read(Trial(2, tables([[1, 0], [1, 0]], [0.5, float("nan")])))[0] == pytest.approx(50.0)


def test_nothing_is_expected_where_a_class_looks_different_from_client_to_client(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = tiny()
    partition = type(_partition(config))
    made = tables([[30, 10], [0, 20]], [0.8, 0.4])
    assert basis(Trial(2, made, config.data.partition)) == EXPECTED
    monkeypatch.setattr(partition, "by_owner", True)
    trial = Trial(2, made, config.data.partition)
    assert (read(trial), basis(trial)) == ([None] * 4, NOT_KNOWN)
    made["client_scores"] = pd.DataFrame({"client": [0, 1], "samples": [10, 30], "accuracy": [0.6, 0.2]})
    measured = Trial(2, made, config.data.partition)
    assert read(measured) == pytest.approx([30.0, 20.0, 20.0, 20.0])
    assert basis(measured) == MEASURED
    with pytest.raises(ConfigError, match="labels alone"):
        tiny({"indicators.client_validation": True, "data.validation": 0.2})


def _partition(config: Any) -> Any:
    from fedbench.data.partitions import PARTITIONS

    return PARTITIONS.get(config.data.partition)


def test_where_clients_hold_data_out_their_accuracy_is_measured_there(tmp_path: Path) -> None:
    config = tiny({"clients.holdout": 0.3, "rounds": 2})
    trial = execute(config, Store(tmp_path), None)
    simulation = Simulation(config)
    simulation.step(), simulation.step()
    split, train = simulation.federation.split, simulation.federation.train
    for client, samples, accuracy in trial.table("client_scores").itertuples(index=False):
        own = train.subset(split.holdout[int(client)])
        ((logits, labels),) = predictions(simulation.model, simulation.state.model, simulation.state.buffers, own)
        assert samples == len(own)
        assert accuracy == pytest.approx(float((logits.argmax(1) == labels).double().mean()))
    found = client_accuracies(trial)
    assert found and found.measured
    assert METRICS.get("worst_client").read(trial) == pytest.approx(100 * trial.table("client_scores").accuracy.min())


def test_a_trial_without_held_out_data_stores_what_it_always_did(tmp_path: Path) -> None:
    assert "client_scores.csv" not in execute(tiny({"rounds": 1}), Store(tmp_path), None).sums


def test_the_worst_client_on_the_validation_set_is_what_its_classes_make_expect() -> None:
    config = tiny({"indicators.client_validation": True, "data.validation": 0.3, "rounds": 1})
    simulation = Simulation(config)
    record = simulation.step()
    validation, counts = simulation.federation.validation, simulation.federation.split.class_counts
    assert validation is not None
    right = np.zeros((2, counts.shape[1]))
    for logits, labels in predictions(simulation.model, simulation.state.model, simulation.state.buffers, validation):
        np.add.at(right[0], labels.numpy(), (logits.argmax(1) == labels).numpy())
        np.add.at(right[1], labels.numpy(), 1)
    expected = (counts / counts.sum(1, keepdims=True)) @ (right[0] / right[1])
    assert record.validation_worst_client == pytest.approx(expected.min())
    assert Lockstep([config], "validation_worst_client").step().score == record.validation_worst_client, "in a search"
    with pytest.raises(ConfigError, match=r"data\.validation"):
        tiny({"indicators.client_validation": True})


@pytest.mark.parametrize(
    ("method", "wanted"),
    [("fedavg", (85.7, 65.5, 8.4)), ("fedprox", (84.6, 61.1, 9.4)), ("feddf", (78.1, 43.2, 14.5))],
)
def test_published_fashion_mnist_at_alpha_0_1(
    published: list[StoredTrial], method: str, wanted: tuple[float, ...]
) -> None:
    rows = [read(trial) for trial in published if trial.settings()["method"]["name"] == method]
    mean, worst, _, spread = np.mean(np.array(rows, float), axis=0)
    assert len(rows) == 3
    assert [round(mean, 1), round(worst, 1), round(spread, 1)] == list(wanted)


@pytest.fixture(scope="module")
def published() -> list[StoredTrial]:
    """The trials of Fashion-MNIST at alpha 0.1 with fedbench's own draw of the proxy set."""

    def wanted(trial: StoredTrial) -> bool:
        settings = trial.settings()
        data, clients, proxy = settings["data"], settings["clients"], settings["proxy"]
        own = proxy.get("rule", "own") == "own" and not clients["corrupted"]
        return own and (data["name"], data.get("alpha"), settings["rounds"]) == ("fashion_mnist", 0.1, 200)

    return [trial for trial in Store(PUBLISHED).all() if trial.status == "done" and wanted(trial)]
