"""Gamma, what shrinking does to the global model, and how flat the loss is around the final one."""

from fedbench.metrics.base import Metric, TrialData, column, early, indicator, last, late, register_metric, summary

RESCALED_BY = 0.98  # of the gammas that the rescaled loss is computed at, the one that is looked at


def rescaling_gain(trial: TrialData) -> float | None:
    """How much the final model's test loss falls when the model is rescaled by 0.98."""
    table = trial.table("rescaled")
    if table.empty:
        return None
    loss = table.set_index("gamma")["loss"]
    return float(loss.loc[1.0] - loss.loc[RESCALED_BY])


def rescaling_change(trial: TrialData) -> float | None:
    """How much the final model's test loss changes, up or down, over rescalings by 0.9 to 1, in percent."""
    table = trial.table("rescaled")
    if table.empty:
        return None
    loss = table.set_index("gamma")["loss"]
    near = loss[(loss.index >= 0.9) & (loss.index <= 1.0)]
    return float(100 * (near - loss.loc[1.0]).abs().max() / loss.loc[1.0])


register_metric("gamma", Metric("gamma, mid-run", summary("middle_gamma"), 4))
register_metric("gamma_early", Metric("gamma, first tenth of the rounds", column("gamma", early), 4))
register_metric("gamma_late", Metric("gamma, last 10 rounds", column("gamma", late), 4))
register_metric("r", Metric("r, mid-run", summary("middle_r")))
register_metric("norm_opt", Metric("norm of the global gradient, mid-run", summary("middle_norm_opt")))
register_metric("norm_reg", Metric("norm of the shrinking term, mid-run", summary("middle_norm_reg")))
register_metric("norm_w", Metric("norm of the final model", column("norm_w", last)))
register_metric("near_zero", Metric("parameters near zero (%)", summary("near_zero_share", 100.0)))
register_metric("rescaling_gain", Metric("fall of the loss when rescaled by 0.98", rescaling_gain, 5))
register_metric("rescaling_change", Metric("largest change of the loss when rescaled by 0.9 to 1, %", rescaling_change))
register_metric("hessian_top1", Metric("top Hessian eigenvalue, final model", indicator("hessian_top1", last), 3))
register_metric(
    "hessian_ratio", Metric("ratio of Hessian eigenvalues 1 and 5, final model", indicator("hessian_top1_top5", last))
)
