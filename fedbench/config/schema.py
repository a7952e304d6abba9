"""What a config may say: a class for each group of settings, and TrialConfig, which holds them all."""

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator

from fedbench.base.errors import ConfigError
from fedbench.base.explain import explain
from fedbench.base.fields import (
    Count,
    NonNegative,
    Positive,
    SettingsChoice,
    Share,
    Strict,
    UnhashedDefault,
    ValidValues,
    Whole,
    one_of,
)
from fedbench.base.settings import Settings, nest
from fedbench.config.checks import check
from fedbench.config.engines import AUTO
from fedbench.config.identity import canonical, digest
from fedbench.config.resolve import resolve
from fedbench.data.base import DATASETS, Dataset
from fedbench.data.classes import apportion, longtail_counts, longtail_shares
from fedbench.data.partitions import PARTITIONS, DataSettings
from fedbench.data.partitions.base import Rho
from fedbench.indicators.base import indicator_settings, plain_indicators
from fedbench.methods import BatchNormRule
from fedbench.methods.base import AnyMethod
from fedbench.models import has_batch_norm
from fedbench.models.precision import PRECISIONS, Precision


class ClientsConfig(Strict):
    """Clients and their local SGD. Settings without a default here take the data set's."""

    count: Count = Field(default=20, title="number of clients")
    """number of clients"""
    participation: Annotated[float, Field(gt=0, le=1)] = Field(default=1.0, title="participation (share of clients)")
    """share of the clients sampled in a round"""
    train: Annotated[Literal["sampled", "all"], UnhashedDefault()] = "sampled"
    """who trains in a round: those that are sampled, or all clients, of whom some are then sampled"""
    epochs: Count = Field(title="local epochs")
    """epochs of local SGD in a round"""
    batch_size: Count
    """samples in a local batch"""
    lr: Positive
    """local learning rate"""
    lr_decay: Positive = 0.99
    """what the learning rate is multiplied by each round"""
    momentum: Share = 0.9
    """of local SGD"""
    momentum_state: Literal["keep", "reset"] = "keep"
    """whether a client's momentum lives on between its rounds"""
    weight_decay: NonNegative = Field(title="local weight decay")
    """of local SGD"""
    holdout: Share = 0.0
    """share of its data that each client does not train on (the paper's runs: 0.3)"""
    corrupted: Annotated[float, Field(ge=0, le=1)] = Field(default=0.0, title="corrupted clients (share)")
    """share of the clients that are corrupted"""
    corruption: str = Field(default="swap", title="corruption")
    """what corrupted clients do"""
    corruption_scale: NonNegative | None = Field(default=None, title="scale of the corruption")
    """how strong it is, where it has a scale; null for its own default"""


class ServerConfig(Strict):
    """What the server does with any aggregate."""

    global_lr: Positive = Field(default=1.0, title="global learning rate")
    """eta_g in w' = gamma (w - eta_g g)"""


class ProxyConfig(Strict):
    """The server's proxy set."""

    size: Whole = Field(title="proxy set (images)")
    """images in the proxy set"""
    pool: Whole | None = None
    """images kept out of the test set for it, so that several sizes are scored alike; null for its size"""
    draw: Annotated[Whole, UnhashedDefault()] = 0
    """which draw of the images out of a larger pool: all else of a run stays as it is"""
    rule: Annotated[Literal["own", "authors"], UnhashedDefault()] = "own"
    """how its images are chosen: by a draw of fedbench's own, or the very images that the paper's code draws for the
    seed; either way they are left out of the test set of every method"""
    source: Annotated[Literal["test", "train"], UnhashedDefault()] = "test"
    """where its images are from: the test set, or what clients have (and train on, but for their holdout)"""
    longtail: Rho = 1.0
    """rho of a long-tailed proxy set; 1 for a class-balanced one"""
    longtail_total: Literal["head", "keep"] = "head"
    """a long tail keeps the first class's count (and is smaller in all), or the total"""
    balanced_sampling: bool = False
    """draw batches class-balanced, with replacement"""


class InitConfig(Strict):
    """The initial global model."""

    draw: Annotated[Whole, UnhashedDefault()] = 0
    """which draw of the initial weights; everything else of the seed stays the same"""


class BatchesConfig(Strict):
    """The order in which clients see their data."""

    draw: Annotated[Whole, UnhashedDefault()] = 0
    """which draw of the clients' batches and of random layers in local training; everything else of the seed stays
    the same"""


class ParticipationConfig(Strict):
    """Who takes part in a round."""

    draw: Annotated[Whole, UnhashedDefault()] = 0
    """which draw of each round's clients, where not all take part; everything else of the seed stays the same"""


