"""What corrupted clients weigh."""

from collections.abc import Sequence

from fedbench.indicators.base import Column, Indicator, NoSettings, Observation, RoundContext, register_indicator


@register_indicator()
class WeightOfCorrupted(Indicator[NoSettings]):
    """The weights of the cohort's corrupted clients together, under a method that gives weights."""

    name = "corrupted"

    def columns(self) -> Sequence[Column]:
        """Recorded where there are corrupted clients."""
        return [Column("lambda_corrupted", "weight of corrupted clients")]

    def observe(self, settings: NoSettings, context: RoundContext) -> Observation:
        """Sum of lambda_i over the corrupted clients i; 0 in a round without any."""
        corrupted, lambda_ = context.federation.split.corrupted, context.update.lambda_
        if not corrupted or lambda_ is None:
            return Observation()
        weights = zip(context.cohort.clients, lambda_.tolist(), strict=True)
        return Observation({"lambda_corrupted": sum((weight for i, weight in weights if i in corrupted), 0.0)})
