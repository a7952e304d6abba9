"""What `fedbench speed --check` runs, each function in processes of its own: are results and memory as promised?

Nothing here is about speed alone; that is measured by `fedbench.cost.trial`.
"""

import hashlib
from typing import NamedTuple

import psutil
import torch
from torch import Tensor, nn

from fedbench.base.errors import UserError
from fedbench.config import RunConfig, TrialConfig
from fedbench.cost.trial import Meeting, a_second, noise
from fedbench.cost.work import paper_config
from fedbench.data.samples import Samples
from fedbench.models import FlatModel, initial
from fedbench.models.base import build, needs_two
from fedbench.simulation import Simulation
from fedbench.simulation.compute import exact, pick_device
from fedbench.simulation.engines.choice import CHECK_LR, self_check
from fedbench.simulation.engines.eager import Eager
from fedbench.simulation.engines.graphed import Graphed
from fedbench.simulation.local import Sgd
from fedbench.store.memory import peak_memory, release_memory, reset_peak_memory

BATCHES = {"cpu": 4, "cuda": 128}  # of a model's training: the paper's on a GPU, few images where steps are slow
LAYOUT_BATCHES = {"cpu": 16, "cuda": 128}
IMAGES = "cifar10"  # whose shape models are checked with; no image of it is read
TRIAL = {  # a run that trains on the clients and on the server, with the data set that comes with fedbench
    **{
        "data.train_size": 400,
        "data.test_size": 400,
        "clients.count": 4,
        "clients.epochs": 1,
        "clients.batch_size": 32,
    },
    **{"model": "simple_cnn", "method.name": "fedlaw", "method.epochs": 6, "proxy.size": 50, "rounds": 2},
}
TIGHT = (1.0, 1.1, 1.25, 1.5, 2.0)  # limits, as multiples of the memory that a run reserved without one


class Ended(NamedTuple):
    """What a run ended with: a checksum of its weights, statistics and records, and the GPU memory it reserved."""

    checksum: str
    engine: str
    reserved: int


class Layouts(NamedTuple):
    """Samples trained in a second with the channels of images and weights last, and with rows and columns last."""

    last: float
    first: float


def trained_twice(model: str, device_name: str) -> str | None:
    """Train two clients twice in a model, with eager steps: return what differs, None if the bytes are the same."""
    return _compared(model, device_name, Eager)


def captured(model: str, device_name: str) -> str | None:
    """Train two clients with captured steps: return how they differ from eager ones, None if the bytes are the same."""
    return _compared(model, device_name, Graphed)


def _compared(name: str, device_name: str, kind: type[Eager] | type[Graphed]) -> str | None:
    device, config = pick_device(device_name), paper_config(IMAGES, name)
    network, size = (name, config.dataset.shape, config.dataset.num_classes), BATCHES[device.type]
    if reason := kind.refuses(device):
        raise UserError(reason)
    with exact(config.run, device):
        model: FlatModel = initial(*network, config.seed, device, config.numbers)
        samples: Samples = noise(config, 3 * size, device)
        engine = kind(model, samples)
        sgd = Sgd(torch.full_like(model.w[0], CHECK_LR), config.clients.momentum, config.clients.weight_decay)
        return self_check(engine, sgd, size, 2 if needs_two(*network) else 1)


def run_once(device_name: str, reserve: float | None, meeting: Meeting) -> Ended:
    """Run a small trial, when all others are ready, with no more GPU memory reserved than so many bytes."""
    device = pick_device(device_name)
    if reserve is not None:
        fraction = min(1.0, reserve / torch.cuda.get_device_properties(device).total_memory)
        torch.cuda.set_per_process_memory_fraction(fraction, device)
    simulation = Simulation(_trial(device_name, seed=8))
    reset_peak_memory(device)
    meeting.wait()
    while not simulation.done:
        simulation.step()
    if simulation.engine.complaint:
        raise UserError(simulation.engine.complaint)
    return Ended(checksum(simulation), simulation.engine.name, peak_memory(device)["peak_gpu_reserved_bytes"] or 0)


def checksum(simulation: Simulation) -> str:
    """Return a checksum of all numbers that a run has computed."""
    state, found = simulation.state, hashlib.sha256()
    tensors: list[Tensor] = [state.w, state.buffers, *state.method.values()]
    for tensor in tensors:
        found.update(tensor.cpu().contiguous().numpy().tobytes())
    for record in state.history:
        found.update(repr((record.test_accuracy, record.test_loss, record.train_loss, record.lambda_)).encode())
    return found.hexdigest()


def memory_after_trials(device_name: str, trials: int) -> list[int]:
    """Run trials one after the other, as a worker does; return the bytes in use after each.

    On a GPU that is the memory of the whole GPU, else that of this process.
    """
    device, used = pick_device(device_name), list[int]()
    for seed in range(trials):
        simulation = Simulation(_trial(device_name, seed))
        while not simulation.done:
            simulation.step()
        del simulation
        release_memory()
        used.append(_in_use(device))
    return used


def _in_use(device: torch.device) -> int:
    if device.type == "cpu":
        return int(psutil.Process().memory_info().rss)
    free, total = torch.cuda.mem_get_info(device)
    return total - free


def _trial(device_name: str, seed: int) -> TrialConfig:
    return TrialConfig(**{**TRIAL, "run.device": device_name, "seed": seed})


def layout_speeds(device_name: str, seconds: float) -> Layouts:
    """Train ResNet20 in float32 for so many seconds in each layout of memory."""
    device, config = pick_device(device_name), paper_config(IMAGES, "resnet20")
    size = LAYOUT_BATCHES[device.type]
    with exact(RunConfig(), device):
        module = build("resnet20", config.dataset.shape, config.dataset.num_classes).to(device).train()
        images = torch.randn(size, *config.dataset.shape, device=device)
        labels = torch.randint(0, config.dataset.num_classes, (size,), device=device)
        found = []
        for layout in (torch.channels_last, torch.contiguous_format):
            module.to(memory_format=layout)  # type: ignore[call-overload]
            laid_out = images.contiguous(memory_format=layout)

            def step(laid_out: Tensor = laid_out) -> None:
                module.zero_grad()
                nn.functional.cross_entropy(module(laid_out), labels).backward()

            a_second(step, seconds / 4, device)
            found.append(size * a_second(step, seconds, device))
    return Layouts(*found)
