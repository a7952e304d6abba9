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
from fedbench.models import built
from fedbench.models.base import needs_two
from fedbench.simulation.batchnorm import aggregate_statistics
from fedbench.simulation.compute import exact, pick_device, seeded
from fedbench.simulation.corrupt import corrupt_updates
from fedbench.simulation.drive import rounds
from fedbench.simulation.engines import Start, check_device, choose_engine
from fedbench.simulation.environment import Environment
from fedbench.simulation.evaluation import evaluate, mean_score
from fedbench.simulation.federation import build_federation, initial_model
from fedbench.simulation.local import Sgd, mean_gradient, round_lr
from fedbench.simulation.observe import observe
from fedbench.simulation.participants import answering, sample_clients, with_work
from fedbench.simulation.plans import Plans
from fedbench.simulation.record import Record, columns
from fedbench.simulation.updates import checked_correction, checked_start, checked_update


@dataclass
class RunState:
    """The state of a run between two rounds, which is also the content of a checkpoint.

    w [P], buffers [Q]: the global model in the element order of `FlatModel`; `Simulation.module` converts it.
    velocity: momentum [P] of each of the n clients, None if it is reset in every round.
    client_buffers: running statistics [Q] of each client, None if clients start from the server's.
    client_models: model [P] of each client, None unless clients go on from their own models.
    method: state of the aggregation method.
    scored [P]: model that is evaluated, None if that is w.

    Tensors of a state are never written to, only replaced, because clients that have not taken part yet share them.
    """

    round: int
    w: Tensor
    buffers: Tensor
    velocity: list[Tensor] | None
    client_buffers: list[Tensor] | None
    method: State
    history: list[Record] = field(default_factory=list)
    scored: Tensor | None = None
    client_models: list[Tensor] | None = None

    @property
    def model(self) -> Tensor:
        """The global model that is evaluated [P]."""
        return self.w if self.scored is None else self.scored

    @property
    def own_models(self) -> list[tuple[Tensor, Tensor]]:
        """The model [P] and statistics [Q] of each client; empty unless clients go on from their own models."""
        if self.client_models is None:
            return []
        buffers = self.client_buffers or [self.buffers] * len(self.client_models)
        return list(zip(self.client_models, buffers, strict=True))

    def draft(self) -> "RunState":
        """A copy that a round can change: the lists are copied, the tensors are shared."""
        lists = (self.velocity, self.client_buffers, self.client_models)
        velocity, buffers, models = (None if kept is None else list(kept) for kept in lists)
        history = list(self.history)
        return replace(self, velocity=velocity, client_buffers=buffers, client_models=models, history=history)


class Trained(NamedTuple):
    """A cohort after local training.

    W [m, P], B [m, Q]: models and running statistics of the clients.
    losses [m], steps [m]: mean training losses and numbers of SGD steps, float64.
    gradients [m, P]: mean gradient of each client, None unless the method's `reports` ask for it.
    """

    W: Tensor
    B: Tensor
    losses: Tensor
    steps: Tensor
    gradients: Tensor | None


