"""Holding what a method returns to what it promised: once a round, and cheaply."""

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any, Protocol

import torch
from torch import Tensor

from fedbench.base.errors import UserError
from fedbench.methods import Cohort, Correction, Method, Server, Update
from fedbench.methods.base import PathPoint, State

SIMPLEX = 1e-3  # how far the weights' sum may be from 1


class Aggregate(Protocol):
    """A method's rule."""

    def __call__(self, cohort: Cohort, state: State, server: Server) -> Update:
        """The new global model."""


def checked(aggregate: Aggregate, cohort: Cohort, state: State, server: Server) -> Update:
    """What the rule makes of a cohort; an error that names the method if it is not an update, or wrote to its input."""
    method = type(getattr(aggregate, "__self__", aggregate)).__name__
    given = {f"cohort.{name}": value for name, value in vars(cohort).items() if isinstance(value, Tensor)}
    given |= {f"state['{name}']": value for name, value in state.items()}
    before = {name: tensor._version for name, tensor in given.items()}
    update = aggregate(cohort, state, server)
    for name, tensor in given.items():
        if tensor._version != before[name]:
            raise UserError(f"{method}.aggregate wrote into {name}; work on a copy (clone)")
    if complaint := _complaint(update, cohort) or _borrowed(update, server):
        raise UserError(f"{method}.aggregate: {complaint}")
    return update


def _borrowed(update: Update, server: Server) -> str | None:
    """What of an update is the server's model itself, which the next round overwrites."""
    model = {tensor.untyped_storage().data_ptr() for tensor in (server.model.w, server.model.buffers) if len(tensor)}
    kept = {"w": update.w, "buffers": update.buffers, **{f"state['{name}']": t for name, t in update.state.items()}}
    for name, tensor in kept.items():
        if tensor is not None and tensor.untyped_storage().data_ptr() in model:
            return f"{name} is the server's model itself, which goes on to change; return a copy (clone)"
    return None


def _complaint(update: Any, cohort: Cohort) -> str | None:
    """What is wrong with an update, if anything."""
    if not isinstance(update, Update):
        return f"must return an Update, returned {type(update).__name__}"
    optional = {"lambda_": cohort.p, "buffers": cohort.buffers}
    given = {name: like for name, like in optional.items() if getattr(update, name) is not None}
    for name, like in {"w": cohort.w, **given}.items():
        if wrong := unlike(getattr(update, name), like):
            return f"{name} must be {described(like)}, is {wrong}"
    if update.lambda_ is None and update.buffers is None and cohort.B.shape[1] and cohort.bn != "proxy":
        return f"without weights lambda_ it must give running statistics (buffers) under bn={cohort.bn}"
    if not isinstance(update.gamma, int | float):
        return f"gamma must be a number, is a {type(update.gamma).__name__}"
    if wrong := not_a_state(update.state):
        return wrong
    if not isinstance(update.metrics, Mapping) or not all(map(_is_number, update.metrics.values())):
        return "metrics must be numbers by name"
    if not all(isinstance(point, PathPoint) for point in update.path):
        return "path must be of PathPoints"
    weights = cohort.p if update.lambda_ is None else update.lambda_
    found = torch.stack([torch.isfinite(update.w).all().to(weights), weights.sum(), weights.min()])
    finite, total, least = found.tolist()  # all at once: the host waits for it
    if not finite:
        return None  # the run has diverged, and is about to say so
    if not math.isfinite(update.gamma):
        return f"gamma must be a finite number, is {update.gamma}"
    if update.lambda_ is None:
        return None
    if not math.isfinite(total) or abs(total - 1) > SIMPLEX or least < -SIMPLEX:
        return f"lambda_ must be weights that sum to 1 (their sum is {total:.4g}, the least {least:.4g}); gamma shrinks"
    return None


def _is_number(value: object) -> bool:
    return value.numel() == 1 if isinstance(value, Tensor) else isinstance(value, Real)


def not_a_state(state: Any) -> str | None:
    """What is wrong with what a method wants to keep, if anything."""
    fine = isinstance(state, Mapping) and all(isinstance(value, Tensor) for value in state.values())
    return None if fine else "state must be tensors by name"


def started(method: Method[Any], num_clients: int, w: Tensor) -> State:
    """The state that a method starts from."""
    state = method.start(num_clients, w)
    if complaint := not_a_state(state):
        raise UserError(f"{type(method).__name__}.start: {complaint}, is a {type(state).__name__}")
    return state


def corrected(method: Method[Any], state: State, client: int, w: Tensor) -> Correction | None:
    """What a method has a client add to its gradient."""
    correction, where = method.correction(state, client, w), f"{type(method).__name__}.correction"
    if correction is None:
        return None
    if not isinstance(correction, Correction):
        raise UserError(f"{where}: must return a Correction or None, returned {type(correction).__name__}")
    for name in ("linear", "anchor"):
        if (part := getattr(correction, name)) is not None and (wrong := unlike(part, w)):
            raise UserError(f"{where}: {name} must be {described(w)}, is {wrong}")
    return correction


def unlike(tensor: Any, like: Tensor) -> str | None:
    """How a tensor differs from what it must be like, None if it does not."""
    if not isinstance(tensor, Tensor):
        return f"a {type(tensor).__name__}"
    same = tensor.shape == like.shape and tensor.dtype == like.dtype and tensor.device == like.device
    return None if same else described(tensor)


def described(tensor: Tensor) -> str:
    """Type and shape of a tensor, and where it is."""
    where = "" if tensor.device.type == "cpu" else f" on {tensor.device}"
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}{where}"
