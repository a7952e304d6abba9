"""Checkpoints of a run: checksummed files, of which the newest usable one is restored."""

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
from fedbench.simulation.environment import Environment, route
from fedbench.simulation.loop import RunState, Simulation
from fedbench.simulation.record import Record, tables
from fedbench.simulation.updates import described, not_a_state, unlike

FORMAT = 3
KEEP = 2
PATTERN = "round-*.ckpt"
UNUSABLE = ".unusable"  # instead of .ckpt, at the end of the name of a checkpoint that was passed over
_DIGEST = hashlib.sha256().digest_size


def save(simulation: Simulation, folder: Path) -> Path:
    """Write the state after the last finished round; the last two checkpoints are kept."""
    state = simulation.state
    content = {item.name: getattr(state, item.name) for item in fields(RunState)}
    content["history"] = [record.as_dict() for record in state.history]
    content["method"] = dict(state.method)
    about = {"format": FORMAT, "hash": simulation.config.hash, "environments": route(simulation)}
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
    """Put the state of the newest usable checkpoint into the simulation, if there is one.

    A checkpoint is usable if it is whole, of this experiment, and if its state fits the simulation. Any other one is
    renamed, so that it never counts as one of the last two, and passed over. Returns a line for each of these.
    """
    complaints = []
    for path in sorted(folder.glob(PATTERN), reverse=True):
        try:
            simulation.state, simulation.earlier = _read(path, simulation)
            break
        except (MemoryError, torch.OutOfMemoryError):  # says nothing about the checkpoint
            raise
        except Exception as error:  # whatever a state of another version leads to
            complaints.append(f"{path}: a checkpoint that cannot be used is passed over ({describe_error(error)})")
            with suppress(OSError):
                path.rename(path.with_suffix(UNUSABLE))
    return complaints


def _read(path: Path, simulation: Simulation) -> tuple[RunState, list[Environment]]:
    """The state in a file, and the environments that led to it; ValueError, or another error, if it is not usable."""
    raw = path.read_bytes()
    digest, blob = raw[:_DIGEST], raw[_DIGEST:]
    if hashlib.sha256(blob).digest() != digest:
        raise ValueError("it does not have its checksum")
    content = torch.load(io.BytesIO(blob), map_location=simulation.device, weights_only=True)
    if content["format"] != FORMAT:
        raise ValueError(f"its format is {content['format']}, not {FORMAT}")
    if content["hash"] != simulation.config.hash:
        raise ValueError("it belongs to another experiment")
    stored = content["state"]
    state = RunState(**{**stored, "history": [Record(**record) for record in stored["history"]]})
    if complaint := _unfit(state, simulation):
        raise ValueError(complaint)
    return state, list(content.get("environments", []))  # earlier versions did not write them


def _unfit(state: RunState, simulation: Simulation) -> str | None:
    """How a state differs from what a simulation, which is at its start, can go on from; None if it does not."""
    fresh = simulation.state
    if [record.round for record in state.history] != list(range(1, state.round + 1)):
        return f"its history does not have rounds 1 to {state.round}"
    if unknown := sorted({name for record in state.history for name in record.tables} - tables().keys()):
        return f"its history has a table '{unknown[0]}', which no indicator writes"
    tensors: list[tuple[str, Any, Tensor]] = [("w", state.w, fresh.w), ("buffers", state.buffers, fresh.buffers)]
    tensors += [("scored", state.scored, fresh.w)] if state.scored is not None else []
    for name, like in (("velocity", fresh.w), ("client_buffers", fresh.buffers)):
        found, wanted = getattr(state, name), getattr(fresh, name)
        if (found is None) != (wanted is None) or (wanted is not None and len(found) != len(wanted)):
            return f"{name} is not that of {simulation.num_clients} clients"
        tensors += [(name, tensor, like) for tensor in found or ()]
    for name, tensor, like in tensors:
        if wrong := unlike(tensor, like):
            return f"{name} must be {described(like)}, is {wrong}"
    if wrong := not_a_state(state.method):
        return f"method: {wrong}"
    if missing := sorted(fresh.method.keys() - state.method.keys()):
        return f"the method's state '{missing[0]}' is missing"
    return None


class Checkpoints(Callback[Simulation, Record]):
    """Writes a checkpoint every so many rounds, or seconds, while the run goes on.

    It belongs behind other listeners: what was saved they have heard of. See `restore` for the way back.
    """

    def __init__(self, folder: Path, *, rounds: int = 0, seconds: float | None = None) -> None:
        self.folder, self.rounds, self.seconds = folder, rounds, seconds
        self._saved = time.monotonic()

    def start(self, run: Simulation) -> None:
        """Count seconds from here."""
        self._saved = time.monotonic()

    def round(self, run: Simulation, seen: Record) -> None:
        """Save, where it is time."""
        by_rounds = self.rounds and seen.round % self.rounds == 0
        by_time = self.seconds is not None and time.monotonic() - self._saved >= self.seconds
        if (by_rounds or by_time) and not run.done:
            save(run, self.folder)
            self._saved = time.monotonic()


class Stopped(Exception):
    """A run was asked to stop; its checkpoint has been written."""


class StopRequest(Callback[Simulation, Record]):
    """Ends a run with a checkpoint after the first round at whose end `asked()` returns true."""

    def __init__(self, asked: Callable[[], bool], folder: Path) -> None:
        self.asked, self.folder = asked, folder

    def round(self, run: Simulation, seen: Record) -> None:
        """Write a checkpoint and raise `Stopped` if the run is asked to stop."""
        if self.asked() and not run.done:
            save(run, self.folder)
            raise Stopped(f"after round {seen.round}")
