import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedbench.indicators import coherence
from fedbench.indicators.coherence import cohort_coherence, pairwise_cosine


@given(m=st.integers(2, 6), P=st.integers(2, 20), seed=st.integers(0, 999))
def test_pairwise_cosines_are_those_of_torch(m: int, P: int, seed: int) -> None:
    rng = torch.Generator().manual_seed(seed)
    w, W = torch.randn(P, generator=rng, dtype=torch.float64), torch.randn(m, P, generator=rng, dtype=torch.float64)
    cosine = pairwise_cosine(w, W)
    for i in range(m):
        for j in range(m):
            wanted = torch.cosine_similarity(w - W[i], w - W[j], dim=0)
            assert torch.isclose(cosine[i, j], wanted, atol=1e-10)


def test_chunks_add_up_to_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    w, W = torch.randn(100, dtype=torch.float64), torch.randn(4, 100, dtype=torch.float64)
    weights = torch.full((4,), 0.25)
    whole, values = pairwise_cosine(w, W), cohort_coherence(w, W, weights)
    monkeypatch.setattr(coherence, "CHUNK", 7)
    assert torch.allclose(pairwise_cosine(w, W), whole, atol=1e-12)
    assert cohort_coherence(w, W, weights) == pytest.approx(values)


def test_an_update_of_length_zero_agrees_with_nobody() -> None:
    w = torch.ones(3)
    cosine = pairwise_cosine(w, torch.stack([w, torch.zeros(3)]))
    assert cosine[0].tolist() == [0, 0]
    assert cosine[1].tolist() == pytest.approx([0, 1])


def test_equal_updates_reach_the_upper_ends() -> None:
    m = 20
    whole, mean = cohort_coherence(torch.zeros(5), torch.ones(m, 5), torch.full((m,), 1 / m))
    assert mean == pytest.approx(1)
    assert whole == pytest.approx(0.0475, abs=1e-6)  # (1/m) * (1 - 1/m)


@given(m=st.integers(2, 8), P=st.integers(1, 30), still=st.integers(0, 2), seed=st.integers(0, 999))
def test_both_values_are_the_sums_over_pairs(m: int, P: int, still: int, seed: int) -> None:
    rng = torch.Generator().manual_seed(seed)
    w, W = torch.randn(P, generator=rng, dtype=torch.float64), torch.randn(m, P, generator=rng, dtype=torch.float64)
    W[:still] = w  # clients that did not move
    weights = torch.softmax(torch.randn(m, generator=rng, dtype=torch.float64), 0)
    cosine = pairwise_cosine(w, W)
    pairs = [(i, j) for i in range(m) for j in range(m) if i != j]
    total = sum(float(weights[i] * weights[j] * cosine[i, j]) for i, j in pairs)
    mass = sum(float(weights[i] * weights[j]) for i, j in pairs)
    assert cohort_coherence(w, W, weights) == pytest.approx((total / m, total / mass), abs=1e-10)


def test_a_single_client_has_no_mean() -> None:
    whole, mean = cohort_coherence(torch.zeros(3), torch.ones(1, 3), torch.ones(1))
    assert whole == pytest.approx(0, abs=1e-7)
    assert mean is None