class RunConfig(Strict):
    """Where and how to compute; not part of the experiment's hash."""

    device: Annotated[
        str, Field(pattern=r"^(auto|cpu|cuda(:[0-9]{1,3})?)$"), ValidValues("auto, cpu, cuda or cuda:N")
    ] = "auto"
    """where it computes: auto, cpu, cuda or cuda:N"""
    threads: Annotated[int, Field(ge=1, le=1024)] = 1
    """CPU threads"""
    engine: str = AUTO
    """how local steps are run, with the same result: auto takes captured steps on a GPU, and eager ones elsewhere"""


PartitionChoice = one_of("partition", lambda name: PARTITIONS.get(name).Settings, PARTITIONS)
IndicatorChoice = SettingsChoice(lambda given: indicator_settings(), lambda: [indicator_settings()])


class TrialConfig(Strict):
    """One federated run. Settings may be nested or dotted: TrialConfig(**{"data.alpha": 0.1}).

    What is left out takes the data set's default, then the method's. Wrong settings raise ConfigError with one line.
    """

    data: Annotated[DataSettings, PartitionChoice]
    model: str
    """the network"""
    clients: ClientsConfig
    server: ServerConfig = ServerConfig()
    proxy: ProxyConfig
    init: InitConfig = InitConfig()
    batches: BatchesConfig = BatchesConfig()
    participation: ParticipationConfig = ParticipationConfig()
    bn: BatchNormRule
    """batch norm's running statistics: averaged like weights, estimated on the proxy set, or local to each client"""
    method: AnyMethod
    rounds: Count
    """rounds of the run"""
    eval_every: Count = 1
    """rounds between scores; the last 10 rounds are always scored"""
    seed: Whole = 8
    """of every random draw"""
    precision: Literal["float32", "tf32", "bfloat16", "float64"] = "float32"
    """of all numbers; tf32 and bfloat16 are for the passes through a model, with float32 for all else"""
    indicators: Annotated[Any, IndicatorChoice]
    run: RunConfig = RunConfig()

    def __init__(self, **settings: Any) -> None:
        resolved = resolve(nest(settings))
        try:
            super().__init__(**resolved)
        except ValidationError as error:
            line = explain(error, type(self), resolved)
            hint = f"; set it, or give it in the defaults of data set '{resolved['data']['name']}'"
            raise ConfigError(line + hint if line.endswith(" is missing") else line) from None

    @model_validator(mode="after")
    def _check(self) -> "TrialConfig":
        check(self)
        return self

    @property
    def dataset(self) -> Dataset:
        """The data set that `data.name` names."""
        return DATASETS.get(self.data.name)

    @property
    def numbers(self) -> Precision:
        """What `precision` stands for."""
        return PRECISIONS[self.precision]

    @property
    def participants(self) -> int:
        """M = max(1, round(ratio * n)) clients a round."""
        return max(1, round(self.clients.participation * self.clients.count))

    @property
    def all_train(self) -> bool:
        """Whether clients that are not sampled train as well, and keep something of it."""
        kept = self.clients.momentum_state == "keep" and self.clients.momentum > 0
        kept |= self.bn != "average" and self.uses_batch_norm
        return self.clients.train == "all" and self.participants < self.clients.count and kept

    @property
    def corrupted_clients(self) -> int:
        """The number of corrupted clients."""
        return round(self.clients.corrupted * self.clients.count)

    @property
    def train_samples(self) -> int:
        """Training images before any are kept out for validation."""
        return self.data.train_size or self.dataset.train_size

    @property
    def test_samples(self) -> int:
        """Test images, those of the proxy set among them."""
        return self.data.test_size or self.dataset.test_size

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

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> "TrialConfig":
        """A copy with some fields replaced, unchecked; its hash is its own."""
        copy = super().model_copy(update=update, deep=deep)
        copy.__dict__.pop("hash", None)
        return copy

    def on(self, device: str) -> "TrialConfig":
        """The same experiment on another device."""
        return self.model_copy(update={"run": self.run.model_copy(update={"device": device})})

    def plain(self) -> Settings:
        """All settings as plain data, for a file or another process."""
        return {**self.model_dump(mode="json"), "indicators": plain_indicators(self.indicators)}

    def canonical(self) -> Settings:
        """The experiment itself: without `run`, and with everything that cannot change a result normalised away."""
        return canonical(self)

    @cached_property
    def hash(self) -> str:
        """Sha256 of the canonical form: equal for the same experiment, however it was written."""
        return digest(self.canonical())
