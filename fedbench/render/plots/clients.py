"""How the accuracy of the global model is distributed over clients."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from fedbench.metrics.clients import basis, client_accuracies
from fedbench.render.plots.base import ColourPlot, PanelData, all_seeds, register_plot, seeds_in_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@register_plot
class ClientsPlot(ColourPlot):
    """The share of clients whose accuracy is at most so high, over the clients of all seeds."""

    kind: Literal["clients"] = "clients"

    def note(self, scenes: Sequence[PanelData]) -> str:
        """Return how the accuracies were computed, and over which clients the lines are."""
        rests = dict.fromkeys(basis(trial) for scene in scenes for cell in scene.cells for trial in scene.done(cell))
        return f"{'; '.join(rests)}; all clients of {seeds_in_words(all_seeds(scenes))}"

    def draw(self, ax: "Axes", scene: PanelData) -> None:
        """Draw a step at every client's accuracy, for each label of the colour axis."""
        found: dict[tuple[str, str], list[float]] = {}
        dashes = {}
        for cell, colour, label in self.coloured(scene):
            dashes[colour, label] = self.dash(cell, scene)
            accuracies = [client_accuracies(trial) for trial in scene.done(cell)]
            values = [100 * value for each in accuracies if each for value in each.accuracy]
            found.setdefault((colour, label), []).extend(values)
        for (colour, label), values in found.items():
            if values:
                shares = np.arange(1, len(values) + 1) / len(values)
                ax.step(
                    np.sort(values), shares, where="post", color=colour, linestyle=dashes[colour, label], label=label
                )
        ax.set_xlabel("accuracy of a client (%)")
        ax.set_ylabel("share of clients")
