"""Who takes part in a round: the clients that are sampled, those that answer, and how many epochs each one does."""

from dataclasses import replace

from fedbench.base.rng import generator, numbered
from fedbench.config import TrialConfig
from fedbench.simulation.record import WORK, Record


def sample_clients(config: TrialConfig, t: int) -> tuple[int, ...]:
    """Sample the m of n clients of round t uniformly without replacement, sorted by id, the same for every method."""
    purpose = numbered("participation", config.participation.draw)
    order = generator(config.seed, purpose, t).permutation(config.clients.count)
    return tuple(sorted(int(client) for client in order[: config.participants]))


def answers(config: TrialConfig, t: int, client: int) -> bool:
    """Whether a sampled client answers in round t: it does not with the probability `clients.dropout`.

    A larger probability keeps the same clients away and further ones.
    """
    dropout = config.clients.dropout
    return not dropout or generator(config.seed, "dropout", t, client).random() >= dropout


def answering(config: TrialConfig, t: int) -> tuple[int, ...]:
    """The sampled clients that answer in round t, sorted by id."""
    return tuple(client for client in sample_clients(config, t) if answers(config, t, client))


def epochs_of(config: TrialConfig, t: int, client: int) -> int:
    """The epochs of a client in round t.

    With the probability `clients.straggler` they are drawn uniformly from `clients.min_epochs` to `clients.epochs`. A
    larger probability makes the same clients stragglers and further ones. A proxy set that takes part as a client is on
    the server and does all epochs.
    """
    settings = config.clients
    if not settings.straggler or client >= settings.count:
        return settings.epochs
    rng = generator(config.seed, "straggler", t, client)
    if rng.random() >= settings.straggler:
        return settings.epochs
    return int(rng.integers(settings.min_epochs, settings.epochs, endpoint=True))


def with_work(record: Record, config: TrialConfig) -> Record:
    """Add to a record which of the sampled clients were absent or did only a part of their epochs, if any may."""
    if not (config.clients.straggler or config.clients.dropout):
        return record
    t = record.round
    work = [(i, epochs_of(config, t, i) if answers(config, t, i) else 0) for i in sample_clients(config, t)]
    absent = sum(epochs == 0 for _, epochs in work)
    partial = sum(0 < epochs < config.clients.epochs for _, epochs in work)
    values = {"absent_clients": float(absent), "partial_clients": float(partial)}
    return replace(record, indicators={**record.indicators, **values}, tables={**record.tables, WORK: work})
