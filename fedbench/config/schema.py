"""The settings of a config: a class for each group of settings, and TrialConfig, which holds all groups."""

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
from fedbench.data.base import Dataset
from fedbench.data.classes import apportion, longtail_counts, longtail_shares
from fedbench.data.own import dataset_of
from fedbench.data.partitions import PARTITIONS, DataSettings
from fedbench.data.partitions.base import Rho
from fedbench.indicators.base import indicator_settings, plain_indicators
from fedbench.methods import BatchNormRule
from fedbench.methods.base import AnyMethod
from fedbench.models import has_batch_norm
from fedbench.models.base import Network
from fedbench.models.norm import BATCH, Norm, network_name
from fedbench.models.precision import PRECISIONS, Precision
from fedbench.shifts import NO_SHIFT


class ClientsConfig(Strict):
    """Clients and their local SGD. A setting without a default takes the data set's default."""

    count: Count = Field(default=20, title="number of clients")
    """number of clients"""
    participation: Annotated[float, Field(gt=0, le=1)] = Field(default=1.0, title="participation (share of clients)")
    """share of the clients that are sampled in a round"""
    train: Annotated[Literal["sampled", "all"], UnhashedDefault()] = "sampled"
    """which clients train in a round: the sampled ones, or all; the server only aggregates the sampled ones"""
    epochs: Count = Field(title="local epochs")
    """epochs of local SGD in a round"""
    batch_size: Count
    """batch size of local SGD"""
    lr: Positive
    """local learning rate"""
    lr_decay: Positive = 0.99
    """factor by which the learning rate is multiplied after every round"""
    momentum: Share = 0.9
    """momentum of local SGD"""
    momentum_state: Literal["keep", "reset"] = "keep"
    """whether a client keeps its momentum buffer between its rounds or resets it"""
    weight_decay: NonNegative = Field(title="local weight decay")
    """weight decay of local SGD"""
    holdout: Share = 0.0
    """share of each client's data that it does not train on (the paper's runs: 0.3)"""
    straggler: Annotated[float, Field(ge=0, le=1), UnhashedDefault()] = Field(default=0.0, title="stragglers (share)")
    """share of the clients that do only a part of their epochs, drawn anew in every round: from `min_epochs` to all"""
    min_epochs: Annotated[Count, UnhashedDefault()] = Field(default=1, title="least epochs of a straggler")
    """the fewest epochs of a straggler in a round"""
    dropout: Annotated[Share, UnhashedDefault()] = Field(default=0.0, title="dropout (share)")
    """share of the sampled clients that never answer, drawn anew in every round: they do not train and send nothing"""
    corrupted: Annotated[float, Field(ge=0, le=1)] = Field(default=0.0, title="corrupted clients (share)")
    """share of the clients that are corrupted"""
    corruption: str = Field(default="swap", title="corruption")
    """what corrupted clients do"""
    corruption_scale: NonNegative | None = Field(default=None, title="scale of the corruption")
    """strength of the corruption, if it has a scale; null for the corruption's default"""
    shift: Annotated[str, UnhashedDefault()] = Field(default=NO_SHIFT, title="shift of the images")
    """how the images of the clients differ"""
    shift_groups: Annotated[Count | None, UnhashedDefault()] = Field(default=None, title="groups of shifted clients")
    """number of groups of clients, whose images are shifted alike: from not at all to by the whole scale; null: each
    client is a group of its own"""
    shift_scale: Annotated[NonNegative | None, UnhashedDefault()] = Field(default=None, title="scale of the shift")
    """strength of the shift in the last group; null for its default"""


class ServerConfig(Strict):
    """Settings of the server that hold for every method."""

    global_lr: Positive = Field(default=1.0, title="global learning rate")
    """eta_g in w' = gamma (w - eta_g g)"""


