"""Flower strategies of somebody's own, for tests/methods/test_flower.py; flwr must be installed."""

import random
from collections import deque
from collections.abc import Iterable
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord
from flwr.serverapp.strategy import FedAvg


def changed(arrays: Any, change: Any) -> ArrayRecord:
    return ArrayRecord({name: Array(np.asarray(change(array.numpy()))) for name, array in arrays.items()})


class Counting(FedAvg):
    """Remembers in every way that can be kept, and lets its memory decide."""

    def __init__(self, step: float = 0.1, **others: Any) -> None:
        super().__init__(**others)
        self.step = step
        self.rounds = 0
        self.seen: dict[int, tuple[str, ...]] = {}
        self.recent: deque[float] = deque(maxlen=2)
        self.sums: list[np.ndarray[Any, Any]] = []
        self.last: ArrayRecord | None = None
        self.norm = np.float64(0.0)

    def aggregate_train(self, server_round: int, replies: Iterable[Any]) -> Any:
        arrays, metrics = super().aggregate_train(server_round, replies)
        self.rounds += 1
        self.seen[server_round] = tuple(arrays.keys())
        values = [array.numpy() for array in arrays.values()]
        self.sums = [old + new for old, new in zip(self.sums or [0 * v for v in values], values, strict=True)]
        self.norm += np.sqrt(sum(np.square(value).sum(dtype=np.float64) for value in values))
        self.recent.append(float(self.norm))
        self.last, old = arrays, self.last
        scale = 1 + self.step * np.tanh(len(self.seen) * self.rounds + sum(self.recent) / 1e3)
        mix = changed(arrays, lambda value: value * scale)
        if old is not None:
            mix = ArrayRecord({name: Array(mix[name].numpy() + 1e-3 * old[name].numpy()) for name in old})
        return mix, metrics


class Generating(FedAvg):
    """Has a generator of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.rng = np.random.default_rng(0)


class Telling(FedAvg):
    """Tells clients what they cannot heed."""

    def configure_train(self, server_round: int, arrays: Any, config: Any, grid: Any) -> Any:
        config["lr"] = 0.1
        return super().configure_train(server_round, arrays, config, grid)


class Sending(FedAvg):
    """Sends clients another model than the global one."""

    def configure_train(self, server_round: int, arrays: Any, config: Any, grid: Any) -> Any:
        return super().configure_train(server_round, changed(arrays, lambda value: value + 1), config, grid)


class Picking(FedAvg):
    """Asks the first client alone."""

    def configure_train(self, server_round: int, arrays: Any, config: Any, grid: Any) -> Any:
        return list(super().configure_train(server_round, arrays, config, grid))[:1]


class Waiting(FedAvg):
    """Waits for more clients than there are."""

    def configure_train(self, server_round: int, arrays: Any, config: Any, grid: Any) -> Any:
        while len(grid.get_node_ids()) < 1000:
            pass


class Noisy(FedAvg):
    """Draws from both global generators."""

    def aggregate_train(self, server_round: int, replies: Iterable[Any]) -> Any:
        arrays, metrics = super().aggregate_train(server_round, replies)
        draw = random.gauss(0, 1)
        return changed(arrays, lambda value: value + 0.01 * draw * np.random.normal(size=value.shape)), metrics


class Ending(FedAvg):
    """Gives no model from the third round on."""

    def aggregate_train(self, server_round: int, replies: Iterable[Any]) -> Any:
        return super().aggregate_train(server_round, replies) if server_round < 3 else (None, None)


class Scheduled(FedAvg):
    """A proximal term that grows."""

    def configure_train(self, server_round: int, arrays: Any, config: Any, grid: Any) -> Any:
        config["proximal-mu"] = 0.1 * server_round
        return super().configure_train(server_round, arrays, config, grid)


class Shapes(FedAvg):
    """Remembers what it was given."""

    def aggregate_train(self, server_round: int, replies: Iterable[Any]) -> Any:
        replies = list(replies)
        self.given = {name: list(array.numpy().shape) for name, array in replies[0].content["arrays"].items()}
        self.sizes = [reply.content["metrics"]["num-examples"] for reply in replies]
        self.nodes = [reply.metadata.src_node_id for reply in replies]
        return super().aggregate_train(server_round, replies)
