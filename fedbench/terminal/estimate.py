"""What a study will cost: from stored trials of the same kind, else from a short probe of the model."""

import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch

from fedbench.base.errors import UserError
from fedbench.config import TrialConfig
from fedbench.data.samples import Samples
from fedbench.models import build, initial
from fedbench.simulation.compute import exact
from fedbench.simulation.local import Sgd, draw_plan, local_train
from fedbench.store.folder import stored_config
from fedbench.store.store import Store, StoredTrial

PROBE_SECONDS = 20.0  # for all models together
PROBE_BATCHES = 3
PROBE_SAMPLES = 16
BASE_MEMORY = 400 * 2**20  # a process with torch and the data's pages
DISK_A_ROUND = 2500  # bytes of text

Kind = tuple[str, str, str]  # data set, model, method


@dataclass(frozen=True)
class Estimate:
    """Seconds on one worker, peak bytes of the largest trial, bytes on disk, and where the seconds come from."""

    seconds: float
    memory: float
    disk: float
    source: str


def work(config: TrialConfig) -> float:
    """Training samples that all clients see over the whole run."""
    share = config.participants / config.clients.count * (1 - config.clients.holdout)
    return config.rounds * config.clients.epochs * share * (config.train_samples - config.validation_samples)


def estimate(trials: Iterable[TrialConfig], store: Store) -> Estimate:
    """The cost of some trials."""
    trials = list(trials)
    stored = _stored_rates(store)
    probed: dict[Kind, float] = {}
    kinds = {_kind(config): config for config in trials if _kind(config) not in stored}
    for kind, config in kinds.items():
        probed[kind] = _probe(config, PROBE_SECONDS / len(kinds))
    rates = {**probed, **stored}
    seconds = sum(rates[_kind(config)] * work(config) for config in trials)
    source = f"{len(stored.keys() & {_kind(c) for c in trials})} kinds of trials stored, {len(probed)} probed"
    memory = max((_memory(config) for config in trials), default=0.0)
    return Estimate(seconds, memory, float(sum(config.rounds for config in trials)) * DISK_A_ROUND, source)


def _kind(config: TrialConfig) -> Kind:
    return config.data.name, config.model, config.method.name


def _stored_rates(store: Store) -> dict[Kind, float]:
    """Seconds a training sample, by kind, over all finished trials of the store: long ones count for more."""
    seconds, samples = defaultdict[Kind, float](float), defaultdict[Kind, float](float)
    for trial in store.all():
        config = _config(trial) if trial.status == "done" else None
        if config:
            seconds[_kind(config)] += sum(trial.summary[f"seconds_{part}"] for part in ("train", "server", "eval"))
            samples[_kind(config)] += work(config)
    return {kind: seconds[kind] / samples[kind] for kind in samples}


def _config(trial: StoredTrial) -> TrialConfig | None:
    """A stored trial's config, unless it needs something that is not here, such as somebody's own method."""
    try:
        return stored_config(trial.path)
    except UserError:
        return None


def _probe(config: TrialConfig, limit: float) -> float:
    """Seconds a training sample, from a few small batches of random images (scoring counted as a third on top)."""
    channels, height, width = config.dataset.shape
    device, classes = torch.device("cpu"), config.dataset.num_classes
    images = torch.randint(0, 256, (PROBE_SAMPLES, height, width, channels), dtype=torch.uint8)
    samples = Samples(images, torch.randint(0, classes, (PROBE_SAMPLES,)), 1 / 255, 0.0, torch.float32)
    with exact(config.run, device):
        model = initial(config.model, config.dataset.shape, classes, config.seed, device, torch.float32)
        plan = draw_plan(np.arange(PROBE_SAMPLES), 1, PROBE_SAMPLES, np.random.default_rng(0), device)
        sgd, velocity = Sgd(torch.tensor(0.01), 0.9, 0.0), torch.zeros_like(model.w)
        times: list[float] = []
        started = time.monotonic()
        while len(times) < PROBE_BATCHES and time.monotonic() - started < limit:
            before = time.perf_counter()
            local_train(model, samples, plan, sgd, velocity, None)
            times.append(time.perf_counter() - before)
    return min(times) / PROBE_SAMPLES * 4 / 3


def _memory(config: TrialConfig) -> float:
    """Bytes: clients' models and momentum, a few copies, the data, the process itself."""
    with torch.device("meta"):
        module = build(config.model, config.dataset.shape, config.dataset.num_classes)
    parameters = sum(p.numel() for p in module.parameters())
    kept = config.clients.count if config.clients.momentum_state == "keep" else 1
    item = 4 if config.precision == "float32" else 8
    data = (config.dataset.train_size + config.dataset.test_size) * float(np.prod(config.dataset.shape))
    return BASE_MEMORY + data + (kept + config.participants + 6) * parameters * item
