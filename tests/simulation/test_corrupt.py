"""Corrupted clients in a run: who they are, what they send, and that nobody else notices."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fedbench import ConfigError, TrialConfig, UserError, simulate
from fedbench.base.plugins import import_modules
from fedbench.base.rng import generator
from fedbench.corruptions import CORRUPTIONS, CorruptedCohort, Corruption, register_corruption
from fedbench.data.base import Arrays
from fedbench.methods import Cohort
from fedbench.simulation import Simulation, checkpoint
from fedbench.simulation.corrupt import corrupt_updates
from fedbench.simulation.federation import split_samples
from tests.conftest import timeless

Make = Callable[..., TrialConfig]
BUILT_IN = [name for name in CORRUPTIONS if CORRUPTIONS.version(name) is None]
OF_LABELS = ["swap", "flip", "random"]
SENDING = [name for name in BUILT_IN if name not in OF_LABELS]
TRAIN, TEST = np.repeat(np.arange(10), 400), np.repeat(np.arange(10), 100)
TWO_OF_FIVE: dict[str, Any] = {"clients__corrupted": 0.4}


def seen_by_the_method(config: TrialConfig) -> tuple[Simulation, Cohort]:
    """The cohort of the first round as the method gets it."""
    simulation, cohorts = Simulation(config), list[Cohort]()
    aggregate = simulation.method.aggregate
    simulation.method.aggregate = lambda cohort, *rest: cohorts.append(cohort) or aggregate(cohort, *rest)  # type: ignore[method-assign, func-returns-value]
    simulation.step()
    return simulation, cohorts[0]


@pytest.mark.parametrize("name", BUILT_IN)
def test_labels_of_corrupted_clients_alone_are_changed_and_keyed(name: str) -> None:
    config = TrialConfig(**{"clients.corrupted": 0.25, "clients.corruption": name, "clients.holdout": 0.2})
    split, before = split_samples(config, Arrays(TRAIN, TRAIN, TEST, TEST)), TRAIN.copy()
    assert (before == TRAIN).all()
    assert len(split.corrupted) == 5
    assert set(split.swapped) == (set(split.corrupted) if name == "swap" else set())
    for client in range(20):
        own = np.concatenate([split.shards[client], split.holdout[client]])
        changed = (split.labels[own] != TRAIN[own]).any()
        assert changed == (name in OF_LABELS and client in split.corrupted)
    more = config.model_copy(update={"clients": config.clients.model_copy(update={"corrupted": 0.5})})
    further = split_samples(more, Arrays(TRAIN, TRAIN, TEST, TEST))
    assert set(split.corrupted) < set(further.corrupted)
    for client in split.corrupted:  # their labels do not depend on who else is corrupted
        assert (split.labels[split.shards[client]] == further.labels[split.shards[client]]).all()


@pytest.mark.parametrize("name", OF_LABELS)
def test_wrong_labels_are_what_a_client_trains_on_and_honest_ones_go_on_as_before(tiny: Make, name: str) -> None:
    clean, wrong = Simulation(tiny()), Simulation(tiny(**TWO_OF_FIVE, clients__corruption=name))
    before, after = (run.train_cohort(1, (0, 1, 2, 3, 4)) for run in (clean, wrong))
    differs = {row for row in range(5) if not torch.equal(before.W[row], after.W[row])}
    assert differs == set(wrong.federation.split.corrupted)
    sent = after.W.clone()
    corrupt_updates(wrong, 1, (0, 1, 2, 3, 4), after)
    assert torch.equal(after.W, sent), "what they trained is what they send"


@pytest.mark.parametrize("name", SENDING)
def test_corrupted_clients_send_something_else_and_honest_rows_are_untouched(tiny: Make, name: str) -> None:
    _, clean = seen_by_the_method(tiny(precision="float64"))
    run, seen = seen_by_the_method(tiny(**TWO_OF_FIVE, clients__corruption=name, precision="float64"))
    rows = list(run.federation.split.corrupted)
    honest = [row for row in range(5) if row not in rows]
    assert torch.equal(seen.W[honest], clean.W[honest])
    own, others, w = clean.W[rows], clean.W[honest], seen.w
    scale = CORRUPTIONS.get(name).default_scale(5, 2) or 0.0
    draws = [generator(8, f"corruption/{name}", 1, client).standard_normal(len(w)) for client in rows]
    lengths = (own - w).norm(dim=1, keepdim=True) / len(w) ** 0.5
    wanted = {
        "stale": w.expand_as(own),
        "sign_flip": w - scale * (own - w),
        "noise": own + scale * lengths * torch.from_numpy(np.stack(draws)),
        "ipm": (w - scale * (others.mean(0) - w)).expand_as(own),
        "alie": (others.mean(0) - scale * others.std(0)).expand_as(own),
    }
    assert torch.allclose(seen.W[rows], wanted[name], rtol=0, atol=1e-12)
    assert not torch.allclose(seen.W[rows], own, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", SENDING)
def test_what_a_corrupted_client_keeps_is_honest(tiny: Make, name: str) -> None:
    """Momentum, statistics and training loss after a round are those of a run without corruption."""
    size: dict[str, Any] = {"data__train_size": 40, "data__test_size": 40, "clients__epochs": 1, "rounds": 1}
    settings = {**size, "model": "resnet8", "bn": "local"}
    clean, wrong = Simulation(tiny(**settings)), Simulation(tiny(**settings, **TWO_OF_FIVE, clients__corruption=name))
    one, other = clean.step(), wrong.step()
    assert one.train_loss == other.train_loss
    for kept in ("velocity", "client_buffers"):
        pairs = zip(getattr(clean.state, kept), getattr(wrong.state, kept), strict=True)
        assert all(torch.equal(honest, after) for honest, after in pairs)
    assert not torch.equal(clean.state.w, wrong.state.w)
    assert torch.equal(clean.state.buffers, wrong.state.buffers) == (name != "stale")


def test_what_is_kept_of_a_corrupted_client_is_what_led_to_the_model_that_it_sent(tiny: Make) -> None:
    config = tiny(method__name="scaffold", clients__momentum=0.0, **TWO_OF_FIVE, clients__corruption="sign_flip")
    simulation, cohort = seen_by_the_method(config)
    path = cohort.work.lr * cohort.work.steps.to(cohort.W)
    assert torch.allclose(cohort.gradients, (cohort.w - cohort.W) / path[:, None], atol=1e-5)
    assert simulation.federation.split.corrupted


def test_a_stale_client_sends_the_servers_statistics(tiny: Make) -> None:
    config = tiny(model="resnet8", data__train_size=60, **TWO_OF_FIVE, clients__corruption="stale", rounds=2)
    simulation = Simulation(config)
    simulation.step()
    before = simulation.state.buffers.clone()
    trained = simulation.train_cohort(2, (0, 1, 2, 3, 4))
    corrupt_updates(simulation, 2, (0, 1, 2, 3, 4), trained)
    for client in range(5):
        stale = client in simulation.federation.split.corrupted
        assert torch.equal(trained.B[client], before) == stale
        assert torch.equal(trained.W[client], simulation.state.w) == stale


def test_a_federation_of_stale_clients_stays_where_it_is(tiny: Make) -> None:
    simulation = Simulation(tiny(clients__corrupted=1.0, clients__corruption="stale", precision="float64"))
    start = simulation.state.w.clone()
    while not simulation.done:
        simulation.step()
    assert torch.allclose(simulation.state.w, start, rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", ["alie", "ipm"])
def test_without_honest_clients_nobody_is_there_to_be_copied(tiny: Make, name: str) -> None:
    alone, clean = tiny(clients__corrupted=1.0, clients__corruption=name), tiny()
    wanted, found = list(simulate(clean)), list(simulate(alone))
    assert [record.test_loss for record in found] == [record.test_loss for record in wanted]
    assert [record.lambda_corrupted for record in found] == pytest.approx([1.0] * 3)


@pytest.mark.parametrize("name", SENDING)
def test_rounds_without_a_corrupted_client_are_as_they_would_be(tiny: Make, name: str) -> None:
    for seed in range(20):
        config = tiny(clients__participation=0.2, clients__corrupted=0.2, clients__corruption=name, rounds=1, seed=seed)
        run, clean = Simulation(config), Simulation(tiny(clients__participation=0.2, rounds=1, seed=seed))
        (client,) = run.step().clients
        clean.step()
        if client not in run.federation.split.corrupted:
            assert torch.equal(run.state.w, clean.state.w)
            assert run.state.history[0].lambda_corrupted == 0
            return
    raise AssertionError("no such round")


@pytest.mark.parametrize("name", BUILT_IN)
def test_two_rounds_are_finite_and_resumed_bit_for_bit(tiny: Make, tmp_path: Path, name: str) -> None:
    size: dict[str, Any] = {"data__train_size": 40, "data__test_size": 40, "clients__epochs": 1, "rounds": 2}
    model = "resnet8" if name in SENDING else "mlp"
    config = tiny(model=model, **size, **TWO_OF_FIVE, clients__corruption=name, clients__participation=0.8)
    first = Simulation(config)
    first.step()
    checkpoint.save(first, tmp_path)
    torch.rand(3)
    first.step()
    second = Simulation(config)
    checkpoint.restore(second, tmp_path)
    second.step()
    assert not first.state.history[-1].diverged
    assert timeless(second.state.history) == timeless(first.state.history)
    assert torch.equal(second.state.w, first.state.w)
    assert torch.equal(second.state.buffers, first.state.buffers)


@pytest.mark.parametrize("name", SENDING)
def test_methods_of_one_seed_meet_the_same_corruption(tiny: Make, name: str) -> None:
    cohorts = [
        seen_by_the_method(tiny(**TWO_OF_FIVE, clients__corruption=name, method__name=method))[1]
        for method in ("fedavg", "fixed_gamma")
    ]
    assert torch.equal(cohorts[0].W, cohorts[1].W)


def test_the_proxy_set_as_a_client_is_never_corrupted(tiny: Make) -> None:
    settings: dict[str, Any] = {"clients__corrupted": 1.0, "method__proxy_client": True}
    run, seen = seen_by_the_method(tiny(**settings, clients__corruption="stale"))
    assert run.federation.split.corrupted == (0, 1, 2, 3, 4)
    assert [torch.equal(row, seen.w) for row in seen.W] == [True] * 5 + [False]


def test_the_weight_of_corrupted_clients_is_recorded_where_there_are_any(tiny: Make) -> None:
    for name in ("swap", "ipm"):
        for method in ("fedavg", "fedlaw"):
            epochs = {"method__epochs": 2} if method == "fedlaw" else {}
            config = tiny(**TWO_OF_FIVE, **epochs, clients__corruption=name, method__name=method, rounds=1)
            run = Simulation(config)
            record = run.step()
            weights = dict(zip(record.clients, record.lambda_, strict=True))
            assert record.lambda_corrupted == pytest.approx(sum(weights[i] for i in run.federation.split.corrupted))
    (clean,) = simulate(tiny(rounds=1))
    assert "lambda_corrupted" not in clean.indicators


def test_a_method_without_weights_has_no_weight_of_corrupted_clients(tiny: Make) -> None:
    (record,) = simulate(tiny(**TWO_OF_FIVE, clients__corruption="ipm", method__name="median", rounds=1))
    assert record.lambda_ == ()
    assert "lambda_corrupted" not in record.indicators


MINE = """
from fedbench.corruptions import Corruption, register_corruption


