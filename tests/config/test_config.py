from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from fedbench import ConfigError, TrialConfig, simulate
from fedbench.base.explain import keys
from fedbench.base.settings import dump_yaml, load_yaml
from fedbench.data.base import DATASETS, Dataset, register_dataset
from tests.conftest import TINY, timeless

PROXY_USER = {"model": "resnet8", "bn": "proxy"}

# A value other than the default for every key that is part of an experiment, and settings under which it matters.
IN_A_FILE = "uint8 1x28x28 classes=10 train=4000 test=1000 owners=0"
OTHER: dict[str, tuple[Any, dict[str, Any]]] = {
    "data.name": ("fashion_mnist", {}),
    "data.partition": ("hybrid", {"data.alpha": 1.0}),
    "data.alpha": (0.1, {}),
    "data.alpha2": (5.0, {"data.partition": "hybrid"}),
    "data.longtail": (5.0, {}),
    "data.train_size": (1000, {}),
    "data.test_size": (500, {}),
    "data.validation": (0.1, {}),
    "data.draw": (1, {}),
    "data.content": (f"{'1' * 64} {IN_A_FILE}", {"data.name": "file", "data.content": f"{'0' * 64} {IN_A_FILE}"}),
    "data.owners": (
        "sample",
        {"data.name": "file", "data.content": f"{'0' * 64} {IN_A_FILE[:-1]}30", "data.partition": "natural"},
    ),
    "data.sizes": ("power", {"data.partition": "quantity"}),
    "data.power": (2.0, {"data.partition": "quantity", "data.sizes": "power"}),
    "data.classes": (3, {"data.partition": "shards"}),
    "norm": ("group", {"model": "resnet8"}),
    "init.content": ("1" * 64, {"init.content": "0" * 64}),
    "clients.straggler": (0.5, {"clients.epochs": 3}),
    "clients.min_epochs": (2, {"clients.epochs": 3, "clients.straggler": 0.5}),
    "clients.dropout": (0.2, {}),
    "clients.shift": ("blur", {}),
    "clients.shift_groups": (2, {"clients.shift": "blur"}),
    "clients.shift_scale": (1.0, {"clients.shift": "blur"}),
    "model": ("lenet5", {}),
    "clients.count": (10, {}),
    "clients.participation": (0.5, {}),
    "clients.train": ("all", {"clients.participation": 0.5}),
    "clients.epochs": (1, {}),
    "clients.batch_size": (24, {}),
    "clients.lr": (0.01, {}),
    "clients.lr_decay": (1.0, {}),
    "clients.momentum": (0.5, {}),
    "clients.momentum_state": ("reset", {}),
    "clients.weight_decay": (0.0, {}),
    "clients.holdout": (0.3, {}),
    "clients.corrupted": (0.25, {}),
    "clients.corruption": ("flip", {"clients.corrupted": 0.25}),
    "clients.corruption_scale": (2.0, {"clients.corrupted": 0.25, "clients.corruption": "sign_flip"}),
    "server.global_lr": (0.5, {}),
    "proxy.size": (50, PROXY_USER),
    "proxy.pool": (200, {}),
    "proxy.draw": (1, {**PROXY_USER, "proxy.pool": 200}),
    "proxy.rule": ("authors", {}),
    "proxy.source": ("train", PROXY_USER),
    "proxy.longtail": (10.0, PROXY_USER),
    "proxy.longtail_total": ("keep", {**PROXY_USER, "proxy.longtail": 10.0, "proxy.pool": 300}),
    "proxy.balanced_sampling": (True, PROXY_USER),
    "init.draw": (1, {}),
    "batches.draw": (1, {}),
    "participation.draw": (1, {"clients.participation": 0.5}),
    "bn": ("local", {"model": "resnet8"}),
    "method.name": ("fixed_gamma", {}),
    "method.gamma": (0.9, {"method.name": "fixed_gamma"}),
    "rounds": (7, {}),
    "eval_every": (2, {}),
    "seed": (9, {}),
    "precision": ("float64", {}),
    "method.proxy_client": (True, {}),
    "method.weights": ("uniform", {}),
    "method.epochs": (7, {"method.name": "fedlaw"}),
    "indicators.coherence": ("off", {}),
    "indicators.hessian_every": (5, {}),
    "indicators.hessian_samples": (50, {"indicators.hessian_every": 5}),
    "indicators.simplex_every": (5, {"data.partition": "three_node"}),
    "indicators.simplex_grid": (5, {"data.partition": "three_node", "indicators.simplex_every": 5}),
    "indicators.landscape": (True, {}),
    "indicators.client_validation": (True, {"data.validation": 0.1}),
    "indicators.server_path": (True, {}),
}


