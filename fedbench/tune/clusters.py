"""A Ray cluster for the time of a command: one that runs already, or one that is started here."""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

# First, since it sets Ray's environment before Ray is imported.
import fedbench.tune.quiet  # noqa: F401 # isort: skip
import ray
from ray._private import ray_constants
from ray._private import worker as ray_worker

from fedbench.base.allocation import WORKER_ENV
from fedbench.base.errors import UserError
from fedbench.base.signals import heeding, interrupt
from fedbench.tune import early, supervise
from fedbench.tune.fit import check_address, check_here, joined, too_much
from fedbench.tune.lean import QUIET, job_config
from fedbench.tune.light import lighten_tune
from fedbench.tune.luggage import packed
from fedbench.tune.nodes import ask
from fedbench.tune.options import RunOptions
from fedbench.tune.pulse import Guard, Pulse, RayDied
from fedbench.tune.shares import ACCELERATOR, gpu_types, share_of, trials_on_a_gpu
from fedbench.tune.tokens import private_token

MESSAGE = 160  # characters of what Ray says
JOIN_TRIES = 5  # a second each; Ray's own twenty are for machines that are being set up

lighten_tune()

Say = Callable[[str], None]

_ours = False  # whether the cluster that this process is part of was started, or joined, by `cluster`


def say(text: str) -> None:
    """Print a line at once."""
    print(text, flush=True)


def on_ray(options: RunOptions, work: Callable[[Pulse], None], say: Say = say) -> None:
    """Do the work on a cluster. If one that was started here dies meanwhile, on a fresh one, `max_failures` times.

    What is done is in the store, so that the work begins where it stopped. In a command it does so in a fresh process.
    """
    if joined():
        with _there(options, say) as pulse:
            work(pulse)
        return
    if supervise.child.stop:
        interrupt(supervise.child.stop)
    for left in reversed(range(options.max_failures + 1 - supervise.child.deaths)):
        try:
            with cluster(options, say) as pulse:
                work(pulse)
            return
        except RayDied as death:
            supervise.child.die(str(death))
            say(f"{death}; {'starting it again' if left else 'giving up'}")


@contextmanager
def cluster(options: RunOptions, say: Say = say) -> Iterator[Pulse]:
    """The cluster at `address`, or one started here and stopped at the end; what it cannot hold is an error."""
    global _ours
    with Guard() as guard:
        if options.address:
            _join(options, say)
        else:
            check_here(options)
            _start(options, say)
        guard.started()
        _ours = True
        try:
            check_fit(options, say)
            with heeding():  # Ray answers SIGTERM with a backtrace of its own
                yield Pulse()
        finally:
            _ours = False
            guard.stopping()
            ray.shutdown()


@contextmanager
def _there(options: RunOptions, say: Say) -> Iterator[Pulse]:
    """The cluster that this process is part of already: an outer call's, which knows what to do, or a notebook's."""
    check_fit(options, say)
    if _ours:
        with heeding():
            yield Pulse()
        return
    try:
        with Guard(), heeding():
            yield Pulse()
    except RayDied as death:
        raise UserError(f"{death}; call ray.shutdown(), and do the same again") from death


def _start(options: RunOptions, say: Say) -> None:
    """Start a cluster on this machine, or have the one that was begun."""
    say("starting Ray")
    shorten_messages(say)
    token = private_token()
    start = early.take(options)
    try:
        context = start.context()
    except BaseException as error:  # Ray raises anything here, bare Exceptions, too
        start.end()
        if isinstance(error, Exception):
            raise RayDied(f"Ray did not start ({_first_line(error)})") from error
        raise
    if options.dashboard:
        say(f"dashboard: http://{context.dashboard_url} (it asks for the token in {token})")


