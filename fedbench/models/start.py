"""Initial weights from a file: `init.path` names a state dict, whose digest is part of a run's hash."""

import hashlib
import pickle
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fedbench.base.errors import UserError
from fedbench.base.files import located

KEY = "init.path"
KINDS = "the path of a state dict that torch.save wrote"


def state_digest(path: Any) -> tuple[str, str]:
    """Return the absolute path of a state dict and the SHA-256 of its tensors, whatever file they are in."""
    file = located(KEY, path, KINDS)
    info = file.stat()
    return str(file), _digest(file, info.st_size, info.st_mtime_ns)


def load_state(path: str | None, content: str) -> Mapping[str, Tensor]:
    """Return the tensors of a state dict by name; UserError if they are not those of the digest `content`."""
    file, digest = state_digest(path)
    if digest != content:
        raise UserError(
            f"{KEY} = {path}: the file has changed since this config was made; leave init.content out to use its new "
            "content"
        )
    return _read(Path(file))


@lru_cache
def _digest(file: Path, size: int, changed: int) -> str:
    """Read a file once for each size and time that it has."""
    found = hashlib.sha256()
    for name, tensor in sorted(_read(file).items()):
        found.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        found.update(tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


def _read(file: Path) -> Mapping[str, Tensor]:
    """The tensors of a file by name. Nothing but tensors is unpickled."""
    try:
        state = torch.load(file, map_location="cpu", weights_only=True)
    except (OSError, EOFError, RuntimeError, ValueError, TypeError, KeyError, pickle.UnpicklingError) as error:
        raise UserError(f"{KEY} = {file}: cannot be read as tensors by name; must be {KINDS}") from error
    if not isinstance(state, Mapping) or not state or not all(isinstance(part, Tensor) for part in state.values()):
        raise UserError(f"{KEY} = {file}: is not a state dict, which has tensors by name; must be {KINDS}")
    for name, tensor in state.items():
        if tensor.is_complex() or not bool(torch.isfinite(tensor).all()):
            raise UserError(f"{KEY} = {file}: the tensor '{name}' has numbers that are not finite and real")
    return state
