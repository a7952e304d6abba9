"""The Ray that a command uses: one that is started here, one at an address, or one that this process has already.

Ray itself is imported late here, after its environment is set.
"""

import logging
import os
import random
import secrets
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedbench.base.environment import WORKER_ENV, variables
from fedbench.base.errors import UserError
from fedbench.base.files import write_once
from fedbench.base.signals import stop_signals
from fedbench.base.text import captured_stderr
from fedbench.base.text import say as say_to_user
from fedbench.cost.shares import check_this_machine
from fedbench.tune.code import packed
from fedbench.tune.options import RunOptions

if TYPE_CHECKING:
    from fedbench.tune.nodes import Nodes

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
START_SECONDS = 55.0  # for Ray to start
STOP_SECONDS = 4.0  # for a Ray that is still starting; less than a driver has whose control store has died
REACH_SECONDS = 5.0  # for an address to answer


class RayDied(Exception):
    """Ray's own processes have died, or did not start; the same work can go on with a new Ray."""


@contextmanager
def cluster(options: RunOptions, say: Callable[[str], None] = say_to_user) -> Iterator["Nodes"]:
    """Use a Ray for the time of a block; yield its nodes, all of which have the versions of this process.

    It is the one to which this process is connected, the cluster at `options.address`, or one that is started here.
    """
    started_here = False
    if connected():
        ray_for_a_while = surroundings(options)
    elif options.address:
        ray_for_a_while = _joined(options, say)
    else:
        check_this_machine(options.wanted())
        started_here, ray_for_a_while = True, _local(options, say)
    with ray_for_a_while:
        from fedbench.tune.nodes import Nodes, check_fit  # late: Ray's environment is set now

        nodes = Nodes(started_here=started_here)
        with stop_signals():  # in place of Ray's own handlers
            check_fit(options, say)
            nodes.check()
            yield nodes


def connected() -> bool:
    """Return whether this process uses a Ray that it did not start ahead: a notebook's or a test's, or one in use."""
    ray = sys.modules.get("ray")
    return ray is not None and not _pending and bool(ray.is_initialized())


@contextmanager
def surroundings(options: RunOptions, **more: str | None) -> Iterator[None]:
    """Set Ray's environment for the time of a block; restore it, and the state of `random`, from which Ray draws."""
    state = random.getstate()
    with variables({**ENVIRONMENT, **(SUPERVISED if options.supervised else UNSUPERVISED), **more}):
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


