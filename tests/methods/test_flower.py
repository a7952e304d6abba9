"""Flower's strategies as methods, against flwr itself: what they compute, what they remember, what is refused."""

import random
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fedbench import TrialConfig
from fedbench.base.errors import ConfigError, UserError
from fedbench.methods import METHODS, Cohort, Server
from fedbench.methods.flower import Flower, FlowerSettings, record, reply
from fedbench.methods.flower_strategy import Nodes, calling
from fedbench.simulation import Simulation, checkpoint
from tests.conftest import timeless
from tests.methods.helpers import tiny_cohort, tiny_server

Make = Callable[..., TrialConfig]

with_flwr = pytest.mark.skipif(find_spec("flwr") is None, reason="flwr is not installed: pip install -e '.[flower]'")
OWN = "tests.methods.own_strategies"
DP = "DifferentialPrivacyServerSide"
STRATEGIES: dict[str, dict[str, Any]] = {
    "FedAvg": {},
    "FedAvgM": {"server_momentum": 0.9, "server_learning_rate": 0.5},
    "FedAdam": {},
    "FedYogi": {},
    "FedAdagrad": {},
    "FedMedian": {},
    "FedTrimmedAvg": {"beta": 0.3},
    "Krum": {"num_malicious_nodes": 2},
    "MultiKrum": {"num_malicious_nodes": 1, "num_nodes_to_select": 3},
    "Bulyan": {"num_malicious_nodes": 1},
    "FedProx": {"proximal_mu": 0.1},
    "QFedAvg": {"q": 0.2},
    f"{DP}FixedClipping": {"noise_multiplier": 0.1, "clipping_norm": 1.0},
    f"{DP}AdaptiveClipping": {"noise_multiplier": 0.01, "strategy": {"strategy": "FedAvgM"}},
    f"{OWN}.Counting": {"step": 0.2},
    f"{OWN}.Noisy": {},
    f"{OWN}.Scheduled": {},
}


def named(strategy: str, arguments: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"method__name": "flower", "method__strategy": strategy, "method__arguments": arguments or {}}


def method_of(strategy: str, **arguments: Any) -> Flower:
    return Flower(FlowerSettings(strategy=strategy, arguments=arguments))


def run(config: TrialConfig) -> Simulation:
    simulation = Simulation(config)
    while not simulation.done:
        simulation.step()
    return simulation


# Without flwr


@pytest.fixture
def no_flwr(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.partition(".")[0] == "flwr"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "flwr", None)


def test_without_flwr_the_method_is_refused_in_one_line_when_it_is_used(no_flwr: None, tiny: Make) -> None:
    with pytest.raises(ConfigError) as refused:
        tiny(**named("Krum"))
    assert str(refused.value) == "method.name = flower: needs flwr, which is not installed; pip install flwr"


def test_without_flwr_the_method_is_listed_all_the_same(no_flwr: None) -> None:
    settings = METHODS.get("flower").Settings()  # type: ignore[call-arg]
    assert settings.proxy_use == "none"
    assert settings.reports == ()


# Whole runs


@with_flwr
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_two_rounds_are_finite_and_resume_bit_for_bit(tiny: Make, tmp_path: Path, strategy: str) -> None:
    config = tiny(clients__count=8, rounds=2, **named(strategy, STRATEGIES[strategy]))
    first = Simulation(config)
    first.step()
    checkpoint.save(first, tmp_path)
    first.step()
    assert not first.state.history[-1].diverged
    assert first.state.history[-1].lambda_ == ()
    second = Simulation(config)
    assert checkpoint.restore(second, tmp_path) == []
    second.step()
    assert timeless(second.state.history) == timeless(first.state.history)
    assert torch.equal(second.state.w, first.state.w)
    assert second.state.method.keys() == first.state.method.keys()
    assert all(torch.equal(tensor, first.state.method[key]) for key, tensor in second.state.method.items())


@with_flwr
@pytest.mark.parametrize(
    ("strategy", "arguments", "ours"),
    [
        ("FedAvg", {}, {}),
        ("FedProx", {"proximal_mu": 0.1}, {"method__name": "fedprox", "method__mu": 0.1}),
    ],
)
def test_a_strategy_agrees_with_the_method_of_that_name(
    tiny: Make, strategy: str, arguments: dict[str, Any], ours: dict[str, Any]
) -> None:
    settings = {"precision": "float64", "rounds": 2, "server__global_lr": 0.8, "clients__participation": 0.6}
    theirs, own = run(tiny(**settings, **named(strategy, arguments))), run(tiny(**settings, **ours))
    assert float((theirs.state.w - own.state.w).abs().max()) < 1e-12
    assert theirs.state.history[-1].test_loss == pytest.approx(own.state.history[-1].test_loss, abs=1e-12)
    single = {**settings, "precision": "float32", "rounds": 1}
    theirs, own = run(tiny(**single, **named(strategy, arguments))), run(tiny(**single, **ours))
    assert float((theirs.state.w - own.state.w).abs().max()) < 1e-6


