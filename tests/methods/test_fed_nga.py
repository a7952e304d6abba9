"""Fed-NGA against its equation, and what it promises of clients that send anything."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedbench.methods.fed_nga import FedNga, FedNgaSettings
from tests.methods.helpers import tiny_cohort, tiny_server


@pytest.mark.parametrize("lr", [None, 0.7])
def test_every_update_is_scaled_to_unit_norm(lr: float | None) -> None:
    cohort = tiny_cohort(tiny_server())
    d = cohort.W - cohort.w
    eta = float(d.norm(dim=1).quantile(0.5)) if lr is None else lr
    wanted = cohort.w + eta * sum(p * row / row.norm() for p, row in zip(cohort.p, d, strict=True))
    update = FedNga(FedNgaSettings(lr=lr)).aggregate(cohort, {}, tiny_server())
    assert torch.allclose(update.w, wanted, atol=1e-13)
    assert update.metrics["nga_step"] == pytest.approx(eta)


def test_with_updates_of_one_length_it_is_fedavg() -> None:
    cohort = tiny_cohort(tiny_server())
    d = cohort.W - cohort.w
    cohort = replace(cohort, W=cohort.w + 0.3 * d / d.norm(dim=1, keepdim=True))
    update = FedNga(FedNgaSettings()).aggregate(cohort, {}, tiny_server())
    assert torch.allclose(update.w, cohort.p @ cohort.W, atol=1e-13)


@given(scale=st.floats(1e-6, 1e6), seed=st.integers(0, 99))
def test_how_long_a_clients_update_is_does_not_matter_for_a_constant_step(scale: float, seed: int) -> None:
    cohort = tiny_cohort(tiny_server(), seed=seed)
    W = cohort.W.clone()
    W[0] = cohort.w + scale * (W[0] - cohort.w)
    method = FedNga(FedNgaSettings(lr=0.5))
    plain, scaled = (method.aggregate(replace(cohort, W=each), {}, tiny_server()).w for each in (cohort.W, W))
    assert torch.allclose(plain, scaled, atol=1e-7)


def test_an_update_far_too_long_moves_the_model_no_further_than_the_others_are_long() -> None:
    cohort = tiny_cohort(tiny_server(), m=5)
    W = cohort.W.clone()
    W[0] = cohort.w + 1e6 * (W[0] - cohort.w)
    update = FedNga(FedNgaSettings()).aggregate(replace(cohort, W=W), {}, tiny_server())
    assert float((update.w - cohort.w).norm()) <= float((W[1:] - cohort.w).norm(dim=1).max())


def test_a_client_that_did_not_move_adds_nothing() -> None:
    cohort = tiny_cohort(tiny_server())
    still = replace(cohort, W=cohort.w.repeat(4, 1))
    assert torch.equal(FedNga(FedNgaSettings()).aggregate(still, {}, tiny_server()).w, cohort.w)
