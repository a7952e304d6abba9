"""What can be said against a cluster, or this machine, before Ray is imported."""

import os
import socket
from collections.abc import Mapping, Sequence

from fedbench.base.errors import UserError
from fedbench.tune.early import joined
from fedbench.tune.options import RunOptions
from fedbench.tune.shares import ACCELERATOR

__all__ = ["check_address", "check_here", "joined", "too_much"]

REACH_SECONDS = 5.0  # for an address to answer

# gRPC's greeting: a client's, with an empty frame of settings, and the type of the frame that a server begins with.
HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
HTTP2_SETTINGS = bytes([4])


def check_address(address: str) -> None:
    """Whether a cluster could be there, by the greeting of its protocol: Ray itself would try for minutes."""
    if address in ("auto", "local"):
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise UserError(f"--address {address}: expected HOST:PORT, such as 10.0.0.5:6379, or auto")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=REACH_SECONDS) as connection:
            if os.environ.get("RAY_USE_TLS") == "1":  # its greeting is encrypted
                return
            connection.sendall(HTTP2_PREFACE)
            answer = connection.recv(9)
    except OSError as error:
        reason = "no answer" if isinstance(error, TimeoutError) else error.strerror or str(error)
        raise UserError(f"--address {address}: no Ray cluster there ({reason})") from error
    if answer[3:4] != HTTP2_SETTINGS:
        raise UserError(f"--address {address}: no Ray cluster there (something else answers)")


def check_here(options: RunOptions) -> None:
    """What this machine cannot hold is an error before anything is started."""
    import torch

    here = {"CPU": float(os.cpu_count() or 1), "GPU": float(torch.cuda.device_count())}
    if here["GPU"]:  # Ray finds out their type when it starts
        here |= {name: 1.0 for name in options.resources if name.startswith(ACCELERATOR)}
    if complaint := too_much(options, [here], "this machine has"):
        raise UserError(f"{complaint}; ask for less")


def too_much(options: RunOptions, nodes: Sequence[Mapping[str, float]], where: str) -> str | None:
    """What of a trial fits on none of the nodes, each with some of Ray's resources; None if it fits on one."""
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
