"""FedVG against its equations, with gradients by plain autograd."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from fedbench.methods import Cohort, Server
from fedbench.methods.fedvg import EPSILON, FedVG, FedVGSettings
from fedbench.models import LayerGroups
from fedbench.simulation import Simulation
from tests.methods.helpers import tiny_cohort, tiny_server

TENSORS = (0, 20, 25, 40, 43)  # of a linear layer 4 x 5 with bias, and one 5 x 3
BOUNDS: dict[LayerGroups, tuple[int, ...]] = {"tensor": TENSORS, "module": (0, 25, 43)}


def gradients(cohort: Cohort, server: Server) -> list[Tensor]:
    """The gradient of the mean proxy loss at every client's model."""
    found = []
    for w in cohort.W:
        first, bias, second, last = (w[a:b].clone().requires_grad_() for a, b in pairwise(TENSORS))
        hidden = torch.tanh(server.proxy.x @ first.view(5, 4).T + bias)
        F.cross_entropy(hidden @ second.view(3, 5).T + last, server.proxy.y).backward()
        found.append(torch.cat([part.grad for part in (first, bias, second, last)]))
    return found


def norms(gradient: Tensor, bounds: tuple[int, ...], order: float = 1.0) -> list[float]:
    """Of each piece, the sum of its tensors' norms."""
    own = {a: float(torch.linalg.vector_norm(gradient[a:b], ord=order)) for a, b in pairwise(TENSORS)}
    return [sum(norm for at, norm in own.items() if a <= at < b) for a, b in pairwise(bounds)]


@pytest.mark.parametrize("order", [1.0, 2.0])
def test_a_client_counts_by_the_inverse_of_its_proxy_gradients_norms_summed_over_tensors(order: float) -> None:
    server = tiny_server()
    cohort = tiny_cohort(server)
    update = FedVG(FedVGSettings(order=order)).aggregate(cohort, {}, server)
    sums = torch.tensor([sum(norms(g, TENSORS, order)) for g in gradients(cohort, server)], dtype=torch.float64)
    weights = 1 / (sums + EPSILON)
    weights /= weights.sum()
    assert update.lambda_ is not None
    assert torch.allclose(update.lambda_, weights, atol=1e-13)
    assert torch.allclose(update.w, weights @ cohort.W, atol=1e-13)
    assert update.metrics["fedvg_norm"] == pytest.approx(float(sums.mean()))


@pytest.mark.parametrize("groups", ["tensor", "module"])
def test_in_the_layer_wise_mode_each_layer_has_weights_of_its_own(groups: LayerGroups) -> None:
    server = tiny_server()
    cohort = tiny_cohort(server)
    update = FedVG(FedVGSettings(groups=groups)).aggregate(cohort, {}, server)
    by_layer = torch.tensor([norms(g, BOUNDS[groups]) for g in gradients(cohort, server)], dtype=torch.float64)
    weights = 1 / (by_layer + EPSILON)
    weights /= weights.sum(0)
    for k, (a, b) in enumerate(pairwise(BOUNDS[groups])):
        assert torch.allclose(update.w[a:b], weights[:, k] @ cohort.W[:, a:b], atol=1e-13)
    sizes = torch.tensor([b - a for a, b in pairwise(BOUNDS[groups])], dtype=torch.float64)
    assert update.lambda_ is not None
    assert torch.allclose(update.lambda_, weights @ (sizes / sizes.sum()), atol=1e-13)


@pytest.mark.parametrize("groups", [None, "tensor"])
def test_equal_models_are_averaged_uniformly_whatever_their_data_sizes(groups: LayerGroups | None) -> None:
    server = tiny_server()
    cohort = tiny_cohort(server)
    cohort = replace(cohort, W=cohort.W[:1].repeat(4, 1))
    update = FedVG(FedVGSettings(groups=groups)).aggregate(cohort, {}, server)
    assert update.lambda_ is not None
    assert torch.allclose(update.lambda_, cohort.uniform)
    assert torch.allclose(update.w, cohort.W[0])


def test_a_model_that_the_proxy_set_would_not_change_takes_all_the_weight() -> None:
    server = tiny_server(n=2)
    proxy = server.proxy
    object.__setattr__(proxy, "y", torch.tensor([0, 0]))
    cohort = tiny_cohort(server)
    W = cohort.W.clone()
    W[1] = 0
    W[1, 40] = 1e3  # it answers 0 with all certainty
    update = FedVG(FedVGSettings()).aggregate(replace(cohort, W=W), {}, server)
    assert update.lambda_ is not None
    assert float(update.lambda_[1]) == pytest.approx(1.0, abs=1e-6)


def test_batches_make_no_difference_without_batch_norm_and_run_in_train_mode_with_it() -> None:
    server = tiny_server(batch_norm=True)
    cohort = tiny_cohort(server)
    one = FedVG(FedVGSettings()).norms(cohort, server)
    other = FedVG(FedVGSettings()).norms(replace(cohort, B=cohort.B + 5), server)
    assert torch.equal(one, other), "running statistics play no part"


def test_a_run_sees_the_same_proxy_set_as_fedlaw_and_learns(tiny: Any) -> None:
    theirs, fedlaw = Simulation(tiny(method__name="fedvg")), Simulation(tiny(method__name="fedlaw"))
    assert theirs.proxy is not None and fedlaw.proxy is not None
    assert torch.equal(theirs.proxy.x, fedlaw.proxy.x)
    record = theirs.step()
    assert sum(record.lambda_) == pytest.approx(1) and record.fedvg_norm is not None
