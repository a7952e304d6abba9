"""The loss over the weights of three clients: the paper's toy example."""

from fedbench.base.fields import Count, Strict, Whole
from fedbench.indicators.base import NOTHING, Indicator, Observation, RoundContext, Row, register_indicator


class SimplexSettings(Strict):
    """When to compute the landscape over weights, and on how fine a grid."""

    simplex_every: Whole = 0
    """rounds between loss landscapes over the weights of three clients, 0 for none; the last round is always one"""
    simplex_grid: Count = 20
    """steps of the grid along an edge"""


@register_indicator()
class Simplex(Indicator[SimplexSettings]):
    """Test loss and accuracy of lambda @ W over a grid on the simplex of three clients' weights."""

    name = "simplex"
    Settings = SimplexSettings
    tables = {"simplex": ("lambda_0", "lambda_1", "lambda_2", "loss", "accuracy")}

    def check(self, settings: SimplexSettings, clients: int, participants: int) -> str | None:
        """A triangle has three corners."""
        if not settings.simplex_every or clients == participants == 3:
            return None
        return (
            f"indicators.simplex_every = {settings.simplex_every}: needs three clients that all take part; "
            "use it with data.partition=three_node"
        )

    def canonical(self, settings: SimplexSettings) -> dict[str, object]:
        """The grid counts where it is used."""
        form = super().canonical(settings)
        if not settings.simplex_every:
            del form["simplex_grid"]
        return form

    def observe(self, settings: SimplexSettings, context: RoundContext) -> Observation:
        """The landscape, where it is due."""
        if not context.due(settings.simplex_every):
            return NOTHING
        rows, grid, cohort = list[Row](), settings.simplex_grid, context.cohort
        for i in range(grid + 1):
            for j in range(grid + 1 - i):
                weights = (i / grid, j / grid, (grid - i - j) / grid)
                accuracy, loss = context.score(cohort.combine(cohort.W.new_tensor(weights)))
                rows.append((*weights, loss, accuracy))
        return Observation(tables={"simplex": rows})