@register_corruption()
class Half(Corruption):
    name = "half_of_{stem}"

    def default_scale(self, m, k):
        return 0.5

    def updates(self, cohort):
        return cohort.w + cohort.scale * (cohort.own - cohort.w)
"""


def test_one_from_outside_works_and_its_source_is_part_of_the_hash(tiny: Make, tmp_path: Path) -> None:
    hashes = []
    for stem in ("corruption_a", "corruption_b"):
        (tmp_path / f"{stem}.py").write_text(MINE.replace("{stem}", stem) + f"# {stem}\n")
        import_modules([stem], str(tmp_path))
        name = f"half_of_{stem}"
        config = tiny(**TWO_OF_FIVE, clients__corruption=name, precision="float64")
        _, seen = seen_by_the_method(config)
        _, clean = seen_by_the_method(tiny(precision="float64"))
        rows = [row for row in range(5) if not torch.equal(seen.W[row], clean.W[row])]
        assert len(rows) == 2
        assert torch.allclose(seen.W[rows], (clean.W[rows] + clean.w) / 2, rtol=0, atol=1e-14)
        form = config.canonical()
        assert form["versions"]["corruption"].startswith("source ")
        form["clients"]["corruption"] = ""
        hashes.append(str(form))
        assert tiny(clients__corruption=name).hash == tiny().hash, "where nobody is corrupted it does not count"
    assert hashes[0] != hashes[1]


class Wrong(Corruption):
    """Does whatever a test wants it to."""

    name = "wrong-test"
    given: Any = None

    def updates(self, cohort: CorruptedCohort) -> Tensor:
        return self.given(cohort.own) if self.given else cohort.own


class WrongLabels(Corruption):
    name = "wrong-labels-test"
    given: Any = None

    def labels(self, labels: Any, classes: int, rng: np.random.Generator) -> Any:
        return self.given(labels)


register_corruption("1")(Wrong)
register_corruption("1")(WrongLabels)

BAD_UPDATES: dict[str, tuple[Any, str]] = {
    "nothing": (lambda own: None, r"updates must give float32 \[2, \d+\], gave a NoneType"),
    "one row": (lambda own: own[0], r"updates must give float32 \[2, \d+\], gave float32 \[\d+\]"),
    "float64": (lambda own: own.double(), "gave float64"),
}
BAD_LABELS: dict[str, tuple[Any, str]] = {
    "a list": (list, "labels must give int64 .*, gave a list"),
    "floats": (lambda labels: labels / 2, "labels must give int64 .*, gave float64"),
    "too few": (lambda labels: labels[1:], "labels must give int64"),
    "a class that is not there": (lambda labels: labels + 1, r"labels must give labels of 0 ... 9, gave \d ... 10"),
}


@pytest.mark.parametrize("case", BAD_UPDATES)
def test_one_that_sends_what_no_model_is_is_one_line(tiny: Make, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    given, message = BAD_UPDATES[case]
    monkeypatch.setattr(Wrong, "given", staticmethod(given))
    with pytest.raises(UserError, match=f"corruption 'wrong-test': .*{message}"):
        list(simulate(tiny(**TWO_OF_FIVE, clients__corruption="wrong-test")))


def test_a_run_whose_corrupted_clients_leave_finite_numbers_has_diverged(
    tiny: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Wrong, "given", staticmethod(lambda own: own * 1e38 * 1e38))
    (record,) = simulate(tiny(**TWO_OF_FIVE, clients__corruption="wrong-test"))
    assert record.diverged == "round 1: corrupted clients (wrong-test) sent non-finite numbers"


@pytest.mark.parametrize("case", BAD_LABELS)
def test_one_that_makes_no_labels_is_one_line(tiny: Make, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    given, message = BAD_LABELS[case]
    monkeypatch.setattr(WrongLabels, "given", staticmethod(given))
    with pytest.raises(UserError, match=f"corruption 'wrong-labels-test': {message}"):
        Simulation(tiny(clients__corrupted=1.0, clients__corruption="wrong-labels-test"))


def test_a_taken_name_is_refused() -> None:
    class Swap(Corruption):
        name = "swap"

    with pytest.raises(ConfigError, match="corruption 'swap' is registered already"):
        register_corruption()(Swap)
