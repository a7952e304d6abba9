from collections.abc import Callable
from statistics import fmean

import pytest

from fedbench import TrialConfig, simulate
from fedbench.simulation.lockstep import Lockstep
from fedbench.store.summary import summarise
from tests.conftest import timeless

Tiny = Callable[..., TrialConfig]


@pytest.mark.parametrize("method", ["fedavg", "fedlaw", "fedbe"])
def test_runs_in_lockstep_are_the_runs_alone(tiny: Tiny, method: str) -> None:
    own = {"method.epochs": 3} if method != "fedavg" else {}
    configs = [tiny(**{"seed": seed, "data.validation": 0.2, "method.name": method, **own}) for seed in (1, 2)]
    alone = [list(simulate(config)) for config in configs]
    together = Lockstep(configs, "validation_accuracy")
    while not together.done:
        step = together.step()
    for simulation, records in zip(together.simulations, alone, strict=True):
        assert timeless(simulation.state.history) == timeless(records)
    finals = [summarise(records, 3)["final_validation_accuracy"] for records in alone]
    assert step.score == fmean(finals)


def test_the_score_of_a_round_is_the_mean_of_as_many_as_the_final_score_is(tiny: Tiny) -> None:
    runs = Lockstep([tiny(**{"rounds": 12, "data.validation": 0.2})], "validation_loss")
    steps = [runs.step() for _ in range(12)]
    losses = [record.validation_loss for record in runs.simulations[0].state.history]
    assert steps[0].score == losses[0]
    assert steps[11].score == fmean(loss for loss in losses[9:] if loss is not None)


def test_a_round_that_is_not_evaluated_has_no_score(tiny: Tiny) -> None:
    runs = Lockstep([tiny(**{"rounds": 13, "eval_every": 2, "data.validation": 0.2})], "validation_accuracy")
    assert [runs.step().score is None for _ in range(4)] == [True, False, True, False]


def test_one_diverging_seed_ends_the_whole_with_its_reason(tiny: Tiny) -> None:
    good, bad = (
        tiny(**{"seed": seed, "data.validation": 0.2, "clients.lr": lr}) for seed, lr in ((1, 0.05), (2, 1e30))
    )
    runs = Lockstep([good, bad], "validation_accuracy")
    step = runs.step()
    assert step.score is None
    assert (step.diverged or "").startswith("seed 2: round 1: ")
    assert runs.done


def test_a_score_may_be_the_mean_of_fewer_rounds(tiny: Tiny) -> None:
    runs = Lockstep([tiny(**{"data.validation": 0.2})], "validation_loss", rounds=2)
    steps = [runs.step() for _ in range(3)]
    losses = [record.validation_loss for record in runs.simulations[0].state.history]
    assert steps[2].score == fmean(loss for loss in losses[1:] if loss is not None)
