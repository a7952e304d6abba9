"""Lines: over rounds, along an axis, of the final model; and how a number is distributed over rounds."""

from collections.abc import Sequence
from textwrap import fill
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from fedbench.reports.plots.base import COLOURS, DASHES, Scene, add_to_title, line, listed, short
from fedbench.reports.tables import values_by_seed
from fedbench.specs.parts import CurvesSpec, DistributionSpec, ProfileSpec, SweepSpec, text_label
from fedbench.store.metrics import METRICS
from fedbench.store.store import StoredTrial

NAMES = {
    "test_accuracy": "test accuracy (%)",
    "coherence_mean": "local gradient coherence",
    "norm_w": "norm of the global model",
    "norm_opt": "norm of the global gradient",
    "norm_reg": "norm of the shrinking term",
    "lambda_balanced": "weight of balanced clients",
    "hessian_top1": "top Hessian eigenvalue",
    "hessian_top1_top5": "Hessian eigenvalues, 1 over 5",
    "r": "r, gradient over shrinking",
}
SEVERAL = {  # names in a legend, where one figure has several
    "norm_opt": "global gradient",
    "norm_reg": "shrinking term",
    "coherence_mean": "all clients",
    "coherence_mean_balanced": "balanced clients",
    "coherence_mean_imbalanced": "imbalanced clients",
}
LOGARITHMIC = ("r",)  # a ratio, which has no bound where gamma passes through 1
LEAST_FOR_A_HISTOGRAM = 10
REACH = 4.0  # how many standard deviations to both sides a distribution is shown
LABEL_WIDTH = 30  # characters in a line of an axis' label
TICK_WIDTH = 12  # and of a tick's
TOGETHER = {"norm_opt": "norm"}  # and what their common axis is called, by the first of them
UNITS = {"value": "{}", "difference": "difference in {}", "relative": "relative gain in {}, %"}
AXES = {  # settings as axes, with their units
    "clients.corrupted": "corrupted clients (share)",
    "clients.count": "number of clients",
    "clients.epochs": "local epochs",
    "clients.participation": "participation (share of clients)",
    "clients.weight_decay": "local weight decay",
    "data.alpha": "alpha of the Dirichlet partition",
    "proxy.size": "proxy set (images)",
    "server.global_lr": "global learning rate",
}
PROFILES = {  # table -> its columns x and y, their names
    "rescaled": ("gamma", "loss", "rescaled by gamma", "test loss"),
    "landscape": ("step", "loss", "step along the top eigenvector", "training loss"),
    "histogram": ("centre", "density", "parameter", "density"),
}


def over_rounds(trial: StoredTrial, name: str) -> "pd.Series[float]":
    """A column of rounds.csv or an indicator, by round; accuracies in percent."""
    rounds = trial.table("rounds").set_index("round")
    if name in rounds:
        return (100 if name.endswith("accuracy") else 1) * rounds[name].dropna()
    table = trial.table("indicators")
    chosen = table[table["name"] == name] if len(table) else pd.DataFrame({"round": [], "value": []})
    return chosen.set_index("round")["value"]


def curves(place: Axes, scene: Scene, spec: CurvesSpec) -> None:
    """One curve for every colour and every y."""
    names = listed(spec.y)
    for cell, colour, label in scene.coloured(spec):
        for number, name in enumerate(names):
            values = [over_rounds(trial, name) for trial in scene.done(cell)]
            values = [value for value in values if len(value)]
            if not values:
                continue
            text = ", ".join(part for part in (label, SEVERAL.get(name, name) if len(names) > 1 else "") if part)
            own = colour if spec.colour or len(names) == 1 else COLOURS[number]
            dash = DASHES[number % len(DASHES)] if len(names) > 1 else scene.dash(cell, spec)
            line(place, pd.concat(values, axis=1).dropna(), own, dash, text)
        if spec.critical:
            _mark_critical(place, scene.done(cell), colour if spec.colour else "0.4")
    name = NAMES.get(names[0], names[0].replace("_", " "))
    place.set_ylabel(TOGETHER.get(names[0], name) if len(names) > 1 else name)
    if names[0] in LOGARITHMIC:
        place.set_yscale("log", nonpositive="clip")
    place.set_xlabel("round")
    place.xaxis.set_major_locator(MaxNLocator(integer=True))


def _mark_critical(place: Axes, done: Sequence[StoredTrial], colour: str) -> None:
    """A thin line at zero, and one at the mean critical point."""
    place.axhline(0, color="0.5", linewidth=0.6)
    found = [trial.summary["critical_round"] for trial in done if trial.summary.get("critical_round")]
    if found:
        place.axvline(float(np.mean(found)), color=colour, linewidth=0.8, linestyle=(0, (1, 2)), label="critical point")


