from collections.abc import Callable

import pytest
import torch

from fedbench import TrialConfig
from fedbench.base.rng import generator
from fedbench.simulation import Simulation

Make = Callable[..., TrialConfig]
RULES = ["average", "proxy", "local"]


def stepped(config: TrialConfig, rounds: int = 1) -> Simulation:
    simulation = Simulation(config)
    for _ in range(rounds):
        simulation.step()
    return simulation


def test_averaged_statistics_are_weighted_like_the_models_but_never_shrunk(tiny: Make) -> None:
    config = tiny(
        model="resnet8", data__train_size=60, precision="float64", method__name="fixed_gamma", method__gamma=0.5
    )
    B = Simulation(config).train_cohort(1, (0, 1, 2, 3, 4)).B
    simulation = stepped(config)
    sizes = torch.from_numpy(simulation.federation.split.sizes)
    assert torch.allclose(simulation.state.buffers, (sizes.double() / sizes.sum()) @ B, atol=1e-14)


@pytest.mark.parametrize("rule", RULES)
def test_the_rule_decides_who_keeps_statistics(tiny: Make, rule: str) -> None:
    simulation = stepped(tiny(model="resnet8", data__train_size=60, bn=rule, clients__participation=0.4))
    kept = simulation.state.client_buffers
    if rule == "average":
        assert kept is None
        return
    assert kept is not None
    cohort = set(simulation.state.history[0].clients)
    start = Simulation(tiny(model="resnet8", data__train_size=60, bn=rule)).state.buffers
    for client in range(5):
        assert torch.equal(kept[client], start) == (client not in cohort)


def test_proxy_statistics_are_the_moments_of_the_proxy_set(tiny: Make) -> None:
    settings = {"proxy__size": 300, "data__test_size": 400}  # three batches: their moments are averaged
    simulation = stepped(tiny(model="resnet8", data__train_size=60, bn="proxy", precision="float64", **settings))
    state, proxy = simulation.state, simulation.proxy
    assert proxy is not None
    simulation.model.load(state.w, state.buffers)
    batches = proxy.batches(generator(8, "server/bn", 1), 128)
    stems = [simulation.model.module.get_submodule("conv1")(proxy.x[index]) for index in batches]
    assert len(stems) == 3
    mean = torch.stack([stem.mean((0, 2, 3)) for stem in stems]).mean(0)
    variance = torch.stack([stem.var((0, 2, 3)) for stem in stems]).mean(0)
    assert torch.allclose(state.buffers[:16], mean, atol=1e-12)
    assert torch.allclose(state.buffers[16:32], variance, atol=1e-12)
    norms = [layer for layer in simulation.model.module.modules() if isinstance(layer, torch.nn.BatchNorm2d)]
    assert {layer.momentum for layer in norms} == {0.1}


def test_the_rules_differ_in_scores_and_share_the_clients_first_round(tiny: Make) -> None:
    runs = {rule: stepped(tiny(model="resnet8", data__train_size=60, bn=rule), 2) for rule in RULES}
    losses = {rule: [record.test_loss for record in run.state.history] for rule, run in runs.items()}
    assert losses["average"][0] == losses["local"][0]
    assert losses["average"][0] != losses["proxy"][0]
    assert len({run.state.history[0].train_loss for run in runs.values()}) == 1
