"""How well the global model does on each client's own test data, and for the worst client on the validation set."""

from collections.abc import Mapping, Sequence

import numpy as np

from fedbench.base.fields import Strict
from fedbench.indicators.base import (
    Column,
    Indicator,
    Observation,
    RoundContext,
    Rows,
    RunContext,
    register_indicator,
)
from fedbench.indicators.heterogeneity import expected_accuracy
from fedbench.indicators.scoring import class_scores, score


class ClientScoresSettings(Strict):
    """Scoring by client in every round, which is off by default."""

    client_validation: bool = False
    """record in every round the accuracy that is expected of the worst client, by classes of the validation set"""


@register_indicator()
class ClientScores(Indicator[ClientScoresSettings]):
    """The final model, or each client's own, on the clients' test data; on request the worst client in every round."""

    name = "client_scores"
    Settings = ClientScoresSettings
    final_tables = {"client_scores": ("client", "samples", "accuracy")}

    def columns(self) -> Sequence[Column]:
        """Recorded where `client_validation` is set."""
        label = "expected accuracy of the worst client on the validation set (%)"
        return [Column("validation_worst_client", label, "worst client", factor=100)]

    def observe(self, settings: ClientScoresSettings, context: RoundContext) -> Observation:
        """One pass over the validation set for each model."""
        federation = context.federation
        if not settings.client_validation or federation.validation is None:
            return Observation()
        counts = federation.split.class_counts
        found = [
            class_scores(context.predict(*model, federation.validation), counts.shape[1])
            for model in context.own_models or [(context.w, context.buffers)]
        ]
        by_class = np.array([[np.nan if accuracy is None else accuracy for _, accuracy in scores] for scores in found])
        if np.isnan(by_class[:, counts.any(0)]).any():
            return Observation()
        worst = float(expected_accuracy(counts, np.nan_to_num(by_class)).min())
        return Observation({"validation_worst_client": worst})

    def conclude(self, settings: ClientScoresSettings, context: RunContext) -> Mapping[str, Rows]:
        """Score each client's own test data, one client after the other; clients without any have no row."""
        federation, rows = context.federation, []
        split = federation.split
        for client in range(len(split.holdout if split.client_tests is None else split.client_tests)):
            own = federation.client_test(client)
            if own is not None:
                model = context.own_models[client] if context.own_models else (context.w, context.buffers)
                found = score(context.predict(*model, own))
                rows.append((client, len(own), found.accuracy))
        return {"client_scores": rows} if rows else {}
