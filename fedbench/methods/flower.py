"""Flower: any strategy of flwr.serverapp.strategy by its name, or one's own (needs the package flwr)."""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from importlib.metadata import version
from typing import Annotated, Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from fedbench.base.errors import ConfigError, UserError
from fedbench.base.explain import validated
from fedbench.base.fields import ValidValues
from fedbench.base.fingerprint import fingerprint
from fedbench.methods.base import (
    Cohort,
    Correction,
    LocalWork,
    Method,
    MethodSettings,
    Report,
    Server,
    State,
    Update,
    register_method,
)
from fedbench.methods.flower_strategy import (
    LEARNING_RATE,
    MU,
    STRATEGIES,
    Strategy,
    calling,
    find,
    flwr,
    instruct,
    make,
    parameters,
    parts,
    restore,
    state_of,
    told,
    typed,
)
from fedbench.models import FlatModel

Argument = bool | int | float | str | list[Any] | dict[str, Any] | None
# Where a rule is not defined: the clients of a round must be at least a f + b, for f malicious ones.
LEAST = {"MultiKrum": (2, 3), "Bulyan": (4, 3)}
KEPT = "strategy "  # the strategy's own state, among the method's


class FlowerSettings(MethodSettings):
    """A strategy and its arguments."""

    name: Literal["flower"] = "flower"
    strategy: str = "FedAvg"
    """a class of flwr.serverapp.strategy, or the dotted path of one's own, `my_package.MyStrategy`"""
    arguments: Annotated[
        dict[str, Argument], ValidValues("arguments of the strategy, such as {num_malicious_nodes: 4}")
    ] = {}
    """arguments of the class, `method.arguments.KEY`"""

    @property
    def reports(self) -> tuple[Report, ...]:
        """The training loss, for a strategy that says under which key it wants it (`train_loss_key`)."""
        try:
            asks = any("train_loss_key" in parameters(find(part.strategy)) for part in self.wrapped())
        except UserError:  # found and said by `check`
            return ()
        return ("loss",) if asks else ()

    def wrapped(self) -> Iterator["FlowerSettings"]:
        """These settings, and those of the strategy that this one wraps, if it wraps one."""
        yield self
        if "strategy" in parameters(find(self.strategy)):
            given = self.arguments.get("strategy", "FedAvg")
            raw = {"strategy": given} if isinstance(given, str) else given
            yield from validated(FlowerSettings, raw, "method.arguments.strategy: ").wrapped()

    def typed(self) -> dict[str, Any]:
        """The arguments as the class wants them, but for a strategy to wrap."""
        arguments = typed(self.strategy, find(self.strategy), self.arguments)
        arguments.pop("strategy", None)
        return arguments

    def check(self, cohort: int) -> str | None:
        """What a rehearsal with a cohort of this size shows."""
        try:
            flwr(STRATEGIES)
        except ConfigError as error:
            return str(error)
        return rehearse(self.model_dump_json(), cohort)

    def canonical(self) -> dict[str, object]:
        """The settings, Flower's version, and the source of a strategy of one's own."""
        stack = [(part, find(part.strategy)) for part in self.wrapped()]
        own = [kind.__module__ for _, kind in stack if not kind.__module__.startswith("flwr.")]
        return {
            "name": self.name,
            "strategies": [{"strategy": part.strategy, "arguments": part.typed()} for part, _ in stack],
            "flwr": version("flwr"),
            **({"sources": [fingerprint(module) for module in own]} if own else {}),
        }

    def made(self, m: int, lr: float) -> Strategy:
        """A new strategy for m clients a round, with what the run knows and nobody said: m, and the learning rate."""
        inner: Strategy | None = None
        for part in reversed(list(self.wrapped())):
            kind = find(part.strategy)
            run = {"strategy": inner, "num_sampled_clients": m, LEARNING_RATE: lr}
            known = {name: value for name, value in run.items() if name in parameters(kind)}
            inner = make(part.strategy, kind, {**known, **part.typed()})
        return inner


