"""Plans are the same whenever they are drawn."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from fedbench import Simulation, TrialConfig
from fedbench.base.rng import generator
from fedbench.simulation.local import Plan, draw_plan

Make = Callable[..., TrialConfig]


def same(one: Plan, other: Plan) -> bool:
    return torch.equal(one.full, other.full) and torch.equal(one.rest, other.rest)


def test_a_rounds_plans_are_those_of_each_client_drawn_alone(tiny: Make) -> None:
    simulation = Simulation(tiny(clients__batch_size=7))
    for client, plan in enumerate(simulation.plans.of(4, range(5))):
        shard, rng = simulation.federation.split.shards[client], generator(8, "batches", 4, client)
        assert same(plan, draw_plan(shard, simulation.config.clients.epochs, 7, rng, simulation.device))


PARTLY: dict[str, Any] = {"clients__participation": 0.4}


@pytest.mark.parametrize("settings", [{}, PARTLY, {**PARTLY, "clients__train": "all"}])
def test_those_of_the_next_round_are_drawn_in_the_round_before(tiny: Make, settings: dict[str, Any]) -> None:
    simulation = Simulation(tiny(rounds=3, **settings))
    simulation.step()
    expected = set(range(5)) if simulation.config.all_train else set(simulation.clients_of(2))
    assert {(t, client) for t, client in simulation.plans.drawn if t > 1} == {(2, client) for client in expected}
    before, clients = dict(simulation.plans.drawn), sorted(expected)
    assert [id(plan) for plan in simulation.plans.of(2, clients)] == [id(before[2, client]) for client in clients]
    simulation.step()
    simulation.step()
    assert {t for t, _ in simulation.plans.drawn} == {2, 3}, "there is no round after the last; all older ones are gone"


def test_plans_that_were_not_drawn_ahead_are_drawn_when_they_are_asked_for(tiny: Make) -> None:
    ahead, now = (Simulation(tiny()).plans for _ in range(2))
    ahead.draw(2, (0, 1, 2))
    assert all(map(same, ahead.of(2, (2, 1)), now.of(2, (2, 1))))
    assert same(ahead.of(7, (3,))[0], now.of(7, (3,))[0])
