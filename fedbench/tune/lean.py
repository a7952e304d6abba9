"""A Ray of one node for the time of a command: its control store, its node manager and its workers, and little else.

What Ray starts beside them is for its dashboard and for clusters of many machines: five processes, each with half a
second to a second of imports, and `ray.init` waits for some of them. All that has to be known of Ray's insides to do
without them is in this file.
"""

import logging
import os
import re
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

# First, since it sets Ray's environment before Ray is imported.
import fedbench.tune.quiet  # isort: skip
import ray
from ray._private import services
from ray._private.node import Node
from ray.job_config import JobConfig

from fedbench.base.allocation import WORKER_ENV
from fedbench.tune.options import RunOptions
from fedbench.tune.tokens import private_token

QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
WARM = 8  # workers that start at once, at most: how many trials there are is not known yet
IDLE_MS = "60000"  # that a worker may have nothing to do; a second would be too little for them to be asked for
STAND_IN = 'sh -c "exec cat"'  # for an agent: ends when the node manager, at the other end of its input, does
NO_PORT = 1  # where agents would be found
AGENT_PORTS = ("METRICS_AGENT", "METRICS_EXPORT", "DASHBOARD_AGENT_LISTEN", "RUNTIME_ENV_AGENT")


def start(options: RunOptions, before_connecting: Callable[[], None] = lambda: None, **how: Any) -> Any:
    """Start a cluster on this machine, and make this process its driver.

    how: what else `ray.init` is to know. Returns what it does.
    """

    def node(ray_params: Any, **known: Any) -> OwnNode:
        ray._private.node.Node = Node  # type: ignore[misc] # for all others; this is the only one here
        started = _node(options, ray_params, **known)
        before_connecting()
        return started

    private_token()
    with (
        replaced(ray._private.node, "Node", node),
        replaced(services, "start_ray_process", partial(_start_process, options, services.start_ray_process)),
    ):
        return ray.init(
            address="local",
            include_dashboard=options.dashboard,
            dashboard_host="127.0.0.1",
            job_config=job_config(options),
            **QUIET,
            **how,
        )


def stop() -> None:
    """End it."""
    ray.shutdown()


def job_config(options: RunOptions) -> JobConfig:
    """What the dashboard's list of jobs tells of this command, beside its command line."""
    about = {"study": options.study, "scale": options.scale, "out": str(options.out.resolve())}
    return JobConfig(metadata={"job_name": f"{options.study} ({options.scale})", **about})


def _node(options: RunOptions, ray_params: Any, **how: Any) -> "OwnNode":
    """The node that `ray.init` is about to start; if one of its processes cannot be started, the others end."""
    ray_params.dashboard_agent_listen_port = None  # any that is free: two nodes would want the same one
    ray_params.env_vars = worker_environment(options)
    ray_params.no_monitor = not options.dashboard
    ray_params.include_log_monitor = options.dashboard
    node = OwnNode.__new__(OwnNode if options.dashboard else LeanNode)
    try:
        node.__init__(ray_params, **how)  # type: ignore[misc]
    except BaseException:
        if hasattr(node, "all_processes"):
            node.kill_all_processes(check_alive=False)
        raise
    return node


def _start_process(options: RunOptions, start: Any, command: list[str], *args: Any, **how: Any) -> Any:
    """Start one of Ray's processes: the node manager with few workers at once and, on a lean node, without agents."""
    flags = {"num_prestart_python_workers": str(min(WARM, options.slots(os.cpu_count() or 1)))}
    if not options.dashboard:
        flags |= {"dashboard_agent_command": STAND_IN, "runtime_env_agent_command": STAND_IN}
    named = re.compile(rf"--({'|'.join(flags)})=")
    found = [(word, named.match(word)) for word in command]
    return start([f"--{m[1]}={flags[m[1]]}" if m else word for word, m in found], *args, **how)


class OwnNode(Node):
    """A node that was started here: its workers have this process's environment."""


class LeanNode(OwnNode):
    """A node without the server of the dashboard and without agents."""

    def start_api_server(self, *, include_dashboard: bool | None, raise_on_failure: bool) -> None:
        """There is none, and so nothing to wait for."""
        self._webui_url = ""

    def start_raylet(self, *args: Any, **kwargs: Any) -> None:
        """Its manager waits for agents to say where they listen; and Ray would import what an agent needs, to see."""
        core: Any = ray._raylet
        for name in AGENT_PORTS:
            core.persist_port(self._session_dir, self._node_id, getattr(core, f"{name}_PORT_NAME"), NO_PORT)
        with replaced(ray._private.utils, "get_dashboard_dependency_error", lambda: None):
            super().start_raylet(*args, **kwargs)

    def _record_stats(self) -> None:
        """They are not sent."""


def worker_environment(options: RunOptions) -> dict[str, str]:
    """Variables of the node's workers: how they keep memory, and what they import before there is anything to do."""
    here = dict(WORKER_ENV)
    here["RAY_idle_worker_killing_time_threshold_ms"] = IDLE_MS
    here["RAY_preload_python_modules"] = "fedbench.tune.preload"
    here["OMP_NUM_THREADS"] = os.environ.get("OMP_NUM_THREADS") or str(options.threads)  # torch reads it when imported
    if not options.dashboard:
        here["RAY_enable_metrics_collection"] = "false"  # nobody collects them
    root = str(Path(fedbench.__file__).parents[1])
    if root != sysconfig.get_path("purelib"):  # a checkout that is not installed: Ray tells workers later
        here["PYTHONPATH"] = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), root)))
    return here


@contextmanager
def replaced(module: Any, name: str, value: Any) -> Iterator[None]:
    """Another value for an attribute, for the time of a block."""
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)
