"""How flat the loss is around the final model."""

from fedbench.metrics.base import Metric, indicator, last, register_metric

register_metric("hessian_top1", Metric("top Hessian eigenvalue, final model", indicator("hessian_top1", last), 3))
register_metric(
    "hessian_ratio", Metric("ratio of Hessian eigenvalues 1 and 5, final model", indicator("hessian_top1_top5", last))
)
