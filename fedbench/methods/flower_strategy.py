"""Making a Flower strategy from its name and arguments, and talking to it; flwr is imported here, at the first use."""

import gc
import inspect
import logging
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from importlib import import_module
from pathlib import PurePath
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType, UnionType
from typing import Any, Union, get_args, get_origin

import numpy as np
from pydantic import ConfigDict, TypeAdapter, ValidationError
from torch import Tensor

from fedbench.base.errors import ConfigError, UserError, unknown
from fedbench.base.explain import describe
from fedbench.methods.keeping import Kind, Unkeepable, keep, kept

Strategy = Any  # flwr.serverapp.strategy.Strategy: flwr need not be installed
STRATEGIES = "flwr.serverapp.strategy"
TREES = "FedXgb"  # how strategies that cannot aggregate networks are called

# What fedbench decides: all clients of the cohort train, and none evaluates.
SAMPLING = ("fraction_train", "fraction_evaluate", "min_train_nodes", "min_evaluate_nodes", "min_available_nodes")
MU, ROUND = "proximal-mu", "server-round"  # what a strategy may tell clients
LEARNING_RATE = "client_learning_rate"  # what a strategy wants to know, anew each round
SIMPLE = (bool, int, float, str, type(None))
SERVER = 1  # the id that Flower gives its server
PATIENCE = 20  # looks at the clients of a round before a strategy is taken to wait for more

# What an attribute may be without being kept: it does not change.
FIXED = (FunctionType, MethodType, BuiltinFunctionType, type, ModuleType, logging.Logger, Enum, PurePath)


def flwr(module: str) -> Any:
    """A module of flwr, or one line on what to install."""
    try:
        import_module("flwr")
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name == "flwr":
            raise ConfigError("method.name = flower: needs flwr, which is not installed; pip install flwr") from None
        raise ConfigError(f"method.name = flower: needs a newer flwr, or a whole one ({error})") from error
    except Exception as error:
        raise ConfigError(f"method.name = flower: flwr cannot be imported ({_line(error)})") from error


def find(name: str) -> type[Strategy]:
    """The class that a setting names: one of Flower's, or one's own by its dotted path."""
    library, key = flwr(STRATEGIES), f"method.strategy = {name}"
    path, _, leaf = name.rpartition(".")
    try:
        module = import_module(path) if path else library
    except Exception as error:
        raise ConfigError(f"{key}: '{path}' cannot be imported ({_line(error)})") from error
    options = {
        option: value
        for option, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, library.Strategy) and not inspect.isabstract(value)
    }
    if leaf in options and leaf.startswith(TREES):
        raise ConfigError(f"{key}: it aggregates trees of XGBoost, not networks")
    if leaf not in options and not options:
        raise ConfigError(f"{key}: '{path}' has no subclass of {STRATEGIES}.Strategy")
    if leaf not in options:
        networks = [option for option in options if not option.startswith(TREES)]
        raise ConfigError(f"method.strategy: {unknown('Flower strategy', leaf, networks)}")
    return options[leaf]


def parameters(strategy: type[Strategy]) -> dict[str, inspect.Parameter]:
    """The arguments that a class takes by name; where it passes others on, those of the classes above, too."""
    found: dict[str, inspect.Parameter] = {}
    for base in strategy.__mro__:
        if "__init__" not in vars(base):
            continue
        own = inspect.signature(vars(base)["__init__"]).parameters
        found = {**own, **found}
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in own.values()):
            break
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {name: parameter for name, parameter in list(found.items()) if parameter.kind in named and name != "self"}


