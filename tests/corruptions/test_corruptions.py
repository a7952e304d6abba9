"""Every corruption against its formula, computed plainly in float64."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm
from torch import Tensor

from fedbench.base.rng import generator
from fedbench.corruptions import CORRUPTIONS, CorruptedCohort
from fedbench.corruptions.alie import largest_unseen
from fedbench.corruptions.swap import Swap

BUILT_IN = {name: item for name, item in CORRUPTIONS.items() if CORRUPTIONS.version(name) is None}
SENDING = [name for name, item in BUILT_IN.items() if item.sends_another_model]
LABELS = np.random.default_rng(1).integers(0, 7, 500)
P, Q, CLIENTS = 400, 6, (3, 5, 9)


def cohort(scale: float = 1.0, honest: int = 4, dtype: torch.dtype = torch.float64) -> CorruptedCohort:
    rng = np.random.default_rng(0)

    def near(w: Tensor, rows: int) -> Tensor:
        return w + torch.from_numpy(rng.normal(0, 0.1, (rows, len(w)))).to(dtype)

    w, buffers = (torch.from_numpy(rng.normal(0, 1, size)).to(dtype) for size in (P, Q))
    return CorruptedCohort(
        clients=CLIENTS,
        own=near(w, len(CLIENTS)),
        statistics=near(buffers, len(CLIENTS)),
        honest=near(w, honest),
        w=w,
        buffers=buffers,
        scale=scale,
        rng=lambda client: generator(8, "test", 2, client),
    )


def test_these_are_the_built_in_ones() -> None:
    assert list(BUILT_IN) == ["alie", "flip", "ipm", "noise", "random", "sign_flip", "stale", "swap"]
    assert SENDING == ["alie", "ipm", "noise", "sign_flip", "stale"]


def expected(name: str, seen: CorruptedCohort) -> np.ndarray[Any, Any]:
    """What is sent [k, P], client by client and coordinate by coordinate."""
    own, honest, w, s = seen.own.numpy(), seen.honest.numpy(), seen.w.numpy(), seen.scale
    if name == "stale":
        return np.stack([w] * len(own))
    if name == "sign_flip":
        return np.stack([w + s * (w - row) for row in own])
    if name == "ipm":
        return np.stack([w - s * sum(row - w for row in honest) / len(honest)] * len(own))
    if name == "alie":
        mean = sum(honest) / len(honest)
        spread = np.sqrt(sum((row - mean) ** 2 for row in honest) / (len(honest) - 1))
        return np.stack([mean - s * spread] * len(own))
    assert name == "noise"
    lengths = [np.sqrt(((row - w) ** 2).sum() / P) for row in own]
    draws = [generator(8, "test", 2, client).standard_normal(P) for client in seen.clients]
    return np.stack([row + s * length * draw for row, length, draw in zip(own, lengths, draws, strict=True)])


@pytest.mark.parametrize("scale", [0.0, 0.3, 1.0, 7.0])
@pytest.mark.parametrize("name", SENDING)
def test_what_is_sent_is_the_formula(name: str, scale: float) -> None:
    seen = cohort(scale)
    before = [tensor.clone() for tensor in (seen.own, seen.statistics, seen.honest, seen.w, seen.buffers)]
    sent = BUILT_IN[name].updates(seen)
    np.testing.assert_allclose(sent.numpy(), expected(name, seen), rtol=0, atol=1e-13)
    after = (seen.own, seen.statistics, seen.honest, seen.w, seen.buffers)
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True)), "nothing is written to"


@pytest.mark.parametrize("name", SENDING)
def test_float32_keeps_its_digits(name: str) -> None:
    seen = cohort(2.0, dtype=torch.float32)
    names = ("own", "statistics", "honest", "w", "buffers")
    exact = replace(seen, **{key: getattr(seen, key).double() for key in names})
    sent = BUILT_IN[name].updates(seen)
    assert sent.dtype == torch.float32
    np.testing.assert_allclose(sent.numpy(), expected(name, exact), rtol=0, atol=2e-6)


@pytest.mark.parametrize("name", SENDING)
def test_running_statistics_are_honest_but_of_a_stale_model(name: str) -> None:
    seen = cohort()
    wanted = torch.stack([seen.buffers] * len(CLIENTS)) if name == "stale" else seen.statistics
    assert torch.equal(BUILT_IN[name].statistics(seen), wanted)


@pytest.mark.parametrize("name", ["alie", "ipm"])
def test_without_an_honest_client_they_send_what_they_trained(name: str) -> None:
    seen = cohort(honest=0)
    assert torch.equal(BUILT_IN[name].updates(seen), seen.own)


def test_one_honest_client_has_no_spread_to_hide_in() -> None:
    seen = cohort(scale=3.0, honest=1)
    assert torch.equal(BUILT_IN["alie"].updates(seen), torch.cat([seen.honest] * len(CLIENTS)))


def test_noise_is_as_long_as_it_says_and_each_clients_own() -> None:
    seen = cohort(scale=5.0)
    noise = BUILT_IN["noise"].updates(seen) - seen.own
    ratio = torch.linalg.vector_norm(noise, dim=1) / torch.linalg.vector_norm(seen.own - seen.w, dim=1)
    assert ratio.tolist() == pytest.approx([5.0] * 3, rel=0.15)
    turned = replace(seen, clients=CLIENTS[::-1], own=seen.own.flip(0))
    assert torch.equal(BUILT_IN["noise"].updates(turned).flip(0) - seen.own, noise), "whatever the order of the rows"
    assert abs(float(torch.corrcoef(noise)[0, 1])) < 0.2


def test_a_client_that_did_not_move_sends_no_noise() -> None:
    seen = cohort()
    still = replace(seen, own=torch.stack([seen.w] * len(CLIENTS)))
    assert torch.equal(BUILT_IN["noise"].updates(still), still.own)


@given(m=st.integers(2, 200), share=st.floats(0.01, 0.99))
def test_alies_z_is_that_of_the_paper_where_the_paper_has_one(m: int, share: float) -> None:
    k = max(1, min(m - 1, round(share * m)))
    s, z = m // 2 + 1 - k, largest_unseen(m, k)
    assert np.isfinite(z)
    if 1 <= s < m - k:
        assert z == pytest.approx(norm.ppf((m - k - s) / (m - k)), abs=1e-9)
    if k > 1:
        assert largest_unseen(m, k) >= -1e-9, "two clients or more do not go the wrong way"


def test_alies_z_in_known_cases() -> None:
    assert largest_unseen(50, 12) == pytest.approx(norm.ppf(24 / 38))
    assert largest_unseen(20, 2) == 0
    assert largest_unseen(20, 15) == pytest.approx(norm.ppf(4 / 5)), "a majority: s = 1"
    assert largest_unseen(5, 4) == 0, "one honest client"
    assert largest_unseen(3, 3) == 0, "none"


def test_scales_where_there_are_any() -> None:
    scales = {name: item.default_scale(20, 8) for name, item in BUILT_IN.items()}
    none = dict.fromkeys(("flip", "random", "stale", "swap"))
    assert scales == {**none, "sign_flip": 1.0, "ipm": 1.0, "noise": 30.0, "alie": largest_unseen(20, 8)}


def test_flipped_labels_are_the_classes_in_the_opposite_order() -> None:
    assert (BUILT_IN["flip"].labels(LABELS, 7, generator(8, "test")) == 6 - LABELS).all()


def test_random_labels_are_uniform_over_all_classes() -> None:
    drawn = BUILT_IN["random"].labels(np.zeros(70_000, np.int64), 7, generator(8, "test"))
    assert drawn.dtype == np.int64
    assert np.abs(np.bincount(drawn, minlength=7) / 10_000 - 1).max() < 0.05


def test_a_swap_is_of_the_pair_that_is_recorded() -> None:
    swap = BUILT_IN["swap"]
    assert isinstance(swap, Swap)
    held = LABELS[LABELS > 3]
    a, b = swap.pair(held, 7, generator(8, "test"))
    after = swap.labels(held, 7, generator(8, "test"))
    assert a > 3
    assert a != b
    assert [int(y) for y in after] == [{a: b, b: a}.get(int(y), int(y)) for y in held]


@pytest.mark.parametrize("name", SENDING)
def test_who_sends_another_model_trains_on_its_own_labels(name: str) -> None:
    assert (BUILT_IN[name].labels(LABELS, 7, generator(8, "test")) == LABELS).all()