class LocalRay:
    """A Ray of this process. One thread starts it and stops it: Linux ends Ray's processes with that thread.

    how: further arguments of `ray.init`.
    """

    def __init__(self, options: RunOptions, **how: Any) -> None:
        self.token, self.hurried = private_token(), False
        self._options, self._how = options, how
        self._dashboard: Future[str] = Future()
        self._stop = threading.Event()
        self._environment = {
            **WORKER_ENV,  # workers inherit it
            "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS") or str(options.threads),  # torch reads it once
            "RAY_AUTH_MODE": None,  # then Ray asks for the token, whatever was set when it was imported
        }
        with surroundings(options, **self._environment):
            import_module("ray")
        self._thread = threading.Thread(target=self._run, name="Ray", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        import ray

        with surroundings(self._options, **self._environment):
            try:
                with limited(self._options):
                    context = ray.init(
                        address="local",
                        include_dashboard=self._options.dashboard,
                        dashboard_host="127.0.0.1",
                        job_config=_job(self._options),
                        **QUIET,
                        **self._how,
                    )
                if os.environ.get("RAY_AUTH_MODE") != "token":
                    raise UserError(
                        f"Ray {ray.__version__} does not ask for a token, so that everybody who reaches its "
                        "ports could run code as you; pip install --upgrade 'ray[default,tune]'"
                    )
                self._dashboard.set_result(context.dashboard_url or "")
            except BaseException as error:  # Ray raises any kind here, bare Exceptions included
                self._dashboard.set_exception(error)
            self._stop.wait()
            ray.shutdown()

    @property
    def starting(self) -> bool:
        """Whether Ray has not started yet."""
        return not self._dashboard.done()

    def wait(self) -> str:
        """Wait until Ray has started and return the address of its dashboard; RayDied if it cannot."""
        try:
            return self._dashboard.result()
        except (UserError, KeyboardInterrupt):
            raise
        except BaseException as error:
            raise RayDied(f"Ray did not start ({_first_line(error)})") from error

    def stop(self) -> None:
        """Stop Ray, and restore the environment.

        Nothing interrupts a start of Ray. If it is hurried, a supervised process waits for that only some seconds, and
        then has to end: Ray's processes die with it, and those that they have started soon after.
        """
        self._stop.set()
        self._thread.join(STOP_SECONDS if self.hurried and self._options.supervised else None)
        if self._thread.is_alive():
            _abandoned.append(self)


_pending: list[LocalRay] = []  # at most one: a Ray that was started ahead and is not in use yet
_abandoned: list[LocalRay] = []


def abandoned() -> bool:
    """Return whether a Ray could not be stopped in time, so that this process has to end at once."""
    return bool(_abandoned)


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
        stop_pending(hurried=False)


def stop_pending(*, hurried: bool = True) -> None:
    """Stop a Ray that was started ahead."""
    while _pending:
        local = _pending.pop()
        local.hurried |= hurried
        local.stop()


@contextmanager
def _local(options: RunOptions, say: Callable[[str], None]) -> Iterator[None]:
    """Use a Ray on this machine, the one that was started ahead or a new one, for the time of a block."""
    say("starting Ray")
    local = _pending.pop() if _pending else LocalRay(options)
    try:
        import_module("fedbench.tune.experiment")  # while Ray starts: it imports the whole of Ray Tune
        dashboard = local.wait()
        if options.dashboard:
            say(f"dashboard: http://{dashboard}")
            say(f"it asks for an authentication token; paste into its field {shown_token(local.token)}")
        yield
    except KeyboardInterrupt:
        local.hurried = local.starting
        raise
    finally:
        local.stop()


def private_token() -> Path:
    """Return the file with Ray's token; it is made if there is none, and only this user can read it.

    Anybody who has the token and reaches Ray's ports, which are open on all interfaces, can run code as this user. If
    Ray made the file itself, everybody on this machine could read it.
    """
    path = Path(os.environ.get("RAY_AUTH_TOKEN_PATH") or "~/.ray/auth_token").expanduser()
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        write_once(path, secrets.token_hex(32).encode())
    with suppress(OSError):  # it may belong to somebody else who shares it on purpose
        path.chmod(0o600)
    return path


def shown_token(path: Path) -> str:
    """Return the token on a terminal, elsewhere only the file that holds it: others may read logs."""
    return path.read_text().strip() if sys.stdout.isatty() else f"what {path} holds"


@contextmanager
def _joined(options: RunOptions, say: Callable[[str], None]) -> Iterator[None]:
    """Connect to a running cluster; UserError within seconds if it is not there, or wants another token."""
    address = str(options.address)
    check_address(address)
    say(f"joining the Ray cluster at {address}")
    with surroundings(options):
        import ray

        with packed(options) as code, captured_stderr() as printed:
            try:
                with limited(options):
                    environment = {"env_vars": WORKER_ENV, **code}
                    ray.init(address=address, runtime_env=environment, job_config=_job(options), **QUIET)
            except Exception as error:  # Ray raises any kind here, from ValueError to its own
                problem = f"no Ray cluster there ({_first_line(error)})"
                if "AuthToken" in printed() or "token" in str(error).lower():
                    problem = "the cluster wants another token; name its file with RAY_AUTH_TOKEN_PATH"
                raise UserError(f"--address {address}: {problem}") from error
        try:
            yield
        finally:
            ray.shutdown()


def _job(options: RunOptions) -> Any:
    """Return what the dashboard's list of jobs tells of a command, beside its command line."""
    from ray.job_config import JobConfig

    about = {"study": options.study, "scale": options.scale, "out": str(options.out.resolve())}
    return JobConfig(metadata={"job_name": f"{options.study} ({options.scale})", **about})


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


def check_address(address: str) -> None:
    """Raise UserError if no cluster can be at an address; Ray itself would try for minutes."""
    if address == "auto":
        return
    if address.startswith("ray://"):
        raise UserError(
            f"--address {address}: results are written on the machine that runs this command, so it has to be one of "
            "the cluster's; run it there, or with 'ray job submit'"
        )
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise UserError(f"--address {address}: expected HOST:PORT, such as 10.0.0.5:6379, or auto")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=REACH_SECONDS).close()
        if os.environ.get("RAY_USE_TLS") != "1":
            _check_grpc(f"{host}:{port}")
    except OSError as error:
        reason = "no answer" if isinstance(error, TimeoutError) else error.strerror or str(error)
        raise UserError(f"--address {address}: no Ray cluster there ({reason})") from error


def _check_grpc(address: str) -> None:
    """Raise OSError if what listens at an address does not speak gRPC, as Ray does."""
    import grpc  # late: Ray brings it, and most commands do without

    with grpc.insecure_channel(address) as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=REACH_SECONDS)
        except grpc.FutureTimeoutError as error:
            raise OSError(None, "something else listens") from error
