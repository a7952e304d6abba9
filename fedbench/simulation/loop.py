"""The round loop: Algorithm 1 of the paper."""

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedbench.base.rng import generator, numbered, torch_seed
from fedbench.base.tensors import on_device
from fedbench.config import LAST_ROUNDS, TrialConfig
from fedbench.data.samples import Samples
from fedbench.methods import METHODS, Cohort, LocalWork, ProxyData, Server
from fedbench.methods.base import Report, State
from fedbench.models import built, initial
from fedbench.models.base import needs_two
from fedbench.simulation.batchnorm import aggregate_statistics
from fedbench.simulation.compute import exact, pick_device, seeded
from fedbench.simulation.corrupt import corrupt_updates
from fedbench.simulation.drive import rounds
from fedbench.simulation.engines import Start, check_device, choose_engine
from fedbench.simulation.environment import Environment
from fedbench.simulation.evaluation import evaluate
from fedbench.simulation.federation import build_federation
from fedbench.simulation.local import Sgd, mean_gradient, round_lr
from fedbench.simulation.observe import observe
from fedbench.simulation.plans import Plans
from fedbench.simulation.record import Record, columns
from fedbench.simulation.updates import checked, corrected, started


@dataclass
class RunState:
    """Everything that lives on from one round to the next, and so everything a checkpoint holds.

    w [P], buffers [Q]: the global model, in the order that `FlatModel` states (`Simulation.module` gives it as a
    module); velocity: the n clients' momentum [P], where kept;
    client_buffers: their running statistics [Q], where kept; method: the method's own state;
    scored [P]: the model to score, where it is not w.
    No tensor in here is ever written to, only replaced: clients that have not taken part yet share one.
    """

    round: int
    w: Tensor
    buffers: Tensor
    velocity: list[Tensor] | None
    client_buffers: list[Tensor] | None
    method: State
    history: list[Record] = field(default_factory=list)
    scored: Tensor | None = None

    @property
    def model(self) -> Tensor:
        """The model that is scored [P]."""
        return self.w if self.scored is None else self.scored

    def draft(self) -> "RunState":
        """A state for a round to fill in: lists of its own, the same tensors."""
        velocity, buffers = (None if kept is None else list(kept) for kept in (self.velocity, self.client_buffers))
        return replace(self, velocity=velocity, client_buffers=buffers, history=list(self.history))


class Trained(NamedTuple):
    """A cohort after local training: W [m, P], B [m, Q], mean losses [m] and steps of SGD [m], both float64.

    gradients [m, P]: the mean of each client's, where the method asks for them.
    """

    W: Tensor
    B: Tensor
    losses: Tensor
    steps: Tensor
    gradients: Tensor | None


