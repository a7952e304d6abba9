"""Checkpoints of a run: checksummed files, the newest valid one wins."""

import hashlib
import io
import time
from dataclasses import fields
from pathlib import Path
from typing import Any, Protocol

import torch

from fedbench.base.files import write_bytes
from fedbench.simulation.drive import Callback
from fedbench.simulation.loop import RunState, Simulation
from fedbench.simulation.record import Record

FORMAT = 3
KEEP = 2
_DIGEST = hashlib.sha256().digest_size


def save(simulation: Simulation, folder: Path) -> Path:
    """Write the state after the last finished round; the last two checkpoints are kept."""
    state = simulation.state
    content = {item.name: getattr(state, item.name) for item in fields(RunState)}
    content["history"] = [record.as_dict() for record in state.history]
    content["method"] = dict(state.method)
    stream = io.BytesIO()
    torch.save({"format": FORMAT, "hash": simulation.config.hash, "state": content}, stream)
    blob = stream.getvalue()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"round-{state.round:06d}.ckpt"
    write_bytes(path, hashlib.sha256(blob).digest() + blob)
    for old in sorted(folder.glob("round-*.ckpt"))[:-KEEP]:
        old.unlink(missing_ok=True)
    return path


def restore(simulation: Simulation, folder: Path) -> list[str]:
    """Put the newest valid checkpoint's state into the simulation, if there is one.

    Returns a line for every damaged checkpoint that was passed over.
    """
    complaints = []
    for path in sorted(folder.glob("round-*.ckpt"), reverse=True):
        content = _read(path, simulation)
        if content is None:
            complaints.append(f"{path}: damaged checkpoint, or one of another experiment or version, passed over")
            continue
        history = [Record(**record) for record in content.pop("history")]
        simulation.state = RunState(**content, history=history)
        break
    return complaints


def _read(path: Path, simulation: Simulation) -> dict[str, Any] | None:
    """The state in a file, or None if the file is damaged or belongs to another config or format."""
    try:
        raw = path.read_bytes()
    except OSError:
        return None
    digest, blob = raw[:_DIGEST], raw[_DIGEST:]
    if hashlib.sha256(blob).digest() != digest:
        return None
    content = torch.load(io.BytesIO(blob), map_location=simulation.device, weights_only=True)
    fits = content.get("format") == FORMAT and content["hash"] == simulation.config.hash
    return content["state"] if fits else None


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


class Sign(Protocol):
    """What asks a run to stop by being there: a file, or whatever else a driver can make."""

    def exists(self) -> bool:
        """Whether it is there."""


class StopFile(Callback[Simulation, Record]):
    """Ends a run after the round in which a file comes to be, with a checkpoint: how a driver stops other processes."""

    def __init__(self, file: Sign, folder: Path) -> None:
        self.file, self.folder = file, folder

    def round(self, run: Simulation, seen: Record) -> None:
        """Stop, where that is asked for."""
        if self.file.exists() and not run.done:
            save(run, self.folder)
            raise Stopped(f"after round {seen.round}")
