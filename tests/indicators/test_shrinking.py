import pytest
import torch

from fedbench.indicators.shrinking import shrinking


def test_the_two_terms_and_their_ratio() -> None:
    w, mean = torch.tensor([3.0, 4.0]), torch.tensor([3.0, 2.0])
    terms = shrinking(w, mean, gamma=0.9, global_lr=0.5)
    assert terms.norm_opt == pytest.approx(0.9 * 0.5 * 2)
    assert terms.norm_reg == pytest.approx(0.1 * 5)
    assert terms.r == pytest.approx(0.9 / 0.5)


@pytest.mark.parametrize("gamma", [1.0, 1 + 1e-9])
def test_without_shrinking_there_is_no_ratio(gamma: float) -> None:
    assert shrinking(torch.ones(2), torch.zeros(2), gamma, 1.0).r is None


def test_a_global_model_of_zeros_has_no_ratio() -> None:
    assert shrinking(torch.zeros(2), torch.ones(2), 0.5, 1.0).r is None
