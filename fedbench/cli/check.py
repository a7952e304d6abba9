"""Checking this machine: what `fedbench speed --check` does, and the report that comes out of it."""

import platform
import textwrap
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from fedbench import __version__
from fedbench.base.text import say
from fedbench.cost.cases import Machine
from fedbench.cost.checkup import (
    TIGHT,
    captured,
    layout_speeds,
    memory_after_trials,
    run_once,
    trained_twice,
)
from fedbench.cost.processes import LeftOut, Server
from fedbench.models import MODELS
from fedbench.simulation.environment import gpu_versions, mps_running

WIDTH = 100
MIB = 2**20
TRIALS = 10  # in one process, to see whether its memory grows
GROWTH = 64 * MIB  # more than that, after the first two trials, is not what libraries take once
LAYOUT_SECONDS = 2.0
MODEL_SECONDS = 60.0  # for one model at most
GOOD, BAD, NOTE, NO_GPU = "ok", "PROBLEM", "note", "no GPU"


class Finding(NamedTuple):
    """What a check found. verdict: GOOD, BAD, NOTE (slow, but right) or NO_GPU; meaning: what it is good for."""

    name: str
    verdict: str
    result: str
    meaning: str

    def __str__(self) -> str:
        head = f"{self.verdict:<8} {self.name}: {self.result}"
        return "\n".join([*_wrapped(head, 4), *_wrapped(f"    {self.meaning}", 4)])


def run_check(models: Sequence[str] | None, modules: Sequence[str]) -> bool:
    """Check this machine, print a report that can be pasted into an issue, and return whether all is as promised.

    models: those that are trained for it, None for all; modules: those of the user, with models of their own.
    """
    started, machine, server = time.monotonic(), Machine.here(), Server(modules)
    say("fedbench speed --check: please paste everything from here on into an issue\n")
    for line in versions(machine):
        say(line)
    say("")
    verdicts = []
    for check in CHECKS:
        finding = check(server, machine.device, models or list(MODELS))
        verdicts.append(finding.verdict)
        say(finding)
    problems, waiting = verdicts.count(BAD), verdicts.count(NO_GPU)
    missing = f"; {waiting} need a GPU that torch can use" if waiting else ""
    say(f"\n{len(verdicts) - waiting} checks, {problems} problems{missing}; {time.monotonic() - started:.0f} s")
    return not problems


def versions(machine: Machine) -> list[str]:
    """Return lines about the machine and its software."""
    gpu, on_gpu = gpu_versions(), machine.device == "cuda"
    reason = f"torch {torch.__version__} is " + (
        "built with CUDA, but finds none" if gpu["cuda"] else "built without CUDA"
    )
    lines = [
        ("date", time.strftime("%Y-%m-%d")),
        ("fedbench", __version__),
        ("system", f"{platform.platform()}, Python {platform.python_version()}"),
        ("machine", str(machine) if on_gpu else f"{machine} ({machine.name})"),
        ("GPU", machine.name if on_gpu else f"none that torch can use: {reason}; checks run on the CPU, some cannot"),
        ("torch", str(torch.__version__)),
        *(
            (name, str(gpu[key] or "none"))
            for name, key in (("CUDA", "cuda"), ("cuDNN", "cudnn"), ("driver", "driver"))
        ),
        ("MPS", mps_line()),
    ]
    return [f"{name}: {text}" for name, text in lines]


def mps_line() -> str:
    """Say whether NVIDIA's multi-process service runs."""
    return (
        "runs" if mps_running() else "does not run; without NVIDIA's multi-process service trials on one GPU take turns"
    )


def check_repeats(server: Server, device: str, models: Sequence[str]) -> Finding:
    """Check that eager steps give the same bytes twice."""
    verdict, result = _of_models(server, trained_twice, device, models)
    meaning = "Two clients are trained twice in each model. Else no result could be repeated on this machine."
    return Finding("every model, trained twice", verdict, result, meaning)


def check_captures(server: Server, device: str, models: Sequence[str]) -> Finding:
    """Check that captured steps give the bytes of eager steps."""
    name = "every model, captured as CUDA graphs"
    meaning = (
        "The engine that a GPU gets by itself. A model with a problem is trained by eager steps: slower, not wrong."
    )
    if device == "cpu":
        return Finding(name, NO_GPU, "not run", meaning)
    return Finding(name, *_of_models(server, captured, device, models), meaning)


def _of_models(
    server: Server, work: Callable[[str, str], str | None], device: str, models: Sequence[str]
) -> tuple[str, str]:
    """Return the verdict and the result of a check of models, each in a process of its own."""
    wrong = {}
    for model in models:
        try:
            wrong[model] = server.run(work, (model, device), seconds=MODEL_SECONDS)[0]
        except LeftOut as reason:
            wrong[model] = str(reason)
    problems = [f"{model} ({reason})" for model, reason in wrong.items() if reason]
    good = [model for model, reason in wrong.items() if not reason]
    same = f"the same bytes in {', '.join(good)}" if good else ""
    return (BAD if problems else GOOD), "; ".join([*problems, *([same] if same else [])])


