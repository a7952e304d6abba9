"""Test accuracy of every class."""

from collections.abc import Mapping

from fedbench.indicators.base import Indicator, NoSettings, Rows, RunContext, register_indicator
from fedbench.indicators.scoring import class_scores


@register_indicator()
class Classes(Indicator[NoSettings]):
    """How well the final model does on each class."""

    name = "classes"
    final_tables = {"classes": ("class", "samples", "accuracy")}

    def conclude(self, settings: NoSettings, context: RunContext) -> Mapping[str, Rows]:
        """One pass over the test set."""
        classes = context.federation.split.class_counts.shape[1]
        scores = class_scores(context.predict(context.w, context.buffers), classes)
        return {"classes": [(label, count, accuracy) for label, (count, accuracy) in enumerate(scores)]}
