"""Speed of local training, as ratios measured side by side in one run: python benchmarks/round_speed.py.

1. local_train over a bare loop on the same batches (same uint8 gather, same module, torch's SGD). Interleaved; the
   ratio is the median over repetitions of the ratio of two neighbours, so that a noisy machine cancels out.
2. Seconds and peak memory of a round for n = 20, 100, 500 clients at a fixed total of data, each in its own process.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F

from fedbench import Simulation, TrialConfig
from fedbench.data.samples import Samples
from fedbench.models import build, initial
from fedbench.simulation.local import Plan, Sgd, draw_plan, local_train
from fedbench.store.memory import peak_memory, reset_peak_memory

CPU = torch.device("cpu")
CASES = {  # model -> (image shape, batch size, steps a repetition, largest ratio that we accept)
    "mlp": ((1, 28, 28), 128, 100, 1.15),
    "simple_cnn": ((3, 32, 32), 128, 6, 1.05),
}


def bare(model: str, shape: tuple[int, int, int], samples: Samples, plan: Plan) -> float:
    """Seconds of the loop that one would write without fedbench."""
    torch.manual_seed(0)
    module = build(model, shape, 10).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimiser = torch.optim.SGD(module.parameters(), lr=0.08, momentum=0.9, weight_decay=5e-4)
    started = time.perf_counter()
    for index in plan.batches():
        x, y = samples.batch(index)
        optimiser.zero_grad()
        F.cross_entropy(module(x), y).backward()
        optimiser.step()
    return time.perf_counter() - started


def ours(model: str, shape: tuple[int, int, int], samples: Samples, plan: Plan) -> float:
    """Seconds of local_train on the same batches."""
    flat = initial(model, shape, 10, 8, CPU, torch.float32)
    velocity, sgd = torch.zeros_like(flat.w), Sgd(torch.tensor(0.08), 0.9, 5e-4)
    started = time.perf_counter()
    local_train(flat, samples, plan, sgd, velocity, None)
    return time.perf_counter() - started


def training_ratios(repetitions: int) -> bool:
    """Print the ratio for every case; whether all are within their limit."""
    torch.set_num_threads(1)
    good = True
    for model, (shape, batch, steps, limit) in CASES.items():
        channels, height, width = shape
        n = batch * steps
        images = torch.randint(0, 256, (n, height, width, channels), dtype=torch.uint8)
        samples = Samples(images, torch.randint(0, 10, (n,)), 1 / 127.5, -1.0, torch.float32)
        plan = draw_plan(np.arange(n), 1, batch, np.random.default_rng(0), CPU)
        for run in (bare, ours):
            run(model, shape, samples, plan)
        pairs = [(bare(model, shape, samples, plan), ours(model, shape, samples, plan)) for _ in range(repetitions)]
        ratio = statistics.median(own / reference for reference, own in pairs)
        step = 1000 * statistics.median(own for _, own in pairs) / steps
        good &= ratio <= limit
        print(f"{model:11s} local training / bare loop: {ratio:.3f} (at most {limit}), {step:.2f} ms a step of {batch}")
    return good


def one_round(n: int) -> None:
    """Measure rounds with n clients, as JSON on standard output; run in a process of its own."""
    config = TrialConfig(**{"clients.count": n, "data.partition": "iid", "clients.epochs": 1, "clients.batch_size": 8})
    simulation = Simulation(config)
    reset_peak_memory(simulation.device)
    simulation.step()
    started = time.perf_counter()
    record = simulation.step()
    seconds = time.perf_counter() - started
    print(json.dumps({"seconds": seconds, "train": record.seconds_train, **peak_memory(simulation.device)}))


def growth_with_clients() -> None:
    """Print time and memory of a round for more and more clients that share the same data."""
    first = None
    for n in (20, 100, 500):
        output = subprocess.run(
            [sys.executable, __file__, "--clients", str(n)], capture_output=True, text=True, check=True
        )
        found = json.loads(output.stdout)
        first = first or found["seconds"]
        print(
            f"n = {n:3d}: {found['seconds']:.2f} s a round ({found['seconds'] / first:.2f} x n = 20), of it training "
            f"{found['train']:.2f} s; peak memory {found['peak_memory_bytes'] / 2**20:.0f} MiB"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--repetitions", type=int, default=9)
    parser.add_argument("--clients", type=int, help="measure one round with this many clients, and print JSON")
    options = parser.parse_args()
    if options.clients:
        one_round(options.clients)
    else:
        within = training_ratios(options.repetitions)
        growth_with_clients()
        sys.exit(0 if within else 1)
