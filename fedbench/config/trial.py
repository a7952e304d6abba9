"""TrialConfig: every setting of one federated run, typed, checked, resolved and hashable."""

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny, ValidationError, field_validator, model_validator

import fedbench.data.sets  # noqa: F401  (registers the data sets)
from fedbench.base.errors import ConfigError
from fedbench.base.explain import explain
from fedbench.base.fields import Count, NonNegative, Positive, Share, Whole
from fedbench.base.plugins import load_entry_points
from fedbench.base.settings import Settings, merge, nest
from fedbench.data.base import DATASETS, Dataset
from fedbench.data.partition import apportion, longtail_counts, longtail_shares
from fedbench.methods import METHODS, BatchNormRule, MethodSettings
from fedbench.models import MODELS, has_batch_norm

LAST_ROUNDS = 10  # the final score is their mean, so they are always evaluated

# Raised by hand whenever the same config gives other results than before (tests/test_golden.py tells).
SIMULATION_VERSION = 1

# Null stands for "not used by this partition"; it is checked together with the partition.
Alpha = Annotated[float | None, Field(gt=0, le=1e30, description="a number above 0")]
Rho = Annotated[float, Field(ge=1, le=1e30)]


class Section(BaseModel):
    """A group of settings: frozen, strictly typed, unknown keys forbidden."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class DataConfig(Section):
    """The data set and how it is split over clients.

    alpha, alpha2: Dirichlet concentrations (hybrid: first and second half of the clients; three_node: client 0 and
    the other two). longtail: rho of class counts n_max * rho^(-c/(C-1)), 1 for none. train_size, test_size: null for
    all. validation: share of the training data kept out for scoring a search.
    """

    name: str = "mnist5k"
    partition: Literal["dirichlet", "hybrid", "three_node", "iid"] = "dirichlet"
    alpha: Alpha = None
    alpha2: Alpha = None
    longtail: Rho = 1.0
    train_size: Count | None = None
    test_size: Count | None = None
    validation: Share = 0.0


class ClientsConfig(Section):
    """Clients and their local SGD. Settings without a default here take the data set's.

    participation: share of clients sampled a round. lr is multiplied by lr_decay each round. momentum_state: whether
    a client's momentum lives on between its rounds. holdout: share of each client's data that it does not train on.
    corrupted: share of clients that have two labels swapped.
    """

    count: Count = 20
    participation: Annotated[float, Field(gt=0, le=1)] = 1.0
    epochs: Count
    batch_size: Count
    lr: Positive
    lr_decay: Positive = 0.99
    momentum: Share = 0.9
    momentum_state: Literal["keep", "reset"] = "keep"
    weight_decay: NonNegative
    holdout: Share = 0.0
    corrupted: Annotated[float, Field(ge=0, le=1)] = 0.0


class ServerConfig(Section):
    """global_lr: eta_g in w_g' = gamma * (w_g - eta_g * g_g)."""

    global_lr: Positive = 1.0


class ProxyConfig(Section):
    """The server's proxy set, drawn from the test set. size: default 10 a class.

    pool: images kept out of the test set (default: size), so that a study over sizes scores all
    of them on the same images.
    longtail: rho, 1 for a class-balanced proxy; longtail_total: keep the head's count (a smaller proxy) or the total.
    balanced_sampling: draw batches class-balanced, with replacement.
    """

    size: Whole
    pool: Whole | None = None
    longtail: Rho = 1.0
    longtail_total: Literal["head", "keep"] = "head"
    balanced_sampling: bool = False


class IndicatorsConfig(Section):
    """What to record beside the scores.

    coherence: of the local gradients, for the cohort, or for every pair of clients too. hessian_every: rounds between
    top Hessian eigenvalues (0 for none; the last round is always one), on hessian_samples training images.
    simplex_every: rounds between loss landscapes over the weights of three clients, on a grid of simplex_grid steps.
    landscape: at the end, the loss of the final model rescaled, and along the top Hessian eigenvector. server_path: how
    gamma and lambda are learned, server epoch by server epoch.
    """

    coherence: Literal["off", "cohort", "pairwise"] = "cohort"
    hessian_every: Whole = 0
    hessian_samples: Count = 500
    simplex_every: Whole = 0
    simplex_grid: Count = 20
    landscape: bool = False
    server_path: bool = False


class RunConfig(Section):
    """Where and how to compute; not part of the experiment's hash. device: auto, cpu, cuda or cuda:N."""

    device: Annotated[
        str, Field(pattern=r"^(auto|cpu|cuda(:[0-9]{1,3})?)$", description="auto, cpu, cuda or cuda:N")
    ] = "auto"
    threads: Annotated[int, Field(ge=1, le=1024)] = 1
    engine: Literal["sequential"] = "sequential"


