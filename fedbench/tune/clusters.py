"""A Ray cluster for the time of a command: one that runs already, or one that is started here."""

import logging
import os
import secrets
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# Before Ray is imported: quiet output, no warning about how often its (disposable) snapshots are written.
os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")
os.environ.setdefault("TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S", "0")
os.environ.setdefault("TUNE_DISABLE_SIGINT_HANDLER", "1")  # the store has all there is to save: stop at once
os.environ.setdefault("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")  # their TensorBoard steps count reports, not rounds
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")

import ray
from ray._private import ray_constants
from ray._private import worker as ray_worker
from ray._private.parameter import RayParams
from ray.job_config import JobConfig
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from fedbench.base.allocation import WORKER_ENV
from fedbench.base.errors import UserError
from fedbench.base.signals import heeding, interrupt
from fedbench.data.official import cache_dir
from fedbench.tune import supervise
from fedbench.tune.fit import check_address, check_here, joined, too_much
from fedbench.tune.options import RunOptions
from fedbench.tune.pulse import Guard, Pulse, RayDied
from fedbench.tune.shares import ACCELERATOR, gpu_types, share_of, trials_on_a_gpu

ASK_SECONDS = 60.0  # for nodes to tell the memory of their GPUs
MESSAGE = 160  # characters of what Ray says
JOIN_TRIES = 5  # a second each; Ray's own twenty are for machines that are being set up

QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}

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
    """Start a cluster on this machine."""
    say("starting Ray")
    free_agent_port()
    shorten_messages(say)
    token = private_token()
    os.environ.update(WORKER_ENV)  # inherited by workers; a runtime_env would throw Ray's warm ones away
    try:
        context = ray.init(
            address="local",
            include_dashboard=options.dashboard,
            dashboard_host="127.0.0.1",
            job_config=job_config(options),
            **QUIET,
        )
    except Exception as error:  # Ray raises anything here, bare Exceptions, too
        ray.shutdown()
        raise RayDied(f"Ray did not start ({_first_line(error)})") from error
    if options.dashboard:
        say(f"dashboard: http://{context.dashboard_url} (it asks for the token in {token})")


def free_agent_port() -> None:
    """Let the node's agent, which the dashboard asks for logs, take any free port; two nodes would want the same one.

    `ray start` has an option for it, `ray.init` takes what its parameters have by default.
    """
    wanted = ray_constants.DEFAULT_DASHBOARD_AGENT_LISTEN_PORT
    start = RayParams.__init__
    start.__defaults__ = tuple(None if value == wanted else value for value in start.__defaults__ or ())


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
    with muted_stderr() as muttered:
        try:
            ray.init(address=address, runtime_env={"env_vars": WORKER_ENV}, job_config=job_config(options), **QUIET)
        except Exception as error:  # Ray raises anything here, from ValueError to its own
            if "AuthToken" in muttered() or "token" in str(error).lower():
                raise UserError(
                    f"--address {address}: the cluster wants another token; name its file with RAY_AUTH_TOKEN_PATH"
                ) from error
            raise UserError(f"--address {address}: no Ray cluster there ({_first_line(error)})") from error


def job_config(options: RunOptions) -> JobConfig:
    """What the dashboard's list of jobs tells of this command, beside its command line."""
    about = {"study": options.study, "scale": options.scale, "out": str(options.out.resolve())}
    return JobConfig(metadata={"job_name": f"{options.study} ({options.scale})", **about})


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


def private_token() -> Path:
    """The file with the token that guards a cluster started here, readable by its owner alone.

    Ray would make one that everybody on the machine can read. Of two first runs at a time, one makes it.
    """
    named = os.environ.get("RAY_AUTH_TOKEN_PATH")
    path = Path(named) if named else cache_dir() / "ray-token"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = path.with_name(f".{path.name}.{os.getpid()}.new")
        with os.fdopen(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
            stream.write(secrets.token_hex(32))
        try:
            os.link(scratch, path)  # unlike a rename, never in place of one that is there
        except FileExistsError:
            pass
        finally:
            scratch.unlink()
    os.environ["RAY_AUTH_TOKEN_PATH"] = str(path)
    return path


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

    They are asked by a task that takes nothing of them, so that it never waits for trials.
    """
    nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("GPU", 0)]
    ask: Any = ray.remote(num_cpus=0, max_calls=1)(gpu_memory)
    asked = [
        ask.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote() for node in nodes
    ]
    try:
        answers: list[float | None] = ray.get(asked, timeout=ASK_SECONDS)
    except ray.exceptions.RayError:
        return None
    known = [answer for answer in answers if answer is not None]
    return min(known) if known and len(known) == len(answers) else None


def gpu_memory() -> float | None:
    """Bytes of this machine's smallest GPU, None if torch can use none."""
    import torch

    cards = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    return min((float(card.total_memory) for card in cards), default=None)