def typed(name: str, strategy: type[Strategy], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as the class wants them (1 is 1.0 where it wants a float), or an error for the first wrong one."""
    known, good = parameters(strategy), {}
    for key, value in arguments.items():
        if key in SAMPLING:
            raise ConfigError(f"method.arguments.{key}: fedbench samples the clients; set clients.participation")
        if key not in known:
            options = [option for option in known if option not in SAMPLING]
            raise ConfigError(f"method.arguments: {unknown(f'argument of {name}', key, options)}")
        good[key] = _typed(f"method.arguments.{key}", known[key].annotation, value)
        if key.startswith("num_") and isinstance(value, int) and value < 0:
            raise ConfigError(f"method.arguments.{key} = {value}: must be at least 0")
    return good


def _typed(key: str, annotation: Any, value: Any) -> Any:
    union = get_origin(annotation) in (Union, UnionType)
    if not all(member in SIMPLE for member in (get_args(annotation) if union else (annotation,))):
        return value
    try:
        strict = ConfigDict(strict=True, allow_inf_nan=False)
        return TypeAdapter(annotation, config=strict).validate_python(value)
    except ValidationError:
        raise ConfigError(f"{key} = {value!r}: must be {describe(annotation)}") from None


def make(name: str, strategy: type[Strategy], arguments: Mapping[str, Any]) -> Strategy:
    """The strategy itself."""
    for key, parameter in parameters(strategy).items():
        if parameter.default is parameter.empty and key not in arguments:
            raise ConfigError(f"method.arguments.{key} is missing: {name} needs it")
    with calling(name):
        return strategy(**arguments)


@contextmanager
def calling(name: str, rng: np.random.Generator | None = None) -> Iterator[None]:
    """Around calls of a strategy: global generators seeded, and put back after; no log; one line for any error."""
    before, numpy_before = random.getstate(), np.random.get_state()
    rng = rng or np.random.default_rng(0)
    random.seed(int(rng.integers(2**62)))
    np.random.seed(rng.integers(2**32, size=4, dtype=np.uint32))
    log = logging.getLogger("flwr")
    silent, log.disabled = log.disabled, True
    try:
        with identified(), cheap_collections(), np.errstate(all="ignore"):  # a run that diverges says so itself
            yield
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"method.strategy = {name}: {_line(error)}") from error
    finally:
        log.disabled = silent
        random.setstate(before)
        np.random.set_state(numpy_before)


@contextmanager
def identified() -> Iterator[None]:
    """Messages of newer versions say which of Flower's processes sent them: one that is none needs an identity."""
    try:
        identity = import_module("flwr.supercore.task_identity").TaskIdentity
    except ModuleNotFoundError:
        yield
        return
    before = {name: getattr(identity, f"_{name}") for name in ("task_id", "run_id", "node_id")}
    try:
        for name, value in before.items():
            setattr(identity, name, SERVER if value is None else value)
        yield
    finally:
        for name, value in before.items():
            setattr(identity, name, value)


@contextmanager
def cheap_collections() -> Iterator[None]:
    """Some strategies collect garbage once a tensor: spare them what was there before (seconds a round, else)."""
    own = gc.get_freeze_count() == 0
    if own:
        gc.freeze()
    try:
        yield
    finally:
        if own:
            gc.unfreeze()


class Nodes:
    """All of Flower's grid that a strategy needs to address the cohort: the ids of its clients."""

    def __init__(self, ids: Sequence[int]) -> None:
        self.ids = ids
        self.looks = 0

    def get_node_ids(self) -> list[int]:
        """The ids; a strategy that keeps asking for them waits for more clients, and would wait for ever."""
        self.looks += 1
        if self.looks > PATIENCE:
            raise UserError(f"the strategy waits for more than the {len(self.ids)} clients of a round")
        return list(self.ids)


def instruct(name: str, strategy: Strategy, round_: int, arrays: Any, clients: Sequence[int]) -> dict[int, Any]:
    """The message to each client of the cohort; an error if it asks for what clients here do not do."""
    config = flwr("flwr.app").ConfigRecord()
    messages = list(strategy.configure_train(round_, arrays, config, Nodes(clients)))
    asked = {message.metadata.dst_node_id: message for message in messages}
    if len(messages) != len(clients) or set(asked) != set(clients):
        raise UserError(f"method.strategy = {name}: it picks {len(messages)} of the {len(clients)} clients of a round")
    for message in messages:
        sent = list(message.content.array_records.values())
        if len(sent) != 1 or (sent[0] is not arrays and dict(sent[0]) != dict(arrays)):
            raise UserError(f"method.strategy = {name}: it sends clients something else than the global model")
    if strange := sorted(set().union(*map(told, messages)) - {MU, ROUND}):
        raise UserError(f"method.strategy = {name}: it tells clients '{strange[0]}'; here they only heed '{MU}'")
    return {client: asked[client] for client in clients}


def told(message: Any) -> dict[str, Any]:
    """The settings in a message to a client."""
    return {key: value for record in message.content.config_records.values() for key, value in record.items()}


def parts(strategy: Strategy, path: str = "") -> Iterator[tuple[str, Strategy]]:
    """A strategy and those that it wraps, with the path of each's attributes."""
    yield path, strategy
    for name, value in vars(strategy).items():
        if isinstance(value, flwr(STRATEGIES).Strategy):
            yield from parts(value, f"{path}{name}.")


def state_of(name: str, strategy: Strategy) -> dict[str, Tensor]:
    """Everything that a strategy remembers, as tensors."""
    fixed = (*FIXED, flwr(STRATEGIES).Strategy)
    values = {
        f"{path}{attribute}": value
        for path, part in parts(strategy)
        for attribute, value in vars(part).items()
        if not isinstance(value, fixed)
    }
    try:
        return keep(values, _kinds())
    except Unkeepable as error:
        raise UserError(
            f"method.strategy = {name}: its attribute {error} cannot be kept in checkpoints; keep numbers, texts, "
            "arrays, or lists and dicts of them (random and numpy.random are seeded anew each round)"
        ) from None


def restore(strategy: Strategy, state: Mapping[str, Tensor]) -> None:
    """Give a new strategy the memory of another."""
    values = kept(state, _kinds())
    for path, part in list(parts(strategy)):
        for key, value in values.items():
            owner, _, attribute = key.rpartition(".")
            if owner == path.rstrip(".") and attribute != LEARNING_RATE:
                setattr(part, attribute, value)


def _kinds() -> dict[str, Kind]:
    """Flower's own types of values."""
    app = flwr("flwr.app")
    records = {kind.__name__: Kind(kind, dict, kind) for kind in (app.ArrayRecord, app.MetricRecord, app.ConfigRecord)}
    return {"Array": Kind(app.Array, lambda array: array.numpy(), app.Array), **records}


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0][:200]}"
