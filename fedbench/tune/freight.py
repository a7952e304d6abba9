"""What travels through Ray's memory: references to it, and data sets that a node lacks."""

import hashlib
import json
import time
from base64 import b64decode, b64encode
from typing import Any

import numpy as np
import ray
from ray import cloudpickle

from fedbench.base.errors import UserError
from fedbench.data.base import Arrays
from fedbench.data.official import arrays_folder, kept
from fedbench.store.leases import HeldElsewhereError, Lease, Watch
from fedbench.tune.board import Board

WANTED, THERE = "wanted/", "there/"  # notes, before the name of a data set
LOOK_SECONDS = 0.2
PATIENCE = 600.0  # seconds, for the driver to hand out a data set


def sent(content: Any) -> str:
    """Something for another process, as a reference into Ray's memory: what Tune is given it writes to disk."""
    return b64encode(cloudpickle.dumps(ray.put(content))).decode()


def received(reference: str, seconds: float | None = None) -> Any:
    """What `sent` sent; an error of Ray's if it is lost, or takes longer."""
    return ray.get(cloudpickle.loads(b64decode(reference)), timeout=seconds)


def digest_of(arrays: Arrays) -> str:
    """A sum over the content of a data set."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    return digest.hexdigest()


def hand_out(name: str, arrays: Arrays, board: Board) -> None:
    """Put a data set into Ray's memory for all nodes that lack it, and a note of it on the board."""
    parts = [sent(np.asarray(array)) for array in arrays]
    board.post(THERE + name, json.dumps({"sum": digest_of(arrays), "parts": parts}).encode())


def refuse(name: str, reason: str, board: Board) -> None:
    """Say why a data set cannot be had."""
    board.post(THERE + name, json.dumps({"reason": reason}).encode())


def fetched(name: str, board: Board) -> Arrays:
    """A data set from the driver, through this node's cache: whichever process comes first fetches it, once a node."""
    note = _note(name, board)
    if "reason" in note:
        raise UserError(note["reason"])
    folder, watch = arrays_folder(name, note["sum"][:16]), Watch()
    lease = folder.with_name(f".{folder.name}.lease")
    while not folder.is_dir():
        try:
            with Lease(lease):
                return kept(folder, lambda: _arrived(name, note))
        except HeldElsewhereError:
            watch.holder(lease)  # which removes it once it is stale
            time.sleep(LOOK_SECONDS)
        except OSError:  # no folder to write to: the arrays stay in memory
            break
    return kept(folder, lambda: _arrived(name, note))


def _note(name: str, board: Board) -> dict[str, Any]:
    """What the driver says of a data set, once it was asked for it."""
    deadline = time.monotonic() + PATIENCE
    while (content := board.read(THERE + name)) is None:
        board.post(WANTED + name)
        if time.monotonic() > deadline:
            raise UserError(f"data set '{name}': not on this node, and the driver does not send it")
        time.sleep(LOOK_SECONDS)
    return dict(json.loads(content))


def _arrived(name: str, note: dict[str, Any]) -> Arrays:
    """The arrays out of Ray's memory, checked. They are only to be read there: writing to them changes everybody's."""
    arrays = Arrays(*(received(part) for part in note["parts"]))
    if digest_of(arrays) != note["sum"]:
        raise UserError(f"data set '{name}': what came from the driver does not have its checksum")
    return arrays
