"""What a method is: settings, a client side given as data, a server side given as a pure rule.

A round of the paper's Algorithm 1, from a method's point of view:

    correction(state, ...)   what clients add to their gradient           (FedProx, FedDyn; default nothing)
    aggregate(cohort, ...)   w_g' = gamma * sum_i lambda_i w_i, or any other rule

Vectors [P] and [Q], and the rows of [m, P] and [m, Q], are in the order that `FlatModel` states: 4-d weights lie
channels-last. `Cohort.layers.tensors` gives views of them in the tensors' true shapes.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from inspect import isabstract, signature
from typing import Annotated, Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from fedbench.base.errors import ConfigError
from fedbench.base.fields import Strict, fixed_name, hashed_settings, one_of
from fedbench.base.registry import Registry, with_brackets
from fedbench.base.tensors import on_device
from fedbench.models import FlatModel, Layers

BatchNormRule = Literal["average", "proxy", "local"]
ProxyUse = Literal["none", "unlabelled", "labelled"]
Report = Literal["loss", "class_counts", "gradient"]
Training = Literal["federated", "centralised", "local"]
State = Mapping[str, Tensor]


class MethodSettings(Strict):
    """Settings of a method; a subclass sets `name` to its registered name and adds its own.

    A setting without a default takes the data set's default for it (`method.lr`, say).
    """

    name: str
    """the method"""

    @property
    def proxy_use(self) -> ProxyUse:
        """Return whether the method needs the server's proxy data, and their labels."""
        return "none"

    @property
    def proxy_as_client(self) -> bool:
        """Return whether the proxy set takes part in every round as one more client."""
        return False

    @property
    def proxy_repeated(self) -> bool:
        """Whether its images are repeated up to the number of an average client, for a client's steps and weight."""
        return False

    @property
    def training(self) -> Training:
        """Where clients start from, or who trains in place of them.

        federated: all start from the global model; centralised: in place of the clients, one that has all their data
        and takes as many steps as they together; local: each client starts from its own model, and the mean over
        clients of the scores of these models is the run's score.
        """
        return "federated"

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods at work: this one, and those that it builds on by their names."""
        return (self.name,)

    @property
    def reports(self) -> tuple[Report, ...]:
        """Return what clients report about their data, beyond their models and data sizes."""
        return ()

    @property
    def extra_vectors(self) -> tuple[int, int]:
        """Vectors [P] that each client sends up and gets beside the model, in every round."""
        return (0, 0)

    def check(self, cohort: int) -> str | None:
        """Return what is wrong with these settings for a number of clients in a round; None if nothing is."""
        return None

    def canonical(self) -> dict[str, object]:
        """The settings that can change a result, for the hash."""
        return hashed_settings(self)


@dataclass(frozen=True)
class Correction:
    """A method's client side, as data: gradient += linear + mu d + pull d / |d|, d = w - anchor; then cut to `clip`.

    `linear` and `anchor` are [P], d / |d| is 0 where d is; `clip` is the gradient's largest norm. Weight decay and
    momentum come after, for every method alike.
    """

    linear: Tensor | None = None
    mu: float = 0.0
    anchor: Tensor | None = None
    pull: float = 0.0
    clip: float | None = None


@dataclass(frozen=True)
class LocalWork:
    """The local training of one round: the number of SGD steps of each client [m], float64, and their settings."""

    steps: Tensor
    epochs: int
    batch_size: int
    lr: float
    momentum: float
    keeps_momentum: bool
    weight_decay: float
    first_lr: float
    """the learning rate of the first round, before any decay"""

    @property
    def path(self) -> Tensor:
        """A [m], the length of each client's path: w_g - w_i = lr a_i g for a gradient g that does not change.

        With momentum rho from rest, a = (K - rho (1 - rho^K) / (1 - rho)) / (1 - rho) after K steps (FedNova's
        normaliser); where momentum is kept between rounds a gradient moves a client by lr / (1 - rho) in the long
        run, so a = K / (1 - rho). Without momentum a = K.
        """
        rho, steps = self.momentum, self.steps
        if self.keeps_momentum or rho == 0:
            return steps / (1 - rho)
        return (steps - rho * (1 - rho**steps) / (1 - rho)) / (1 - rho)


@dataclass(frozen=True)
class Cohort:
    """The input of an aggregation: the clients' models after local training in one round, sorted by client id.

    round 1-based; clients: ids [m]; p: data-size weights over the cohort [m], summing to 1;
    w: the global model before the round [P]; W: the clients' models [m, P]; B: their running statistics [m, Q];
    buffers: the statistics that a model on the server starts from [Q]; bn: the rule for them; global_lr: eta_g;
    num_clients: n, all clients, sampled or not; sizes: numbers of samples |D_i| [m], int64; work: their local training;
    layers: the pieces of [P]; reported: what clients tell because the method's settings ask for it (`reports`).
    """

    round: int
    clients: tuple[int, ...]
    p: Tensor
    w: Tensor
    W: Tensor
    B: Tensor
    buffers: Tensor
    bn: BatchNormRule
    global_lr: float
    num_clients: int
    sizes: Tensor
    work: LocalWork
    layers: Layers
    reported: Mapping[Report, Tensor] = field(default_factory=dict)

    @property
    def losses(self) -> Tensor:
        """Each client's mean training loss in this round [m], float64."""
        return self._report("loss")

    @property
    def class_counts(self) -> Tensor:
        """Each client's number of samples of every class [m, classes], int64."""
        return self._report("class_counts")

    @property
    def gradients(self) -> Tensor:
        """The mean of all gradients that each client took a step with in this round [m, P]: weight decay is in it."""
        return self._report("gradient")

    def _report(self, name: Report) -> Tensor:
        if name not in self.reported:
            raise RuntimeError(f"a rule used the clients' {name} without saying so in its settings' reports")
        return self.reported[name]

    @property
    def uniform(self) -> Tensor:
        """Equal weights [m]."""
        return torch.full_like(self.p, 1 / len(self.p))

    def rows(self) -> Tensor:
        """The clients' ids [m], to index a state of all clients [n, ...] with."""
        return on_device(self.clients, self.W.device)

    def combine(self, lambda_: Tensor, gamma: float = 1.0) -> Tensor:
        """Gamma * ((1 - eta_g) w_g + eta_g lambda @ W) [P]: exactly lambda @ W where gamma = eta_g = 1.

        lambda_ may have another dtype than W, such as that of `losses`.
        """
        return self.towards(lambda_.to(self.W.dtype) @ self.W, gamma)

    def towards(self, mean: Tensor, gamma: float = 1.0) -> Tensor:
        """Gamma * ((1 - eta_g) w_g + eta_g mean) [P], for any kind of mean [P] of the clients; writes into `mean`."""
        if self.global_lr != 1.0:
            mean.mul_(self.global_lr).add_(self.w, alpha=1.0 - self.global_lr)
        return mean if gamma == 1.0 else mean.mul_(gamma)


