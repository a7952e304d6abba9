"""A method that does not keep its promises is told so in the round in which it happens."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from fedbench import TrialConfig, UserError
from fedbench.methods import Cohort, Server, Update
from fedbench.methods.base import State, size_weighted
from fedbench.methods.fedavg import FedAvg
from fedbench.simulation import Simulation

Make = Callable[..., TrialConfig]
Rule = Callable[[Cohort, Update], Any]


def into(name: str) -> Rule:
    def write(cohort: Cohort, update: Update) -> Update:
        getattr(cohort, name).add_(1.0)
        return update

    return write


def weights(update: Update) -> torch.Tensor:
    assert update.lambda_ is not None
    return update.lambda_


def having(**changes: Callable[[Update], Any]) -> Rule:
    """The update with some fields replaced."""
    return lambda cohort, update: replace(update, **{name: change(update) for name, change in changes.items()})


ON_SIMPLEX = "lambda_ must be weights that sum to 1"
WRONG: dict[str, tuple[Rule, str]] = {
    "nothing": (lambda cohort, update: None, "must return an Update, returned NoneType"),
    "a list": (having(w=lambda u: u.w.tolist()), r"w must be float32 \[199210\], is a list"),
    "float64": (having(w=lambda u: u.w.double()), r"w must be float32 \[199210\], is float64 \[199210\]"),
    "a shape": (having(w=lambda u: u.w[None]), r"w must be float32 \[199210\], is float32 \[1, 199210\]"),
    "few weights": (having(lambda_=lambda u: weights(u)[:2]), r"lambda_ must be float32 \[5\], is float32 \[2\]"),
    "heavy weights": (having(lambda_=lambda u: 2 * weights(u)), f"{ON_SIMPLEX} .their sum is 2"),
    "negative weights": (having(lambda_=lambda u: torch.tensor([2.0, -1, 0, 0, 0])), f"{ON_SIMPLEX} .*the least -1"),
    "no weights": (having(lambda_=lambda u: weights(u) * float("nan")), ON_SIMPLEX),
    "gamma": (having(gamma=lambda u: float("nan")), "gamma must be a finite number, is nan"),
    "gamma as a tensor": (having(gamma=lambda u: torch.tensor(1.0)), "gamma must be a number, is a Tensor"),
    "state": (having(state=lambda u: {"rounds": 3}), "state must be tensors by name"),
    "into w": (into("w"), "wrote into cohort.w; work on a copy"),
    "into W": (into("W"), "wrote into cohort.W; work on a copy"),
    "into a row of W": (lambda cohort, update: (cohort.W[0].mul_(2), update)[1], "wrote into cohort.W; work on a copy"),
    "into p": (into("p"), "wrote into cohort.p; work on a copy"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_update_is_one_line_that_names_the_method(
    tiny: Make, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    rule, message = WRONG[case]

    def aggregate(self: FedAvg, cohort: Cohort, state: State, server: Server) -> Any:
        return rule(cohort, size_weighted(cohort))

    monkeypatch.setattr(FedAvg, "aggregate", aggregate)
    with pytest.raises(UserError, match=f"FedAvg.aggregate:? {message}") as raised:
        Simulation(tiny()).step()
    assert "\n" not in str(raised.value)


def test_a_method_that_writes_into_its_state_is_told_so(tiny: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    def aggregate(self: FedAvg, cohort: Cohort, state: State, server: Server) -> Update:
        return replace(size_weighted(cohort), state={"sum": state["sum"].add_(1)})

    monkeypatch.setattr(FedAvg, "start", lambda self, n, w: {"sum": torch.zeros(3)})
    monkeypatch.setattr(FedAvg, "aggregate", aggregate)
    with pytest.raises(UserError, match=r"FedAvg.aggregate wrote into state\['sum'\]; work on a copy"):
        Simulation(tiny()).step()


@pytest.mark.parametrize("field", ["w", "state"])
def test_a_method_that_returns_the_servers_model_itself_is_told_so(
    tiny: Make, monkeypatch: pytest.MonkeyPatch, field: str
) -> None:
    def aggregate(self: FedAvg, cohort: Cohort, state: State, server: Server) -> Update:
        server.model.load(cohort.combine(cohort.p), cohort.buffers)
        borrowed: dict[str, Any] = {"w": server.model.w, "state": {"w": server.model.w[:3]}}
        return replace(size_weighted(cohort), **{field: borrowed[field]})

    monkeypatch.setattr(FedAvg, "aggregate", aggregate)
    with pytest.raises(UserError, match=r"FedAvg.aggregate: .* is the server's model itself"):
        Simulation(tiny()).step()


def test_statistics_of_the_proxy_set_do_not_depend_on_what_ran_before(tiny: Make) -> None:
    from fedbench.models import MODELS, register_model

    if "dropout_bn" not in MODELS:
        register_model("dropout_bn", version="1")(
            lambda shape, classes: torch.nn.Sequential(
                torch.nn.Flatten(), torch.nn.Linear(784, 8), torch.nn.Dropout(0.5), torch.nn.BatchNorm1d(8),
                torch.nn.Linear(8, classes),
            )
        )  # fmt: skip
    losses = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        simulation = Simulation(tiny(model="dropout_bn", bn="proxy"))
        losses.append([simulation.step().test_loss for _ in range(2)])
    assert losses[0] == losses[1]


def test_a_method_that_leaves_finite_numbers_is_a_run_that_diverges(
    tiny: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def aggregate(self: FedAvg, cohort: Cohort, state: State, server: Server) -> Update:
        lost = float("nan")
        return Update(w=cohort.w * lost, lambda_=cohort.p * lost, gamma=lost)

    monkeypatch.setattr(FedAvg, "aggregate", aggregate)
    assert "non-finite weights" in (Simulation(tiny()).step().diverged or "")


def test_weights_may_be_computed_from_the_losses_which_are_float64(tiny: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    def aggregate(self: FedAvg, cohort: Cohort, state: State, server: Server) -> Update:
        weights = cohort.p.double()
        return Update(cohort.combine(weights), weights)

    usual = Simulation(tiny()).step()
    monkeypatch.setattr(FedAvg, "aggregate", aggregate)
    assert Simulation(tiny()).step().lambda_ == usual.lambda_
