"""Ray on this machine, started and stopped by a thread while the command imports and expands its study.

Ray itself is imported late here, after its environment is set.
"""

import logging
import os
import random
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from fedbench.base.environment import WORKER_ENV, variables
from fedbench.base.errors import UserError
from fedbench.tune.options import RunOptions
from fedbench.tune.tokens import private_token, shown_token

QUIET: Mapping[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
ENVIRONMENT = {
    "RAY_AIR_NEW_OUTPUT": "0",  # the command prints its own progress
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_OVERRIDE_JOB_RUNTIME_ENV": "1",  # a job that was submitted may bring a working directory and modules
    "RAY_NUM_REDIS_GET_RETRIES": "5",  # tries to reach a cluster, a second each
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # results are in the store
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",  # a diverged suggestion has no score to report
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
}
# Ray ends every process, the driver included, that could not reach the control store for so many seconds. A supervised
# command is then started again. Any other process must live on: requests to the control store raise an error meanwhile.
SUPERVISED = {"RAY_gcs_rpc_server_reconnect_timeout_s": "5"}
UNSUPERVISED = {"RAY_gcs_rpc_server_reconnect_timeout_s": "600", "RAY_gcs_server_request_timeout_seconds": "15"}
POLL_SECONDS = 0.05
START_SECONDS = 55.0  # for Ray to start
STOP_SECONDS = 4.0  # for a Ray that is still starting; less than a driver has whose control store has died


def environment_of(options: RunOptions) -> dict[str, str]:
    """Return the environment variables that a driver sets for Ray."""
    return {**ENVIRONMENT, **(SUPERVISED if options.supervised else UNSUPERVISED)}


def job_of(options: RunOptions) -> Any:
    """Return what the dashboard's list of jobs tells of a command, beside its command line."""
    from ray.job_config import JobConfig

    about = {"study": options.study, "scale": options.scale, "out": str(options.out.resolve())}
    return JobConfig(metadata={"job_name": f"{options.study} ({options.scale})", **about})


@contextmanager
def surroundings(environment: Mapping[str, str | None]) -> Iterator[None]:
    """Set Ray's environment for the time of a block; restore it, and the state of `random`, from which Ray draws."""
    state = random.getstate()
    with variables(environment):
        yield
    random.setstate(state)


@contextmanager
def limited(options: RunOptions) -> Iterator[None]:
    """End a supervised process if Ray does not start within the time of a block; its parent starts it again.

    If one of Ray's first workers is killed, Ray waits forever and holds the lock of Python's interpreter meanwhile.
    No code of this process could do anything then, but the default action of SIGALRM does.
    """
    if options.supervised:
        signal.setitimer(signal.ITIMER_REAL, START_SECONDS)
    try:
        yield
    finally:
        if options.supervised:
            signal.setitimer(signal.ITIMER_REAL, 0)


class RayDied(Exception):
    """Ray's own processes have died, or did not start; the same work can go on with a new Ray."""


class LocalRay:
    """A Ray of this process. One thread starts it and stops it: Linux ends Ray's processes with that thread."""

    def __init__(self, options: RunOptions, **how: Any) -> None:
        self.token, self.dashboard = private_token(), ""
        self._environment: dict[str, str | None] = {
            **environment_of(options),
            **WORKER_ENV,  # workers inherit it
            "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS") or str(options.threads),  # torch reads it once
            "RAY_AUTH_MODE": None,  # then Ray asks for the token, whatever was set when it was imported
        }
        self._options, self._how, self.hurried = options, how, False
        self._error: BaseException | None = None
        self._started, self._stop = threading.Event(), threading.Event()
        with variables(self._environment):
            import ray
        self._ray = ray
        self._thread = threading.Thread(target=self._run, name="Ray", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with surroundings(self._environment):
            try:
                with limited(self._options):
                    context = self._ray.init(
                        address="local",
                        include_dashboard=self._options.dashboard,
                        dashboard_host="127.0.0.1",
                        job_config=job_of(self._options),
                        **QUIET,
                        **self._how,
                    )
                self.dashboard = context.dashboard_url or ""
                if os.environ.get("RAY_AUTH_MODE") != "token":
                    raise UserError(
                        f"Ray {self._ray.__version__} does not ask for a token, so that everybody who reaches its "
                        "ports could run code as you; pip install --upgrade 'ray[default,tune]'"
                    )
            except BaseException as error:  # Ray raises any kind here, bare Exceptions included
                self._error = error
            self._started.set()
            self._stop.wait()
            self._ray.shutdown()

    def wait(self) -> None:
        """Wait until Ray has started; RayDied if it cannot."""
        try:
            while not self._started.wait(POLL_SECONDS):  # in pieces, so that signals are handled
                pass
        except KeyboardInterrupt:
            self.hurried = True
            raise
        if isinstance(self._error, UserError):
            raise self._error
        if self._error:
            raise RayDied(f"Ray did not start ({first_line(self._error)})") from self._error

    def stop(self) -> None:
        """Stop Ray, and restore the environment.

        Nothing interrupts a start of Ray. If it is hurried, a supervised process waits for that only some seconds, and
        then has to end: Ray's processes die with it, and those that they have started soon after.
        """
        self._stop.set()
        self._thread.join(STOP_SECONDS if self.hurried and self._options.supervised else None)
        if self._thread.is_alive():
            _abandoned.append(self)


def first_line(error: BaseException) -> str:
    """Return the first line of what an error says."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


_pending: list[LocalRay] = []  # at most one: a Ray that was started ahead and is not in use yet
_abandoned: list[LocalRay] = []


def abandoned() -> bool:
    """Return whether a Ray could not be stopped in time, so that this process has to end at once."""
    return bool(_abandoned)


def connected() -> bool:
    """Return whether this process uses a Ray that it did not start ahead: a notebook's or a test's, or one in use."""
    ray = sys.modules.get("ray")
    return ray is not None and not _pending and bool(ray.is_initialized())


@contextmanager
def started_ahead(options: RunOptions, likely: bool) -> Iterator[None]:
    """Start Ray in the background if it is likely to be needed; stop it at the end of the block if it was not used.

    A process that has imported torch already has little else to do meanwhile.
    """
    if likely and not (options.address or connected() or "torch" in sys.modules):
        _pending.append(LocalRay(options))
    try:
        yield
    except KeyboardInterrupt:
        stop_pending()
        raise
    finally:
        while _pending:
            _pending.pop().stop()


def stop_pending() -> None:
    """Stop a Ray that was started ahead, hurried."""
    while _pending:
        local = _pending.pop()
        local.hurried = True
        local.stop()


@contextmanager
def local_ray(options: RunOptions, say: Callable[[str], None]) -> Iterator[None]:
    """Use a Ray on this machine, the one that was started ahead or a new one, for the time of a block."""
    say("starting Ray")
    local = _pending.pop() if _pending else LocalRay(options)
    try:
        import_module("fedbench.tune.runner")  # while Ray starts: it imports the whole of Ray Tune
        local.wait()
        if options.dashboard:
            say(f"dashboard: http://{local.dashboard}")
            say(f"it asks for an authentication token; paste into its field {shown_token(local.token)}")
        yield
    finally:
        local.stop()
