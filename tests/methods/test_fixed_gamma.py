from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedbench import TrialConfig, simulate
from fedbench.methods import METHODS, Cohort
from fedbench.methods.base import size_weighted
from tests.conftest import timeless
from tests.methods.helpers import make_cohort

Make = Callable[..., TrialConfig]


def cohort_of(m: int, P: int, global_lr: float, seed: int) -> Cohort:
    rng = torch.Generator().manual_seed(seed)
    p = torch.rand(m, generator=rng, dtype=torch.float64) + 0.01
    draw = torch.randn(m + 1, P, generator=rng, dtype=torch.float64)
    return make_cohort(p=p / p.sum(), w=draw[0], W=draw[1:], global_lr=global_lr)


@given(
    m=st.integers(1, 12),
    gamma=st.floats(0.1, 2),
    global_lr=st.floats(0.1, 2),
    seed=st.integers(0, 999),
)
def test_aggregation_is_gamma_times_the_step_along_the_mean_update(
    m: int, gamma: float, global_lr: float, seed: int
) -> None:
    cohort = cohort_of(m, 7, global_lr, seed)
    update = size_weighted(cohort, gamma)
    g = sum(weight * (cohort.w - row) for weight, row in zip(cohort.p, cohort.W, strict=True))
    assert torch.allclose(update.w, gamma * (cohort.w - global_lr * g), atol=1e-12)


def test_at_gamma_and_global_lr_one_it_is_the_weighted_mean_bit_for_bit() -> None:
    cohort = cohort_of(9, 50, 1.0, 0)
    assert torch.equal(size_weighted(cohort, 1.0).w, cohort.p @ cohort.W)


def test_gamma_one_is_fedavg_bit_for_bit(tiny: Make) -> None:
    fixed = timeless(list(simulate(tiny(method__name="fixed_gamma", method__gamma=1.0))))
    assert fixed == timeless(list(simulate(tiny())))


@pytest.mark.parametrize("gamma", [0.9, 1.1])
def test_gamma_scales_every_round(tiny: Make, gamma: float) -> None:
    (record,) = simulate(tiny(method__name="fixed_gamma", method__gamma=gamma, rounds=1))
    (plain,) = simulate(tiny(rounds=1))
    assert record.gamma == gamma
    assert record.norm_w == pytest.approx(gamma * plain.norm_w, rel=1e-5)  # type: ignore[operator]
    assert record.norm_opt == pytest.approx(gamma * plain.norm_opt, rel=1e-5)  # type: ignore[operator]
    assert record.r == pytest.approx(record.norm_opt / record.norm_reg)  # type: ignore[operator]


def test_every_method_fixes_its_own_name() -> None:
    for name in METHODS:
        assert METHODS.get(name).Settings.model_fields["name"].default == name
