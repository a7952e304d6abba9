"""What a method promises."""

from collections.abc import Mapping
from dataclasses import replace
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
    """Hold a registered method to what every method promises; `settings` have dotted keys, such as method.lr.

    A run with it is repeatable and resumable to the byte, in float32 and float64, stays finite, with one client as
    with many and under every rule for batch norm, on the GPU if there is one; its rule writes to nothing that it is
    given, leaves all tensors on the run's device, and does not depend on the order in which the clients stand.
    A rule for which the order matters, and is meant to, says `permutation=False`.
    """
    given = merge(nest({"method.name": name}), nest(settings or {}))
    short = {**given, "rounds": 2}
    for bn in get_args(BatchNormRule):
        run(tiny({**short, "bn": bn}))
    run(tiny(merge(short, nest({"clients.participation": 0.1}))))  # a single client
    devices = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
    seen = [witnessed(name, tiny({**short, "precision": "float64"}).on(device)) for device in devices]
    for precision in ("float32", "float64"):
        check_repeats(name, tiny({**given, "precision": precision}))
    if permutation:
        for witness in seen:
            check_order(name, witness)


def check_repeats(name: str, config: TrialConfig) -> None:
    """A run is the same the second time, and the same if it was stopped in between."""
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


class Witness(Method[Any]):
    """Passes everything on to a method, looks whether it keeps to the rules, and keeps what its rule was given last."""

    seen: tuple[Cohort, State, Server]

    def __init__(self, name: str, method: Method[Any]) -> None:
        super().__init__(method.settings)
        self.name, self.method = name, method

    def correction(self, state: State, client: int, w: Tensor) -> Correction | None:
        """The method's, which must write neither into its state nor into the model."""
        given = [w, *state.values()]
        before = [tensor._version for tensor in given]
        correction = self.method.correction(state, client, w)
        written = [tensor._version for tensor in given] != before
        promise(not written, f"method '{self.name}': correction wrote into the state or the model that it was given")
        return correction

    def aggregate(self, cohort: Cohort, state: State, server: Server) -> Update:
        """The method's, all of it on the cohort's device."""
        self.seen = cohort, state, server
        update = self.method.aggregate(cohort, state, server)
        for key, tensor in update.state.items():
            where = f"method '{self.name}': state['{key}'] is on {tensor.device}, the cohort on {cohort.W.device}"
            promise(tensor.device == cohort.W.device, where)
        return update


def witnessed(name: str, config: TrialConfig) -> Witness:
    """Look at a whole run from within."""
    simulation = Simulation(config)
    simulation.method = witness = Witness(name, simulation.method)
    finished(simulation)
    return witness


def check_order(name: str, witness: Witness) -> None:
    """Give the rule its last cohort twice, the second time with the clients in another order."""
    cohort, state, server = witness.seen
    order = [*range(1, len(cohort.clients)), 0]
    straight, turned = (aggregated(witness.method, one, state, server) for one in (cohort, permuted(cohort, order)))
    straight = replace(straight, lambda_=straight.lambda_[order])
    for what in ("w", "lambda_", "gamma"):
        promise(
            _close(getattr(straight, what), getattr(turned, what)),
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
    """What the rule makes of a cohort, as in a round."""
    device = cohort.W.device
    with exact(RunConfig(), device), seeded(0, device):
        return method.aggregate(cohort, state, server)


def permuted(cohort: Cohort, order: list[int]) -> Cohort:
    """The cohort with its rows, and everything else that has one entry a client, in another order."""
    m, changes = len(cohort.clients), dict[str, Any]()
    for name, value in vars(cohort).items():
        if isinstance(value, Tensor) and value.dim() and len(value) == m:
            changes[name] = value[order]
        elif isinstance(value, tuple) and len(value) == m:
            changes[name] = tuple(value[row] for row in order)
    return replace(cohort, **changes)


def _close(one: Tensor | float, other: Tensor | float) -> bool:
    one, other = (torch.as_tensor(value, dtype=torch.float64) for value in (one, other))
    return one.shape == other.shape and torch.allclose(one, other, rtol=ROUNDING, atol=ROUNDING)
