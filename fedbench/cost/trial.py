"""What runs in a process of its own: a trial of a case, products of large matrices, or what tells CUDA's memory."""

import time
from collections.abc import Callable
from typing import Protocol

import numpy as np
import torch
from torch import nn

from fedbench.base.errors import UserError
from fedbench.config import RunConfig, TrialConfig
from fedbench.cost.cases import Case, Found
from fedbench.cost.work import paper_config, round_samples
from fedbench.data.samples import Samples
from fedbench.models import initial
from fedbench.models.base import needs_two
from fedbench.models.precision import PRECISIONS
from fedbench.simulation.compute import exact, pick_device
from fedbench.simulation.engines import Start, choose_engine
from fedbench.simulation.evaluation import BATCH, GPU_BATCH, evaluate
from fedbench.simulation.local import Sgd, draw_plan
from fedbench.store.memory import peak_memory, release_memory

SCORING = 0.2  # of the time that is there for training, on top of it
CLIENT_SHARE = 0.25  # of that time at most for one client
FORWARD = 3  # passes of the same size are in a step: forward, and backward for inputs and for weights
SIDES = {"cpu": 512, "cuda": 4096}  # of square matrices, large enough to keep a device busy
PRODUCTS = {"cpu": 1, "cuda": 4}  # before the device is waited for


class Meeting(Protocol):
    """Where processes wait for each other; each is told a number, from 0 on."""

    def wait(self) -> int:
        """Go on when all are here."""


def measure(case: Case, device_name: str, seconds: float, meeting: Meeting) -> Found:
    """Train clients on noise for so many seconds while the other trials of the case do, then score some images.

    Where the first step alone takes longer than that it must do, and an image is scored in a third of its time.
    """
    engine_name, precision, _, threads = case.setting
    run = {"run.device": device_name, "run.engine": engine_name, "run.threads": threads}
    config, device = paper_config(case.data, case.model, precision=precision, **run), pick_device(device_name)
    if reason := config.numbers.refuses(device):
        raise UserError(reason)
    size = config.clients.batch_size
    client = max(1, round(round_samples(config) / config.clients.epochs / config.participants / size))  # steps
    with exact(config.run, device):
        model = initial(*config.network, config.seed, device, config.numbers)
        samples = noise(config, client * size, device)
        engine = choose_engine(config, model, samples, 2 if needs_two(*config.network) else 1)
        start, sgd = Start(model.w.clone(), model.buffers.clone()), Sgd.of_round(config, 1, device)
        velocity = torch.zeros_like(model.w)

        def train(steps: int) -> None:
            plan = draw_plan(np.arange(steps * size), 1, size, np.random.default_rng(0), device)
            engine.train(plan, start, velocity.zero_(), None, sgd)

        meeting.wait()
        step = 1 / a_second(lambda: train(1), 0.0, device)
        trained, scored = size / step, FORWARD * size / step
        if step < seconds:  # else it must do
            step = 1 / a_second(lambda: train(1), 0.0, device)  # the first one has warmed up
            steps = max(1, min(client, int(CLIENT_SHARE * seconds / step)))
            trained = steps * size * a_second(lambda: train(steps), seconds, device)
            some = noise(config, BATCH if device.type == "cpu" else GPU_BATCH, device)
            if device.type == "cuda":
                evaluate(model, *start, some)
            scored = len(some) * a_second(lambda: evaluate(model, *start, some), SCORING * seconds, device)
    peak = peak_memory(device)
    memory = peak["peak_gpu_reserved_bytes"] or peak["peak_memory_bytes"] or 0
    return Found(engine.name, trained, scored, memory, engine.complaint or "")


def noise(config: TrialConfig, count: int, device: torch.device) -> Samples:
    """Random images [count, H, W, C] and labels [count] of the shape of a config's data set."""
    channels, height, width = config.dataset.shape
    images = torch.randint(0, 256, (count, height, width, channels), dtype=torch.uint8).to(device)
    labels = torch.randint(0, config.dataset.num_classes, (count,)).to(device)
    return Samples(images, labels, 1 / 255, 0.0, config.numbers.dtype)


def timed(work: Callable[[], object], seconds: float, device: torch.device) -> list[float]:
    """The seconds that some work took each time: it is done until so many are over, at least once."""
    times: list[float] = []
    while not times or sum(times) < seconds:
        started = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append(time.perf_counter() - started)
    return times


def a_second(work: Callable[[], object], seconds: float, device: torch.device) -> float:
    """How often a second some work is done, over so many seconds."""
    times = timed(work, seconds, device)
    return len(times) / sum(times)


def matrix_speed(precision: str, device_name: str, seconds: float, meeting: Meeting) -> float:
    """Floating-point operations a second in products of large square matrices: what the hardware itself can do.

    On CPUs that is of one core, while others do the same. The best time counts: nobody else was in the way then.
    """
    device, numbers = pick_device(device_name), PRECISIONS[precision]
    if reason := numbers.refuses(device):
        raise UserError(reason)
    side, products = SIDES[device.type], PRODUCTS[device.type]
    with exact(RunConfig(), device), torch.no_grad(), numbers.forward(device):
        a, b = (torch.randn(side, side).to(device, numbers.autocast or numbers.dtype) for _ in range(2))

        def multiply() -> None:
            for _ in range(products):
                torch.mm(a, b)

        timed(multiply, 0.0, device)
        meeting.wait()
        return products * 2 * side**3 / min(timed(multiply, seconds, device))


def context_memory(meeting: Meeting) -> int | None:
    """Return the GPU memory that CUDA takes for a process, beside what torch reserves; call it in two processes.

    The first one looks before and after the second one has computed something. The second one returns None.
    """
    if meeting.wait() == 0:
        torch.zeros(1, device="cuda")
        before, _ = torch.cuda.mem_get_info()
        meeting.wait()
        meeting.wait()
        after, _ = torch.cuda.mem_get_info()
        meeting.wait()
        return max(0, before - after)
    meeting.wait()
    with exact(RunConfig(), torch.device("cuda")):
        image, weight = torch.ones(1, 3, 8, 8, device="cuda"), torch.ones(4, 3, 3, 3, device="cuda")
        torch.mm(nn.functional.conv2d(image, weight).flatten(2)[0], torch.ones(36, 2, device="cuda"))
        release_memory()
        torch.cuda.synchronize()
    meeting.wait()
    meeting.wait()
    return None
