"""Whether trials fit on this machine or a cluster, and whether something answers at an address. Ray is not imported."""

import os
import socket
from collections.abc import Mapping, Sequence

from fedbench.base.errors import UserError
from fedbench.cost.shares import ACCELERATOR
from fedbench.tune.options import RunOptions

REACH_SECONDS = 5.0  # for an address to answer


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


def check_here(options: RunOptions) -> None:
    """Raise UserError if this machine cannot hold a single trial, before anything is started."""
    import torch

    here = {"CPU": float(os.cpu_count() or 1), "GPU": float(torch.cuda.device_count())}
    if here["GPU"]:  # Ray finds out their type when it starts
        here |= {name: 1.0 for name in options.resources if name.startswith(ACCELERATOR)}
    if complaint := too_much(options, [here], "this machine has"):
        raise UserError(f"{complaint}; ask for less")


def too_much(options: RunOptions, nodes: Sequence[Mapping[str, float]], where: str) -> str | None:
    """Return which of a trial's resources no node has; None if a trial fits on one of the nodes."""
    wanted = {"CPU": options.cpus_per_trial, "GPU": options.gpus_per_trial or 0.0, **options.resources}
    if any(all(node.get(name, 0.0) >= amount for name, amount in wanted.items()) for node in nodes):
        return None
    for name, amount in wanted.items():
        most = max((node.get(name, 0.0) for node in nodes), default=0.0)
        if most < amount:
            option = {"CPU": "--cpus-per-trial ", "GPU": "--gpus-per-trial "}.get(name, f"--resources {name}=")
            return f"{option}{amount:g}: {where} {most:g}"
    options_ = ["--cpus-per-trial", "--gpus-per-trial", *(["--resources"] if options.resources else [])]
    return f"{', '.join(options_)}: no node has {'all' if options.resources else 'both'}"
