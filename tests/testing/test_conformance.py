"""All that comes with fedbench keeps the promises that plugins are held to; whoever breaks one is told which."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fedbench.base.fields import Strict
from fedbench.data.base import Arrays, Dataset, register_dataset
from fedbench.data.partitions import PARTITIONS, DataSettings, Partition, register_partition
from fedbench.indicators import INDICATORS, Column, Indicator, Observation, register_indicator
from fedbench.methods import METHODS, Cohort, Correction, Method, MethodSettings, Server, Update, register_method
from fedbench.methods.base import State, size_weighted
from fedbench.models import MODELS, register_model
from fedbench.simulation import Simulation
from fedbench.testing import check_dataset, check_indicator, check_method, check_model, check_partition, tiny
from tests.methods.helpers import BOUNDS

QUICK = {"epochs": 2, "samples": 3}  # fewer server epochs than by default, where a method has any
LARGE = {"densenet121", "resnet56", "resnet110", "wrn56_4"}
SAME_CODE = {"resnet110", "wrn56_4"}  # as resnet56, with other numbers
INDICATOR_SETTINGS: dict[str, dict[str, Any]] = {
    "corrupted": {"clients.corrupted": 0.5},
    "client_scores": {"indicators.client_validation": True, "data.validation": 0.2},
    "flatness": {"indicators.hessian_every": 2, "indicators.landscape": True},
    "server_path": {"indicators.server_path": True, "method.name": "fedlaw", "method.epochs": 2},
    "simplex": {"indicators.simplex_every": 2, "clients.count": 3, "clients.participation": 1.0},
}


def built_in(registry: Any) -> list[str]:
    return [name for name in registry if registry.version(name) is None]


@pytest.mark.parametrize("name", sorted({*built_in(METHODS)} - BOUNDS))
def test_our_methods_keep_their_promises(name: str) -> None:
    if name == "flower":
        pytest.importorskip("flwr")
    fields = METHODS.get(name).Settings.model_fields
    check_method(name, {f"method.{key}": value for key, value in QUICK.items() if key in fields})


CHECKED = sorted(set(built_in(MODELS)) - SAME_CODE)


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in LARGE)) for n in CHECKED])
def test_our_models_keep_their_promises(name: str) -> None:
    check_model(name, (3, 8, 8) if name in LARGE else (3, 32, 32), 10)


def test_our_embedded_data_keep_their_promises() -> None:
    check_dataset("mnist5k")


@pytest.mark.parametrize("name", built_in(PARTITIONS))
def test_our_partitions_keep_their_promises(name: str) -> None:
    check_partition(name)


def test_a_partition_is_checked_for_one_number_of_clients_or_several(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []
    monkeypatch.setattr(
        "fedbench.testing.data.check_shards", lambda name, partition, data, clients: counts.append(clients)
    )
    check_partition("dirichlet", {"data.alpha": 1.0}, 3)
    check_partition("dirichlet", {"data.alpha": 1.0}, [3, 4])
    assert counts == [3, 3, 4]


@pytest.mark.parametrize("name", built_in(INDICATORS))
def test_our_indicators_keep_their_promises(name: str) -> None:
    check_indicator(name, INDICATOR_SETTINGS.get(name))


def test_in_the_tiny_run_nothing_but_the_cohort_has_its_size() -> None:
    run = Simulation(tiny())
    m, others = run.config.participants, (run.config.clients.count, run.config.dataset.num_classes)
    layers = [layer for layer in run.model.module.modules() if list(layer.parameters(recurse=False))]
    sizes = {*others, len(run.state.w), len(run.state.buffers), len(layers), len(run.model.shapes)}
    assert not {m, m + 1} & {size + end for size in sizes for end in (0, 1)}  # a method may add a client, a list an end


calls, ONE = itertools.count(), torch.ones(())


def impure(rule: Callable[..., Update], correction: Any = None, start: Any = None) -> type[Method[Any]]:
    """A method with a rule, `rule(method, cohort, state, server)`."""

    class Settings(MethodSettings):
        name: Literal["own"] = "own"

    class Own(Method[Any]):
        def start(self, num_clients: int, w: Tensor) -> State:
            return start(num_clients, w) if start else {}

        def correction(self, state: State, client: int, w: Tensor) -> Correction | None:
            return correction(state, client, w) if correction else None

        def aggregate(self, cohort: Cohort, state: State, server: Server) -> Update:
            return rule(self, cohort, state, server)

    Own.Settings = Settings
    return register_method(version="1")(Own)


def weighted(cohort: Cohort, weights: Tensor, state: State | None = None) -> Update:
    return Update(w=weights @ cohort.W, lambda_=weights, state=state or {})


def chance(method: Any, cohort: Cohort, state: State, server: Server) -> Update:
    noise = torch.from_numpy(np.random.default_rng().standard_normal(len(cohort.w)))
    return Update(w=cohort.p @ cohort.W + 1e-3 * noise.to(cohort.w), lambda_=cohort.p)


def forgetful(method: Any, cohort: Cohort, state: State, server: Server) -> Update:
    method.sum = getattr(method, "sum", 0) + cohort.p @ cohort.W
    return Update(w=method.sum / cohort.round, lambda_=cohort.p)


def first_client(method: Any, cohort: Cohort, state: State, server: Server) -> Update:
    return weighted(cohort, torch.eye(len(cohort.p)).to(cohort.p)[0])


def state_by_row(method: Any, cohort: Cohort, state: State, server: Server) -> Update:
    return weighted(cohort, cohort.p, {"norms": cohort.W.norm(dim=1)})


def without_the_largest(method: Any, cohort: Cohort, state: State, server: Server) -> Update:
    return Update(w=cohort.p @ cohort.W / (1 - cohort.p.max()), lambda_=cohort.p)  # of a single client 1


def single(method: Any, cohort: Cohort, state: State, server: Server) -> Update:
    return Update(w=(cohort.p.float() @ cohort.W.float()), lambda_=cohort.p)


def overwriting(method: Any, cohort: Cohort, state: State, server: Server) -> Update:
    cohort.W.mul_(0.5)
    return weighted(cohort, cohort.p)


def elsewhere(method: Any, cohort: Cohort, state: State, server: Server) -> Update:
    return weighted(cohort, cohort.p, {"sum": torch.zeros(3, device="meta")})


def mean(method: Any, cohort: Cohort, state: State, server: Server) -> Update:
    return size_weighted(cohort)


METHODS_THAT_BREAK: dict[str, tuple[Callable[..., Update], str]] = {
    "repeatable": (chance, "the same run gave another result the second time"),
    "resumable": (forgetful, "a resumed run differs from an undisturbed one"),
    "any order": (first_client, "depends on the order in which the clients stand"),
    "state by client": (state_by_row, r"state\['norms'\] depends on the order .*by its id"),
    "finite": (without_the_largest, "does not stay finite"),
    "dtype": (single, r"w must be float64 \[.*\], is float32"),
    "no writing": (overwriting, r"wrote into cohort\.W; work on a copy"),
    "device": (elsewhere, r"state\['sum'\] is on meta, the cohort on cpu"),
}


@pytest.mark.parametrize("case", METHODS_THAT_BREAK)
def test_a_method_that_breaks_a_promise_is_told_which(forgotten: None, case: str) -> None:
    rule, message = METHODS_THAT_BREAK[case]
    impure(rule)
    with pytest.raises(AssertionError, match=message) as raised:
        check_method("own")
    assert "\n" not in str(raised.value)


def test_a_correction_must_not_write_into_its_state(forgotten: None) -> None:
    def correction(state: State, client: int, w: Tensor) -> Correction:
        return Correction(linear=state["h"].add_(0))

    def keep(method: Any, cohort: Cohort, state: State, server: Server) -> Update:
        return weighted(cohort, cohort.p, dict(state))

    impure(keep, correction, lambda n, w: {"h": torch.zeros_like(w)})
    with pytest.raises(AssertionError, match="correction wrote into the state"):
        check_method("own")


def test_a_method_may_say_that_the_order_matters(forgotten: None) -> None:
    impure(first_client)
    check_method("own", permutation=False)


def test_a_plain_method_of_ones_own_passes(forgotten: None) -> None:
    impure(mean)
    check_method("own", {"clients.momentum": 0.0})


class Counting(nn.Module):
    """Remembers how often it was called."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.layer, self.calls = nn.Linear(784, classes), 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += self.training
        logits: Tensor = self.layer(x.flatten(1)) * (1 + self.calls)
        return logits