class ProxyConfig(Strict):
    """The server's proxy set."""

    size: Whole = Field(title="proxy set (images)")
    """images in the proxy set"""
    pool: Whole | None = None
    """images kept out of the test set, of which the proxy set is a part: proxy sets of different sizes from the same
    pool are evaluated on the same test images; null for the size of the proxy set"""
    draw: Annotated[Whole, UnhashedDefault()] = 0
    """number of the draw of the proxy set from a larger pool; all other random draws stay the same"""
    rule: Annotated[Literal["own", "authors"], UnhashedDefault()] = "own"
    """how the images are drawn: own is fedbench's draw, authors is the draw of the paper's code for the same seed;
    in both cases no method is evaluated on these images"""
    source: Annotated[Literal["test", "train"], UnhashedDefault()] = "test"
    """where the images are taken from: the test set, or the clients' training data"""
    longtail: Rho = 1.0
    """rho of a long-tailed proxy set; 1 for a class-balanced one"""
    longtail_total: Literal["head", "keep"] = "head"
    """what a long-tailed proxy set shares with the balanced one: the size of its first class, or its total size"""
    balanced_sampling: bool = False
    """whether batches are drawn class-balanced with replacement"""


class InitConfig(Strict):
    """The initial global model."""

    draw: Annotated[Whole, UnhashedDefault()] = 0
    """number of the draw of the initial weights; all other random draws stay the same"""
    path: Annotated[str | None, UnhashedDefault()] = None
    """a file with a state dict to start from, such as pre-trained weights; null for random ones"""
    content: Annotated[str | None, Field(pattern=r"^[0-9a-f]{64}$"), UnhashedDefault()] = None
    """the digest of that file's tensors; fedbench writes it"""


class BatchesConfig(Strict):
    """The order in which clients see their data."""

    draw: Annotated[Whole, UnhashedDefault()] = 0
    """number of the draw of batches and of random layers in local training; all other random draws stay the same"""


class ParticipationConfig(Strict):
    """The sampling of each round's clients."""

    draw: Annotated[Whole, UnhashedDefault()] = 0
    """number of the draw of each round's clients, where not all take part; all other random draws stay the same"""


class RunConfig(Strict):
    """Where and how to compute. These settings are not part of the hash."""

    device: Annotated[
        str, Field(pattern=r"^(auto|cpu|cuda(:[0-9]{1,3})?)$"), ValidValues("auto, cpu, cuda or cuda:N")
    ] = "auto"
    """device to compute on: auto, cpu, cuda or cuda:N; auto is a GPU if there is one"""
    threads: Annotated[int, Field(ge=1, le=1024)] = 1
    """number of CPU threads"""
    engine: str = AUTO
    """how local steps are executed, which does not change the result; auto is captured on a GPU, eager elsewhere"""


PartitionChoice = one_of("partition", lambda name: PARTITIONS.get(name).Settings, PARTITIONS)
IndicatorChoice = SettingsChoice(lambda given: indicator_settings(), lambda: [indicator_settings()])


