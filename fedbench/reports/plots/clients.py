"""Clients: who holds what, whose gradients agree, what weight they get."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter

from fedbench.indicators.heterogeneity import class_shares
from fedbench.reports.plots.base import COLOURS, Scene, add_to_title, rounds_there
from fedbench.specs.parts import CohortSpec, HeatmapSpec, PartitionSpec, WeightsSpec
from fedbench.store.metrics import client_data
from fedbench.store.store import StoredTrial

TICKS = 6  # of a heat map's axis, at most


def heatmap_parts(spec: HeatmapSpec, scene: Scene) -> Sequence[int]:
    """A column for every round."""
    first = scene.first()
    table = first.table("coherence") if first else pd.DataFrame()
    return rounds_there(spec.rounds, table["round"]) if len(table) else []


def heatmap(place: Axes, scene: Scene, spec: HeatmapSpec) -> None:
    """Cosines of all pairs of clients in one round; colours reach as far as the largest one."""
    trial = scene.first()
    table = trial.table("coherence") if trial else pd.DataFrame()
    rows = table[table["round"] == scene.part] if len(table) else table
    if rows.empty:
        place.set_visible(False)
        return
    ids = sorted({*rows["client"], *rows["other"]})
    matrix = np.full((len(ids), len(ids)), np.nan)
    for client, other, cosine in rows[["client", "other", "cosine"]].itertuples(index=False):
        i, j = ids.index(client), ids.index(other)
        matrix[i, j] = matrix[j, i] = cosine
    reach = float(np.nanmax(np.abs(matrix)))
    image = place.imshow(matrix, cmap="PuOr_r", vmin=-reach, vmax=reach)
    place.figure.colorbar(image, ax=place, shrink=0.8, label="cosine")
    add_to_title(place, f"round {scene.part}")
    place.set(xlabel="client", ylabel="client")
    place.grid(False)
    step = -(-len(ids) // TICKS)
    place.set_xticks(range(0, len(ids), step), ids[::step])
    place.set_yticks(range(0, len(ids), step), ids[::step])


def partition(place: Axes, scene: Scene, spec: PartitionSpec) -> None:
    """A dot for every client and class; its area is the number of samples."""
    trial = scene.first()
    if trial is None:
        return
    table = trial.table("partition")
    area = 90 * table["samples"] / table["samples"].max()
    place.scatter(table["client"], table["class"], s=area, color=COLOURS[1], linewidth=0, alpha=0.8)
    place.set(xlabel=f"client (largest dot: {table['samples'].max()} samples)", ylabel="class")
    for axis in (place.xaxis, place.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))
    place.margins(0.06)


def cohort_parts(spec: CohortSpec, scene: Scene) -> Sequence[int]:
    """A column for every round."""
    first = scene.first()
    return rounds_there(spec.rounds, first.table("clients")["round"]) if first else []


def cohort(place: Axes, scene: Scene, spec: CohortSpec) -> None:
    """Class shares of all data, and of the round's cohort: by data sizes, and under each cell's weights."""
    bars: list[tuple[str, str, np.ndarray]] = []
    for cell, colour, label in scene.coloured(spec):
        done = scene.done(cell)
        if not done:
            continue
        overall, by_size, weighted = class_mixes(done[0], scene.part)
        bars = bars or [("all clients", "0.7", overall), ("cohort by data size", COLOURS[0], by_size)]
        if not np.allclose(weighted, by_size):
            bars.append((f"cohort, {label}", colour if colour != COLOURS[0] else COLOURS[3], weighted))
    for number, (label, colour, mix) in enumerate(bars):
        offset = (number - (len(bars) - 1) / 2) * 0.8 / len(bars)
        place.bar(np.arange(len(mix)) + offset, 100 * mix, 0.8 / len(bars), color=colour, label=label)
    add_to_title(place, f"round {scene.part}")
    place.set(xlabel="class", ylabel="share of samples (%)")
    place.xaxis.set_major_locator(MaxNLocator(integer=True))


def class_mixes(trial: StoredTrial, round_: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Class shares [C]: of all clients, of a round's cohort by data size, and under the weights it got."""
    counts = trial.table("partition").pivot(index="client", columns="class", values="samples").to_numpy()
    clients = trial.table("clients")
    own = clients[clients["round"] == round_]
    ids = own["client"].to_numpy()
    known = ids < len(counts)  # a proxy set that takes part as a client is not in the partition
    shares, sizes = class_shares(counts)[ids[known]], own["samples"].to_numpy(float)[known]
    return counts.sum(0) / counts.sum(), sizes / sizes.sum() @ shares, own["lambda"].to_numpy(float)[known] @ shares


def weights_parts(spec: WeightsSpec, scene: Scene) -> Sequence[str]:
    """Against data size, and against heterogeneity degree."""
    return ["data size (samples)", "heterogeneity degree"]


def weights(place: Axes, scene: Scene, spec: WeightsSpec) -> None:
    """A dot for every client of every seed: its mean weight over rounds."""
    for cell, colour, label in scene.coloured(spec):
        data = [(client_data(trial), trial.summary["rounds"]) for trial in scene.done(cell)]
        if not data:
            continue
        y = np.concatenate([100 * sums / rounds for (sums, _, _), rounds in data])
        x = np.concatenate([sizes if scene.part.startswith("data") else degrees for (_, sizes, degrees), _ in data])
        place.scatter(x, y, s=14, color=colour, alpha=0.6, linewidth=0, label=label)
    place.set(xlabel=scene.part, ylabel="mean weight (%)", xscale="log")
    place.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    place.xaxis.set_major_formatter(StrMethodFormatter("{x:.0f}"))
    place.xaxis.set_minor_formatter(NullFormatter())
