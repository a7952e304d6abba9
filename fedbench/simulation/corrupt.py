"""Applies a run's corruption to the labels of corrupted clients and to the models that they send."""

from numbers import Real
from typing import TYPE_CHECKING

import numpy as np
import torch

from fedbench.base.errors import UserError
from fedbench.base.rng import generator, torch_seed
from fedbench.base.tensors import on_device
from fedbench.config import TrialConfig
from fedbench.corruptions import CORRUPTIONS, CorruptedCohort, Corruption
from fedbench.corruptions.swap import Swap
from fedbench.data.classes import Indices, Labels
from fedbench.simulation.compute import seeded
from fedbench.simulation.local import round_lr
from fedbench.simulation.updates import describe_tensor, mismatch

if TYPE_CHECKING:
    from fedbench.simulation.loop import Simulation, Trained


def corruption_of(config: TrialConfig) -> Corruption:
    """The corruption of a run."""
    return CORRUPTIONS.get(config.clients.corruption)


def corrupted_clients(config: TrialConfig) -> tuple[int, ...]:
    """The sorted ids of the corrupted clients, which do not depend on the method or the corruption.

    A larger share corrupts the same clients and further ones.
    """
    order = generator(config.seed, "corrupted").permutation(config.clients.count)
    return tuple(sorted(int(client) for client in order[: config.corrupted_clients]))


def corrupt_labels(config: TrialConfig, parts: list[Indices], labels: Labels) -> Labels:
    """A copy of the training labels [N] in which those of corrupted clients are changed by the corruption."""
    result, classes, corruption = np.array(labels), config.dataset.num_classes, corruption_of(config)
    for client in corrupted_clients(config):
        before, rng = labels[parts[client]], generator(config.seed, corruption.purpose, client=client)
        after = corruption.labels(before, classes, rng)
        if problem := _wrong_labels(after, len(parts[client]), classes):
            raise UserError(f"corruption '{corruption.name}': labels must give {problem}")
        result[parts[client]] = after
    return result


def _wrong_labels(labels: object, size: int, classes: int) -> str | None:
    """A message with the expected and the actual labels if they are invalid, else None."""
    if not isinstance(labels, np.ndarray) or labels.dtype != np.int64 or labels.shape != (size,):
        kind = f"{labels.dtype} {labels.shape}" if isinstance(labels, np.ndarray) else f"a {type(labels).__name__}"
        return f"int64 {(size,)}, gave {kind}"
    inside = labels.min() >= 0 and labels.max() < classes
    return None if inside else f"labels of 0 ... {classes - 1}, gave {labels.min()} ... {labels.max()}"


def swapped_pairs(config: TrialConfig, parts: list[Indices], labels: Labels) -> dict[int, tuple[int, int]]:
    """The two classes that each corrupted client has swapped; empty for other corruptions."""
    corruption, classes = corruption_of(config), config.dataset.num_classes
    if not isinstance(corruption, Swap):
        return {}
    draws = {c: generator(config.seed, corruption.purpose, client=c) for c in corrupted_clients(config)}
    return {client: corruption.pair(labels[parts[client]], classes, rng) for client, rng in draws.items()}


def corrupt_updates(simulation: "Simulation", t: int, clients: tuple[int, ...], trained: "Trained") -> str | None:
    """Replace the trained models of corrupted clients by those that they send in round t.

    Return the reason why the run has diverged if these are not finite, else None.
    """
    config, corruption = simulation.config, corruption_of(simulation.config)
    corrupted = simulation.federation.split.corrupted if corruption.sends_another_model else ()
    if not any(client in corrupted for client in clients):
        return None
    rows = on_device([client in corrupted for client in clients], simulation.device)
    cohort = _corrupted_cohort(simulation, t, clients, trained, rows)
    with seeded(torch_seed(config.seed, corruption.purpose, t), simulation.device):
        updates, statistics = corruption.updates(cohort), corruption.statistics(cohort)
    for hook, sent, own in (("updates", updates, cohort.own), ("statistics", statistics, cohort.statistics)):
        if wrong := mismatch(sent, own):
            raise UserError(f"corruption '{corruption.name}': {hook} must give {describe_tensor(own)}, gave {wrong}")
    if trained.gradients is not None:  # the mean gradient for which training would have given the model that is sent
        per_step = (1 - config.clients.momentum) / (round_lr(config, t) * trained.steps[rows].clamp(min=1))
        trained.gradients[rows] += (cohort.own - updates) * per_step.to(updates)[:, None]
    trained.W[rows], trained.B[rows] = updates, statistics
    finite = torch.isfinite(updates).all() & torch.isfinite(statistics).all()
    return None if finite else f"corrupted clients ({corruption.name}) sent non-finite numbers"


def _corrupted_cohort(
    simulation: "Simulation", t: int, clients: tuple[int, ...], trained: "Trained", rows: torch.Tensor
) -> CorruptedCohort:
    """The arguments of a corruption in round t; `rows` [m] is true for corrupted clients. Models are copies."""
    config, state, corruption = simulation.config, simulation.state, corruption_of(simulation.config)
    ids = tuple(client for client in clients if client in simulation.federation.split.corrupted)
    scale = config.clients.corruption_scale
    if scale is None:
        scale = corruption.default_scale(len(clients), len(ids))
    if scale is not None and not isinstance(scale, Real):
        raise UserError(f"corruption '{corruption.name}': default_scale must give a number or None, gave {scale!r}")
    return CorruptedCohort(
        clients=ids,
        own=trained.W[rows],
        statistics=trained.B[rows],
        honest=trained.W[~rows],
        w=state.w,
        buffers=state.buffers,
        scale=1.0 if scale is None else scale,
        rng=lambda client: generator(config.seed, corruption.purpose, t, client),
    )