class TrialConfig(Strict):
    """The settings of one federated run, nested or with dotted keys: TrialConfig(**{"data.alpha": 0.1}).

    A setting that is left out takes its default (see `resolve`). Invalid settings raise ConfigError with one line.
    """

    data: Annotated[DataSettings, PartitionChoice]
    model: str
    """the network"""
    norm: Annotated[Norm, UnhashedDefault()] = BATCH
    """the normalization of models that have batch norm: this, or in its place group norm (of 2 groups) or none"""
    clients: ClientsConfig
    server: ServerConfig = ServerConfig()
    proxy: ProxyConfig
    init: InitConfig = InitConfig()
    batches: BatchesConfig = BatchesConfig()
    participation: ParticipationConfig = ParticipationConfig()
    bn: BatchNormRule
    """treatment of batch norm's running statistics: averaged like weights, estimated on the proxy set, or kept local to
    each client"""
    method: AnyMethod
    rounds: Count
    """number of rounds"""
    eval_every: Count = 1
    """rounds between evaluations; the last 10 rounds are always evaluated"""
    seed: Whole = 8
    """seed of all random draws"""
    precision: Literal["float32", "tf32", "bfloat16", "float64"] = "float32"
    """number format; tf32 and bfloat16 apply to forward and backward passes, everything else is then float32"""
    indicators: Annotated[Any, IndicatorChoice]
    run: RunConfig = RunConfig()

    def __init__(self, **settings: Any) -> None:
        resolved = resolve(nest(settings))
        try:
            super().__init__(**resolved)
        except ValidationError as error:
            line = explain(error, type(self), resolved)
            hint = f"; set it, or give it in the defaults of data set '{resolved['data']['name']}'"
            raise ConfigError(line + hint if line.endswith((" is missing", " are missing")) else line) from None

    @model_validator(mode="after")
    def _check(self) -> "TrialConfig":
        check(self)
        return self

    @property
    def dataset(self) -> Dataset:
        """The data set that `data.name` names."""
        return dataset_of(self.data.name, self.data.path, self.data.content)

    @property
    def network(self) -> Network:
        """The network with its normalization, and the images and classes that it is built for."""
        return network_name(self.model, self.norm), self.dataset.shape, self.dataset.num_classes

    @property
    def numbers(self) -> Precision:
        """The number formats that `precision` names."""
        return PRECISIONS[self.precision]

    @property
    def participants(self) -> int:
        """The number of clients in a round, m = max(1, round(participation * n))."""
        return max(1, round(self.clients.participation * self.clients.count))

    @property
    def all_train(self) -> bool:
        """Whether clients that are not sampled train as well, and this changes their momentum or statistics."""
        stateful = self.clients.momentum_state == "keep" and self.clients.momentum > 0
        stateful |= self.bn != "average" and self.uses_batch_norm
        stateful |= self.method.training == "local"
        some = self.participants < self.clients.count and self.method.training != "centralised"
        return self.clients.train == "all" and some and stateful

    @property
    def corrupted_clients(self) -> int:
        """The number of corrupted clients."""
        return round(self.clients.corrupted * self.clients.count)

    @property
    def train_samples(self) -> int:
        """The number of training images, including those for validation."""
        return self.data.train_size or self.dataset.train_size

    @property
    def test_samples(self) -> int:
        """The number of test images, including the proxy set's pool."""
        return self.data.test_size or self.dataset.test_size

    @property
    def validation_samples(self) -> int:
        """The number of training images that are kept out for validation."""
        return round(self.data.validation * self.train_samples)

    @property
    def uses_batch_norm(self) -> bool:
        """Whether the model has running statistics, so that `bn` has an effect."""
        return has_batch_norm(*self.network)

    @property
    def uses_proxy(self) -> bool:
        """Whether the method or the batch-norm rule needs the proxy set."""
        return self.method.proxy_use != "none" or (self.bn == "proxy" and self.uses_batch_norm)

    @property
    def only_labels_differ(self) -> bool:
        """Whether clients differ in their labels and numbers of samples alone, and not in what a class looks like."""
        return not PARTITIONS.get(self.data.partition).by_owner and self.clients.shift == NO_SHIFT

    @property
    def proxy_counts(self) -> list[int]:
        """The number of images of each class in a long-tailed proxy set."""
        classes, size, rho = self.dataset.num_classes, self.proxy.size, self.proxy.longtail
        if self.proxy.longtail_total == "keep":
            return apportion(longtail_shares(rho, classes), size)
        return longtail_counts(size / classes, rho, classes)

    @property
    def proxy_pool(self) -> int:
        """The number of images that are kept out of the test set: `proxy.pool`, by default `proxy.size`."""
        return self.proxy.size if self.proxy.pool is None else self.proxy.pool

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> "TrialConfig":
        """A copy with some fields replaced, without validation. The cached hash is not copied."""
        copy = super().model_copy(update=update, deep=deep)
        copy.__dict__.pop("hash", None)
        return copy

    def on(self, device: str) -> "TrialConfig":
        """The same experiment on another device."""
        return self.model_copy(update={"run": self.run.model_copy(update={"device": device})})

    def plain(self) -> Settings:
        """All settings as plain data, to be stored in a file or sent to another process."""
        return {**self.model_dump(mode="json"), "indicators": plain_indicators(self.indicators)}

    def canonical(self) -> Settings:
        """The config as plain data, without `run`; settings that cannot change a result have a fixed value."""
        return canonical(self)

    @cached_property
    def hash(self) -> str:
        """The SHA-256 of the canonical form: equal for the same experiment, however the config was written."""
        return digest(self.canonical())
