"""The Ray that a command uses: one that is started here, one at an address, or one that this process has already."""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fedbench.base.environment import WORKER_ENV
from fedbench.base.errors import UserError
from fedbench.base.signals import stop_signals
from fedbench.base.text import say as say_to_user
from fedbench.tune.code import packed
from fedbench.tune.fit import check_address, check_here
from fedbench.tune.local import (
    QUIET,
    RayDied,
    connected,
    environment_of,
    first_line,
    job_of,
    limited,
    local_ray,
    surroundings,
)
from fedbench.tune.options import RunOptions

if TYPE_CHECKING:
    from fedbench.tune.nodes import Nodes

__all__ = ["RayDied", "cluster"]


@contextmanager
def cluster(options: RunOptions, say: Callable[[str], None] = say_to_user) -> Iterator["Nodes"]:
    """Use a Ray for the time of a block; yield its nodes, all of which have the versions of this process.

    It is the one to which this process is connected, the cluster at `options.address`, or one that is started here.
    """
    started_here = False
    if connected():
        ray_for_a_while = surroundings(environment_of(options))
    elif options.address:
        ray_for_a_while = _joined(options, say)
    else:
        check_here(options)
        started_here, ray_for_a_while = True, local_ray(options, say)
    with ray_for_a_while:
        from fedbench.tune.nodes import Nodes, check_fit  # late: Ray's environment is set now

        nodes = Nodes(started_here=started_here)
        with stop_signals():  # in place of Ray's own handlers
            check_fit(options, say)
            nodes.check()
            yield nodes


@contextmanager
def _joined(options: RunOptions, say: Callable[[str], None]) -> Iterator[None]:
    """Connect to a running cluster; UserError within seconds if it is not there, or wants another token."""
    address = str(options.address)
    check_address(address)
    say(f"joining the Ray cluster at {address}")
    with surroundings(environment_of(options)):
        import ray

        with packed(options) as code, _captured_stderr() as printed:
            try:
                environment = {"env_vars": WORKER_ENV, **code}
                with limited(options):
                    ray.init(address=address, runtime_env=environment, job_config=job_of(options), **QUIET)
            except Exception as error:  # Ray raises any kind here, from ValueError to its own
                if "AuthToken" in printed() or "token" in str(error).lower():
                    wanted = "the cluster wants another token; name its file with RAY_AUTH_TOKEN_PATH"
                    raise UserError(f"--address {address}: {wanted}") from error
                raise UserError(f"--address {address}: no Ray cluster there ({first_line(error)})") from error
        try:
            yield
        finally:
            ray.shutdown()


@contextmanager
def _captured_stderr() -> Iterator[Callable[[], str]]:
    """Keep what Ray's C++ part prints off the screen; yield a function that returns it."""
    sys.stderr.flush()
    with tempfile.TemporaryFile() as stream:
        screen = os.dup(2)
        os.dup2(stream.fileno(), 2)

        def printed() -> str:
            stream.seek(0)
            return stream.read().decode(errors="replace")

        try:
            yield printed
        finally:
            os.dup2(screen, 2)
            os.close(screen)
