import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fedbench.indicators.flatness import hessian_product, loss_along, mean_loss, top_eigenvalues
from fedbench.models import FlatModel

CPU = torch.device("cpu")


def problem(kind: str) -> tuple[FlatModel, list[tuple[torch.Tensor, torch.Tensor]]]:
    torch.manual_seed(0)
    if kind == "conv":
        module = nn.Sequential(nn.Conv2d(2, 3, 2), nn.BatchNorm2d(3), nn.Tanh(), nn.Flatten(), nn.Linear(12, 3))
        x = torch.randn(10, 2, 3, 3, dtype=torch.float64)
    else:
        module = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))
        x = torch.randn(10, 4, dtype=torch.float64)
    y = torch.randint(0, 3, (10,))
    return FlatModel(module, CPU, torch.float64), [(x[:7], y[:7]), (x[7:], y[7:])]


def exact_hessian(model: FlatModel, batches: list[tuple[torch.Tensor, torch.Tensor]]) -> torch.Tensor:
    x, y = torch.cat([x for x, _ in batches]), torch.cat([y for _, y in batches])
    names = [name for name, _ in model.module.named_parameters()]
    model.train(False)

    def loss(w: torch.Tensor) -> torch.Tensor:
        parameters = dict(zip(names, model.views(w), strict=True))
        return F.cross_entropy(torch.func.functional_call(model.module, parameters, (x,)), y)

    hessian = torch.autograd.functional.hessian(loss, model.w.clone())
    assert isinstance(hessian, torch.Tensor)
    return hessian


@pytest.mark.parametrize("kind", ["dense", "conv"])
def test_hessian_products_are_those_of_the_exact_hessian(kind: str) -> None:
    model, batches = problem(kind)
    v = torch.randn(len(model.w), dtype=torch.float64)
    assert torch.allclose(hessian_product(model, batches)(v), exact_hessian(model, batches) @ v, atol=1e-10)


@pytest.mark.parametrize("kind", ["dense", "conv"])
def test_top_eigenvalues_are_the_exact_ones(kind: str) -> None:
    model, batches = problem(kind)
    values, vectors = np.linalg.eigh(exact_hessian(model, batches).numpy())
    start = np.random.default_rng(0).standard_normal(len(model.w))
    spectrum = top_eigenvalues(model, batches, 5, start)
    assert spectrum.values == pytest.approx(values[::-1][:5].tolist(), rel=1e-3)
    assert abs(float(spectrum.top @ torch.from_numpy(vectors[:, -1]))) == pytest.approx(1, abs=1e-3)


def test_the_loss_along_the_top_eigenvector_curves_by_its_eigenvalue() -> None:
    model, batches = problem("dense")
    spectrum = top_eigenvalues(model, batches, 1, np.ones(len(model.w)))
    before, h = model.w.clone(), 1e-3
    left, middle, right = loss_along(model, batches, spectrum.top, [-h, 0, h])
    assert middle == pytest.approx(mean_loss(model, batches))
    assert (left - 2 * middle + right) / h**2 == pytest.approx(spectrum.values[0], rel=1e-3)
    assert torch.equal(model.w, before)
