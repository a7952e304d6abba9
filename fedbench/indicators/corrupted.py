"""What corrupted clients weigh."""

from collections.abc import Sequence

from fedbench.indicators.base import Column, Indicator, NoSettings, Observation, RoundMoment, register_indicator


@register_indicator()
class WeightOfCorrupted(Indicator[NoSettings]):
    """The weights of the cohort's corrupted clients together, under a method that gives weights."""

    name = "corrupted"

    def columns(self) -> Sequence[Column]:
        """Recorded where there are corrupted clients."""
        return [Column("lambda_corrupted", "weight of corrupted clients")]

    def observe(self, settings: NoSettings, moment: RoundMoment) -> Observation:
        """Sum of lambda_i over the corrupted clients i; 0 in a round without any."""
        corrupted, lambda_ = moment.federation.split.corrupted, moment.update.lambda_
        if not corrupted or lambda_ is None:
            return Observation()
        weights = zip(moment.cohort.clients, lambda_.tolist(), strict=True)
        return Observation({"lambda_corrupted": sum((weight for i, weight in weights if i in corrupted), 0.0)})
