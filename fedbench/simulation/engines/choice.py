"""Which engine a run gets: the one that it asks for, once that has been held against eager steps."""

import warnings

import numpy as np
import torch
from torch import Tensor

from fedbench.base.errors import UserError
from fedbench.base.memory import raise_out_of_memory
from fedbench.config import TrialConfig
from fedbench.config.engines import AUTO, ENGINES
from fedbench.data.samples import Samples
from fedbench.methods import Correction
from fedbench.models import FlatModel
from fedbench.simulation.compute import seeded
from fedbench.simulation.engines.base import CaptureFailed, Engine, Start
from fedbench.simulation.engines.eager import Eager
from fedbench.simulation.local import Plan, Sgd, draw_plan

Checked = tuple[str, str, tuple[int, ...], int, str, str]
CHECK_LR = 0.01  # whatever the run's own: nothing must diverge
CHECKED: dict[Checked, str | None] = {}  # what spoke against an engine, if anything: asked once in a process


def choose_engine(config: TrialConfig, model: FlatModel, samples: Samples, least: int = 1) -> Engine:
    """The engine that `run.engine` names or, with one line that says why, the eager one.

    `auto` is captured steps on CUDA, eager ones elsewhere; `least` is the smallest batch that the model can take.
    """
    device = model.w.device
    kind = kind_of(config, device)
    if kind is Eager:
        return Eager(model, samples)
    key = (kind.name, *config.network, config.precision, str(device))
    engine = None
    if key not in CHECKED:
        engine, CHECKED[key] = _tried(kind, config, model, samples, least)
    if reason := CHECKED[key]:
        eager = Eager(model, samples)
        failed = CaptureFailed if engine and engine.trouble else UserWarning
        eager.complain(f"{kind.name}: {reason}", "using eager", failed)
        return eager
    return engine or kind(model, samples)


def kind_of(config: TrialConfig, device: torch.device) -> type[Engine]:
    """The engine that `run.engine` names on a device."""
    name = config.run.engine
    kind: type[Engine] = ENGINES.get(("graphed" if device.type == "cuda" else "eager") if name == AUTO else name)
    return kind


def check_device(config: TrialConfig, device: torch.device) -> None:
    """A precision, or an engine, that cannot be had on the device is an error."""
    if reason := config.numbers.refuses(device):
        raise UserError(f"precision = {config.precision}: {reason}; use precision=float32")
    if reason := kind_of(config, device).refuses(device):
        raise UserError(f"run.engine = {config.run.engine}: {reason}; use run.engine=auto")


def _tried(
    kind: type[Engine], config: TrialConfig, model: FlatModel, samples: Samples, least: int
) -> tuple[Engine | None, str | None]:
    """Return an engine, and what speaks against it, if anything.

    Nothing that it does ends the run, unless memory is used up, which says nothing about the engine.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the reason is enough
            engine = kind(model, samples)
            clients = config.clients
            sgd = Sgd(torch.full_like(model.w[0], CHECK_LR), clients.momentum, clients.weight_decay)
            return engine, engine.trouble or self_check(engine, sgd, clients.batch_size, least)
    except Exception as error:
        raise_out_of_memory(error)
        return None, f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0][:200]}"


def self_check(engine: Engine, sgd: Sgd, batch_size: int, least: int = 1) -> str | None:
    """Train two clients with an engine and with eager steps: what differs, None if it is the same bytes.

    The second client has momentum and a correction with all its parts. The model is left as it was.
    """
    model, samples, engine.thorough = engine.model, engine.samples, True
    start = Start(model.w.clone(), model.buffers.clone())
    try:
        for client in range(2):
            plan = _plan(client, len(samples), batch_size, least, model.w.device)
            wanted, found = (_trained(each, client, plan, start, sgd) for each in (Eager(model, samples), engine))
            if engine.trouble:
                return engine.trouble
            for what, one, other in zip(("weights", "statistics", "momentum", "loss"), wanted, found, strict=True):
                if not torch.equal(_bytes(one), _bytes(other)):
                    return f"not the same {what} as with eager steps"
    finally:
        engine.thorough = False
        model.load(*start)
    return None


def _bytes(tensor: Tensor) -> Tensor:
    return tensor.reshape(-1).view(torch.uint8)


def _plan(client: int, available: int, batch_size: int, least: int, device: torch.device) -> Plan:
    """Two epochs of two batches and a smaller rest, as far as there are samples."""
    size = min(available, 2 * batch_size + max(least, batch_size // 2))
    return draw_plan(np.arange(size), 2, batch_size, np.random.default_rng(client), device, least)


def _trained(engine: Engine, client: int, plan: Plan, start: Start, sgd: Sgd) -> tuple[Tensor, ...]:
    """A client's parameters, statistics, momentum and loss after training."""
    slope = torch.linspace(-1e-3, 1e-3, len(start.w), device=start.w.device, dtype=start.w.dtype)
    correction = Correction(linear=slope, mu=0.1, anchor=start.w + slope, pull=0.01, clip=1.0) if client else None
    velocity = slope * client
    with seeded(client, start.w.device):
        loss = engine.train(plan, start, velocity, correction, sgd)
    return engine.model.w.clone(), engine.model.buffers.clone(), velocity, loss