class Simulation:
    """One federated run. `step` runs a round; everything that a round changes is in `state`.

    earlier: environments in which the run was computed before it was resumed from a checkpoint, in order.
    """

    def __init__(self, config: TrialConfig, data_dir: Path | None = None) -> None:
        columns()  # raises an error if two columns have the same name
        self.config = config
        self.earlier: list[Environment] = []
        self.device = pick_device(config.run.device)
        check_device(config, self.device)
        with exact(config.run, self.device):
            self.federation = build_federation(config, data_dir, self.device)
            self.model = initial_model(config, self.device)
            single = needs_two(*config.network)
            self.least_batch = 2 if single else 1  # a last batch of one sample is left out if the model needs two
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
            method=checked_start(self.method, n, w),
            client_models=[w] * n if self.config.method.training == "local" else None,
        )

    @property
    def num_clients(self) -> int:
        """The number of all clients, including the proxy set if it takes part as a client."""
        return len(self.federation.split.shards)

    def module(self) -> nn.Module:
        """A copy of the model that was last evaluated, as a plain module in eval mode.

        It is on the run's device and has the dtype of the run's vectors (float32 for tf32 and bfloat16).
        """
        config, state = self.config, self.state
        module = built(*config.network, config.seed)
        module.to(self.device, config.numbers.dtype)
        self.model.copy_into(module, state.model, state.buffers)
        return module.eval()

    @property
    def done(self) -> bool:
        """Whether all rounds have been run or the run has diverged."""
        history = self.state.history
        return self.state.round >= self.config.rounds or bool(history and history[-1].diverged)

    def step(self) -> Record:
        """Run one round: sample, train, aggregate, evaluate, record. An interrupted round leaves `state` unchanged."""
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
        record = with_work(Record(round=t, clients=clients, samples=tuple(int(size) for size in sizes)), config)

        started = self._now()
        trained = self.train_cohort(t, clients)
        if config.all_train:
            self.train_cohort(t, self.others(t))  # updates their momentum and statistics; nothing is sent
        if t < config.rounds:  # the host draws the next plans while the device trains
            ahead = self.clients_of(t + 1)
            self.plans.draw(t + 1, sorted((*ahead, *self.others(t + 1))) if config.all_train else ahead)
        W, losses, ended = trained.W, trained.losses, self._now()
        if not clients:
            return self.skipped(replace(record, seconds_train=ended - started), "no client answered")
        p = on_device(sizes / sizes.sum(), W.device, W.dtype)
        record = replace(record, train_loss=float(p.to(losses) @ losses), seconds_train=ended - started)
        if reason := non_finite(clients, losses, W):
            return replace(record, diverged=f"round {t}: {reason}")

        if reason := corrupt_updates(self, t, clients, trained):
            return replace(record, diverged=f"round {t}: {reason}")
        if reason := self.too_few(clients):
            return self.skipped(record, reason)
        ended = self._now()  # the server starts when it has received all models
        cohort = self.cohort(t, clients, p, trained)
        server = self.server(t)
        with seeded(torch_seed(config.seed, "server", t), self.device):
            update = checked_update(self.method.aggregate, cohort, state.method, server)
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

    def too_few(self, clients: tuple[int, ...]) -> str | None:
        """Why the method cannot aggregate the models of the clients that answered, None if it can."""
        answered = sum(client < self.config.clients.count for client in clients)
        if answered == self.config.participants:
            return None
        problem = self.config.method.check(answered)
        return problem and f"too few clients answered: {problem}"

    def skipped(self, record: Record, reason: str) -> Record:
        """The record of a round that leaves the global model and the method's state as they are."""
        started = self._now()
        record = self.score(replace(record, skipped=reason))
        return replace(record, seconds_eval=self._now() - started)

    def cohort(self, t: int, clients: tuple[int, ...], p: Tensor, trained: Trained) -> Cohort:
        """The input of the method's aggregation in round t, with the client reports that the method asks for."""
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
            reported={name: self._report(name, rows, trained) for name in config.method.reports},
        )

    def _report(self, name: Report, rows: list[int], trained: Trained) -> Tensor:
        """A report of the cohort's clients, with one row per client."""
        if name == "class_counts":
            return on_device(self._class_counts[rows], self.device)
        if name == "loss":
            return trained.losses
        assert trained.gradients is not None, "train_cohort computes them if the method asks for them"
        return trained.gradients

    def server(self, t: int) -> Server:
        """The resources that the server offers to the method in round t."""
        seed = self.config.seed
        return Server(
            self.model, self.proxy, lambda purpose: generator(seed, f"server/{purpose}", t), self.engine.repeated
        )

    def clients_of(self, t: int) -> tuple[int, ...]:
        """The clients that train and answer in round t; if the proxy set is a client, it is the last one.

        If no client answers, the proxy set does not train, either. In centralised training one client, the last one,
        trains in place of those that answer.
        """
        clients, last = answering(self.config, t), (self.num_clients - 1,)
        if self.config.method.training == "centralised":
            return last if clients else ()
        return clients + last if self.config.method.proxy_as_client and clients else clients

    def others(self, t: int) -> tuple[int, ...]:
        """The clients that are not sampled in round t."""
        return tuple(sorted(set(range(self.config.clients.count)).difference(sample_clients(self.config, t))))

    def train_cohort(self, t: int, clients: tuple[int, ...]) -> Trained:
        """Train the given clients, starting from the global model."""
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
            start = Start(state.w if state.client_models is None else state.client_models[client], statistics)
            correction = checked_correction(self.method, state.method, client, state.w)
            with seeded(torch_seed(config.seed, purpose, t, client), self.device):
                losses[row] = self.engine.train(plan, start, velocity, correction, sgd)
            W[row], B[row] = model.w, model.buffers
            if gradients is not None:
                gradients[row] = mean_gradient(state.w, model.w, rest, velocity, sgd, plan.steps)
            if kept is not None:
                kept[client] = velocity
            if state.client_models is not None:
                state.client_models[client] = W[row].clone()
            if state.client_buffers is not None:
                state.client_buffers[client] = model.buffers.clone()
        steps = on_device([float(plan.steps) for plan in plans], self.device)
        return Trained(W, B, losses, steps, gradients)

    def score(self, record: Record) -> Record:
        """Evaluate the model on the test set and the validation set, if this round is to be evaluated.

        Where clients have models of their own, the mean of their scores is taken.
        """
        config, state = self.config, self.state
        if record.round % config.eval_every and record.round <= config.rounds - LAST_ROUNDS:
            return record
        models = state.own_models or [(state.model, state.buffers)]
        test = mean_score([evaluate(self.model, *each, self.federation.test) for each in models])
        if not math.isfinite(test.loss):
            return replace(record, diverged=f"round {record.round}: the test loss is {test.loss}")
        record = replace(record, test_accuracy=test.accuracy, test_loss=test.loss)
        if self.federation.validation is None:
            return record
        score = mean_score([evaluate(self.model, *each, self.federation.validation) for each in models])
        return replace(record, validation_accuracy=score.accuracy, validation_loss=score.loss)

    def traffic(self) -> tuple[int, int]:
        """Bytes that the whole cohort sends to the server and receives from it in one round.

        Clients send their running statistics unless the server estimates them (`bn=proxy`), and receive them only
        under `bn=average`. Some methods exchange further vectors. Nothing is sent unless training is federated.
        """
        if self.config.method.training != "federated":
            return 0, 0
        parameters, statistics = len(self.state.w), len(self.state.buffers)
        rule, item, m = self.config.bn, self.state.w.element_size(), self.config.participants
        more_up, more_down = self.config.method.extra_vectors
        up = parameters * (1 + more_up) + (statistics if rule != "proxy" else 0)
        down = parameters * (1 + more_down) + (statistics if rule == "average" else 0)
        return m * up * item, m * down * item

    @cached_property
    def _class_counts(self) -> NDArray[np.int64]:
        """The number of samples of each class of each client, by its labels after corruption [n, classes]."""
        split, labels = self.federation.split, self.federation.train.labels.cpu().numpy()
        own = zip(split.shards, split.holdout, strict=True)
        classes = self.config.dataset.num_classes
        return np.stack([np.bincount(labels[np.concatenate(both)], minlength=classes) for both in own])

    def _now(self) -> float:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()


def simulate(config: TrialConfig, data_dir: Path | None = None) -> Iterator[Record]:
    """Run one federated run and yield a record per round. If it diverges, it ends with a record of the reason."""
    yield from rounds(Simulation(config, data_dir))


def local_work(config: TrialConfig, t: int, steps: Tensor) -> LocalWork:
    """The settings of local training in round t, with the number of steps of each client [m]."""
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
    """The proxy set as the server uses it, with a function that draws batches.

    A last batch smaller than `least` is left out.
    """
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
    """A message with the clients whose loss or weights are not finite, None if all are finite.

    If all are finite, this waits for the device only once.
    """
    suspect = ~(torch.isfinite(losses) & torch.isfinite(W.sum(1)))  # a sum is fast, but may overflow for finite weights
    rows = [row for row, flag in enumerate(suspect.tolist()) if flag]
    bad = [clients[row] for row in rows if not (torch.isfinite(losses[row]) & torch.isfinite(W[row]).all())]
    return f"non-finite loss or weights after local training of client {', '.join(map(str, bad))}" if bad else None