class TrialConfig(Section):
    """One federated run. Settings may be nested or dotted: TrialConfig(**{"data.alpha": 0.1}).

    What is left out takes the data set's default, then the method's. Wrong settings raise ConfigError with one line.
    """

    data: DataConfig
    model: str
    clients: ClientsConfig
    server: ServerConfig = ServerConfig()
    proxy: ProxyConfig
    bn: BatchNormRule
    method: SerializeAsAny[MethodSettings]
    rounds: Count
    eval_every: Count = 1
    seed: Whole = 8
    precision: Literal["float32", "float64"] = "float32"
    indicators: IndicatorsConfig = IndicatorsConfig()
    run: RunConfig = RunConfig()

    def __init__(self, **settings: Any) -> None:
        try:
            super().__init__(**settings)
        except ValidationError as error:
            raise ConfigError(explain(error, type(self))) from None

    @model_validator(mode="before")
    @classmethod
    def _resolve(cls, settings: Any) -> Any:
        """Fill in what was left out: defaults of the data set, the partition and the method."""
        return resolve(nest(settings))

    @field_validator("method", mode="before")
    @classmethod
    def _method_settings(cls, settings: Any) -> MethodSettings:
        """Settings of the named method, checked against that method's own type."""
        own = METHODS.get(str(settings.get("name"))).Settings
        try:
            return own(**settings)
        except ValidationError as error:
            raise ConfigError(explain(error, own, prefix="method.", of=f" of {settings['name']}")) from None

    @model_validator(mode="after")
    def _check(self) -> "TrialConfig":
        check(self)
        return self

    @property
    def dataset(self) -> Dataset:
        """The data set that `data.name` names."""
        return DATASETS.get(self.data.name)

    @property
    def participants(self) -> int:
        """M = max(1, round(ratio * n)) clients a round."""
        return max(1, round(self.clients.participation * self.clients.count))

    @property
    def corrupted_clients(self) -> int:
        """The number of clients with swapped labels."""
        return round(self.clients.corrupted * self.clients.count)

    @property
    def train_samples(self) -> int:
        """Training images before any are kept out for validation."""
        return self.data.train_size or self.dataset.train_size

    @property
    def validation_samples(self) -> int:
        """Training images kept out for validation."""
        return round(self.data.validation * self.train_samples)

    @property
    def uses_batch_norm(self) -> bool:
        """Whether the model has running statistics, so that `bn` means something."""
        return has_batch_norm(self.model, self.dataset.shape, self.dataset.num_classes)

    @property
    def uses_proxy(self) -> bool:
        """Whether the method or the batch-norm rule needs the proxy set."""
        return self.method.proxy_use != "none" or (self.bn == "proxy" and self.uses_batch_norm)

    @property
    def proxy_counts(self) -> list[int]:
        """Images of each class in a long-tailed proxy set."""
        classes, size, rho = self.dataset.num_classes, self.proxy.size, self.proxy.longtail
        if self.proxy.longtail_total == "keep":
            return apportion(longtail_shares(rho, classes), size)
        return longtail_counts(size / classes, rho, classes)

    @property
    def proxy_pool(self) -> int:
        """Images kept out of the test set: `proxy.pool`, by default the proxy's size."""
        return self.proxy.size if self.proxy.pool is None else self.proxy.pool

    def canonical(self) -> Settings:
        """The experiment itself: without `run`, and with everything that cannot change a result normalised away."""
        form = {**self.model_dump(mode="json", exclude={"run", "method"}), "method": self.method.canonical()}
        data, clients, proxy = form["data"], form["clients"], form["proxy"]
        data["train_size"], data["validation"] = self.train_samples, self.validation_samples
        data["test_size"] = data["test_size"] or self.dataset.test_size
        clients["participation"] = self.participants
        clients["corrupted"] = self.corrupted_clients
        if clients["holdout"] * self.train_samples < 1:
            clients["holdout"] = 0
        if not clients["momentum"]:
            clients["momentum_state"] = "reset"
        form["eval_every"] = min(self.eval_every, max(1, self.rounds - LAST_ROUNDS + 1))  # larger ones skip no more
        if not self.uses_batch_norm:
            form["bn"] = "average"
        if proxy["longtail"] == 1:
            proxy["longtail_total"] = "head"
        proxy["pool"] = self.proxy_pool
        if not self.uses_proxy:
            form["proxy"] = {"pool": self.proxy_pool}
        if not self.indicators.hessian_every and not self.indicators.landscape:
            del form["indicators"]["hessian_samples"]
        if not self.indicators.simplex_every:
            del form["indicators"]["simplex_grid"]
        outside = {
            "data": DATASETS.version(self.data.name),
            "model": MODELS.version(self.model),
            "method": METHODS.version(self.method.name),
        }
        form["versions"] = {"simulation": SIMULATION_VERSION, **{k: v for k, v in outside.items() if v is not None}}
        return form

    @cached_property
    def hash(self) -> str:
        """Sha256 of the canonical form: equal for the same experiment, however it was written."""
        plain = json.loads(json.dumps(self.canonical()), parse_float=lambda text: float(text) + 0.0)  # -0.0 is 0.0
        text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