@register_method()
class Flower(Method[FlowerSettings]):
    """A Flower strategy in place of the server: w_g' is what its aggregate_train makes of the clients' models.

    It gets the parameters tensor by tensor, under their names and in their shapes, with data sizes as num-examples,
    replies in the order of the clients' ids. It gives a client no weight that we could see, so there is no lambda;
    running statistics are averaged by data sizes, p @ B, unless bn=proxy. Its `proximal-mu` is the clients' proximal
    term. A strategy is made anew each round and gets its attributes back from the state, so that it goes on exactly
    where a checkpoint left it; its draws from `random` and `numpy.random` are keyed by seed and round.
    """

    Settings = FlowerSettings

    def start(self, num_clients: int, w: Tensor) -> State:
        """The proximal term of the first round."""
        app, strategy = flwr("flwr.app"), self.settings.made(num_clients, 1.0)
        arrays = app.ArrayRecord({"all": app.Array(w.cpu().numpy())})
        return {"mu": self._mu(strategy, 1, arrays, range(num_clients))}

    def correction(self, state: State, client: int, w: Tensor) -> Correction | None:
        """Gradient of the proximal term, mu (w - w_g)."""
        mu = float(state["mu"])
        return Correction(mu=mu, anchor=w) if mu else None

    def aggregate(self, cohort: Cohort, state: State, server: Server) -> Update:
        """One round of the strategy: configure_train, the clients' replies, aggregate_train."""
        name, model = self.settings.strategy, server.model
        strategy = self._strategy(cohort, state)
        with calling(name, server.rng("flower")):
            before = record(cohort, model, cohort.w.cpu())
            asked = instruct(name, strategy, cohort.round, before, cohort.clients)
            replies = [
                reply(message, record(cohort, model, w), numbers)
                for message, w, numbers in zip(asked.values(), cohort.W.cpu(), metrics(strategy, cohort), strict=True)
            ]
            arrays, _ = strategy.aggregate_train(cohort.round, replies)
        w = cohort.towards(self._flat(arrays, cohort, model))
        memory = {f"{KEPT}{key}": tensor for key, tensor in state_of(name, strategy).items()}
        buffers = None if cohort.bn == "proxy" else cohort.p @ cohort.B
        ahead, after = self._strategy(cohort, memory), record(cohort, model, w.cpu())
        mu = self._mu(ahead, cohort.round + 1, after, cohort.clients)
        return Update(w=w, lambda_=None, state={"mu": mu, **memory}, buffers=buffers)

    def _strategy(self, cohort: Cohort, state: State) -> Strategy:
        """The strategy as it was after the last round, set to all clients of the cohort and none to evaluate."""
        m, lr = len(cohort.clients), cohort.work.lr
        strategy = self.settings.made(m, lr)
        memory = {key.removeprefix(KEPT): tensor for key, tensor in state.items() if key.startswith(KEPT)}
        if memory:
            restore(strategy, memory)
        for _, part in parts(strategy):
            settle(part, m)
        return strategy

    def _mu(self, strategy: Strategy, round_: int, arrays: Any, clients: Sequence[int]) -> Tensor:
        """What a strategy will have clients use as mu in a round from a model; it is of no more use after that."""
        name = self.settings.strategy
        for _, part in parts(strategy):
            settle(part, len(clients))
        with calling(name):
            asked = instruct(name, strategy, round_, arrays, clients)
            given = {float(told(message).get(MU, 0.0)) for message in asked.values()}
        if len(given) != 1 or not 0 <= min(given) < float("inf"):
            raise UserError(f"method.strategy = {name}: its {MU} must be one number at least 0, is {sorted(given)}")
        return torch.tensor(given.pop(), dtype=torch.float64)

    def _flat(self, arrays: Any, cohort: Cohort, model: FlatModel) -> Tensor:
        """What the strategy made of the replies, as a vector [P]; an error if that is no model."""
        m, s = len(cohort.clients), self.settings
        what = f"method.strategy = {s.strategy}: with {m} clients a round and arguments {s.arguments} it gave"
        if arrays is None:
            raise UserError(f"{what} no model")
        names = [span.name for span in cohort.layers.tensors]
        if set(arrays.keys()) != set(names):
            raise UserError(f"{what} other tensors than the model's")
        flat = torch.empty_like(cohort.w, device="cpu")
        for name, view in zip(names, model.views(flat), strict=True):
            array = np.array(arrays[name].numpy())
            if array.shape != tuple(view.shape):
                raise UserError(f"{what} {list(array.shape)} for {name}, which is {list(view.shape)}")
            view.copy_(torch.from_numpy(array))
        return flat.to(cohort.w.device)