def check_at_once(server: Server, device: str, models: Sequence[str]) -> Finding:
    """Check that trials at the same time give the bytes that one gives alone."""
    name, meaning = (
        "two trials at once",
        "Each must end with the bytes of the trial that runs alone, in another process.",
    )
    try:
        alone = server.together(run_once, device, None)[0]
        both = server.together(run_once, device, None, count=2)
    except LeftOut as reason:
        return Finding(name, BAD, str(reason), meaning)
    same = all(each.checksum == alone.checksum for each in both)
    how = f"engine {alone.engine}, checksum {alone.checksum[:12]}"
    return Finding(
        name, *((GOOD, f"the same bytes ({how})") if same else (BAD, f"other bytes than alone ({how})")), meaning
    )


def check_tight_share(server: Server, device: str, models: Sequence[str]) -> Finding:
    """Check that the cap on a trial's memory does not change its result."""
    name = "the whole GPU against a tight share of its memory"
    meaning = "cuDNN may choose other kernels where memory is short; then results would depend on --gpus-per-trial."
    if device == "cpu":
        return Finding(name, NO_GPU, "not run", meaning)
    reason = ""
    try:
        whole = server.together(run_once, device, None)[0]
        for part in TIGHT:
            try:
                tight = server.together(run_once, device, part * whole.reserved)[0]
            except LeftOut as error:
                reason = str(error)
                continue
            how = f"with {part:g} times the {whole.reserved / MIB:,.0f} MiB that it reserves without a limit"
            same = tight.checksum == whole.checksum
            return Finding(name, *((GOOD, f"the same bytes {how}") if same else (BAD, f"other bytes {how}")), meaning)
    except LeftOut as error:
        reason = str(error)
    return Finding(name, BAD, reason, meaning)


def check_growth(server: Server, device: str, models: Sequence[str]) -> Finding:
    """Check that a worker gives back the memory of its trials."""
    name = f"memory after {TRIALS} trials in one worker"
    meaning = (
        f"Growth after the second trial; more than {GROWTH // MIB} MiB is a problem, since workers run many trials. "
        + ("That of the whole GPU: others must not use it meanwhile." if device == "cuda" else "That of the process.")
    )
    try:
        used = server.run(memory_after_trials, (device, TRIALS), seconds=4 * MODEL_SECONDS)[0]
    except LeftOut as reason:
        return Finding(name, BAD, str(reason), meaning)
    return Finding(name, *grown(used), meaning)


def grown(used: Sequence[int]) -> tuple[str, str]:
    """Return the verdict and the result of what was in use after each trial, in bytes."""
    growth = used[-1] - used[1]
    each = ", ".join(f"{amount / MIB:,.0f}" for amount in used)
    return (BAD if growth > GROWTH else GOOD), f"grew by {growth / MIB:,.0f} MiB (in use after each, in MiB: {each})"


def check_context(server: Server, device: str, models: Sequence[str]) -> Finding:
    """Measure what CUDA itself takes for a process."""
    name = "memory that CUDA takes for each process"
    meaning = "A trial's share of the memory is what is left of it; fedbench.speed measures and keeps it."
    if device == "cpu":
        return Finding(name, NO_GPU, "not run", meaning)
    try:
        return Finding(name, GOOD, f"{server.context_bytes() / MIB:,.0f} MiB", meaning)
    except LeftOut as reason:
        return Finding(name, BAD, str(reason), meaning)


def check_layout(server: Server, device: str, models: Sequence[str]) -> Finding:
    """Compare the layout of memory that fedbench uses with the other one."""
    name, meaning = (
        "channels-last against NCHW (resnet20, float32)",
        "fedbench trains with channels last; a note if that is slower.",
    )
    try:
        speeds = server.run(layout_speeds, (device, LAYOUT_SECONDS), seconds=MODEL_SECONDS)[0]
    except LeftOut as reason:
        return Finding(name, BAD, str(reason), meaning)
    rates = f"{speeds.last:,.0f} against {speeds.first:,.0f} samples a second"
    verdict = GOOD if speeds.last >= 0.97 * speeds.first else NOTE
    return Finding(name, verdict, f"{speeds.last / speeds.first:.2f} times as fast ({rates})", meaning)


CHECKS = (
    *(check_repeats, check_captures, check_at_once, check_tight_share),
    *(check_growth, check_context, check_layout),
)


def _wrapped(line: str, indent: int) -> list[str]:
    return textwrap.wrap(line, WIDTH, subsequent_indent=" " * indent, break_on_hyphens=False)