ALPHAS: Mapping[str, Settings] = {  # the paper's hybrid and (one of its) toy settings
    "dirichlet": {"alpha": 1.0},
    "hybrid": {"alpha": 10.0, "alpha2": 0.1},
    "three_node": {"alpha": 100.0, "alpha2": 0.1},
    "iid": {},
}


def resolve(settings: Settings) -> Settings:
    """Nested settings with the defaults that depend on other settings filled in; wrong types are left for later."""
    load_entry_points()
    data = _section(settings, "data")
    name = data.get("name", "mnist5k")
    dataset = _named("data.name", name, DATASETS.get)
    settings = merge(nest(dataset.defaults), {**settings, "data": data})
    partition = settings["data"].get("partition", "dirichlet")
    defaults: Settings = {
        "data": ALPHAS.get(partition, {}) if isinstance(partition, str) else {},
        "clients": {"count": 3} if partition == "three_node" else {},
        "proxy": {"size": 10 * dataset.num_classes},
        "method": {"name": "fedavg"},
    }
    settings = merge(defaults, {**settings, "method": _section(settings, "method")})
    method = settings["method"]
    rule = _named("method.name", method["name"], METHODS.get)
    settings["method"] = {**rule.Settings.data_defaults(dataset.name), **method}
    settings.setdefault("bn", rule.bn)
    return settings


def _section(settings: Settings, name: str) -> Settings:
    section = settings.get(name, {})
    if not isinstance(section, Mapping):
        raise ConfigError(f"{name} = {section!r}: must be settings, such as {name}.name=...")
    return dict(section)


def _named(key: str, name: Any, get: Any) -> Any:
    try:
        return get(name)
    except ConfigError as error:
        raise ConfigError(f"{key}: {error}") from None


def check(config: TrialConfig) -> None:
    """Everything that two settings can get wrong between them."""
    data, dataset, n = config.data, config.dataset, config.clients.count
    _named("model", config.model, MODELS.get)
    _ = config.uses_batch_norm  # builds the model, without memory: an error if it does not fit the images
    allowed = ALPHAS[data.partition]
    for key in ("alpha", "alpha2"):
        given = getattr(data, key)
        if given is not None and key not in allowed:
            raise ConfigError(
                f"data.{key} = {given}: has no meaning with data.partition={data.partition}; leave it out"
            )
        if given is None and key in allowed:
            raise ConfigError(f"data.{key} = null: data.partition={data.partition} needs a number above 0")
    if data.partition == "three_node" and n != 3:
        raise ConfigError(f"clients.count = {n}: must be 3 with data.partition=three_node")
    if data.partition == "hybrid" and n < 2:
        raise ConfigError(f"clients.count = {n}: must be at least 2 with data.partition=hybrid")
    for key, given, total in (
        ("train_size", data.train_size, dataset.train_size),
        ("test_size", data.test_size, dataset.test_size),
    ):
        if given is not None and given > total:
            raise ConfigError(f"data.{key} = {given}: {dataset.name} has {total} images there; must be at most {total}")
    if n > (left := config.train_samples - config.validation_samples):
        raise ConfigError(f"clients.count = {n}: more clients than training samples; must be at most {left}")
    if config.indicators.simplex_every and (n != 3 or config.participants != 3):
        raise ConfigError(
            f"indicators.simplex_every = {config.indicators.simplex_every}: needs three clients that all take part; "
            "use it with data.partition=three_node"
        )
    check_proxy(config)


def check_proxy(config: TrialConfig) -> None:
    """The proxy set must exist where it is used, fit into its pool, and leave images to score on."""
    test = config.data.test_size or config.dataset.test_size
    proxy, pool = config.proxy, config.proxy_pool
    if config.uses_proxy and proxy.size == 0:
        user = f"method.name={config.method.name}" if config.method.proxy_use != "none" else "bn=proxy"
        raise ConfigError(f"proxy.size = 0: {user} needs a proxy set; must be a whole number at least 1")
    if proxy.size >= test:
        raise ConfigError(
            f"proxy.size = {proxy.size}: drawn from {test} test images, some must be left; must be below {test}"
        )
    if pool >= test:
        raise ConfigError(f"proxy.pool = {pool}: leaves none of {test} test images to score on; must be below {test}")
    if not config.uses_proxy:
        return
    if proxy.longtail == 1 and pool < proxy.size:
        raise ConfigError(f"proxy.pool = {pool}: smaller than the proxy set; must be at least {proxy.size}")
    if proxy.longtail > 1 and not any(config.proxy_counts):
        raise ConfigError(
            f"proxy.size = {proxy.size}: leaves no image of any class with proxy.longtail={proxy.longtail}"
        )
    if proxy.longtail > 1 and pool < (need := max(config.proxy_counts) * config.dataset.num_classes):
        raise ConfigError(f"proxy.pool = {pool}: too small for this long tail's first class; must be at least {need}")
