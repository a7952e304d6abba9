"""What the final model of a run shows, once all rounds are done."""

from collections.abc import Sequence

import numpy as np
import torch

from fedbench.indicators.flatness import loss_along, top_eigenvalues
from fedbench.simulation.compute import exact
from fedbench.simulation.evaluation import class_accuracies, evaluate
from fedbench.simulation.loop import Simulation
from fedbench.simulation.observe import hessian_batches, lanczos_start
from fedbench.simulation.record import Row

Table = tuple[Sequence[str], list[Row]]

BINS = 101  # odd, so that one bin is centred on zero
RESCALINGS = tuple(round(0.5 + 0.02 * i, 2) for i in range(31))  # 0.5 ... 1.1
STEPS = tuple(round(-1 + 0.1 * i, 1) for i in range(21))  # along a unit vector


def final_tables(simulation: Simulation) -> dict[str, Table]:
    """Tables by name: per-class accuracy and parameter histogram; where asked for, rescaled loss and landscape."""
    with exact(simulation.config.run, simulation.device):
        tables = {"classes": class_table(simulation), "histogram": histogram_table(simulation)}
        if simulation.config.indicators.landscape:
            tables |= {"rescaled": rescaled_table(simulation), "landscape": landscape_table(simulation)}
    return tables


def class_table(simulation: Simulation) -> Table:
    """Test accuracy of every class."""
    state, test = simulation.state, simulation.federation.test
    classes = simulation.config.dataset.num_classes
    found = class_accuracies(simulation.model, state.w, state.buffers, test, classes)
    return ("class", "samples", "accuracy"), [(label, *row) for label, row in enumerate(found)]


def histogram_table(simulation: Simulation) -> Table:
    """How many parameters lie where; the range is symmetric around zero and holds all of them."""
    w = simulation.state.w.to("cpu", torch.float64).numpy()
    reach = float(np.abs(w).max())
    counts, edges = np.histogram(w, BINS, (-reach, reach))
    rows = zip(edges[:-1].tolist(), edges[1:].tolist(), counts.tolist(), strict=True)
    return ("left", "right", "count"), list(rows)


def rescaled_table(simulation: Simulation) -> Table:
    """Test loss and accuracy of gamma * w for a range of gammas."""
    state, test = simulation.state, simulation.federation.test
    scores = [(gamma, evaluate(simulation.model, gamma * state.w, state.buffers, test)) for gamma in RESCALINGS]
    return ("gamma", "loss", "accuracy"), [(gamma, score.loss, score.accuracy) for gamma, score in scores]


def landscape_table(simulation: Simulation) -> Table:
    """Training loss along the unit eigenvector of the largest Hessian eigenvalue."""
    config, model, state = simulation.config, simulation.model, simulation.state
    model.load(state.w, state.buffers)
    batches = hessian_batches(config, simulation.federation)
    top = top_eigenvalues(model, batches, 1, lanczos_start(config, model)).top
    losses = loss_along(model, batches, top, STEPS)
    return ("step", "loss"), list(zip(STEPS, losses, strict=True))
