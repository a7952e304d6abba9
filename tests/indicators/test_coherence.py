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
    whole = pairwise_cosine(w, W)
    monkeypatch.setattr(coherence, "CHUNK", 7)
    assert torch.allclose(pairwise_cosine(w, W), whole, atol=1e-12)


def test_an_update_of_length_zero_agrees_with_nobody() -> None:
    w = torch.ones(3)
    cosine = pairwise_cosine(w, torch.stack([w, torch.zeros(3)]))
    assert cosine[0].tolist() == [0, 0]
    assert cosine[1].tolist() == pytest.approx([0, 1])


def test_equal_updates_reach_the_upper_ends() -> None:
    m = 20
    whole, mean = cohort_coherence(torch.ones(m, m, dtype=torch.float64), torch.full((m,), 1 / m))
    assert mean == pytest.approx(1)
    assert whole == pytest.approx(0.0475, abs=1e-6)  # (1/m) * (1 - 1/m)


def test_both_values_by_hand() -> None:
    cosine = torch.tensor([[1.0, 0.5, -0.2], [0.5, 1.0, 0.1], [-0.2, 0.1, 1.0]], dtype=torch.float64)
    weights = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    total = 2 * (0.15 * 0.5 + 0.10 * -0.2 + 0.06 * 0.1)
    assert cohort_coherence(cosine, weights) == pytest.approx((total / 3, total / 0.62))


def test_a_single_client_has_no_mean() -> None:
    assert cohort_coherence(torch.ones(1, 1, dtype=torch.float64), torch.ones(1)) == (0.0, None)
