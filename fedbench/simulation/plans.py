"""Plans of all clients' batches, drawn on the host in advance and moved to the device in one transfer."""

from collections.abc import Sequence

import numpy as np
import torch

from fedbench.base.rng import generator, numbered
from fedbench.base.tensors import on_device
from fedbench.config import TrialConfig
from fedbench.data.classes import Indices
from fedbench.simulation.local import Plan, cut_plan, draw_order, draw_stream, plan_steps
from fedbench.simulation.participants import answering, epochs_of


class Plans:
    """Draws and holds the plans of all clients. A plan depends on (seed, round, client) alone."""

    def __init__(self, config: TrialConfig, shards: Sequence[Indices], device: torch.device, least: int) -> None:
        self.config, self.shards, self.device, self.least = config, shards, device, least
        self.drawn: dict[tuple[int, int], Plan] = {}

    def of(self, t: int, clients: Sequence[int]) -> list[Plan]:
        """The plans of some clients in round t. They are drawn now unless they were drawn in advance."""
        if any((t, client) not in self.drawn for client in clients):
            self.draw(t, clients)
        return [self.drawn[t, client] for client in clients]

    def draw(self, t: int, clients: Sequence[int]) -> None:
        """Draw the plans of round t, without waiting for the device.

        Plans of the previous round are kept, because an interrupted round is run again.
        """
        seed, local = self.config.seed, self.config.clients
        purpose = numbered("batches", self.config.batches.draw)
        orders = [self._order(t, client, generator(seed, purpose, t, client)) for client in clients]
        if not orders:
            return
        moved = on_device(np.concatenate([order.ravel() for order in orders]), self.device)
        parts = moved.split([order.size for order in orders])
        before = {key: plan for key, plan in self.drawn.items() if key[0] >= t - 1}
        self.drawn = before | {
            (t, client): cut_plan(part.view(order.shape), local.batch_size, self.least)
            for client, order, part in zip(clients, orders, parts, strict=True)
        }

    def _order(self, t: int, client: int, rng: np.random.Generator) -> Indices:
        """The order of a client's samples in round t [E, n].

        A client with the data of all others has one sequence of samples, for as many full batches as these would take.
        """
        config, shard = self.config, self.shards[client]
        if config.method.training != "centralised" or client < config.clients.count:
            return draw_order(shard, epochs_of(config, t, client), rng)
        size = config.clients.batch_size
        steps = sum(
            plan_steps(len(self.shards[i]), epochs_of(config, t, i), size, self.least) for i in answering(config, t)
        )
        return draw_stream(shard, steps * size, rng)