def shorten_messages(say: Say) -> None:
    """Let Ray say in one line what it tells a driver of trouble (a killed worker, a lost node), without its log."""

    def tell(data: dict[str, Any], ignore_prefix: bool = False) -> None:
        for text in data["lines"]:
            say(f"Ray: {text.strip().splitlines()[0][:MESSAGE]}")

    ray_worker.print_to_stdstream = tell


def _join(options: RunOptions, say: Say) -> None:
    """Connect to a cluster that runs; one that is not there, or wants another token, is one line within seconds."""
    address = str(options.address)
    check_address(address)
    say(f"joining the Ray cluster at {address}")
    shorten_messages(say)
    ray_constants.NUM_REDIS_GET_RETRIES = JOIN_TRIES
    with packed(options) as code, muted_stderr() as muttered:
        environment = {"env_vars": WORKER_ENV, **code}
        try:
            ray.init(address=address, runtime_env=environment, job_config=job_config(options), **QUIET)
        except Exception as error:  # Ray raises anything here, from ValueError to its own
            if "AuthToken" in muttered() or "token" in str(error).lower():
                raise UserError(
                    f"--address {address}: the cluster wants another token; name its file with RAY_AUTH_TOKEN_PATH"
                ) from error
            raise UserError(f"--address {address}: no Ray cluster there ({_first_line(error)})") from error


@contextmanager
def muted_stderr() -> Iterator[Callable[[], str]]:
    """Keep what Ray's C++ part writes to standard error from the screen; yields a function that tells it so far."""
    sys.stderr.flush()
    with tempfile.TemporaryFile() as stream:
        screen = os.dup(2)
        os.dup2(stream.fileno(), 2)

        def muttered() -> str:
            stream.seek(0)
            return stream.read().decode(errors="replace")

        try:
            yield muttered
        finally:
            os.dup2(screen, 2)
            os.close(screen)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


def check_fit(options: RunOptions, say: Say = say) -> None:
    """What no node of the cluster can hold is an error; a cluster that grows is waited for, in so many words."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    complaint = too_much(options, nodes, "the cluster's largest node has")
    if complaint and not options.autoscaling:
        raise UserError(f"{complaint}; ask for less, or say --autoscaling if it grows")
    if complaint:
        say(f"waiting for the cluster to grow ({complaint})")


def gpu_share(options: RunOptions, say: Say = say) -> float:
    """GPUs for each trial: what was asked for, else a share where the cluster has any; what follows from it is said."""
    share = options.gpus_per_trial
    if share is None and not ray.cluster_resources().get("GPU", 0):
        return 0.0
    if share is None:
        trials = trials_on_a_gpu(options.gpu_memory, smallest_gpu(), options.gpu_trials)
        share = share_of(trials)
        say(f"--gpus-per-trial {share:g} ({trials} trials on a GPU)")
    if share and not any(name.startswith(ACCELERATOR) for name in options.resources):
        _say_types(say)
    return share


def _say_types(say: Say) -> None:
    """Where trials may go to GPUs of several types, say so."""
    types = gpu_types(node["Resources"] for node in ray.nodes() if node["Alive"])
    if len(types) > 1:
        ordered = sorted(types.items(), key=lambda item: (-item[1], item[0]))
        there = ", ".join(f"{count} {name}" for name, count in ordered)
        one = f"--resources {ACCELERATOR}{ordered[0][0]}=0.001"
        say(f"GPUs of several types ({there}): results may differ in their rounding; {one} keeps to one")


def smallest_gpu() -> float | None:
    """Bytes of the cluster's smallest GPU, as its nodes tell; None if one does not.

    Each is asked in a process of its own, which then ends: to ask takes some of a GPU's memory.
    """
    nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("GPU", 0)]
    answers = ask(nodes, gpu_memory, last=True)
    known = [answer for answer in answers.values() if answer is not None]
    return min(known) if known and len(known) == len(nodes) else None


def gpu_memory() -> float | None:
    """Bytes of this machine's smallest GPU, None if torch can use none."""
    import torch

    cards = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    return min((float(card.total_memory) for card in cards), default=None)