@dataclass(frozen=True)
class ProxyData:
    """The proxy set on the run's device, ready to be fed: inputs x [N, C, H, W], channels-last, labels y [N].

    Take batches as x[index]: unlike index_select it keeps the memory layout, which convolutions need to be fast.
    `batches(rng, size)` gives the index tensors of one epoch, shuffled, or drawn class-balanced with replacement
    where the config says so.
    """

    x: Tensor
    y: Tensor
    batches: Callable[[np.random.Generator, int], list[Tensor]]


Step = Callable[..., None]


def as_it_is(step: Step) -> Step:
    """A step that is run whenever it is called."""
    return step


@dataclass(frozen=True)
class Server:
    """The server's tools: a model to load vectors into, the proxy set (if any), and this round's generators.

    `repeated(step)` is a step that the engine may run faster, for one that is repeated many times: `step` takes
    tensors, writes all its results in place, and does the same at every call with the same shapes.
    """

    model: FlatModel
    proxy_set: ProxyData | None
    rng: Callable[[str], np.random.Generator]
    repeated: Callable[[Step], Step] = as_it_is

    @property
    def proxy(self) -> ProxyData:
        """The proxy set; a config that needs one and has none does not get this far."""
        if self.proxy_set is None:
            raise RuntimeError("a rule used the proxy set without saying so in its settings' proxy_use")
        return self.proxy_set


