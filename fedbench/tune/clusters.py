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
from ray._private.parameter import RayParams
from ray.job_config import JobConfig

from fedbench.base.errors import UserError
from fedbench.data.official import cache_dir
from fedbench.tune.fit import check_address, check_here, joined, too_much
from fedbench.tune.options import RunOptions

GPU_SHARE = 0.25  # of a GPU, for each trial, where there are GPUs and nothing was asked for
JOIN_TRIES = 5  # a second each; Ray's own twenty are for machines that are being set up

# glibc gives freed memory back to the system at once by default: large forwards then page-fault all the time.
WORKER_ENV = {
    "MALLOC_MMAP_THRESHOLD_": "1073741824",
    "MALLOC_TRIM_THRESHOLD_": "1073741824",
    "MALLOC_TOP_PAD_": "67108864",
}
QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}

Say = Callable[[str], None]


def say(text: str) -> None:
    """Print a line at once."""
    print(text, flush=True)


@contextmanager
def cluster(options: RunOptions, say: Say = say) -> Iterator[None]:
    """The cluster at `address`, or one started here and stopped at the end; what it cannot hold is an error."""
    if joined():
        check_fit(options, say)
        yield
        return
    if options.address:
        _join(options, say)
    else:
        check_here(options)
        _start(options, say)
    try:
        check_fit(options, say)
        yield
    finally:
        ray.shutdown()


def _start(options: RunOptions, say: Say) -> None:
    """Start a cluster on this machine."""
    say("starting Ray")
    free_agent_port()
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
    except (ConnectionError, RuntimeError, TimeoutError) as error:
        raise UserError(f"Ray did not start ({_first_line(error)}); try again, or look into Ray's logs") from error
    if options.dashboard:
        say(f"dashboard: http://{context.dashboard_url} (it asks for the token in {token})")


def free_agent_port() -> None:
    """Let the node's agent, which the dashboard asks for logs, take any free port; two nodes would want the same one.

    `ray start` has an option for it, `ray.init` takes what its parameters have by default.
    """
    wanted = ray_constants.DEFAULT_DASHBOARD_AGENT_LISTEN_PORT
    start = RayParams.__init__
    start.__defaults__ = tuple(None if value == wanted else value for value in start.__defaults__ or ())


def _join(options: RunOptions, say: Say) -> None:
    """Connect to a cluster that runs; one that is not there, or wants another token, is one line within seconds."""
    address = str(options.address)
    check_address(address)
    say(f"joining the Ray cluster at {address}")
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
    sizes = [(node.get("CPU", 0.0), node.get("GPU", 0.0)) for node in nodes]
    complaint = too_much(options, sizes, "the cluster's largest node has")
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


def gpu_share(options: RunOptions) -> float:
    """GPUs for each trial: what was asked for, else a share where the cluster has any."""
    if options.gpus_per_trial is not None:
        return options.gpus_per_trial
    return GPU_SHARE if ray.cluster_resources().get("GPU", 0) > 0 else 0.0
