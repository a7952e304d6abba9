"""Test accuracy of every class."""

from collections.abc import Mapping

from fedbench.indicators.base import Indicator, Moment, NoSettings, Rows, register_indicator
from fedbench.indicators.scoring import class_scores


@register_indicator()
class Classes(Indicator[NoSettings]):
    """How well the final model does on each class."""

    name = "classes"
    final_tables = {"classes": ("class", "samples", "accuracy")}

    def conclude(self, settings: NoSettings, moment: Moment) -> Mapping[str, Rows]:
        """One pass over the test set."""
        classes = moment.federation.split.class_counts.shape[1]
        scores = class_scores(moment.predict(moment.w, moment.buffers), classes)
        return {"classes": [(label, count, accuracy) for label, (count, accuracy) in enumerate(scores)]}
