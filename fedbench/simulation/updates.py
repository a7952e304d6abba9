"""Validation of what a method returns in every round."""

import math
from collections.abc import Mapping
from dataclasses import replace
from numbers import Real
from typing import Any, Protocol

import torch
from torch import Tensor

from fedbench.base.errors import UserError
from fedbench.methods import Cohort, Correction, Method, Server, Update
from fedbench.methods.base import PathPoint, State

SIMPLEX = 1e-3  # tolerance of the weights' sum, which must be 1


class Aggregate(Protocol):
    """The signature of `Method.aggregate`."""

    def __call__(self, cohort: Cohort, state: State, server: Server) -> Update:
        """Aggregate a cohort's models to a new global model."""


def checked_update(aggregate: Aggregate, cohort: Cohort, state: State, server: Server) -> Update:
    """Aggregate a cohort. Raise UserError if the method returns an invalid update or has written to its input."""
    method = type(getattr(aggregate, "__self__", aggregate)).__name__
    given = {f"cohort.{name}": value for name, value in vars(cohort).items() if isinstance(value, Tensor)}
    given |= {f"state['{name}']": value for name, value in state.items()}
    before = {name: tensor._version for name, tensor in given.items()}
    update: Update = _in_dtype(aggregate(cohort, state, server), cohort)
    for name, tensor in given.items():
        if tensor._version != before[name]:
            raise UserError(f"{method}.aggregate wrote into {name}; work on a copy (clone)")
    if problem := _problem(update, cohort) or _aliased(update, server):
        raise UserError(f"{method}.aggregate: {problem}")
    return update


def _in_dtype(update: Any, cohort: Cohort) -> Any:
    """The update, its weights in the run's precision: a rule may compute them from the losses, which are float64."""
    weights = getattr(update, "lambda_", None)
    if not isinstance(update, Update) or not isinstance(weights, Tensor) or not weights.is_floating_point():
        return update
    return update if weights.dtype == cohort.p.dtype else replace(update, lambda_=weights.to(cohort.p.dtype))


def _aliased(update: Update, server: Server) -> str | None:
    """A message if an update shares memory with the server's model, which the next round overwrites; else None."""
    model = {tensor.untyped_storage().data_ptr() for tensor in (server.model.w, server.model.buffers) if len(tensor)}
    returned = {"w": update.w, "buffers": update.buffers, **{f"state['{name}']": t for name, t in update.state.items()}}
    for name, tensor in returned.items():
        if tensor is not None and tensor.untyped_storage().data_ptr() in model:
            return f"{name} is the server's model itself, which will be overwritten; return a copy (clone)"
    return None


def _problem(update: Any, cohort: Cohort) -> str | None:
    """A message if an update is invalid, else None."""
    if not isinstance(update, Update):
        return f"must return an Update, returned {type(update).__name__}"
    optional = {"lambda_": cohort.p, "buffers": cohort.buffers}
    given = {name: like for name, like in optional.items() if getattr(update, name) is not None}
    for name, like in {"w": cohort.w, **given}.items():
        if wrong := mismatch(getattr(update, name), like):
            return f"{name} must be {describe_tensor(like)}, is {wrong}"
    if update.lambda_ is None and update.buffers is None and cohort.B.shape[1] and cohort.bn != "proxy":
        return f"without weights lambda_ it must give running statistics (buffers) under bn={cohort.bn}"
    if not isinstance(update.gamma, int | float):
        return f"gamma must be a number, is a {type(update.gamma).__name__}"
    if wrong := state_problem(update.state):
        return wrong
    if not isinstance(update.metrics, Mapping) or not all(map(_is_number, update.metrics.values())):
        return "metrics must be numbers by name"
    if not all(isinstance(point, PathPoint) for point in update.path):
        return "path must be of PathPoints"
    weights = cohort.p if update.lambda_ is None else update.lambda_
    found = torch.stack([torch.isfinite(update.w).all().to(weights), weights.sum(), weights.min()])
    finite, total, least = found.tolist()  # waits for the device only once
    if not finite:
        return None  # the round loop records that the run has diverged
    if not math.isfinite(update.gamma):
        return f"gamma must be a finite number, is {update.gamma}"
    if update.lambda_ is None:
        return None
    if not math.isfinite(total) or abs(total - 1) > SIMPLEX or least < -SIMPLEX:
        return f"lambda_ must be weights that sum to 1 (their sum is {total:.4g}, the least {least:.4g}); gamma shrinks"
    return None


def _is_number(value: object) -> bool:
    return value.numel() == 1 if isinstance(value, Tensor) else isinstance(value, Real)


def state_problem(state: Any) -> str | None:
    """A message if a method's state does not map names to tensors, else None."""
    fine = isinstance(state, Mapping) and all(isinstance(value, Tensor) for value in state.values())
    return None if fine else "state must be tensors by name"


def checked_start(method: Method[Any], num_clients: int, w: Tensor) -> State:
    """The initial state of a method. Raise UserError if it is invalid."""
    state = method.start(num_clients, w)
    if problem := state_problem(state):
        raise UserError(f"{type(method).__name__}.start: {problem}, is a {type(state).__name__}")
    return state


def checked_correction(method: Method[Any], state: State, client: int, w: Tensor) -> Correction | None:
    """The correction that a method adds to a client's gradients. Raise UserError if it is invalid."""
    correction, where = method.correction(state, client, w), f"{type(method).__name__}.correction"
    if correction is None:
        return None
    if not isinstance(correction, Correction):
        raise UserError(f"{where}: must return a Correction or None, returned {type(correction).__name__}")
    for name in ("linear", "anchor"):
        if (part := getattr(correction, name)) is not None and (wrong := mismatch(part, w)):
            raise UserError(f"{where}: {name} must be {describe_tensor(w)}, is {wrong}")
    return correction


def mismatch(tensor: Any, like: Tensor) -> str | None:
    """A description of a tensor if its type, shape or device differs from that of `like`, else None."""
    if not isinstance(tensor, Tensor):
        return f"a {type(tensor).__name__}"
    same = tensor.shape == like.shape and tensor.dtype == like.dtype and tensor.device == like.device
    return None if same else describe_tensor(tensor)


def describe_tensor(tensor: Tensor) -> str:
    """The dtype and shape of a tensor, and its device unless that is the CPU."""
    where = "" if tensor.device.type == "cpu" else f" on {tensor.device}"
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}{where}"
