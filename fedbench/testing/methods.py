"""What a method promises."""

from collections.abc import Mapping
from dataclasses import is_dataclass, replace
from typing import Any, get_args

import torch
from torch import Tensor

from fedbench.base.settings import merge, nest
from fedbench.config import RunConfig, TrialConfig
from fedbench.methods import BatchNormRule, Cohort, Correction, Method, Server, Update
from fedbench.methods.base import State
from fedbench.simulation import Simulation
from fedbench.simulation.compute import exact, seeded
from fedbench.testing.runs import finished, promise, resumed, run, same
from fedbench.testing.tiny import tiny

ROUNDING = 1e-6  # of float64, grown by a hundred steps of an optimiser


def check_method(name: str, settings: Mapping[str, Any] | None = None, *, permutation: bool = True) -> None:
    """Check that a registered method keeps the promises of methods; `settings` have dotted keys, such as method.lr.

    A run with it is repeatable and resumable to the byte, in float32 and float64, stays finite, with one client (unless
    its settings refuse so few) as with many and under every rule for batch norm, on the GPU if there is one; its rule
    writes to nothing that it is given, leaves all tensors on the run's device, and does not depend on the order in
    which the clients stand. A rule for which the order matters, and is meant to, says `permutation=False`.
    """
    given = merge(nest({"method.name": name}), nest(settings or {}))
    promise(given["method"]["name"] == name, f"method '{name}': the settings name another, {given['method']['name']}")
    short = {**given, "rounds": 2}
    for bn in get_args(BatchNormRule):
        run(tiny({**short, "bn": bn}))
    if tiny(given).method.check(1) is None:
        run(tiny(merge(short, nest({"clients.participation": 0.1}))))  # a single client
    devices = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
    seen = [watch(tiny({**short, "precision": "float64"}).on(device)) for device in devices]
    for precision in ("float32", "float64"):
        check_repeats(name, tiny({**given, "precision": precision}))
    if permutation:
        for watched in seen:
            check_order(name, watched)


def check_repeats(name: str, config: TrialConfig) -> None:
    """Check that a run gives the same result the second time, and when it is stopped and resumed."""
    first = run(config)
    if same(first, resumed(config, rounds=1)):
        return
    promise(
        same(first, run(config)),
        f"method '{name}': the same run gave another result the second time; draw random numbers from server.rng",
    )
    raise AssertionError(
        f"method '{name}': a resumed run differs from an undisturbed one; what lives on between rounds belongs into "
        "the state, not into the method or its module"
    )


class Watched(Method[Any]):
    """Put before a method's class: looks whether it keeps to the rules, and keeps what its rule was given last."""

    seen: tuple[Cohort, State, Server]

    def correction(self, state: State, client: int, w: Tensor) -> Correction | None:
        """Return the method's correction; AssertionError if it writes into its state or the model."""
        given = [w, *state.values()]
        before = [tensor._version for tensor in given]
        correction = super().correction(state, client, w)
        written = [tensor._version for tensor in given] != before
        what = f"method '{self.settings.name}'"
        promise(not written, f"{what}: correction wrote into the state or the model that it was given")
        return correction

    def aggregate(self, cohort: Cohort, state: State, server: Server) -> Update:
        """Return the method's update; AssertionError unless all of it is on the cohort's device."""
        self.seen = cohort, state, server
        update: Update = super().aggregate(cohort, state, server)  # type: ignore[safe-super]
        for key, tensor in update.state.items():
            where = f"state['{key}'] is on {tensor.device}, the cohort on {cohort.W.device}"
            promise(tensor.device == cohort.W.device, f"method '{self.settings.name}': {where}")
        return update


def watch(config: TrialConfig) -> Watched:
    """Look at a whole run from within."""
    simulation = Simulation(config)
    kind = type(simulation.method)
    watched: Watched = type(kind.__name__, (Watched, kind), {})(config.method)
    simulation.method = watched
    finished(simulation)
    return watched


def check_order(name: str, method: Watched) -> None:
    """Give the rule its last cohort twice, the second time with the clients in another order."""
    cohort, state, server = method.seen
    m = len(cohort.clients)
    order = [*range(1, m), 0]
    straight, turned = (aggregated(method, one, state, server) for one in (cohort, permuted(cohort, m, order)))
    for what in ("w", "lambda_", "gamma"):
        expected, found = getattr(straight, what), getattr(turned, what)
        promise(
            _close(permuted(expected, m, order) if what == "lambda_" else expected, found),
            f"method '{name}': {what} depends on the order in which the clients stand; check_method(..., "
            "permutation=False) says that it is meant to",
        )
    for key in straight.state:
        promise(
            _close(straight.state[key], turned.state[key]),
            f"method '{name}': state['{key}'] depends on the order in which the clients stand; keep what belongs to a "
            "client by its id (cohort.clients)",
        )


def aggregated(method: Method[Any], cohort: Cohort, state: State, server: Server) -> Update:
    """Return the update that the method makes of a cohort, as in a round."""
    device = cohort.W.device
    with exact(RunConfig(), device), seeded(0, device):
        return method.aggregate(cohort, state, server)


def permuted(value: Any, m: int, order: list[int]) -> Any:
    """A cohort, or a part of one, with everything that has an entry for each of m clients in another order."""
    if isinstance(value, Tensor):
        return value[order] if value.dim() and len(value) == m else value
    if type(value) is tuple:
        return tuple(value[row] for row in order) if len(value) == m else value
    if isinstance(value, Mapping):
        return {key: permuted(item, m, order) for key, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{key: permuted(item, m, order) for key, item in vars(value).items()})
    return value


def _close(one: Tensor | float | None, other: Tensor | float | None) -> bool:
    if one is None or other is None:
        return one is other
    one, other = (torch.as_tensor(value, dtype=torch.float64) for value in (one, other))
    return one.shape == other.shape and torch.allclose(one, other, rtol=ROUNDING, atol=ROUNDING)
