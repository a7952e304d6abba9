"""Methods at the ends of their settings are FedAvg, bit for bit at equal bn."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from torch import Tensor

from fedbench import TrialConfig, simulate
from fedbench.methods import METHODS
from fedbench.simulation import Record, Simulation
from tests.conftest import timeless

Make = Callable[..., TrialConfig]

LIMITS: list[dict[str, Any]] = [
    {"method__name": "fedprox", "method__mu": 0.0},
    {"method__name": "fixed_gamma", "method__gamma": 1.0},
    {"method__name": "feddf", "method__epochs": 0},
    {"method__name": "fedbe", "method__epochs": 0},
    {"method__name": "server_ft", "method__epochs": 0},
    {"method__name": "adaptive_gws", "method__epochs": 0},
    {"method__name": "attentive_law", "method__epochs": 0},
    {"method__name": "attentive_law", "method__stop_round": 0},
    {"method__name": "fedlaw", "method__epochs": 0},
    {"method__name": "fedlaw", "method__steps": 0},
    {"method__name": "fedlaw_swa", "method__epochs": 1},
    {"method__name": "fedlws", "method__beta": 0.0, "method__min_tau": 0.0},
    {"method__name": "fedawa", "method__epochs": 0},
    {"method__name": "fedhaw", "method__lr_gamma": 0.0, "method__lr_lambda": 0.0},
    {"server__global_lr": 1.0},
]


@pytest.mark.parametrize("bn", ["average", "proxy", "local"])
@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: " ".join(map(str, limit.values())))
def test_at_its_limit_a_method_is_fedavg_bit_for_bit(tiny: Make, limit: dict[str, Any], bn: str) -> None:
    settings = {"bn": bn, "rounds": 2, "clients__participation": 0.6}
    model = {"model": "resnet8", "data__train_size": 40} if bn != "average" else {}
    plain, limited = (without_own(simulate(tiny(**settings, **model, **given))) for given in ({}, limit))
    assert limited == plain


def without_own(records: Iterable[Record]) -> list[dict[str, Any]]:
    """Records without times and without the numbers that only one method has."""
    own = {name for _, method in METHODS.items() for name in method.metrics}
    kept = timeless(list(records))
    return [
        {**record, "indicators": {k: v for k, v in record["indicators"].items() if k not in own}} for record in kept
    ]


NEAR_LIMITS: list[dict[str, Any]] = [
    {"method__name": "fedavgm", "method__momentum": 0.0},
    {"method__name": "feddisco", "method__a": 0.0, "method__b": 0.0},
    {"method__name": "fedadp", "method__alpha": 0.0},
    {"method__name": "fednova", "data__partition": "iid"},
    {"method__name": "qfedavg", "method__q": 0.0, "data__partition": "iid"},
]


@pytest.mark.parametrize("limit", NEAR_LIMITS, ids=lambda limit: limit["method__name"])
def test_at_its_limit_a_method_is_fedavg_to_rounding(tiny: Make, limit: dict[str, Any]) -> None:
    def final(**settings: Any) -> Tensor:
        simulation = Simulation(tiny(precision="float64", rounds=2, clients__participation=0.6, **settings))
        while not simulation.done:
            simulation.step()
        return simulation.state.w

    plain = {"data__partition": limit["data__partition"]} if "data__partition" in limit else {}
    assert float((final(**plain) - final(**limit)).abs().max()) < 1e-12


def test_quadratic_weights_start_at_fedavg_to_rounding(tiny: Make) -> None:
    def final(**settings: Any) -> Simulation:
        simulation = Simulation(tiny(precision="float64", bn="average", rounds=2, **settings))
        while not simulation.done:
            simulation.step()
        return simulation

    plain, quad = final(), final(method__name="fedlaw", method__base="quad", method__epochs=0)
    assert float((plain.state.w - quad.state.w).abs().max()) < 1e-12
    for one, other in zip(plain.state.history, quad.state.history, strict=True):
        assert other.lambda_ == pytest.approx(one.lambda_, abs=1e-12)
        assert other.gamma == 1.0


def test_an_early_stop_learns_until_then_and_averages_after(tiny: Make) -> None:
    settings = {"method__name": "attentive_law", "method__epochs": 3, "rounds": 3}
    stopped: list[Record] = list(simulate(tiny(**settings, method__stop_round=2)))
    learning = list(simulate(tiny(**settings)))
    sizes = [size / 300 for size in stopped[0].samples]
    assert timeless(stopped[:2]) == timeless(learning[:2])
    assert stopped[1].lambda_ != pytest.approx(sizes)
    assert stopped[2].lambda_ == pytest.approx(sizes)
    assert learning[2].lambda_ != pytest.approx(sizes)