class Simulation:
    """One federated run, a round a `step`. All that changes is in `state`.

    earlier: the environments that it has been in before it was resumed from a checkpoint, in order.
    """

    def __init__(self, config: TrialConfig, data_dir: Path | None = None) -> None:
        columns()  # all names differ
        self.config = config
        self.earlier: list[Environment] = []
        self.device = pick_device(config.run.device)
        check_device(config, self.device)
        dataset = config.dataset
        with exact(config.run, self.device):
            self.federation = build_federation(config, data_dir, self.device)
            network = (config.model, dataset.shape, dataset.num_classes)
            self.model = initial(*network, config.seed, self.device, config.numbers, config.init.draw)
            single = needs_two(*network)
            self.least_batch = 2 if single else 1  # a rest of one sample is left out where the model cannot take it
            self.method = METHODS.get(config.method.name)(config.method)
            proxy = self.federation.proxy
            self.proxy = proxy_data(proxy, config, self.least_batch) if proxy else None
            self.state = self._start()
            self.engine = choose_engine(config, self.model, self.federation.train, self.least_batch)
            self.plans = Plans(config, self.federation.split.shards, self.device, self.least_batch)

    def _start(self) -> RunState:
        clients, model = self.config.clients, self.model
        w, buffers, n = model.w.clone(), model.buffers.clone(), self.num_clients
        keep = clients.momentum_state == "keep" and clients.momentum > 0
        return RunState(
            round=0,
            w=w,
            buffers=buffers,
            velocity=[torch.zeros_like(w)] * n if keep else None,
            client_buffers=None if self.config.bn == "average" else [buffers] * n,
            method=started(self.method, n, w),
        )

    @property
    def num_clients(self) -> int:
        """All clients, the proxy set among them where it is one."""
        return len(self.federation.split.shards)

    def module(self) -> nn.Module:
        """The model that was scored in the last round, as a plain module in eval mode: weights and running statistics.

        It is a copy on the run's device, in the dtype of the run's vectors (float32 for tf32 and bfloat16), with
        torch's usual memory layout; nothing that is done to it reaches the run.
        """
        config, state = self.config, self.state
        module = built(config.model, config.dataset.shape, config.dataset.num_classes, config.seed)
        module.to(self.device, config.numbers.dtype)
        self.model.copy_into(module, state.model, state.buffers)
        return module.eval()

    @property
    def done(self) -> bool:
        """Whether all rounds have run, or the run has diverged."""
        history = self.state.history
        return self.state.round >= self.config.rounds or bool(history and history[-1].diverged)

    def step(self) -> Record:
        """Run one round: sample, train, aggregate, evaluate, record; all of it or, if it is interrupted, nothing."""
        before = self.state
        try:
            self.state = before.draft()
            with exact(self.config.run, self.device):
                record = self._round(before.round + 1)
            self.state.round = record.round
            self.state.history.append(record)
            return record
        except BaseException:
            self.state = before
            raise

    def _round(self, t: int) -> Record:
        config, state = self.config, self.state
        clients = self.clients_of(t)
        sizes = self.federation.split.sizes[list(clients)]
        record = Record(round=t, clients=clients, samples=tuple(int(size) for size in sizes))

        started = self._now()
        trained = self.train_cohort(t, clients)
        if config.all_train:
            self.train_cohort(t, self.others(clients))  # the server sees nothing of it, but they keep their momentum
        if t < config.rounds:  # while the device trains
            self.plans.draw(t + 1, range(self.num_clients) if config.all_train else self.clients_of(t + 1))
        W, losses, ended = trained.W, trained.losses, self._now()
        p = on_device(sizes / sizes.sum(), W.device, W.dtype)
        record = replace(record, train_loss=float(p.to(losses) @ losses), seconds_train=ended - started)
        if reason := non_finite(clients, losses, W):
            return replace(record, diverged=f"round {t}: {reason}")

        if reason := corrupt_updates(self, t, clients, trained):
            return replace(record, diverged=f"round {t}: {reason}")
        ended = self._now()  # the server's time starts when it has got everything
        cohort = self.cohort(t, clients, p, trained)
        server = self.server(t)
        with seeded(torch_seed(config.seed, "server", t), self.device):
            update = checked(self.method.aggregate, cohort, state.method, server)
            buffers = aggregate_statistics(cohort, update, server)
        aggregated = self._now()
        record = replace(record, seconds_server=aggregated - ended)
        if not bool(torch.isfinite(update.w).all() & torch.isfinite(buffers).all()):
            return replace(record, diverged=f"round {t}: the aggregated model has non-finite weights")

        record = observe(record, self, cohort, update, buffers)
        state.scored = torch.lerp(state.w, update.w, 0.5) if update.average else None
        state.w, state.buffers, state.method = update.w, buffers, update.state
        record = self.score(record)
        return replace(record, seconds_eval=self._now() - aggregated)

    def cohort(self, t: int, clients: tuple[int, ...], p: Tensor, trained: Trained) -> Cohort:
        """What the method gets to see of round t: of what clients know, only what it asked for."""
        config, split, rows = self.config, self.federation.split, list(clients)
        return Cohort(
            round=t,
            clients=clients,
            p=p,
            w=self.state.w,
            W=trained.W,
            B=trained.B,
            buffers=self.state.buffers if config.bn == "proxy" else p @ trained.B,
            bn=config.bn,
            global_lr=config.server.global_lr,
            num_clients=self.num_clients,
            sizes=on_device(split.sizes[rows], self.device),
            work=local_work(config, t, trained.steps),
            layers=self.model.layers,
            reported={name: self._told(name, rows, trained) for name in config.method.reports},
        )

    def _told(self, name: Report, rows: list[int], trained: Trained) -> Tensor:
        """What the cohort's clients report, a row each."""
        if name == "class_counts":
            return on_device(self._class_counts[rows], self.device)
        if name == "loss":
            return trained.losses
        assert trained.gradients is not None, "they are kept where the method asks for them"
        return trained.gradients

    def server(self, t: int) -> Server:
        """The server's tools in round t."""
        seed = self.config.seed
        return Server(
            self.model, self.proxy, lambda purpose: generator(seed, f"server/{purpose}", t), self.engine.repeated
        )

    def clients_of(self, t: int) -> tuple[int, ...]:
        """Who takes part in round t, the proxy set as the last where it is a client."""
        proxy = (self.num_clients - 1,) if self.config.method.proxy_as_client else ()
        return sample_clients(self.config, t) + proxy

    def others(self, clients: tuple[int, ...]) -> tuple[int, ...]:
        """The clients that are not among these."""
        return tuple(sorted(set(range(self.num_clients)).difference(clients)))

    def train_cohort(self, t: int, clients: tuple[int, ...]) -> Trained:
        """Train every client of the cohort from the global model."""
        config, state, model = self.config, self.state, self.model
        W = state.w.new_empty(len(clients), len(state.w))
        B = state.buffers.new_empty(len(clients), len(state.buffers))
        losses = torch.empty(len(clients), device=self.device, dtype=torch.float64)
        sgd = Sgd.of_round(config, t, self.device)
        kept, fresh = state.velocity, torch.empty_like(state.w)
        plans = self.plans.of(t, clients)
        purpose = numbered("train", config.batches.draw)
        gradients = torch.empty_like(W) if "gradient" in config.method.reports else None
        for row, (client, plan) in enumerate(zip(clients, plans, strict=True)):
            velocity = fresh.zero_() if kept is None else kept[client].clone()
            rest = velocity.clone() if gradients is not None else velocity
            statistics = state.buffers if state.client_buffers is None else state.client_buffers[client]
            start = Start(state.w, statistics)
            correction = corrected(self.method, state.method, client, state.w)
            with seeded(torch_seed(config.seed, purpose, t, client), self.device):
                losses[row] = self.engine.train(plan, start, velocity, correction, sgd)
            W[row], B[row] = model.w, model.buffers
            if gradients is not None:
                gradients[row] = mean_gradient(state.w, model.w, rest, velocity, sgd, plan.steps)
            if kept is not None:
                kept[client] = velocity
            if state.client_buffers is not None:
                state.client_buffers[client] = model.buffers.clone()
        steps = on_device([float(plan.steps) for plan in plans], self.device)
        return Trained(W, B, losses, steps, gradients)

    def score(self, record: Record) -> Record:
        """Evaluate the global model on the test set, and on the validation set if there is one, where due."""
        config, state = self.config, self.state
        if record.round % config.eval_every and record.round <= config.rounds - LAST_ROUNDS:
            return record
        test = evaluate(self.model, state.model, state.buffers, self.federation.test)
        if not math.isfinite(test.loss):
            return replace(record, diverged=f"round {record.round}: the test loss is {test.loss}")
        record = replace(record, test_accuracy=test.accuracy, test_loss=test.loss)
        if self.federation.validation is None:
            return record
        score = evaluate(self.model, state.model, state.buffers, self.federation.validation)
        return replace(record, validation_accuracy=score.accuracy, validation_loss=score.loss)

    def traffic(self) -> tuple[int, int]:
        """Bytes that the whole cohort sends up and receives in one round.

        Running statistics travel up unless the server makes its own (`bn=proxy`), and down only under `average`;
        some methods send further vectors.
        """
        parameters, statistics = len(self.state.w), len(self.state.buffers)
        rule, item, m = self.config.bn, self.state.w.element_size(), self.config.participants
        more_up, more_down = self.config.method.extra_vectors
        up = parameters * (1 + more_up) + (statistics if rule != "proxy" else 0)
        down = parameters * (1 + more_down) + (statistics if rule == "average" else 0)
        return m * up * item, m * down * item

    @cached_property
    def _class_counts(self) -> NDArray[np.int64]:
        """How many samples of each class every client has, by the labels that it has [n, classes]."""
        split, labels = self.federation.split, self.federation.train.labels.cpu().numpy()
        own = zip(split.shards, split.holdout, strict=True)
        classes = self.config.dataset.num_classes
        return np.stack([np.bincount(labels[np.concatenate(both)], minlength=classes) for both in own])

    def _now(self) -> float:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()


