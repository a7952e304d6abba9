"""Clients as the data have them: every client gets all samples of its owners."""

from typing import Literal

import numpy as np

from fedbench.base.errors import UserError
from fedbench.data.classes import Indices, Labels
from fedbench.data.partitions.base import Columns, DataSettings, Partition, register_partition


class NaturalSettings(DataSettings):
    """How owners become clients."""

    partition: Literal["natural"] = "natural"
    owners: Literal["merge", "sample"] = "merge"
    """merge: every owner goes to a client, which has several where there are more owners than clients; sample: each
    client is one owner, drawn at random, and the samples of the others are not used"""


@register_partition()
class Natural(Partition[NaturalSettings]):
    """Whole owners are dealt to clients, in the order of a shuffle; for data sets whose samples have owners."""

    Settings = NaturalSettings
    by_owner = True

    def draw(
        self,
        settings: NaturalSettings,
        clients: int,
        samples: Indices,
        labels: Labels,
        rng: np.random.Generator,
        columns: Columns | None = None,
    ) -> list[Indices]:
        """Owner k of the shuffle goes to client k mod n."""
        if columns is None or "owner" not in columns:
            raise UserError("data.partition = natural: the samples of this data set have no owners")
        owner = columns["owner"][samples]
        order = rng.permutation(np.unique(owner))
        if len(order) < clients:
            raise UserError(
                f"clients.count = {clients}: the training samples have {len(order)} owners; must be at most that with "
                "data.partition=natural"
            )
        if settings.owners == "sample":
            order = order[:clients]
        return [samples[np.isin(owner, order[client::clients])] for client in range(clients)]