def settle(strategy: Strategy, m: int) -> None:
    """Have a strategy train all m clients of a cohort, evaluate on none, and start from the server's model."""
    whole = {"fraction_train": 1.0, "fraction_evaluate": 0.0, "min_train_nodes": m, "min_available_nodes": m}
    for name, value in whole.items():
        if name in vars(strategy):
            setattr(strategy, name, value)
    if isinstance(strategy, flwr(STRATEGIES).FedAvgM):
        strategy.current_arrays = None  # else it goes on from its own copy, which server.global_lr does not reach


def record(cohort: Cohort, model: FlatModel, w: Tensor) -> Any:
    """A vector [P] on the CPU as Flower's arrays, by the names of the model's tensors."""
    app, tensors = flwr("flwr.app"), zip(cohort.layers.tensors, model.views(w), strict=True)
    return app.ArrayRecord({span.name: app.Array(np.ascontiguousarray(view.numpy())) for span, view in tensors})


def metrics(strategy: Strategy, cohort: Cohort) -> list[dict[str, float]]:
    """What each client tells beside its model: its data size and, under the key of who asks for it, its loss."""
    keys = {vars(part)["train_loss_key"] for _, part in parts(strategy) if "train_loss_key" in vars(part)}
    losses = cohort.losses.tolist() if keys else [0.0] * len(cohort.clients)
    pairs = zip(cohort.sizes.tolist(), losses, strict=True)
    return [{"num-examples": size, **dict.fromkeys(keys, loss)} for size, loss in pairs]


def reply(message: Any, arrays: Any, numbers: Mapping[str, float]) -> Any:
    """A client's answer to a message: its model, and what it tells beside."""
    app = flwr("flwr.app")
    content = app.RecordDict({"arrays": arrays, "metrics": app.MetricRecord(dict(numbers))})
    return app.Message(content, reply_to=message)


@lru_cache
def rehearse(settings: str, m: int) -> str | None:
    """Two rounds of m made-up clients with a model of two small tensors: what goes wrong, in one line, if anything."""
    try:
        method = Flower(FlowerSettings.model_validate_json(settings))
        strategy = method.settings.made(m, 1.0)
        if complaint := undefined(strategy, m):
            return f"method.strategy = {method.settings.strategy}: {complaint}"
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = FlatModel(nn.Linear(2, 3), torch.device("cpu"), torch.float32)
            W = model.w + torch.randn(m, len(model.w))
        server = Server(model, None, lambda purpose: np.random.default_rng(0))
        w, state = model.w.clone(), method.start(m, model.w)
        for round_ in (1, 2):
            update = method.aggregate(pretended(round_, w, W, model, method.settings), state, server)
            w, state = update.w, update.state
    except UserError as error:
        return str(error)
    finite = bool(torch.isfinite(w).all())
    return None if finite else f"method.arguments = {method.settings.arguments}: they make the weights non-finite"


def undefined(strategy: Strategy, m: int) -> str | None:
    """Why a robust rule is not defined for m clients, if it is not."""
    for name, (a, b) in LEAST.items():
        for _, part in parts(strategy):
            if isinstance(part, getattr(flwr(STRATEGIES), name)) and m < a * part.num_malicious_nodes + b:
                f = part.num_malicious_nodes
                return f"needs {a * f + b} clients a round for num_malicious_nodes = {f}, there are {m}"
    return None


def pretended(round_: int, w: Tensor, W: Tensor, model: FlatModel, settings: FlowerSettings) -> Cohort:
    """A cohort of equal clients with models W [m, P]."""
    m = len(W)
    work = LocalWork(torch.ones(m, dtype=torch.float64), 1, 1, 0.1, 0.0, False, 0.0, 0.1)
    return Cohort(
        round=round_,
        clients=tuple(range(m)),
        p=torch.full((m,), 1 / m),
        w=w,
        W=W,
        B=W[:, :0],
        buffers=w[:0],
        bn="average",
        global_lr=1.0,
        num_clients=m,
        sizes=torch.full((m,), 10),
        work=work,
        layers=model.layers,
        reported={name: torch.ones(m, dtype=torch.float64) for name in settings.reports},
    )