def simulate(config: TrialConfig, data_dir: Path | None = None) -> Iterator[Record]:
    """Run one whole federated run, a record a round; ends early, with a record that says so, if it diverges."""
    yield from rounds(Simulation(config, data_dir))


def sample_clients(config: TrialConfig, t: int) -> tuple[int, ...]:
    """The cohort of round t: m of n clients, uniform without replacement, sorted by id; the same for every method."""
    purpose = numbered("participation", config.participation.draw)
    order = generator(config.seed, purpose, t).permutation(config.clients.count)
    return tuple(sorted(int(client) for client in order[: config.participants]))


def local_work(config: TrialConfig, t: int, steps: Tensor) -> LocalWork:
    """The recipe of local training in round t, with the steps that each client took [m]."""
    clients = config.clients
    return LocalWork(
        steps=steps,
        epochs=clients.epochs,
        batch_size=clients.batch_size,
        lr=round_lr(config, t),
        momentum=clients.momentum,
        keeps_momentum=clients.momentum_state == "keep",
        weight_decay=clients.weight_decay,
        first_lr=clients.lr,
    )


def proxy_data(samples: Samples, config: TrialConfig, least: int = 1) -> ProxyData:
    """The proxy set, ready to be fed, with its way of drawing batches; a rest smaller than `least` is left out."""
    labels = samples.labels.cpu().numpy()
    counts = np.bincount(labels, minlength=config.dataset.num_classes)
    weights = 1 / (counts[labels] * np.count_nonzero(counts))

    def batches(rng: np.random.Generator, size: int) -> list[Tensor]:
        n = len(labels)
        order = rng.choice(n, size=n, p=weights) if config.proxy.balanced_sampling else rng.permutation(n)
        parts = list(torch.split(on_device(order, samples.labels.device), size))
        return parts[:-1] if len(parts) > 1 and len(parts[-1]) < least else parts

    return ProxyData(samples.inputs(slice(None)), samples.labels, batches)


def non_finite(clients: tuple[int, ...], losses: Tensor, W: Tensor) -> str | None:
    """Which clients ended in non-finite numbers, or None: one sync for the whole cohort where all is well."""
    suspect = ~(torch.isfinite(losses) & torch.isfinite(W.sum(1)))  # a sum is quick, but may overflow by itself
    rows = [row for row, flag in enumerate(suspect.tolist()) if flag]
    bad = [clients[row] for row in rows if not (torch.isfinite(losses[row]) & torch.isfinite(W[row]).all())]
    return f"non-finite loss or weights after local training of client {', '.join(map(str, bad))}" if bad else None