class Among(nn.Module):
    """Looks at the whole batch."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.layer = nn.Linear(784, classes)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.layer(x.flatten(1))
        return logits - logits.mean(0)


class Noisy(Among):
    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.layer(x.flatten(1))
        return logits + torch.rand_like(logits)


def frozen(classes: int) -> nn.Module:
    first = nn.Linear(784, 8).requires_grad_(False)
    return nn.Sequential(nn.Flatten(), first, nn.Linear(8, classes))


MODELS_THAT_BREAK: dict[str, tuple[Callable[[int], nn.Module], str]] = {
    "logits": (lambda classes: nn.Sequential(nn.Flatten(), nn.Linear(784, 7)), r"it gives \[2, 7\] for 2 images"),
    "state": (Counting, "trained again from the same start it came out different"),
    "eval": (Noisy, "in eval mode the same images get different logits"),
    "batch": (Among, "depend on the other images of its batch"),
    "frozen": (frozen, "1.weight, 1.bias is frozen, and weight decay would still change it"),
}


@pytest.mark.parametrize("case", MODELS_THAT_BREAK)
def test_a_model_that_breaks_a_promise_is_told_which(forgotten: None, case: str) -> None:
    build, message = MODELS_THAT_BREAK[case]
    register_model(f"own-{case}", version="1")(lambda shape, classes: build(classes))
    with pytest.raises(AssertionError, match=message):
        check_model(f"own-{case}")


def arrays(labels: int, chance: bool) -> Callable[[Path | None], Arrays]:
    def load(data_dir: Path | None) -> Arrays:
        rng = np.random.default_rng(None if chance else 0)
        images = rng.integers(0, 255, (40, 6, 6, 1), dtype=np.uint8)
        return Arrays(images, np.arange(40) % labels, images[:20], np.arange(20) % labels)

    return load


@pytest.mark.parametrize(
    ("load", "defaults", "message"),
    [
        (arrays(3, True), {"model": "mlp"}, "two readings gave different arrays"),
        (arrays(2, False), {"model": "mlp"}, "no training image has the label 2"),
        (arrays(4, False), {"model": "mlp"}, "a train label lies outside 0 ... 2"),
        (arrays(3, False), {}, "model is missing"),
        (arrays(3, False), {"model": "mlp"}, None),
    ],
)
def test_a_data_set_that_breaks_a_promise_is_told_which(
    forgotten: None, load: Any, defaults: Any, message: Any
) -> None:
    register_dataset(Dataset("own", (1, 6, 6), 3, 40, 20, load, defaults=defaults), version="1")
    if message is None:
        check_dataset("own")
        return
    with pytest.raises(AssertionError, match=message):
        check_dataset("own")


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda n, samples, rng: np.array_split(samples, n - 1), "a list of 2 arrays, one for each client, gave 1"),
        (lambda n, samples, rng: [samples] * n, "deals out a sample twice"),
        (
            lambda n, samples, rng: np.array_split(np.arange(len(samples)), n),
            "some of the given samples, gave others",
        ),
        (lambda n, samples, rng: np.array_split(np.random.permutation(samples), n), "draw from `rng` alone"),
        (lambda n, samples, rng: np.array_split(samples.astype(np.int32), n), "numpy array of int64"),
    ],
)
def test_a_partition_that_breaks_a_promise_is_told_which(forgotten: None, draw: Any, message: str) -> None:
    class Settings(DataSettings):
        partition: Literal["own"] = "own"

    class Own(Partition[Settings]):
        def draw(self, settings: Settings, clients: int, samples: Any, labels: Any, rng: Any) -> Any:
            return draw(clients, samples, rng)

    Own.Settings = Settings
    register_partition(version="1")(Own)
    with pytest.raises(AssertionError, match=message):
        check_partition("own")


def meddling(moment: Any) -> Observation:
    moment.update.w.mul_(0.5)
    return Observation({"own_mean": 1.0})


@pytest.mark.parametrize(
    ("observe", "message"),
    [
        (meddling, "it changes the run that it looks at"),
        (lambda moment: Observation({"other": 1.0}), "records the column 'other' without declaring it"),
        (
            lambda moment: Observation({"own_mean": cast(float, torch.ones(()))}),
            "observe gave a Tensor for own_mean; must be a number",
        ),
        (lambda moment: Observation({"own_mean": float(next(calls))}), "it must keep nothing between rounds"),
        (lambda moment: Observation(tables={"own": [(1, 2)]}), "observe gave 2 values for a row of own; must be 1"),
        (lambda moment: Observation(), "it records nothing; turn it on"),
        (lambda moment: Observation({"own_mean": float("nan")}), "it records nothing; turn it on"),
        (lambda moment: Observation({"own_mean": 1.0}, {"own": [(1,)]}), None),
    ],
)
def test_an_indicator_that_breaks_a_promise_is_told_which(forgotten: None, observe: Any, message: str | None) -> None:
    class Settings(Strict):
        own: bool = False

    class Own(Indicator[Settings]):
        name = "own"
        tables = {"own": ("value",)}

        def columns(self) -> list[Column]:
            return [Column("own_mean", "a number")]

        def observe(self, settings: Any, moment: Any) -> Observation:
            return observe(moment) if settings.own else Observation()

    Own.Settings = Settings
    register_indicator(version="1")(Own)
    if message is None:
        check_indicator("own", {"indicators.own": True})
        return
    with pytest.raises(AssertionError, match=message):
        check_indicator("own", {"indicators.own": True})