def test_the_table_above_covers_every_key() -> None:
    experiment = {
        key
        for key in keys(TrialConfig)
        if not key.startswith(("run.", "method.")) and key not in ("data.path", "init.path")
    }
    assert experiment == {key for key in OTHER if not key.startswith("method.")}


@pytest.mark.parametrize("key", OTHER)
def test_a_setting_that_can_change_a_result_changes_the_hash(key: str) -> None:
    value, context = OTHER[key]
    assert TrialConfig(**{**context, key: value}).hash != TrialConfig(**context).hash


@pytest.mark.parametrize("settings", [{"run.device": "cpu"}, {"run.threads": 2}, {"run.engine": "eager"}])
def test_where_it_runs_is_not_part_of_the_hash(settings: dict[str, Any]) -> None:
    assert TrialConfig(**settings).hash == TrialConfig().hash


SAME = [
    ({"data.alpha": 1}, {"data": {"alpha": 1.0}}),
    ({}, {"data.name": "mnist5k", "clients.lr": 0.05, "rounds": 50, "bn": "average"}),
    ({}, {"data.train_size": 4000, "data.test_size": 1000}),
    ({"clients.participation": 0.26}, {"clients.participation": 0.25}),
    ({"clients.train": "all"}, {}),
    (
        {"clients.train": "all", "clients.participation": 0.5, "clients.momentum_state": "reset"},
        {"clients.participation": 0.5, "clients.momentum_state": "reset"},
    ),
    ({"clients.corrupted": 0.01}, {}),
    ({"clients.corrupted": 0.01, "clients.corruption": "ipm", "clients.corruption_scale": 2.0}, {}),
    ({"clients.corruption": "swap", "clients.corrupted": 0.25}, {"clients.corrupted": 0.25}),
    (
        {"clients.corrupted": 0.25, "clients.corruption": "ipm", "clients.corruption_scale": 1},
        {"clients.corrupted": 0.25, "clients.corruption": "ipm"},
    ),
    ({"bn": "local"}, {"bn": "proxy"}),
    ({"proxy.pool": 100, "proxy.draw": 3}, {"proxy.pool": 100}),  # nobody uses it
    ({"proxy.source": "train"}, {}),
    ({"proxy.size": 50, "proxy.pool": 100}, {"proxy.size": 0, "proxy.pool": 100, "proxy.balanced_sampling": True}),
    ({"clients.momentum": 0.0}, {"clients.momentum": 0.0, "clients.momentum_state": "reset"}),
    ({**PROXY_USER, "proxy.longtail_total": "keep"}, PROXY_USER),
    ({"rounds": 10, "eval_every": 5}, {"rounds": 10}),
    ({"rounds": 30, "eval_every": 25}, {"rounds": 30, "eval_every": 40}),
    ({"data.validation": 1e-5, "clients.holdout": 1e-6, "clients.weight_decay": -0.0}, {"clients.weight_decay": 0.0}),
    ({"indicators.hessian_samples": 50, "indicators.simplex_grid": 5}, {}),
    ({"method.name": "fedlaw"}, {"method.name": "fedlaw", "method.lr": 0.005}),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_the_same_experiment_written_differently_hashes_the_same(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert TrialConfig(**one).hash == TrialConfig(**other).hash


def test_a_scale_that_is_the_default_in_some_cohorts_only_counts() -> None:
    alie = {"clients.corrupted": 0.2, "clients.count": 5, "clients.corruption": "alie"}
    given = {**alie, "clients.corruption_scale": 0.0}  # one corrupted client of five has z = 0
    assert TrialConfig(**given).hash == TrialConfig(**alie).hash
    assert (
        TrialConfig(**given, **{"method.proxy_client": True}).hash
        != TrialConfig(**alie, **{"method.proxy_client": True}).hash
    )
    two = {"clients.corrupted": 0.4}
    assert TrialConfig(**{**given, **two}).hash != TrialConfig(**{**alie, **two}).hash


# Values of settings of which some change nothing, depending on the others.
VALUES: dict[str, list[Any]] = {
    "clients.participation": [1.0, 0.4, 0.42],
    "clients.train": ["sampled", "all"],
    "clients.momentum": [0.0, 0.9],
    "clients.momentum_state": ["keep", "reset"],
    "clients.corrupted": [0.0, 0.01, 0.4],
    "clients.corruption": ["swap", "flip"],
    "clients.holdout": [0.0, 1e-6],
    "bn": ["average", "proxy"],
    "proxy.pool": [20, 40],
    "proxy.size": [5, 20],
    "proxy.balanced_sampling": [False, True],
    "eval_every": [1, 2, 5],
    "participation.draw": [0, 1],
    "method.name": ["fedavg", "server_ft"],
    "run.engine": ["auto", "eager"],
}


@hypothesis_settings(max_examples=20)
@given(st.fixed_dictionaries({key: st.sampled_from(values) for key, values in VALUES.items()}), st.data())
def test_two_configs_with_the_same_hash_give_the_same_result(settings: dict[str, Any], data: st.DataObject) -> None:
    small = {**TINY, "data.train_size": 60, "data.test_size": 60, "rounds": 2, **settings}
    config = TrialConfig(**small)
    twins = [
        twin
        for key, values in VALUES.items()
        for value in values
        if value != settings[key] and (twin := TrialConfig(**{**small, key: value})).hash == config.hash
    ]
    assert twins, "the engine, at least, is no part of the hash"
    twin = data.draw(st.sampled_from(twins))
    assert timeless(list(simulate(twin))) == timeless(list(simulate(config)))


def test_a_config_survives_yaml(tmp_path: Any) -> None:
    config = TrialConfig(**{"data.name": "cifar100", "clients.lr": 5e-4, "method.name": "fixed_gamma"})
    path = tmp_path / "config.yaml"
    path.write_text(dump_yaml(config.model_dump(mode="json")))
    again = TrialConfig(**load_yaml(path))
    assert again == config
    assert again.hash == config.hash


def test_the_papers_settings_are_the_defaults_of_its_data_sets() -> None:
    cifar10, cifar100 = TrialConfig(**{"data.name": "cifar10"}), TrialConfig(**{"data.name": "cifar100"})
    assert (cifar10.clients.lr, cifar10.clients.weight_decay, cifar10.proxy.size) == (0.08, 5e-4, 100)
    assert (cifar100.clients.lr, cifar100.clients.weight_decay, cifar100.proxy.size) == (0.01, 5e-5, 1000)
    assert {c.rounds for c in (cifar10, cifar100)} == {200}
    assert {c.clients.batch_size for c in (cifar10, cifar100)} == {128}


def test_a_data_set_from_outside_brings_its_version_into_the_hash() -> None:
    base = DATASETS.get("mnist5k")
    hashes = []
    for version in ("1", "2"):
        name = f"outside-{version}"
        register_dataset(Dataset(name, (1, 28, 28), 10, 4000, 1000, base.load, defaults=base.defaults), version)
        form = TrialConfig(**{"data.name": name}).canonical()
        form["data"]["name"] = ""
        hashes.append(str(form))
    assert hashes[0] != hashes[1]


WRONG = [
    ({"data.name": "cifar"}, "data.name: unknown data set 'cifar'; did you mean 'cifar10'?"),
    ({"model": "resnet21"}, "model: unknown model 'resnet21'; did you mean 'resnet20'?"),
    ({"method.name": "fedavgg"}, "method.name: unknown method 'fedavgg'; did you mean 'fedavg'?"),
    ({"clients.epoch": 1}, "unknown key 'clients.epoch'; did you mean 'clients.epochs'?"),
    ({"alpha": 1}, "unknown key 'alpha'; did you mean 'data.alpha'?"),
    ({"method.gamma": 1.0}, "unknown key 'method.gamma' of fedavg"),
    ({"method.name": "fixed_gamma", "method.gamma": 0}, "method.gamma = 0: must be a number above 0 and at most 1e+30"),
    ({"data.alpha": 0}, "data.alpha = 0: must be a number above 0"),
    ({"data.alpha": -1.0}, "data.alpha = -1.0: must be a number above 0"),
    ({"data.alpha": "much"}, "data.alpha = 'much': must be a number above 0"),
    ({"data.alpha": float("nan")}, "data.alpha = nan: must be a number above 0"),
    ({"data.alpha": None}, "data.alpha = None: must be a number above 0"),
    ({"data.partition": "iid", "data.alpha": 1.0}, "unknown key 'data.alpha' of iid; Known: name"),
    ({"data.alpha2": 1.0}, "unknown key 'data.alpha2' of dirichlet; did you mean 'data.alpha'?"),
    ({"data.partition": "hybird"}, "data.partition: unknown partition 'hybird'; did you mean 'hybrid'?"),
    ({"data.partition": "three_node", "clients.count": 4}, "clients.count = 4: must be 3"),
    ({"data.partition": "hybrid", "clients.count": 1}, "clients.count = 1: must be at least 2"),
    ({"data.train_size": 4001}, "data.train_size = 4001: mnist5k has 4000 of these images; must be at most 4000"),
    ({"clients.participation": 0}, "clients.participation = 0: must be a number above 0 and at most 1"),
    ({"clients.participation": 1.1}, "clients.participation = 1.1: must be a number above 0 and at most 1"),
    ({"clients.count": 4001}, "clients.count = 4001: more clients than training samples; must be at most 4000"),
    ({"clients.count": 2.5}, "clients.count = 2.5: must be a whole number at least 1"),
    ({"clients.count": True}, "clients.count = True: must be a whole number at least 1"),
    ({"clients.corruption": "flop"}, "clients.corruption: unknown corruption 'flop'; did you mean 'flip'?"),
    ({"clients.corruption": 1}, "clients.corruption = 1: must be a word"),
    (
        {"clients.corruption": "flip", "clients.corruption_scale": 2.0},
        "clients.corruption_scale = 2.0: clients.corruption=flip has no scale; must be null",
    ),
    ({"clients.corruption_scale": 1.0}, "clients.corruption_scale = 1.0: clients.corruption=swap has no scale"),
    (
        {"clients.corruption": "noise", "clients.corruption_scale": -1},
        "clients.corruption_scale = -1: must be a number at least 0 and at most 1e+30 or null",
    ),
    ({"clients": 3}, "clients = 3: must be settings (count,"),
    ({"data": "cifar10"}, "data = 'cifar10': must be settings"),
    ({"method": "fedavg"}, "method = 'fedavg': must be settings, such as method.name=..."),
    ({"proxy.size": 1000}, "proxy.size = 1000: leaves none of 1000 test images for evaluation; must be below 1000"),
    ({"proxy.pool": 1000}, "proxy.pool = 1000: leaves none of 1000 test images for evaluation"),
    ({**PROXY_USER, "proxy.size": 0}, "proxy.size = 0: bn=proxy needs a proxy set"),
    ({"method.name": "fedlaw", "proxy.size": 0}, "proxy.size = 0: method.name=fedlaw needs a proxy set"),
    ({"method.name": "feddf", "proxy.size": 0}, "proxy.size = 0: method.name=feddf needs a proxy set"),
    ({"method.proxy_client": True, "proxy.size": 0}, "proxy.size = 0: method.name=fedavg needs a proxy set"),
    ({"method.name": "fedprox", "method.lr": 0.1}, "unknown key 'method.lr' of fedprox"),
    ({"method.name": "fedlaw", "method.base": "cubic"}, "method.base = 'cubic': must be one of exp, quad"),
    ({"method.name": "fedlaw", "method.swa": True}, "unknown key 'method.swa' of fedlaw"),
    ({**PROXY_USER, "proxy.size": 100, "proxy.pool": 99}, "proxy.pool = 99: smaller than the proxy set"),
    (
        {**PROXY_USER, "proxy.source": "train", "data.train_size": 90, "data.validation": 0, "proxy.size": 100},
        "proxy.source = train: clients have 90 images; proxy.size and proxy.pool must be at most 90",
    ),
    (
        {**PROXY_USER, "proxy.size": 100, "proxy.draw": 2},
        "proxy.draw = 2: all 100 images of the pool are drawn; must be 0, or proxy.pool above 100",
    ),
    ({**PROXY_USER, "proxy.size": 5, "proxy.longtail": 10.0}, "proxy.size = 5: too small to have an image"),
    (
        {**PROXY_USER, "proxy.longtail": 10.0, "proxy.longtail_total": "keep"},
        "proxy.pool = 100: too small for the long tail's largest class; must be at least 250",
    ),
    *(
        ({**PROXY_USER, "proxy.rule": "authors", **more}, f"{line}: proxy.rule=authors ")
        for more, line in (
            ({"proxy.pool": 200}, "proxy.pool = 200"),
            ({"proxy.pool": 200, "proxy.draw": 2}, "proxy.pool = 200"),
            ({"proxy.draw": 2}, "proxy.draw = 2"),
            ({"proxy.longtail": 10.0}, "proxy.longtail = 10.0"),
            ({"proxy.source": "train"}, "proxy.source = train"),
            ({"proxy.size": 95}, "proxy.size = 95"),
        )
    ),
    ({"proxy.rule": "authors", "proxy.pool": 200}, "proxy.pool = 200: proxy.rule=authors"),
    ({"proxy.rule": "author"}, "proxy.rule = 'author': must be one of own, authors"),
    ({"data.name": [1]}, "data.name: unknown data set '[1]'"),
    ({"method.name": {"a": 1}}, "method.name: unknown method"),
    ({"run.threads": 10**6}, "run.threads = 1000000: must be a whole number at least 1 and at most 1024"),
    ({"clients.weight_decay": 1e39}, "clients.weight_decay = 1e+39: must be a number at least 0 and at most 1e+30"),
    ({"run.device": "cuda:1234567"}, "run.device = 'cuda:1234567': must be auto, cpu, cuda or cuda:N"),
    ({"run.device": "gpu"}, "run.device = 'gpu': must be auto, cpu, cuda or cuda:N"),
    ({"bn": "none"}, "bn = 'none': must be one of average, proxy, local"),
]


@pytest.mark.parametrize(("settings", "line"), WRONG)
def test_a_wrong_setting_is_one_line_that_says_what_would_be_right(settings: dict[str, Any], line: str) -> None:
    with pytest.raises(ConfigError) as raised:
        TrialConfig(**settings)
    assert line in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_copy_has_a_hash_of_its_own() -> None:
    config = TrialConfig()
    before = config.hash
    assert config.model_copy(update={"seed": 9}).hash == TrialConfig(seed=9).hash != before
    assert config.on("cpu").hash == before


def test_a_data_set_may_set_any_default_and_the_papers_fill_in_for_the_rest() -> None:
    base = DATASETS.get("mnist5k")
    own = {"model": "mlp", "proxy.size": 30, "clients.lr": 0.5, "method.lr": 0.25}
    register_dataset(Dataset("outside-defaults", (1, 28, 28), 10, 4000, 1000, base.load, defaults=own), "1")
    config = TrialConfig(**{"data.name": "outside-defaults", "method.name": "fedlaw"})
    assert (config.proxy.size, config.clients.lr, config.clients.epochs, config.rounds) == (30, 0.5, 3, 200)
    assert config.method.model_dump()["lr"] == 0.25
    fedadam = TrialConfig(**{"data.name": "outside-defaults", "method.name": "fedadam"})
    assert fedadam.method.model_dump()["lr"] == 0.01  # the method has a default of its own


def test_the_server_learns_faster_on_cifar_10() -> None:
    rates = {
        name: TrialConfig(**{"data.name": name, "method.name": "fedlaw"}).method.model_dump()["lr"]
        for name in ("cifar10", "cifar100", "fashion_mnist")
    }
    assert rates == {"cifar10": 0.01, "cifar100": 0.005, "fashion_mnist": 0.005}


def test_a_data_set_may_choose_partition_method_and_write_its_defaults_nested() -> None:
    base = DATASETS.get("mnist5k")
    own = {"model": "mlp", "data.partition": "iid", "method": {"name": "fedprox", "mu": 0.5}, "clients": {"lr": 0.5}}
    register_dataset(Dataset("outside-choices", (1, 28, 28), 10, 4000, 1000, base.load, defaults=own), "1")
    config = TrialConfig(**{"data.name": "outside-choices"})
    assert (config.data.partition, config.method.name, config.clients.lr) == ("iid", "fedprox", 0.5)
    other = TrialConfig(**{"data.name": "outside-choices", "data.partition": "dirichlet", "method.name": "fedavg"})
    assert (other.data.partition, other.method.name) == ("dirichlet", "fedavg")
