"""FedAvgM, FedYogi, FedAdagrad and FedExP against their formulas, computed plainly in float64."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from fedbench import TrialConfig
from fedbench.methods import Cohort, Method
from fedbench.methods.fedadagrad import FedAdagrad, FedAdagradSettings
from fedbench.methods.fedavgm import FedAvgM, FedAvgMSettings
from fedbench.methods.fedexp import FedExP, FedExPSettings
from fedbench.methods.fedyogi import FedYogi, FedYogiSettings
from fedbench.simulation import Simulation
from tests.methods.helpers import tiny_cohort, tiny_server


def mean_update(cohort: Cohort) -> Any:
    return sum(float(p) * (row - cohort.w).numpy() for p, row in zip(cohort.p, cohort.W, strict=True))


def three_rounds(method: Method[Any], global_lr: float = 1.0) -> list[tuple[Cohort, Any]]:
    """Cohorts around the model that the method went on to, and the models that it made of them."""
    server = tiny_server()
    w, state, seen = server.model.w.clone(), method.start(4, server.model.w), []
    for t in (1, 2, 3):
        cohort = tiny_cohort(server, seed=t, w=w, global_lr=global_lr)
        update = method.aggregate(cohort, state, server)
        seen.append((cohort, update))
        w, state = update.w, update.state
    return seen


@pytest.mark.parametrize("dampening", [0.0, 0.7])
def test_fedavgm_is_heavy_ball_on_the_mean_update(dampening: float) -> None:
    m: Any = 0.0
    for cohort, update in three_rounds(FedAvgM(FedAvgMSettings(lr=0.5, momentum=0.7, dampening=dampening))):
        m = 0.7 * m + (1 - dampening) * mean_update(cohort)
        assert np.allclose(update.w.numpy(), cohort.w.numpy() + 0.5 * m, atol=1e-13)


def test_fedyogi_moves_its_second_moment_by_the_square_alone() -> None:
    m, v = 0.0, np.full(len(tiny_server().model.w), 1e-4)
    for cohort, update in three_rounds(FedYogi(FedYogiSettings(lr=0.1, beta1=0.8, beta2=0.9, eps=1e-2))):
        d = mean_update(cohort)
        m, v = 0.8 * m + 0.2 * d, v - 0.1 * d**2 * np.sign(v - d**2)
        assert np.allclose(update.w.numpy(), cohort.w.numpy() + 0.1 * m / (np.sqrt(v) + 1e-2), atol=1e-12)


def test_the_first_step_of_fedadagrad_does_not_outweigh_the_initial_model() -> None:
    server = tiny_server()
    cohort, method = tiny_cohort(server), FedAdagrad(FedAdagradSettings())
    update = method.aggregate(cohort, method.start(4, cohort.w), server)
    assert float((update.w - cohort.w).abs().max()) <= 0.01 < 0.1 * float(cohort.w.abs().mean())


def test_fedadagrad_sums_squares() -> None:
    v: Any = 1e-4
    for cohort, update in three_rounds(FedAdagrad(FedAdagradSettings(lr=0.1, eps=1e-2))):
        d = mean_update(cohort)
        v = v + d**2
        assert np.allclose(update.w.numpy(), cohort.w.numpy() + 0.1 * d / (np.sqrt(v) + 1e-2), atol=1e-12)


@pytest.mark.parametrize("global_lr", [1.0, 0.5])
def test_fedexp_takes_the_extrapolated_step(global_lr: float) -> None:
    steps = []
    for cohort, update in three_rounds(FedExP(FedExPSettings(eps=1e-3)), global_lr):
        d = mean_update(cohort)
        squares = [float(((row - cohort.w) ** 2).sum()) for row in cohort.W]
        step = max(1.0, float(cohort.p.numpy() @ squares) / (2 * (float(d @ d) + 1e-3)))
        steps.append(step)
        assert update.metrics["fedexp_step"] == pytest.approx(step, rel=1e-12)
        assert np.allclose(update.w.numpy(), cohort.w.numpy() + global_lr * step * d, atol=1e-12)
        assert update.average
    assert max(steps) > 1


def test_fedexp_takes_no_smaller_step_than_fedavg_and_none_where_nobody_moved() -> None:
    server = tiny_server()
    cohort = tiny_cohort(server)
    alike = replace(cohort, W=cohort.W[:1].expand_as(cohort.W).clone())
    update = FedExP(FedExPSettings(average=False)).aggregate(alike, {}, server)
    assert update.metrics["fedexp_step"] == 1
    assert torch.equal(update.w, alike.p @ alike.W)
    assert not update.average
    still = replace(cohort, W=cohort.w.expand_as(cohort.W).clone())
    assert torch.allclose(FedExP(FedExPSettings(eps=0.0)).aggregate(still, {}, server).w, cohort.w, atol=1e-14)


def test_the_averaged_model_of_fedexp_is_the_one_that_is_scored_and_not_the_one_that_goes_on(tiny: Any) -> None:
    def run(**settings: Any) -> Simulation:
        config: TrialConfig = tiny(method__name="fedexp", rounds=2, data__alpha=0.1, **settings)
        simulation = Simulation(config)
        simulation.step()
        simulation.step()
        return simulation

    averaged, last = run(), run(method__average=False)
    assert torch.equal(averaged.state.w, last.state.w)
    assert torch.equal(last.state.model, last.state.w)
    assert not torch.equal(averaged.state.model, averaged.state.w)
    assert averaged.state.history[-1].test_loss != last.state.history[-1].test_loss
    again = Simulation(averaged.config)
    again.step()
    before = again.state.w
    again.step()
    assert torch.equal(again.state.model, torch.lerp(before, again.state.w, 0.5))
