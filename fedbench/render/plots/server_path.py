"""How weights are learned within a round."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from fedbench.base.fields import Count
from fedbench.render.plots.base import (
    PanelData,
    QuantityPlot,
    add_to_title,
    register_plot,
    rounds_there,
)
from fedbench.render.style import COLOURS, DASHES

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@register_plot
class ServerPathPlot(QuantityPlot):
    """Gamma, lambda and proxy loss over server epochs, in some `rounds` of the first seed."""

    one_cell = True
    parts_differ = True
    kind: Literal["server_path"] = "server_path"
    rounds: Annotated[list[Count], Field(min_length=1)]
    """which rounds, or the nearest that were recorded"""

    def parts(self, scene: PanelData) -> Sequence[str]:
        """Return a column for each of gamma, lambda and the proxy loss."""
        return ["gamma", "lambda", "loss"]

    def draw(self, ax: "Axes", scene: PanelData) -> None:
        """Draw a line for every round; for lambda one for every client, in the last of the rounds."""
        table = scene.first_table("server_lambda" if scene.part == "lambda" else "server_path")
        if table.empty:
            return
        rounds = rounds_there(self.rounds, table["round"])
        if scene.part == "lambda":
            paths = table[table["round"] == rounds[-1]].pivot(index="epoch", columns="client", values="lambda")
            ax.plot(paths.index, paths, color="0.35", linewidth=0.7, alpha=0.8)  # colours are rounds, in this figure
            add_to_title(ax, f"{len(paths.columns)} clients, round {rounds[-1]}")
        else:
            for number, round_ in enumerate(rounds):
                path = table[table["round"] == round_].set_index("epoch")
                look: Any = {"color": COLOURS[number % len(COLOURS)], "linestyle": DASHES[number % len(DASHES)]}
                ax.plot(path.index, path[scene.part], label=f"round {round_}", **look)
        ax.set(xlabel="server epoch", ylabel="proxy loss" if scene.part == "loss" else scene.part)
