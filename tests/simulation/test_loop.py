import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fedbench import TrialConfig, UserError, simulate
from fedbench.base.rng import generator
from fedbench.models import register_model
from fedbench.simulation import Simulation
from fedbench.simulation.federation import build_federation
from fedbench.simulation.loop import non_finite, proxy_data
from fedbench.simulation.participants import sample_clients
from fedbench.store.summary import summarise
from tests.conftest import timeless

Make = Callable[..., TrialConfig]
CPU = torch.device("cpu")


def test_a_run_yields_one_record_a_round_and_learns(tiny: Make) -> None:
    records = list(simulate(tiny(data__train_size=1000, rounds=8)))
    assert [record.round for record in records] == list(range(1, 9))
    assert records[-1].test_accuracy > 0.6  # type: ignore[operator]
    assert records[-1].train_loss < records[0].train_loss  # type: ignore[operator]
    assert sum(records[0].lambda_) == pytest.approx(1)
    assert sum(records[0].samples) == 1000


def test_one_round_is_the_weighted_mean_of_models_trained_alone(tiny: Make) -> None:
    simulation = Simulation(tiny(precision="float64"))
    start = simulation.state.w.clone()
    W = simulation.train_cohort(1, (0, 1, 2, 3, 4)).W
    alone = Simulation(tiny(precision="float64"))
    for client in (4, 1, 3, 0, 2):  # in any order: clients do not see each other
        row = alone.train_cohort(1, (client,)).W[0]
        assert torch.equal(row, W[client])
    assert torch.equal(simulation.state.w, start)
    run = Simulation(tiny(precision="float64"))
    run.step()
    sizes = torch.from_numpy(run.federation.split.sizes)
    assert torch.allclose(run.state.w, (sizes.double() / sizes.sum()) @ W, atol=1e-14)


def test_where_all_train_those_that_are_not_sampled_keep_their_momentum_and_nothing_else_is_seen(tiny: Make) -> None:
    partial = {"clients__participation": 0.4, "precision": "float64"}
    some, all_ = Simulation(tiny(**partial)), Simulation(tiny(**partial, clients__train="all"))
    first, same = some.step(), all_.step()
    assert timeless([first]) == timeless([same])  # the same two clients, the same model
    assert torch.equal(some.state.w, all_.state.w)
    assert some.state.velocity is not None
    assert all_.state.velocity is not None
    alone = Simulation(tiny(precision="float64"))
    alone.train_cohort(1, (0, 1, 2, 3, 4))
    assert alone.state.velocity is not None
    for client in range(5):
        assert torch.equal(all_.state.velocity[client], alone.state.velocity[client])
        assert bool(some.state.velocity[client].any()) == (client in first.clients)
    while set(some.step().clients) <= set(first.clients):
        all_.step()
    all_.step()
    assert not torch.equal(some.state.w, all_.state.w)  # a client that is new comes with momentum


def test_the_same_config_gives_the_same_records_whatever_ran_before(tiny: Make) -> None:
    first = timeless(list(simulate(tiny())))
    torch.manual_seed(1)
    np.random.seed(1)
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(2)
    try:
        list(simulate(tiny(seed=9, model="lenet5", rounds=1)))
        with torch.no_grad():
            assert timeless(list(simulate(tiny()))) == first
        assert torch.get_num_threads() == 2
    finally:
        torch.set_default_dtype(torch.float32)
        torch.set_num_threads(1)


def test_stochastic_layers_are_keyed_like_everything_else(tiny: Make) -> None:
    @register_model("dropout-test", version="1")
    def dropout(shape: Any, num_classes: int) -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(784, num_classes))

    for method in ("fedavg", "server_ft"):
        config = tiny(model="dropout-test", method__name=method)
        first = timeless(list(simulate(config)))
        torch.rand(3)
        assert timeless(list(simulate(config))) == first


def test_reduced_precision_of_the_process_does_not_reach_a_run(tiny: Make) -> None:
    first = timeless(list(simulate(tiny())))
    torch.set_float32_matmul_precision("medium")
    try:
        with torch.autocast("cpu"):
            assert timeless(list(simulate(tiny()))) == first
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")


def test_two_runs_may_take_turns(tiny: Make) -> None:
    alone = timeless(list(simulate(tiny())))
    both = [(one, other) for one, other in zip(simulate(tiny()), simulate(tiny(seed=9)), strict=True)]
    assert timeless([one for one, _ in both]) == alone


def test_only_sampled_clients_train_and_the_sequence_is_that_of_the_seed(tiny: Make) -> None:
    config = tiny(clients__participation=0.4, method__name="fixed_gamma", rounds=4)
    simulation = Simulation(config)
    seen: set[int] = set()
    while not simulation.done:
        record = simulation.step()
        seen |= set(record.clients)
        assert record.clients == sample_clients(tiny(clients__participation=0.4), record.round)
        assert len(record.clients) == 2
        assert list(record.clients) == sorted(record.clients)
        assert sum(record.lambda_) == pytest.approx(1)
    assert simulation.state.velocity is not None
    moved = {client for client in range(5) if simulation.state.velocity[client].any()}
    assert moved == seen


def test_at_least_one_client_takes_part(tiny: Make) -> None:
    (record,) = simulate(tiny(clients__participation=0.01, rounds=1))
    assert len(record.clients) == 1
    assert record.coherence_mean is None


