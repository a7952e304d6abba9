"""Test accuracy of every class, for clients with models of their own also by client."""

from collections.abc import Mapping
from statistics import fmean

from fedbench.indicators.base import Indicator, NoSettings, Row, Rows, RunContext, register_indicator
from fedbench.indicators.scoring import class_scores


@register_indicator()
class Classes(Indicator[NoSettings]):
    """How well the final model does on each class, or the mean of the clients' own models."""

    name = "classes"
    final_tables = {"classes": ("class", "samples", "accuracy"), "client_classes": ("client", "class", "accuracy")}

    def conclude(self, settings: NoSettings, context: RunContext) -> Mapping[str, Rows]:
        """One pass over the test set for each model."""
        classes = context.federation.split.class_counts.shape[1]
        models = context.own_models or [(context.w, context.buffers)]
        found = [class_scores(context.predict(*model), classes) for model in models]
        rows: list[Row] = []
        for label, scores in enumerate(zip(*found, strict=True)):
            known = [accuracy for _, accuracy in scores if accuracy is not None]
            rows.append((label, scores[0][0], fmean(known) if known else None))
        if not context.own_models:
            return {"classes": rows}
        own = [(i, c, accuracy) for i, scores in enumerate(found) for c, (_, accuracy) in enumerate(scores)]
        return {"classes": rows, "client_classes": own}