@with_flwr
def test_a_proximal_term_reaches_the_clients_and_follows_the_round(tiny: Make) -> None:
    plain, prox = run(tiny(rounds=1)), run(tiny(rounds=1, **named("FedProx", {"proximal_mu": 0.5})))
    assert float((plain.state.w - prox.state.w).abs().max()) > 1e-4
    simulation = Simulation(tiny(rounds=3, **named(f"{OWN}.Scheduled")))
    for round_ in (1, 2, 3):
        correction = simulation.method.correction(simulation.state.method, 0, simulation.state.w)
        assert correction is not None
        assert correction.mu == pytest.approx(0.1 * round_)
        assert correction.anchor is simulation.state.w
        simulation.step()


@with_flwr
def test_a_strategy_that_gives_no_model_is_an_error_that_says_so(tiny: Make) -> None:
    simulation = Simulation(tiny(**named(f"{OWN}.Ending")))
    simulation.step()
    simulation.step()
    with pytest.raises(UserError, match=r"Ending: with 5 clients a round and arguments \{\} it gave no model$"):
        simulation.step()


# One round, against plain computations


def aggregated(strategy: str, m: int = 5, **arguments: Any) -> tuple[Tensor, Cohort]:
    server = tiny_server()
    cohort = tiny_cohort(server, m=m)
    method = method_of(strategy, **arguments)
    return method.aggregate(cohort, method.start(m, cohort.w), server).w, cohort


@with_flwr
def test_fedmedian_is_the_coordinates_median() -> None:
    for m in (4, 5):
        w, cohort = aggregated("FedMedian", m)
        assert np.array_equal(w.numpy(), np.median(cohort.W.numpy(), axis=0))


@with_flwr
def test_fedtrimmedavg_is_the_mean_of_the_middle() -> None:
    w, cohort = aggregated("FedTrimmedAvg", beta=0.2)
    assert np.allclose(w.numpy(), np.sort(cohort.W.numpy(), axis=0)[1:-1].mean(0), atol=1e-14)


@with_flwr
def test_krum_is_the_client_nearest_to_its_neighbours() -> None:
    w, cohort = aggregated("Krum", m=7, num_malicious_nodes=1)
    distances = torch.cdist(cohort.W, cohort.W).square().sort(1).values
    best = int(distances[:, 1 : 7 - 1 - 2 + 1].sum(1).argmin())
    assert torch.allclose(w, cohort.W[best], atol=1e-14)


@with_flwr
@pytest.mark.parametrize("arguments", [{"q": 0.3}, {"q": 0.3, "client_learning_rate": 0.5}])
def test_qfedavg_is_its_formula_with_the_clients_losses_and_the_rounds_learning_rate(
    arguments: dict[str, float],
) -> None:
    server = tiny_server()
    losses = torch.tensor([0.5, 1.0, 2.0, 4.0], dtype=torch.float64)
    method = method_of("QFedAvg", **arguments)
    assert method.settings.reports == ("loss",)
    state = method.start(4, server.model.w)
    w = server.model.w.clone()
    for round_, lr in ((1, 0.1), (2, 0.05)):
        cohort = tiny_cohort(server, seed=round_, round=round_, w=w, reported={"loss": losses})
        cohort = replace(cohort, work=replace(cohort.work, lr=lr))
        update = method.aggregate(cohort, state, server)
        lipschitz, q = 1 / arguments.get("client_learning_rate", lr), 0.3
        gradients = lipschitz * (cohort.w - cohort.W)
        delta = losses[:, None] ** q * gradients
        h = q * losses ** (q - 1) * gradients.square().sum(1) + lipschitz * losses**q
        assert torch.allclose(update.w, cohort.w - delta.sum(0) / h.sum(), atol=1e-9)
        w, state = update.w, update.state


@with_flwr
def test_tensors_have_their_names_and_shapes_and_clients_their_order(tiny: Make) -> None:
    config = tiny(model="simple_cnn", clients__count=4, rounds=1, **named(f"{OWN}.Shapes"))
    simulation = Simulation(config)
    seen: dict[str, Any] = {}

    class Watched(Flower):
        def _strategy(self, cohort: Cohort, state: Any) -> Any:
            strategy = super()._strategy(cohort, state)
            seen.setdefault("strategy", strategy)
            return strategy

    simulation.method = Watched(config.method)  # type: ignore[arg-type]
    record = simulation.step()
    named_shapes = {name: list(tensor.shape) for name, tensor in simulation.model.module.named_parameters()}
    assert seen["strategy"].given == named_shapes
    assert any(len(shape) == 4 for shape in named_shapes.values())
    assert tuple(seen["strategy"].sizes) == record.samples
    assert tuple(seen["strategy"].nodes) == record.clients


