"""How gamma and lambda are learned within a round, server epoch by server epoch."""

from fedbench.base.fields import Strict
from fedbench.indicators.base import NOTHING, Indicator, Observation, RoundContext, Rows, register_indicator


class ServerPathSettings(Strict):
    """Whether to record the path of server training."""

    server_path: bool = False
    """gamma, lambda and proxy loss of every server epoch"""


@register_indicator()
class ServerPath(Indicator[ServerPathSettings]):
    """The learned weights after every server epoch, with the mean proxy loss over it."""

    name = "server_path"
    Settings = ServerPathSettings
    tables = {
        "server_path": ("epoch", "gamma", "loss"),
        "server_lambda": ("epoch", "client", "lambda"),
    }

    def observe(self, settings: ServerPathSettings, context: RoundContext) -> Observation:
        """Record the points that the method returned, one for each server epoch."""
        if not settings.server_path or not context.update.path:
            return NOTHING
        epochs = list(enumerate(context.update.path, start=1))
        tables: dict[str, Rows] = {
            "server_path": [(epoch, point.gamma, point.loss) for epoch, point in epochs],
            "server_lambda": [
                (epoch, client, weight)
                for epoch, point in epochs
                for client, weight in zip(context.cohort.clients, point.lambda_, strict=True)
            ],
        }
        return Observation(tables=tables)