def test_momentum_lives_on_only_where_it_is_kept(tiny: Make) -> None:
    kept, fresh = list(simulate(tiny())), list(simulate(tiny(clients__momentum_state="reset")))
    assert timeless(kept[:1]) == timeless(fresh[:1])
    assert kept[1].train_loss != fresh[1].train_loss


def test_the_global_learning_rate_scales_the_step(tiny: Make) -> None:
    def step(**settings: Any) -> tuple[torch.Tensor, torch.Tensor]:
        simulation = Simulation(tiny(precision="float64", **settings))
        before = simulation.state.w.clone()
        simulation.step()
        return before, simulation.state.w

    before, whole = step()
    _, half = step(server__global_lr=0.5)
    assert torch.allclose(half, before + 0.5 * (whole - before), atol=1e-12)


def test_the_last_ten_rounds_are_always_evaluated(tiny: Make) -> None:
    records = list(simulate(tiny(rounds=14, eval_every=3, data__train_size=50, data__test_size=50)))
    scored = [record.round for record in records if record.test_accuracy is not None]
    assert scored == [3, *range(5, 15)]


def test_evaluating_less_often_changes_no_score(tiny: Make) -> None:
    often, seldom = list(simulate(tiny(rounds=12))), list(simulate(tiny(rounds=12, eval_every=5)))
    assert [r.test_loss for r in seldom if r.test_loss] == [r.test_loss for r in often[2:]]


@pytest.mark.parametrize(("lr", "batch"), [(1e4, 32), (1e30, 32), (1e20, 1000), (1e30, 1000)])
def test_a_diverging_run_ends_with_a_record_that_says_so(tiny: Make, lr: float, batch: int) -> None:
    records = list(simulate(tiny(clients__lr=lr, clients__batch_size=batch, clients__epochs=1, rounds=50)))
    assert len(records) < 50
    assert records[-1].diverged
    assert f"round {len(records)}" in records[-1].diverged
    assert records[-1].test_accuracy is None
    for record in records:
        assert all(math.isfinite(value) for value in record.as_dict().values() if isinstance(value, float))
    json.dumps(summarise(records, 50), allow_nan=False)


def test_clients_that_left_finite_numbers_are_named() -> None:
    W = torch.ones(3, 2)
    W[1, 0] = torch.nan
    assert non_finite((4, 6, 9), torch.tensor([0.1, 0.2, torch.inf]), W) == (
        "non-finite loss or weights after local training of client 6, 9"
    )
    assert non_finite((4,), torch.ones(1), torch.full((1, 2), 3e38)) is None


def test_a_validation_split_is_scored_beside_the_test_set(tiny: Make) -> None:
    simulation = Simulation(tiny(data__validation=0.2, rounds=1))
    record, kept_out = simulation.step(), simulation.federation.split.validation
    assert len(kept_out) == 60
    assert not set(kept_out) & set(np.concatenate(simulation.federation.split.shards))
    simulation.model.train(False)
    index = torch.from_numpy(kept_out)
    x, y = simulation.federation.train.batch(index)
    assert record.validation_accuracy == float((simulation.model(x).argmax(1) == y).double().mean())


def test_a_gpu_that_is_not_there_is_a_clear_error(tiny: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UserError, match=r"run\.device = cuda: torch cannot use a GPU here"):
        Simulation(tiny(run__device="cuda"))


def test_a_rest_of_one_proxy_image_is_left_out_where_the_model_cannot_take_it(tiny: Make) -> None:
    simulation = Simulation(tiny(method__name="fltrust", proxy__size=21))
    assert simulation.federation.proxy is not None
    for least, sizes in ((1, [10, 10, 1]), (2, [10, 10])):
        proxy = proxy_data(simulation.federation.proxy, simulation.config, least)
        assert [len(part) for part in proxy.batches(np.random.default_rng(0), 10)] == sizes


def test_traffic_counts_the_further_vectors_of_a_method(tiny: Make) -> None:
    plain, more = Simulation(tiny()).traffic(), Simulation(tiny(method__name="scaffold")).traffic()
    assert more == (2 * plain[0], 2 * plain[1])
    wrapped = tiny(method__name="fedlws", method__inner__name="scaffold")
    assert Simulation(wrapped).traffic() == more


def test_traffic_counts_parameters_and_the_statistics_that_travel(tiny: Make) -> None:
    P, Q = 77_754, 672
    for rule, up, down in (("average", P + Q, P + Q), ("local", P + Q, P), ("proxy", P, P)):
        assert Simulation(tiny(model="resnet8", bn=rule)).traffic() == (5 * 4 * up, 5 * 4 * down)


def test_balanced_sampling_draws_the_tail_as_often_as_the_head(tiny: Make) -> None:
    settings = {"model": "resnet8", "bn": "proxy", "proxy__longtail": 10.0, "proxy__size": 100, "data__test_size": None}
    for balanced in (False, True):
        config = tiny(**settings, proxy__balanced_sampling=balanced)
        federation = build_federation(config, None, CPU)
        assert federation.proxy
        proxy = proxy_data(federation.proxy, config)
        rng = generator(8, "test")
        drawn = torch.cat([index for _ in range(200) for index in proxy.batches(rng, 16)])
        assert len(drawn) == 200 * len(proxy.y)
        counts = torch.bincount(proxy.y[drawn], minlength=10).double()
        ratio = float(counts.max() / counts.min())
        assert (ratio < 1.3) if balanced else (ratio == 10)
