"""The server's optimisers against torch's own."""

import pytest
import torch
from torch import Tensor

from fedbench.methods.optimisers import BETAS, Adam, Optimiser, Sgd

RATES = [0.1, 0.1, 0.03, 0.5, 1e-4, 0.02]


def vector(seed: int, dtype: torch.dtype) -> Tensor:
    return torch.randn(1003, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def stepped(optimiser: Optimiser, p: Tensor, rates: list[float], first: int = 0) -> None:
    for k, numbers in enumerate(optimiser.ahead(rates), start=first):
        p.grad = vector(k, p.dtype)
        optimiser.step(numbers)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_adam_is_torchs_to_the_bit_on_a_cpu(dtype: torch.dtype) -> None:
    ours, theirs = vector(99, dtype), torch.nn.Parameter(vector(99, dtype))
    stepped(Adam([ours]), ours, RATES)
    adam = torch.optim.Adam([theirs], lr=0.1, betas=BETAS)
    for k, rate in enumerate(RATES):
        adam.param_groups[0]["lr"] = rate
        theirs.grad = vector(k, dtype)
        adam.step()
    assert torch.equal(ours, theirs.detach())


def test_adam_steps_all_its_parameters_a_number_among_them() -> None:
    x, y = vector(1, torch.float64), torch.zeros((), dtype=torch.float64)
    adam, alone = Adam([x, y]), vector(1, torch.float64)
    (numbers,) = adam.ahead([0.1])
    x.grad, y.grad = vector(2, torch.float64), torch.tensor(3.0, dtype=torch.float64)
    adam.step(numbers)
    other = Adam([alone])
    alone.grad = vector(2, torch.float64)
    other.step(other.ahead([0.1])[0])
    assert torch.equal(x, alone)
    assert float(y) == pytest.approx(-0.1)


@pytest.mark.parametrize("kind", ["adam", "sgd"])
def test_what_is_kept_goes_on_where_it_ended(kind: str) -> None:
    def made(p: torch.nn.Parameter, state: dict[str, Tensor] | None = None) -> Optimiser:
        return Adam([p], state) if kind == "adam" else Sgd(p, 0.1, 0.9, 0.01, state)

    whole, halves = (torch.nn.Parameter(vector(99, torch.float32)) for _ in range(2))
    stepped(made(whole), whole, RATES)
    first = made(halves)
    stepped(first, halves, RATES[:3])
    stepped(made(halves, dict(first.kept())), halves, RATES[3:], first=3)
    assert torch.equal(whole, halves)


def test_the_same_names_are_kept_as_torch_keeps() -> None:
    theirs, ours = (torch.nn.Parameter(vector(99, torch.float32)) for _ in range(2))
    adam, own = torch.optim.Adam([theirs], betas=BETAS), Adam([ours])
    stepped(own, ours, [1e-3])
    theirs.grad = vector(0, torch.float32)
    adam.step()
    kept = own.kept()
    assert kept.keys() == adam.state[theirs].keys()
    assert all(torch.equal(kept[name], value) for name, value in adam.state[theirs].items())
