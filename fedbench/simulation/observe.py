"""The indicators of a round: what is computed of a cohort, an update and the new global model."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from fedbench.base.rng import generator
from fedbench.config.trial import TrialConfig
from fedbench.indicators.coherence import cohort_coherence, pairwise_cosine
from fedbench.indicators.flatness import Batches, top_eigenvalues
from fedbench.indicators.heterogeneity import class_shares, heterogeneity_coherence
from fedbench.indicators.shrinking import shrinking
from fedbench.methods import Cohort, Update
from fedbench.models import FlatModel
from fedbench.simulation.evaluation import evaluate
from fedbench.simulation.federation import Federation, Samples
from fedbench.simulation.record import Record, Row

EIGENVALUES = 5
HESSIAN_BATCH = 250


def observe_update(
    record: Record, cohort: Cohort, update: Update, config: TrialConfig, federation: Federation
) -> Record:
    """Add what every round records of its cohort and update."""
    terms = shrinking(cohort.w, update.lambda_ @ cohort.W, update.gamma, cohort.global_lr)
    record = replace(
        record,
        gamma=update.gamma,
        r=terms.r,
        norm_opt=terms.norm_opt,
        norm_reg=terms.norm_reg,
        norm_w=float(torch.linalg.vector_norm(update.w, dtype=torch.float64)),
        lambda_=tuple(update.lambda_.tolist()),
    )
    tables: dict[str, tuple[Row, ...]] = {"indicators": tuple(_heterogeneity_rows(cohort, update, federation))}
    if config.indicators.coherence != "off":
        whole, mean = cohort_coherence(cohort.w, cohort.W, cohort.p)
        record = replace(record, coherence_def=whole, coherence_mean=mean)
        tables["indicators"] += tuple(_group_rows(cohort, update, federation))
    if config.indicators.coherence == "pairwise":
        cosine, ids = pairwise_cosine(cohort.w, cohort.W).tolist(), cohort.clients
        pairs = [(i, j) for i in range(len(ids)) for j in range(i + 1, len(ids))]
        tables["coherence"] = tuple((ids[i], ids[j], cosine[i][j]) for i, j in pairs)
    if config.indicators.server_path and update.path:
        tables |= _path_tables(cohort, update)
    return replace(record, tables=tables)


def _heterogeneity_rows(cohort: Cohort, update: Update, federation: Federation) -> Iterator[Row]:
    """Heterogeneity coherence of the cohort under the weights used, and under data sizes."""
    counts = federation.split.class_counts
    shares, overall = class_shares(counts)[list(cohort.clients)], counts.sum(0) / counts.sum()
    for suffix, weights in (("", update.lambda_), ("_by_size", cohort.p)):
        value, cosine = heterogeneity_coherence(weights.to("cpu", torch.float64).numpy(), shares, overall)
        yield f"heterogeneity_coherence{suffix}", value
        yield f"heterogeneity_cosine{suffix}", cosine


def _group_rows(cohort: Cohort, update: Update, federation: Federation) -> Iterator[Row]:
    """Coherence within each group of clients, weighted by data size, and the weight that the group got."""
    for name, members in federation.split.groups.items():
        rows = [row for row, client in enumerate(cohort.clients) if client in members]
        if len(rows) < 2:
            continue
        whole, mean = cohort_coherence(cohort.w, cohort.W[rows], cohort.p[rows] / cohort.p[rows].sum())
        yield f"coherence_def_{name}", whole
        yield f"coherence_mean_{name}", mean
        yield f"lambda_{name}", float(update.lambda_[rows].sum())


def _path_tables(cohort: Cohort, update: Update) -> dict[str, tuple[Row, ...]]:
    epochs = list(enumerate(update.path, start=1))
    return {
        "server_path": tuple((epoch, point.gamma, point.loss) for epoch, point in epochs),
        "server_lambda": tuple(
            (epoch, client, weight)
            for epoch, point in epochs
            for client, weight in zip(cohort.clients, point.lambda_, strict=True)
        ),
    }


def observe_model(
    record: Record,
    model: FlatModel,
    cohort: Cohort,
    update: Update,
    buffers: Tensor,
    config: TrialConfig,
    fed: Federation,
) -> Record:
    """Add the costly indicators that are due in this round."""
    wanted, rows, tables = config.indicators, [], dict(record.tables)
    if due(record.round, wanted.hessian_every, config.rounds):
        model.load(update.w, buffers)
        values = top_eigenvalues(model, hessian_batches(config, fed), EIGENVALUES, lanczos_start(config, model)).values
        rows = [
            ("hessian_top1", values[0]),
            ("hessian_top5", values[-1]),
            ("hessian_top1_top5", values[0] / values[-1]),
        ]
    if due(record.round, wanted.simplex_every, config.rounds):
        tables["simplex"] = tuple(_simplex_rows(model, cohort, buffers, fed.test, wanted.simplex_grid))
    return replace(record, tables={**tables, "indicators": (*tables["indicators"], *rows)})


def due(t: int, every: int, rounds: int) -> bool:
    """Whether a costly indicator is due in round t: every so many rounds, and in the last one."""
    return every > 0 and (t % every == 0 or t == rounds)


def hessian_batches(config: TrialConfig, federation: Federation) -> Batches:
    """A fixed draw of the clients' training samples, in batches."""
    everything = np.sort(np.fromiter(chain.from_iterable(federation.split.shards), np.int64))
    order = generator(config.seed, "hessian").permutation(everything)[: config.indicators.hessian_samples]
    train = federation.train
    index = torch.from_numpy(np.sort(order)).to(train.labels.device)
    return [train.batch(part) for part in torch.split(index, HESSIAN_BATCH)]


def lanczos_start(config: TrialConfig, model: FlatModel) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The vector [P] that Lanczos iteration starts from, the same in every round."""
    return generator(config.seed, "lanczos").standard_normal(len(model.w))


def _simplex_rows(model: FlatModel, cohort: Cohort, buffers: Tensor, test: Samples, grid: int) -> Iterator[Row]:
    """Test loss and accuracy of lambda @ W over a grid on the simplex of three clients' weights."""
    for i in range(grid + 1):
        for j in range(grid + 1 - i):
            weights = (i / grid, j / grid, (grid - i - j) / grid)
            score = evaluate(model, cohort.combine(cohort.W.new_tensor(weights)), buffers, test)
            yield *weights, score.loss, score.accuracy
