"""Steps captured once as CUDA graphs and replayed: a step is then one launch in place of some hundred."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from fedbench.base.memory import raise_out_of_memory
from fedbench.data.samples import Samples
from fedbench.methods import Correction
from fedbench.methods.base import Step
from fedbench.models import FlatModel
from fedbench.simulation.engines.base import CaptureFailed, Engine, Start, register_engine
from fedbench.simulation.engines.capture import WARM_UP, Capture, CudaCapture, Repeated, Replay
from fedbench.simulation.local import Plan, Sgd, train_step

MOST_GRAPHS = 512  # a correction whose mu changes all the time would ask for ever more of them
WORTH_USES = 50  # of a step on the rest of an epoch before it is captured: a capture takes as long as so many steps


class Kind(NamedTuple):
    """What a captured step has built in, so that there is a graph for each: the batch size and all Python numbers.

    They stay numbers, as in eager steps: from a tensor they would go through other kernels, which round differently.
    """

    batch: int
    momentum: float
    weight_decay: float
    corrected: bool = False
    linear: bool = False
    anchor: bool = False
    mu: float = 0.0
    pull: float = 0.0
    clip: float | None = None

    @classmethod
    def of(cls, batch: int, sgd: Sgd, correction: Correction | None) -> "Kind":
        """The kind of a step."""
        kind = cls(batch, sgd.momentum, sgd.weight_decay)
        if correction is None:
            return kind
        given = (correction.linear is not None, correction.anchor is not None)
        return kind._replace(
            corrected=True,
            linear=given[0],
            anchor=given[1],
            mu=correction.mu,
            pull=correction.pull,
            clip=correction.clip,
        )


@register_engine("graphed")
class Graphed(Engine):
    """On CUDA: the kernels are those of eager steps, on tensors that stay where they are.

    A client's start, momentum, correction and learning rate are copied into them before its first step, the batch's
    indices before each one.
    """

    def __init__(self, model: FlatModel, samples: Samples, capture: Capture | None = None) -> None:
        super().__init__(model, samples)
        self.capture = capture or CudaCapture(model.w.device)
        self.held: dict[str, Tensor] = {}
        self.steps: dict[Kind, Replay] = {}
        self.rests: Counter[Kind] = Counter()  # how often steps on the rest of an epoch were run

    @classmethod
    def refuses(cls, device: torch.device) -> str | None:
        """It is for CUDA alone."""
        return None if device.type == "cuda" else f"captured steps need a GPU, the device is {device}"

    def train(self, plan: Plan, start: Start, velocity: Tensor, correction: Correction | None, sgd: Sgd) -> Tensor:
        """Train a client by replaying a step for every batch."""
        self.model.load(*start)
        self.model.train()
        self._hold("velocity", velocity)
        self._hold("lr", sgd.lr)
        self._hold("-lr", sgd.step)
        if correction is not None and correction.linear is not None:
            correction = replace(correction, linear=self._hold("linear", correction.linear))
        if correction is not None and correction.anchor is not None:
            correction = replace(correction, anchor=self._hold("anchor", correction.anchor))
        total = self._hold("total", torch.zeros((), device=velocity.device, dtype=torch.float64))
        for index in plan.batches():
            self._hold(f"index {len(index)}", index)
            kind = Kind.of(len(index), sgd, correction)
            self.rests[kind] += len(index) != plan.full.shape[2]
            self._step(kind, sgd, correction)()
        velocity.copy_(self.held["velocity"])
        return total / max(plan.samples, 1)

    @torch.no_grad()
    def _hold(self, name: str, value: Tensor) -> Tensor:
        """The tensor of that name that steps read and write, with a value copied in."""
        if name not in self.held:
            self.held[name] = torch.empty_like(value, memory_format=torch.contiguous_format)
        return self.held[name].copy_(value)

    def _step(self, kind: Kind, sgd: Sgd, correction: Correction | None) -> Replay:
        """Return the step of a kind, captured if that is worth it.

        Of `sgd` and `correction` it has the numbers, and the tensors that are held. Rests of epochs come in as many
        sizes as there are clients, so that each is captured only once it has occurred often.
        """
        if kind in self.steps:
            return self.steps[kind]
        held = self.held
        fixed = Sgd(held["lr"], sgd.momentum, sgd.weight_decay)
        fixed.__dict__["step"] = held["-lr"]

        def step() -> None:
            index = held[f"index {kind.batch}"]
            train_step(self.model, self.samples, index, fixed, held["velocity"], correction, held["total"])

        rare = 0 < self.rests[kind] < WORTH_USES and not self.thorough
        if self.trouble is not None or len(self.steps) >= MOST_GRAPHS or rare:
            return step
        self.steps[kind] = self._captured(step)
        return self.steps[kind]

    def repeated(self, step: Step) -> Step:
        """A step of the server that is captured once it is warm."""
        return step if self.trouble else Repeated(step, self.capture, self._failed)

    def _captured(self, step: Replay) -> Replay:
        """Return the replay of a step, or the step itself if it cannot be captured; from then on no step is.

        An error that says that memory is used up is raised: it does not mean that the step cannot be captured.
        """
        try:
            with self._undone():
                for _ in range(WARM_UP):
                    self.capture.warm(step)
                return self.capture.record(step)
        except RuntimeError as error:
            raise_out_of_memory(error)
            self._failed(error)
            return step

    def _failed(self, error: RuntimeError) -> None:
        """From now on nothing is captured."""
        self.trouble = f"a step cannot be captured ({(str(error).strip().splitlines() or [''])[0][:200]})"
        self.complain(f"{self.name}: {self.trouble}", "going on without captured steps", CaptureFailed)

    @contextmanager
    def _undone(self) -> Iterator[None]:
        """Whatever steps are run in here leave no trace: neither in the tensors nor in torch's generators."""
        written = (self.model.w, self.model.grad, self.model.buffers, self.held["velocity"], self.held["total"])
        before, device = [tensor.clone() for tensor in written], self.model.w.device
        try:
            with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
                yield
        finally:
            for tensor, value in zip(written, before, strict=True):
                tensor.copy_(value)
