from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from fedbench import TrialConfig
from fedbench.simulation import Simulation, evaluation
from fedbench.simulation.evaluation import evaluate


@pytest.mark.parametrize("batch", [7, 500])
def test_scores_are_those_of_one_pass_over_all_samples(
    tiny: Callable[..., TrialConfig], batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation, "BATCH", batch)
    simulation = Simulation(tiny(model="resnet8", data__train_size=60, precision="float64"))
    simulation.step()
    state, test = simulation.state, simulation.federation.test
    score = evaluate(simulation.model, state.w, state.buffers, test)
    with torch.no_grad():
        simulation.model.train(False)
        logits = simulation.model(test.inputs(slice(None)))
    assert score.accuracy == float((logits.argmax(1) == test.labels).double().mean())
    assert score.loss == pytest.approx(float(F.cross_entropy(logits, test.labels)), rel=1e-12)


def test_evaluating_leaves_the_running_statistics_alone(tiny: Callable[..., TrialConfig]) -> None:
    simulation = Simulation(tiny(model="resnet8"))
    before = simulation.state.buffers.clone()
    evaluate(simulation.model, simulation.state.w, simulation.state.buffers, simulation.federation.test)
    assert torch.equal(simulation.model.buffers, before)