def sweep_parts(spec: SweepSpec, scene: Scene) -> list[str]:
    """A column of panels for every metric."""
    return listed(spec.y)


def sweep(place: Axes, scene: Scene, spec: SweepSpec) -> None:
    """One line for every colour: a metric against the values of an axis, evenly spaced if they are not numbers."""
    order = scene.study.labels(spec.x, spec.where)
    numbers = [float(label) for label in order if isinstance(label, (int, float))]
    numeric = len(numbers) == len(order) and not (spec.log and min(numbers) <= 0)
    positions = numbers if numeric else [float(index) for index in range(len(order))]
    groups: dict[tuple[str, str, str], dict[float, dict[int, float]]] = {}
    for cell, colour, label in scene.coloured(spec):
        x = positions[order.index(cell.labels[spec.x])]
        values = values_by_seed(scene.study, [cell], scene.trials, scene.part, spec.show)
        groups.setdefault((colour, scene.dash(cell, spec), label), {})[x] = values
    for (colour, dash, label), points in groups.items():
        frame = pd.DataFrame.from_dict(points, orient="index").sort_index().dropna(how="all")
        line(place, frame, colour, dash, label, marker="o", markersize=3)
    if numeric:
        place.set_xscale("log" if spec.log else "linear")
        place.set_xticks(numbers, [text_label(label) for label in order])
        place.minorticks_off()
    else:
        place.set_xticks(positions, [fill(text_label(label), TICK_WIDTH) for label in order])
    place.set_xlabel(AXES.get(spec.x, short(spec.x)))
    name = METRICS[scene.part].label
    text = UNITS[spec.show].format(name.removesuffix(" (%)") if spec.show == "relative" else name)
    place.set_ylabel(fill(text, LABEL_WIDTH))


def distribution(place: Axes, scene: Scene, spec: DistributionSpec) -> None:
    """A histogram over rounds and seeds, and the normal density of the same median and median deviation."""
    groups: dict[tuple[str, str], list[Any]] = {}
    medians = []
    for cell, colour, label in scene.coloured(spec):
        groups.setdefault((colour, label), []).extend(over_rounds(trial, spec.y) for trial in scene.done(cell))
    for (colour, label), series in groups.items():
        values = pd.concat(series).dropna().to_numpy(float) if series else np.array([])
        if len(values) < LEAST_FOR_A_HISTOGRAM or np.ptp(values) == 0:
            continue
        median = float(np.median(values))
        std = 1.4826 * float(np.median(np.abs(values - median)))  # of a normal distribution; outliers do not count
        if not std:
            continue
        low, high = max(values.min(), median - REACH * std), min(values.max(), median + REACH * std)
        place.hist(values, 24, range=(low, high), density=True, color=colour, alpha=0.3, label=label)
        medians.append(f"{median:.3g}")
        x = np.linspace(low, high, 200)
        place.plot(x, np.exp(-0.5 * ((x - median) / std) ** 2) / (std * np.sqrt(2 * np.pi)), color=colour)
    if medians:
        add_to_title(place, f"median {', '.join(medians)}")
    place.set_xlabel(NAMES.get(spec.y, spec.y))
    place.set_ylabel("density")


def profile(place: Axes, scene: Scene, spec: ProfileSpec) -> None:
    """One curve for every colour, of a table of the final model."""
    x, y, x_name, y_name = PROFILES[spec.of]
    for cell, colour, label in scene.coloured(spec):
        tables = [trial.table(spec.of) for trial in scene.done(cell)]
        tables = [table for table in tables if len(table)]
        if tables and spec.of == "histogram":
            tables = _densities(tables)
        dash = scene.dash(cell, spec)
        if tables:
            line(place, pd.concat([table.set_index(x)[y] for table in tables], axis=1), colour, dash, label)
    place.set_xlabel(x_name)
    place.set_ylabel(y_name)


def _densities(tables: Sequence[pd.DataFrame]) -> list[pd.DataFrame]:
    """Histograms with bins of their own as densities at common points; the outermost 2 % are cut off."""
    reach = max(_reach(table) for table in tables)
    points = np.linspace(-reach, reach, 161)
    found = []
    for table in tables:
        centres = (table["left"] + table["right"]) / 2
        density = table["count"] / table["count"].sum() / (table["right"] - table["left"])
        found.append(pd.DataFrame({"centre": points, "density": np.interp(points, centres, density)}))
    return found


def _reach(table: pd.DataFrame) -> float:
    share = table["count"].cumsum() / table["count"].sum()
    return float(table.loc[(share > 0.01) & (share < 0.99), ["left", "right"]].abs().to_numpy().max())
