"""`Simulation.module`: the scored model as a plain torch module."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fedbench import Simulation, TrialConfig
from fedbench.data.samples import Samples
from fedbench.models import build

Make = Callable[..., TrialConfig]
SMALL = {"data__train_size": 100, "data__test_size": 100, "clients__count": 2}


def score(module: nn.Module, samples: Samples) -> tuple[float, float]:
    """Accuracy and mean cross-entropy, as anybody would compute them."""
    with torch.inference_mode():
        logits = module(samples.inputs(slice(None)))
    hits = (logits.argmax(1) == samples.labels).double().mean()
    return hits.item(), F.cross_entropy(logits, samples.labels).item()


@pytest.mark.parametrize(
    "settings",
    [
        {"model": "simple_cnn"},
        {"model": "resnet8"},
        {"model": "resnet8", "bn": "local"},
        {"model": "simple_cnn", "method__name": "fedexp", "clients__momentum": 0.0},
    ],
    ids=["convolutions", "batch norm", "batch norm, local", "a mean of two models"],
)
def test_it_scores_exactly_what_the_run_reports(tiny: Make, settings: dict[str, object]) -> None:
    run = Simulation(tiny(rounds=2, precision="float64", **SMALL, **settings))
    for _ in range(2):
        record = run.step()
        assert (run.state.scored is None) == (run.config.method.name != "fedexp")
        accuracy, loss = score(run.module(), run.federation.test)
        assert accuracy == record.test_accuracy
        assert loss == pytest.approx(record.test_loss, rel=1e-10)


def test_it_is_a_plain_module_in_eval_mode_and_apart_from_the_run(tiny: Make) -> None:
    run = Simulation(tiny(rounds=2, model="resnet8", **SMALL))
    run.step()
    torch.manual_seed(5)
    state = torch.get_rng_state()
    module = run.module()
    assert torch.equal(torch.get_rng_state(), state)
    assert not any(part.training for part in module.modules())
    assert all(parameter.is_contiguous() and parameter.requires_grad for parameter in module.parameters())
    build("resnet8", run.config.dataset.shape, 10).load_state_dict(module.state_dict())
    w, buffers = run.state.w.clone(), run.state.buffers.clone()
    with torch.no_grad():
        for tensor in [*module.parameters(), *module.buffers()]:
            tensor.zero_()
    assert torch.equal(run.state.w, w) and torch.equal(run.state.buffers, buffers)
    record = run.step()
    plain = Simulation(tiny(rounds=2, model="resnet8", **SMALL))
    plain.step()
    assert plain.step().test_loss == record.test_loss
