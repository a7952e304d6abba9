"""Speed of the server's work, as ratios measured side by side in one run: python benchmarks/server_speed.py.

1. FedLAW's server steps over the bare forward and backward passes on the same proxy batches, m = 20 clients.
2. FedDF with the teachers' logits computed once a round, against computing them anew in every server epoch.

Interleaved; a ratio is the median over repetitions of the ratio of two neighbours, so that a noisy machine cancels out.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F

from fedbench.methods import Cohort, LocalWork, ProxyData, Server
from fedbench.methods.feddf import FedDFSettings
from fedbench.methods.fedlaw import FedLAWSettings
from fedbench.methods.finetune import Teacher, distil, teacher_logits
from fedbench.methods.learned import WeightLearner
from fedbench.models import FlatModel, initial

CPU = torch.device("cpu")
M = 20  # clients
SHAPES = {"mlp": (1, 28, 28), "simple_cnn": (3, 32, 32)}
FEDLAW = {"mlp": (100, 40, 2.5), "simple_cnn": (100, 10, 1.1)}  # model -> (proxy size, epochs, largest ratio accepted)
FEDDF = {"simple_cnn": (100, 100, 6.0)}  # model -> (proxy size, epochs, smallest speed-up accepted)


def setting(model: str, size: int) -> tuple[Cohort, Server]:
    """A cohort of M models around one, and a server with a random proxy set."""
    shape = SHAPES[model]
    flat = initial(model, shape, 10, 8, CPU, torch.float32)
    x = torch.rand(size, *shape).contiguous(memory_format=torch.channels_last)

    def batches(rng: np.random.Generator, batch: int) -> list[torch.Tensor]:
        return list(torch.split(torch.from_numpy(rng.permutation(size)), batch))

    server = Server(flat, ProxyData(x, torch.randint(0, 10, (size,)), batches), lambda _: np.random.default_rng(0))
    w = flat.w.clone()
    W, p = w + 0.01 * torch.randn(M, len(w)), torch.full((M,), 1 / M)
    return cohort_of(flat, p, w, W), server


def cohort_of(flat: FlatModel, p: torch.Tensor, w: torch.Tensor, W: torch.Tensor) -> Cohort:
    """A first round of clients without running statistics."""
    m = len(W)
    work = LocalWork(torch.full((m,), 28.0, dtype=torch.float64), 2, 128, 0.08, 0.9, True, 5e-4, 0.08)
    sizes = torch.full((m,), 1792)
    return Cohort(
        1, tuple(range(m)), p, w, W, W[:, :0], w[:0], "average", 1.0, m, sizes=sizes, work=work, layers=flat.layers
    )


def timed(run: Callable[[], object]) -> float:
    """Seconds of one call."""
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def compare(one: Callable[[], object], other: Callable[[], object], repetitions: int) -> float:
    """Median of time(one) / time(other) over neighbouring calls."""
    return statistics.median(timed(one) / timed(other) for _ in range(repetitions))


def fedlaw_ratio(model: str, size: int, epochs: int, repetitions: int) -> float:
    """Server steps of FedLAW over bare passes."""
    cohort, server = setting(model, size)
    settings = FedLAWSettings(lr=0.01, epochs=epochs)

    def learn() -> None:
        WeightLearner(cohort, server, settings).run(epochs, learn_gamma=True, learn_lambda=True)

    def bare() -> None:
        server.model.train()
        rng = np.random.default_rng(0)
        for _ in range(epochs):
            for index in server.proxy.batches(rng, settings.batch_size):
                server.model.grad.zero_()
                F.cross_entropy(server.model(server.proxy.x[index]), server.proxy.y[index]).backward()

    compare(learn, bare, 1)  # warm up
    return compare(learn, bare, repetitions)


def feddf_speedup(model: str, size: int, epochs: int) -> float:
    """A round that recomputes its teachers in every epoch over one that computes them once; a minute, so done once."""
    cohort, server = setting(model, size)
    teachers = [Teacher(w, buffers) for w, buffers in zip(cohort.W, cohort.B, strict=True)]
    distil(cohort, {}, server, FedDFSettings(epochs=1), teachers)  # warm up

    def cached() -> None:
        distil(cohort, {}, server, FedDFSettings(epochs=epochs), teachers)

    def anew() -> None:
        for _ in range(epochs - 1):
            for teacher in teachers:
                teacher_logits(server, teacher, 128)
        cached()

    return compare(anew, cached, 1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--repetitions", type=int, default=7)
    repetitions = parser.parse_args().repetitions
    torch.set_num_threads(1)
    good = True
    for model, (size, epochs, limit) in FEDLAW.items():
        ratio = fedlaw_ratio(model, size, epochs, repetitions)
        good &= ratio <= limit
        print(f"{model:11s} FedLAW's server steps / bare proxy passes, m = {M}: {ratio:.2f} (at most {limit})")
    for model, (size, epochs, limit) in FEDDF.items():
        ratio = feddf_speedup(model, size, epochs)
        good &= ratio >= limit
        print(
            f"{model:11s} FedDF, teachers every epoch / once, m = {M}, {epochs} epochs: {ratio:.2f} (at least {limit})"
        )
    sys.exit(0 if good else 1)
