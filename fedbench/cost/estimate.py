"""What a study will cost: by stored trials of the same kind, else as measured on this machine, else by a probe."""

import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from fedbench.base.errors import UserError
from fedbench.config import TrialConfig
from fedbench.cost.cases import Setting
from fedbench.cost.memory import image_bytes, kept_models
from fedbench.cost.speeds import Speeds
from fedbench.cost.work import parameter_count, round_samples
from fedbench.data.samples import Samples
from fedbench.models import initial
from fedbench.simulation.compute import exact
from fedbench.simulation.local import Sgd, draw_plan, local_train
from fedbench.store.folder import config_of
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


class Pace(NamedTuple):
    """What was measured on this machine, and how trials are to be run on it."""

    speeds: Speeds
    setting: Setting

    def rate(self, config: TrialConfig) -> float | None:
        """Seconds a training sample; None where the model was not measured and, on CPUs, a probe tells more."""
        seconds = self.speeds.seconds(config, self.setting, scaled=self.speeds.machine.device == "cuda")
        return None if seconds is None else seconds / work(config)


def work(config: TrialConfig) -> float:
    """Training samples that all clients see over the whole run."""
    return config.rounds * round_samples(config)


def estimate(trials: Iterable[TrialConfig], store: Store, pace: Pace | None = None) -> Estimate:
    """The cost of some trials."""
    trials = list(trials)
    kinds = {kind(config): config for config in trials}
    stored = {each: rate for each, rate in _stored_rates(store).items() if each in kinds}
    left = {each: config for each, config in kinds.items() if each not in stored}
    measured = {each: rate for each, config in left.items() if pace and (rate := pace.rate(config)) is not None}
    probed = {each: _probe(left[each], PROBE_SECONDS / len(left)) for each in left.keys() - measured.keys()}
    rates = {**probed, **measured, **stored}
    seconds = sum(rates[kind(config)] * work(config) for config in trials)
    sources = [f"kinds of trials: {len(stored)} stored", f"{len(probed)} probed"]
    if pace and measured:
        sources.insert(1, f"{len(measured)} measured by fedbench.speed on {pace.speeds.date}")
    source = ", ".join(sources)
    memory = max((_memory(config) for config in trials), default=0.0)
    return Estimate(seconds, memory, float(sum(config.rounds for config in trials)) * DISK_A_ROUND, source)


def model_bytes(config: TrialConfig) -> int:
    """The size of a trial's model."""
    parameters = parameter_count(*config.network)
    return parameters * config.numbers.dtype.itemsize


def kind(config: TrialConfig) -> Kind:
    """What trials that cost alike have in common."""
    return config.data.name, config.network[0], config.method.name


def peak_gpu_memory(store: Store) -> dict[Kind, float]:
    """Return by kind of trial the most bytes that a stored trial reserved on a GPU; kinds without any are left out."""
    peaks: dict[Kind, float] = {}
    for trial in store.all():
        summary = trial.summary
        peak = summary.get("peak_gpu_reserved_bytes") or summary.get("peak_gpu_memory_bytes")
        if peak and (config := _config(trial)):
            peaks[kind(config)] = max(peak, peaks.get(kind(config), 0.0))
    return peaks


def _stored_rates(store: Store) -> dict[Kind, float]:
    """Seconds a training sample, by kind, over all finished trials of the store: long ones count for more."""
    seconds, samples = defaultdict[Kind, float](float), defaultdict[Kind, float](float)
    for trial in store.all():
        config = _config(trial) if trial.status == "done" else None
        if config:
            seconds[kind(config)] += sum(trial.summary[f"seconds_{part}"] for part in ("train", "server", "eval"))
            samples[kind(config)] += work(config)
    return {each: seconds[each] / samples[each] for each in samples}


def _config(trial: StoredTrial) -> TrialConfig | None:
    """A stored trial's config, unless it needs something that is not here, such as somebody's own method."""
    try:
        return config_of(trial)
    except UserError:
        return None


def _probe(config: TrialConfig, limit: float) -> float:
    """Seconds a training sample, from a few small batches of random images (scoring counted as a third on top)."""
    channels, height, width = config.dataset.shape
    device, classes = torch.device("cpu"), config.dataset.num_classes
    images = torch.randint(0, 256, (PROBE_SAMPLES, height, width, channels), dtype=torch.uint8)
    samples = Samples(images, torch.randint(0, classes, (PROBE_SAMPLES,)), 1 / 255, 0.0, torch.float32)
    with exact(config.run, device):
        model = initial(*config.network, config.seed, device, torch.float32)
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
    return BASE_MEMORY + image_bytes(config) + kept_models(config) * model_bytes(config)
