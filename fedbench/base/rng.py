"""One keyed source of randomness: (seed, purpose, round, client) -> generator.

No draw depends on other draws, so results do not change with packing, reuse of a process, or the round at which a run
was resumed; and methods of one seed see the same partition, proxy set, initial model, participation and batches.
"""

import hashlib

import numpy as np


def _entropy(seed: int, purpose: str, round_: int, client: int) -> list[int]:
    digest = hashlib.sha256(purpose.encode()).digest()
    return [seed, int.from_bytes(digest[:8], "little"), round_, client]


def numbered(purpose: str, draw: int) -> str:
    """The purpose of draw number `draw`: number 0 keeps the plain purpose, any other number has a stream of its own."""
    return f"{purpose}/{draw}" if draw else purpose


def generator(seed: int, purpose: str, round_: int = 0, client: int = 0) -> np.random.Generator:
    """Return a new numpy generator for one purpose; equal keys give equal streams."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(_entropy(seed, purpose, round_, client))))


def torch_seed(seed: int, purpose: str, round_: int = 0, client: int = 0) -> int:
    """Return a 63-bit seed for a torch generator, keyed in the same way."""
    state = np.random.SeedSequence(_entropy(seed, purpose, round_, client)).generate_state(1, np.uint64)
    return int(state[0] >> np.uint64(1))
