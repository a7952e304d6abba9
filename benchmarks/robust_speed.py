"""Speed of every rule that needs no proxy set, beside the plain weighted mean: python benchmarks/robust_speed.py.

CPU seconds of one round's aggregation over those of lambda @ W, for cohorts W [m, P] of ResNet20 with m = 20 and 100
clients, on one thread. Rules and means take turns; a ratio is the median over repetitions of the ratio of two
neighbours. CPU seconds, since lambda @ W takes a few milliseconds, which waiting for a core would drown. Sorting every
coordinate and taking all distances compute more than one pass over W does, and more with m.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import torch
from server_speed import CPU, cohort_of

from fedbench import ConfigError, TrialConfig, UserError
from fedbench.methods import METHODS, Cohort, MethodSettings, Server
from fedbench.methods.base import Report
from fedbench.models import initial

MODEL, SHAPE, CLASSES = "resnet20", (3, 32, 32), 10
LIMITS = {20: 150.0, 100: 150.0}  # m -> the largest ratio that we accept


def setting(m: int) -> tuple[Cohort, Server]:
    """A cohort of m models around one, with all that clients can be asked to report."""
    flat = initial(MODEL, SHAPE, CLASSES, 8, CPU, torch.float32)
    w = flat.w.clone()
    W, p = w + 0.01 * torch.randn(m, len(w)), torch.full((m,), 1 / m)
    counts = torch.full((m, CLASSES), 179)
    told: dict[Report, torch.Tensor] = {
        "loss": 1 + torch.rand(m, dtype=torch.float64),
        "class_counts": counts,
        "gradient": torch.randn_like(W),
    }
    cohort = replace(cohort_of(flat, p, w, W), reported=told)
    return cohort, Server(flat, None, lambda _: np.random.default_rng(0))


def rules() -> Iterator[tuple[str, MethodSettings]]:
    """Every method of fedbench without a proxy set, with its defaults; robust ones with mixing, too."""
    for name in (name for name in METHODS if METHODS.get(name).__module__.startswith("fedbench.")):
        variants = [{}, {"method.pre": "nnm"}] if "pre" in METHODS.get(name).Settings.model_fields else [{}]
        for changes in variants:
            try:
                settings = TrialConfig(**{"data.name": "cifar10", "method.name": name, **changes}).method
            except ConfigError as error:
                print(f"{name}: left out ({error})", file=sys.stderr)
                continue
            if settings.proxy_use == "none":
                yield " ".join((name, *changes.values())), settings


def cpu_seconds(run: Callable[[], object], calls: int = 1) -> float:
    """Of one call, the mean of several."""
    started = time.process_time()
    for _ in range(calls):
        run()
    return (time.process_time() - started) / calls


def measure(settings: MethodSettings, cohort: Cohort, server: Server, repetitions: int) -> tuple[float, float]:
    """CPU seconds of a round's aggregation, and their ratio to lambda @ W: medians."""
    method = METHODS.get(settings.name)(settings)
    state = method.start(len(cohort.W), cohort.w)
    pairs = [
        (
            cpu_seconds(lambda: method.aggregate(cohort, state, server)),
            cpu_seconds(lambda: cohort.p @ cohort.W, calls=10),
        )
        for _ in range(repetitions + 1)
    ][1:]  # the first warms up
    return statistics.median(rule for rule, _ in pairs), statistics.median(rule / mean for rule, mean in pairs)


def main(repetitions: int) -> bool:
    """Print the table; whether all ratios are within their limits."""
    settings = {m: setting(m) for m in LIMITS}
    print(f"{'':28s}" + "".join(f"{f'm = {m}':>22s}" for m in LIMITS))
    print(f"{'method':28s}" + f"{'seconds':>10s}{'/ mean':>12s}" * len(LIMITS))
    good = True
    for label, chosen in rules():
        cells = []
        for m, limit in LIMITS.items():
            try:
                seconds, times = measure(chosen, *settings[m], repetitions)
            except UserError as error:
                cells.append(f"  left out ({error})")
                continue
            good &= times <= limit
            cells.append(f"{seconds:10.3f}{times:11.1f}{' ' if times <= limit else '!'}")
        print(f"{label:28s}" + "".join(cells), flush=True)
    print("at most " + ", ".join(f"{limit:.0f} for m = {m}" for m, limit in LIMITS.items()))
    return good


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--repetitions", type=int, default=7)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    sys.exit(0 if main(arguments.repetitions) else 1)