class PathPoint(NamedTuple):
    """Learned weights after one server epoch, and the mean proxy loss over it."""

    gamma: float
    lambda_: tuple[float, ...]
    loss: float


@dataclass(frozen=True)
class Update:
    """The result of an aggregation: the new global model, and what to record about it.

    `lambda_` are the clients' weights [m], on the simplex; None for a rule that gives a client no weight as a whole
    (it must then give `buffers` itself, unless bn=proxy). `average`: score the
    mean of the new global model and the one before, in place of the new one.
    `buffers` are running statistics that the rule itself leaves behind; None leaves them to the `bn` rule.
    `state` is what the method wants back in the next round; `path` how learned weights came about, an epoch each.
    `metrics` are numbers of the method's own, by the names that it announces.
    """

    w: Tensor
    lambda_: Tensor | None
    gamma: float = 1.0
    state: State = field(default_factory=dict)
    buffers: Tensor | None = None
    path: tuple[PathPoint, ...] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)
    average: bool = False


S = TypeVar("S", bound=MethodSettings)


class Method(ABC, Generic[S]):
    """A method with its settings. Subclasses are stateless: what lives on between rounds is in `state`.

    bn: its rule for running statistics; metrics: the numbers of its own that its updates may have, with their labels.
    """

    Settings: ClassVar[type[MethodSettings]]
    bn: ClassVar[BatchNormRule] = "average"
    metrics: ClassVar[Mapping[str, str]] = {}

    def __init__(self, settings: S) -> None:
        self.settings = settings

    @classmethod
    def default_bn(cls, settings: Mapping[str, object]) -> BatchNormRule:
        """The rule for running statistics that goes with settings as written."""
        return cls.bn

    def announced(self) -> Mapping[str, str]:
        """The numbers of its own that its updates may have, with their labels."""
        return self.metrics

    def start(self, num_clients: int, w: Tensor) -> State:
        """The state before the first round, for n clients and an initial model [P]."""
        return {}

    def correction(self, state: State, client: int, w: Tensor) -> Correction | None:
        """Return what `client` adds to its gradient when it starts from the global model w [P]; None for nothing."""
        return None

    @abstractmethod
    def aggregate(self, cohort: Cohort, state: State, server: Server) -> Update:
        """Return the new global model of a cohort, without side effects."""


METHODS: Registry[type[Method[Any]]] = Registry("method", home="fedbench.methods")

MethodChoice = one_of("name", lambda name: METHODS.get(name).Settings, METHODS, default="fedavg")
AnyMethod = Annotated[MethodSettings, MethodChoice]

M = TypeVar("M", bound=type[Method[Any]])


AGGREGATE = "aggregate(self, cohort, state, server)"


def _not_a_method(method: type) -> str | None:
    """Return what a class lacks to be a method; None if it is one."""
    if not issubclass(method, Method):
        return "a method must be a subclass of Method"
    settings = getattr(method, "Settings", None)
    if not isinstance(settings, type) or not issubclass(settings, MethodSettings):
        return "a method must have Settings, a subclass of MethodSettings"
    if isabstract(method):
        return f"a method must have a rule {AGGREGATE}"
    try:
        signature(method.aggregate).bind(*AGGREGATE.split(","))
    except TypeError:
        return f"its rule must be {AGGREGATE}"
    if not isinstance(method.metrics, Mapping):
        return "metrics must be labels by name, such as {'my_number': 'my number'}"
    return None


def register_method(version: str | None = None) -> Callable[[M], M]:
    """Decorate a Method subclass; its name is the one that its Settings fix. One from outside may give a `version`."""
    with_brackets("register_method()", version)

    def register(method: M) -> M:
        if complaint := _not_a_method(method):
            raise ConfigError(f"{method.__name__}: {complaint}")
        METHODS.add(fixed_name(method.Settings, "name"), method, version)
        return method

    return register


def size_weighted(cohort: Cohort, gamma: float = 1.0) -> Update:
    """Aggregate by data sizes, scaled by gamma."""
    return Update(w=cohort.combine(cohort.p, gamma), lambda_=cohort.p, gamma=gamma)
