"""Where the final model's parameters lie."""

from collections.abc import Mapping

import numpy as np
import torch

from fedbench.indicators.base import Indicator, NoSettings, Rows, RunContext, register_indicator

BINS = 101  # odd, so that one bin is centred on zero


@register_indicator()
class Histogram(Indicator[NoSettings]):
    """How many parameters lie where; the range is symmetric around zero and holds all of them."""

    name = "histogram"
    final_tables = {"histogram": ("left", "right", "count")}

    def conclude(self, settings: NoSettings, context: RunContext) -> Mapping[str, Rows]:
        """Count the parameters in bins of equal width."""
        w = context.w.to("cpu", torch.float64).numpy()
        reach = float(np.abs(w).max())
        counts, edges = np.histogram(w, BINS, (-reach, reach))
        return {"histogram": list(zip(edges[:-1].tolist(), edges[1:].tolist(), counts.tolist(), strict=True))}
