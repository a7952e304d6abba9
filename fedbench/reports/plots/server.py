"""The server: how weights are learned within a round, and how the loss depends on three clients' weights."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from fedbench.reports.plots.base import COLOURS, Scene, add_to_title, rounds_there
from fedbench.specs.parts import ServerPathSpec, SimplexSpec

CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 3**0.5 / 2]])  # of clients 0, 1 and 2


def path_parts(spec: ServerPathSpec, scene: Scene) -> Sequence[str]:
    """A column for each of gamma, lambda and the proxy loss."""
    return ["gamma", "lambda", "loss"]


def path(place: Axes, scene: Scene, spec: ServerPathSpec) -> None:
    """A line for every round; for lambda one for every client, in the last of the rounds."""
    trial = scene.first()
    table = trial.table("server_lambda" if scene.part == "lambda" else "server_path") if trial else pd.DataFrame()
    if table.empty:
        return
    rounds = rounds_there(spec.rounds, table["round"])
    if scene.part == "lambda":
        own = table[table["round"] == rounds[-1]].pivot(index="epoch", columns="client", values="lambda")
        place.plot(own.index, own, color="0.35", linewidth=0.7, alpha=0.8)  # colours are rounds, in this figure
        add_to_title(place, f"{len(own.columns)} clients, round {rounds[-1]}")
    else:
        for number, round_ in enumerate(rounds):
            own = table[table["round"] == round_].set_index("epoch")
            place.plot(own.index, own[scene.part], color=COLOURS[number % len(COLOURS)], label=f"round {round_}")
    place.set(xlabel="server epoch", ylabel="proxy loss" if scene.part == "loss" else scene.part)


def simplex_parts(spec: SimplexSpec, scene: Scene) -> Sequence[str]:
    """The landscape of one round, and the best weights of all."""
    return ["landscape", "trajectory"]


def simplex(place: Axes, scene: Scene, spec: SimplexSpec) -> None:
    """Barycentric: a corner is a client that gets all the weight; a cross marks data-size weights."""
    trial = scene.first()
    table = trial.table("simplex") if trial else pd.DataFrame()
    if trial is None or table.empty:
        return
    lambdas = ["lambda_0", "lambda_1", "lambda_2"]
    sizes = trial.table("partition").groupby("client")["samples"].sum().to_numpy(float)
    cross = sizes / sizes.sum() @ CORNERS
    best = table.loc[table.groupby("round")["loss"].idxmin()]
    optimum = best[lambdas].to_numpy() @ CORNERS
    if scene.part == "landscape":
        (round_,) = rounds_there([spec.round], table["round"])
        own = table[table["round"] == round_]
        points = own[lambdas].to_numpy() @ CORNERS
        image = place.tricontourf(points[:, 0], points[:, 1], own["loss"], 14, cmap="cividis_r")
        place.figure.colorbar(image, ax=place, shrink=0.8, label="test loss")
        (x, y), suffix = optimum[list(best["round"]).index(round_)], f"loss in round {round_}"
        place.plot(x, y, "*", color=COLOURS[2], markersize=9, label="best weights")
    else:
        dots = place.scatter(optimum[:, 0], optimum[:, 1], 14, best["round"], cmap="viridis")
        place.figure.colorbar(dots, ax=place, shrink=0.8, label="round")
        suffix = "best weights of every round"
    place.plot(*cross, "x", color="black", markersize=7, label="FedAvg")
    place.plot(*np.vstack([CORNERS, CORNERS[:1]]).T, color="0.4", linewidth=0.8)
    for number, (x, y) in enumerate(CORNERS):
        low = y == 0
        place.text(x, y - 0.05 if low else y + 0.03, f"client {number}", ha="center", va="top" if low else "bottom")
    add_to_title(place, suffix)
    place.set_aspect("equal")
    place.axis("off")
    place.set(xlim=(-0.15, 1.15), ylim=(-0.15, 1.0))