@with_flwr
def test_convolutions_come_back_as_they_were_sent(tiny: Make) -> None:
    settings = {"model": "simple_cnn", "clients__count": 3, "rounds": 1, "precision": "float64"}
    plain, theirs = run(tiny(**settings)), run(tiny(**settings, **named("FedAvg")))
    assert float((plain.state.w - theirs.state.w).abs().max()) < 1e-13


@with_flwr
def test_running_statistics_are_averaged_by_size_unless_the_proxy_set_makes_them() -> None:
    server = tiny_server(batch_norm=True)
    cohort = tiny_cohort(server)
    method = method_of("FedMedian")
    update = method.aggregate(cohort, method.start(4, cohort.w), server)
    assert update.buffers is not None
    assert torch.equal(update.buffers, cohort.p @ cohort.B)
    assert method.aggregate(replace(cohort, bn="proxy"), method.start(4, cohort.w), server).buffers is None


# What a strategy remembers


def kept_alive(strategy: Any, cohort: Cohort, server: Server) -> Tensor:
    """One round of a strategy that lives on by itself."""
    with calling("alive"):
        from flwr.app import ConfigRecord

        messages = strategy.configure_train(
            cohort.round, record(cohort, server.model, cohort.w), ConfigRecord(), Nodes(cohort.clients)
        )
        by_node = {message.metadata.dst_node_id: message for message in messages}
        replies = [
            reply(by_node[client], record(cohort, server.model, w), {"num-examples": int(size)})
            for client, w, size in zip(cohort.clients, cohort.W, cohort.sizes, strict=True)
        ]
        arrays, _ = strategy.aggregate_train(cohort.round, replies)
    flat = torch.cat([torch.from_numpy(array.numpy()).reshape(-1) for array in arrays.values()])
    return flat.to(cohort.w)


@with_flwr
@pytest.mark.parametrize(
    ("name", "arguments"),
    [("FedAdam", {"eta": 0.05}), ("FedYogi", {}), ("FedAdagrad", {}), ("FedAvgM", {"server_momentum": 0.8})],
)
def test_the_state_goes_on_as_in_a_strategy_that_lives_on(name: str, arguments: dict[str, Any]) -> None:
    import flwr.serverapp.strategy as strategies

    server, m = tiny_server(), 4
    alive = getattr(strategies, name)(min_train_nodes=m, min_available_nodes=m, **arguments)
    method = method_of(name, **arguments)
    state = method.start(m, server.model.w)
    fresh, w = state, server.model.w.clone()
    for round_ in (1, 2, 3):
        cohort = tiny_cohort(server, seed=round_, round=round_, w=w)
        update = method.aggregate(cohort, state, server)
        assert torch.equal(update.w, kept_alive(alive, cohort, server))
        forgetful = method.aggregate(cohort, fresh, server).w
        assert torch.equal(update.w, forgetful) == (round_ == 1)
        w, state = update.w, update.state


@with_flwr
def test_momentum_goes_on_from_the_servers_model_whatever_the_global_learning_rate() -> None:
    server = tiny_server()
    method = method_of("FedAvgM", server_momentum=0.9)
    state, w, v = method.start(4, server.model.w), server.model.w.clone(), torch.zeros_like(server.model.w)
    for round_ in (1, 2, 3):
        cohort = tiny_cohort(server, seed=round_, round=round_, w=w, global_lr=0.5)
        update = method.aggregate(cohort, state, server)
        sizes = cohort.sizes.to(w) / cohort.sizes.sum()
        v = 0.9 * v + (w - sizes @ cohort.W)
        assert torch.allclose(update.w, 0.5 * w + 0.5 * (w - v), atol=1e-12)
        w, state = update.w, update.state


@with_flwr
def test_draws_are_keyed_and_leave_the_global_generators_alone(tiny: Make) -> None:
    random.seed(1)
    np.random.seed(1)
    before = random.getstate(), np.random.get_state()[1].tobytes()  # type: ignore[index]
    one = run(tiny(rounds=2, **named(f"{OWN}.Noisy")))
    assert before == (random.getstate(), np.random.get_state()[1].tobytes())  # type: ignore[index]
    random.seed(2)
    np.random.seed(2)
    same, other = run(tiny(rounds=2, **named(f"{OWN}.Noisy"))), run(tiny(rounds=2, **named("FedAvg")))
    assert torch.equal(one.state.w, same.state.w)
    assert not torch.equal(one.state.w, other.state.w)


# What is refused before anything runs

REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("Krm", {}, "method.strategy: unknown Flower strategy 'Krm'; did you mean 'Krum'? Known: Bulyan,"),
    ("Strategy", {}, "method.strategy: unknown Flower strategy 'Strategy'"),
    ("FedXgbBagging", {}, "method.strategy = FedXgbBagging: it aggregates trees of XGBoost, not networks"),
    ("no_such.Mine", {}, "method.strategy = no_such.Mine: 'no_such' cannot be imported"),
    ("json.dumps", {}, "method.strategy = json.dumps: 'json' has no subclass of flwr.serverapp.strategy.Strategy"),
    (f"{OWN}.Count", {}, "unknown Flower strategy 'Count'; did you mean 'Counting'?"),
    ("Krum", {"malicious_nodes": 1}, "unknown argument of Krum 'malicious_nodes'; did you mean 'num_malicious_nodes'?"),
    (f"{OWN}.Counting", {"stp": 1}, "unknown argument of tests.methods.own_strategies.Counting 'stp'"),
    ("Krum", {"num_malicious_nodes": "two"}, "method.arguments.num_malicious_nodes = 'two': must be a whole number"),
    ("Krum", {"num_malicious_nodes": -1}, "method.arguments.num_malicious_nodes = -1: must be at least 0"),
    ("Krum", {"num_malicious_nodes": 2}, "needs 7 clients a round for num_malicious_nodes = 2, there are 5"),
    ("Bulyan", {"num_malicious_nodes": 1}, "needs 7 clients a round for num_malicious_nodes = 1, there are 5"),
    ("MultiKrum", {"num_nodes_to_select": 0}, "it gave other tensors than the model's"),
    ("FedTrimmedAvg", {"beta": 0.7}, "method.strategy = FedTrimmedAvg: "),
    ("FedAdam", {"tau": 0.0, "eta": 1e300}, "they make the weights non-finite"),
    ("FedProx", {"proximal_mu": -0.1}, "its proximal-mu must be one number at least 0, is [-0.1]"),
    ("FedAvg", {"fraction_train": 0.5}, "fraction_train: fedbench samples the clients; set clients.participation"),
    ("FedAvg", {"weighted_by_key": "loss"}, "Missing required key `loss`"),
    (f"{DP}FixedClipping", {"noise_multiplier": 1.0}, "method.arguments.clipping_norm is missing"),
    (f"{DP}AdaptiveClipping", {"noise_multiplier": 1.0, "strategy": {"strateg": "Krum"}}, "unknown key 'strateg'"),
    ("DifferentialPrivacyClientSideAdaptiveClipping", {"noise_multiplier": 0.01}, "tells clients 'clipping_norm'"),
    (f"{OWN}.Generating", {}, "its attribute rng (of type Generator) cannot be kept in checkpoints"),
    (f"{OWN}.Telling", {}, "it tells clients 'lr'; here they only heed 'proximal-mu'"),
    (f"{OWN}.Sending", {}, "it sends clients something else than the global model"),
    (f"{OWN}.Picking", {}, "it picks 1 of the 5 clients of a round"),
    (f"{OWN}.Waiting", {}, "the strategy waits for more than the 5 clients of a round"),
]


@with_flwr
@pytest.mark.parametrize(("strategy", "arguments", "line"), REFUSED)
def test_what_cannot_work_is_refused_in_one_line(
    tiny: Make, strategy: str, arguments: dict[str, Any], line: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        tiny(**named(strategy, arguments))
    assert line in str(refused.value)
    assert "\n" not in str(refused.value)


@with_flwr
def test_a_rule_has_as_many_clients_as_take_part_in_a_round(tiny: Make) -> None:
    bulyan = named("Bulyan", {"num_malicious_nodes": 1})
    tiny(clients__count=7, **bulyan)
    with pytest.raises(ConfigError, match="needs 7 clients a round for num_malicious_nodes = 1, there are 5"):
        tiny(clients__count=7, clients__participation=0.7, **bulyan)


@with_flwr
def test_one_client_a_round_is_enough(tiny: Make) -> None:
    assert not run(tiny(clients__participation=0.2, rounds=1, **named("FedAdam"))).state.history[-1].diverged


# What makes two trials the same


@with_flwr
def test_the_hash_knows_arguments_flwr_and_ones_own_source(tiny: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    adam = tiny(**named("FedAdam", {"eta": 1}))
    assert adam.hash == tiny(**named("FedAdam", {"eta": 1.0})).hash
    assert adam.hash != tiny(**named("FedAdam", {"eta": 0.5})).hash
    own = tiny(**named(f"{OWN}.Counting"))
    assert len(own.canonical()["method"]["sources"]) == 1
    assert "sources" not in adam.canonical()["method"]
    monkeypatch.setattr("fedbench.methods.flower.version", lambda package: "0")
    assert adam.model_copy().hash != adam.hash
