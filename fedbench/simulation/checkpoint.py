"""Checkpoints of a run: files with checksums, of which the newest valid one is restored."""

import hashlib
import io
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fedbench.base.errors import describe_error
from fedbench.base.files import write_bytes
from fedbench.simulation.drive import Callback
from fedbench.simulation.environment import Environment, environment_history
from fedbench.simulation.loop import RunState, Simulation
from fedbench.simulation.record import Record, tables
from fedbench.simulation.updates import describe_tensor, mismatch, state_problem

FORMAT = 3
KEEP = 2
PATTERN = "round-*.ckpt"
UNUSABLE = ".unusable"  # replaces the suffix .ckpt of a checkpoint that cannot be restored
_DIGEST = hashlib.sha256().digest_size


def save(simulation: Simulation, folder: Path) -> Path:
    """Write the state after the last finished round, and delete all but the last two checkpoints."""
    state = simulation.state
    content = {item.name: getattr(state, item.name) for item in fields(RunState)}
    content["history"] = [record.as_dict() for record in state.history]
    content["method"] = dict(state.method)
    about = {"format": FORMAT, "hash": simulation.config.hash, "environments": environment_history(simulation)}
    stream = io.BytesIO()
    torch.save({**about, "state": content}, stream)
    blob = stream.getvalue()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"round-{state.round:06d}.ckpt"
    write_bytes(path, hashlib.sha256(blob).digest() + blob)
    for old in sorted(folder.glob(PATTERN))[:-KEEP]:
        old.unlink(missing_ok=True)
    return path


def restore(simulation: Simulation, folder: Path) -> list[str]:
    """Restore the state of the newest usable checkpoint, if there is one.

    A checkpoint is usable if it is complete, belongs to this experiment and fits the simulation. Any other one is
    renamed, so that it does not count as one of the last two, and skipped. Return a message for each of these.
    """
    messages = []
    for path in sorted(folder.glob(PATTERN), reverse=True):
        try:
            simulation.state, simulation.earlier = _read(path, simulation)
            break
        except (MemoryError, torch.OutOfMemoryError):  # the checkpoint itself may be valid
            raise
        except Exception as error:  # a state of another version may raise anything
            messages.append(f"{path}: a checkpoint that cannot be used is skipped ({describe_error(error)})")
            with suppress(OSError):
                path.rename(path.with_suffix(UNUSABLE))
    return messages


def _read(path: Path, simulation: Simulation) -> tuple[RunState, list[Environment]]:
    """Read a state and the environments in which it was computed; raise an error if the checkpoint is not usable."""
    raw = path.read_bytes()
    digest, blob = raw[:_DIGEST], raw[_DIGEST:]
    if hashlib.sha256(blob).digest() != digest:
        raise ValueError("its checksum is wrong")
    content = torch.load(io.BytesIO(blob), map_location=simulation.device, weights_only=True)
    if content["format"] != FORMAT:
        raise ValueError(f"its format is {content['format']}, not {FORMAT}")
    if content["hash"] != simulation.config.hash:
        raise ValueError("it belongs to another experiment")
    stored = content["state"]
    state = RunState(**{**stored, "history": [Record(**record) for record in stored["history"]]})
    if problem := _misfit(state, simulation):
        raise ValueError(problem)
    return state, list(content.get("environments", []))  # earlier versions did not write them


def _misfit(state: RunState, simulation: Simulation) -> str | None:
    """A message if a simulation, which is at its start, cannot continue from a state; None if it can."""
    fresh = simulation.state
    if [record.round for record in state.history] != list(range(1, state.round + 1)):
        return f"its history does not have rounds 1 to {state.round}"
    if unknown := sorted({name for record in state.history for name in record.tables} - tables().keys()):
        return f"its history has a table '{unknown[0]}', which no indicator records"
    tensors: list[tuple[str, Any, Tensor]] = [("w", state.w, fresh.w), ("buffers", state.buffers, fresh.buffers)]
    tensors += [("scored", state.scored, fresh.w)] if state.scored is not None else []
    for name, like in (("velocity", fresh.w), ("client_buffers", fresh.buffers), ("client_models", fresh.w)):
        found, wanted = getattr(state, name), getattr(fresh, name)
        if (found is None) != (wanted is None) or (wanted is not None and len(found) != len(wanted)):
            return f"{name} does not have the state of {simulation.num_clients} clients"
        tensors += [(name, tensor, like) for tensor in found or ()]
    for name, tensor, like in tensors:
        if wrong := mismatch(tensor, like):
            return f"{name} must be {describe_tensor(like)}, is {wrong}"
    if wrong := state_problem(state.method):
        return f"method: {wrong}"
    if missing := sorted(fresh.method.keys() - state.method.keys()):
        return f"the method's state '{missing[0]}' is missing"
    return None


class Checkpoints(Callback[Simulation, Record]):
    """Writes a checkpoint every `rounds` rounds or `seconds` seconds until the run is done.

    It must be the last callback, so that the others have received every round that a checkpoint contains.
    """

    def __init__(self, folder: Path, *, rounds: int = 0, seconds: float | None = None) -> None:
        self.folder, self.rounds, self.seconds = folder, rounds, seconds
        self._saved = time.monotonic()

    def start(self, run: Simulation) -> None:
        """Start to count the seconds until the first checkpoint."""
        self._saved = time.monotonic()

    def round(self, run: Simulation, seen: Record) -> None:
        """Write a checkpoint if it is due."""
        by_rounds = self.rounds and seen.round % self.rounds == 0
        by_time = self.seconds is not None and time.monotonic() - self._saved >= self.seconds
        if (by_rounds or by_time) and not run.done:
            save(run, self.folder)
            self._saved = time.monotonic()


class Stopped(Exception):
    """Raised when a run has been asked to stop, after its checkpoint has been written."""


class StopRequest(Callback[Simulation, Record]):
    """Stops a run, with a checkpoint, after the first round at whose end `asked()` returns true."""

    def __init__(self, asked: Callable[[], bool], folder: Path) -> None:
        self.asked, self.folder = asked, folder

    def round(self, run: Simulation, seen: Record) -> None:
        """Write a checkpoint and raise `Stopped` if the run is asked to stop."""
        if self.asked() and not run.done:
            save(run, self.folder)
            raise Stopped(f"after round {seen.round}")
