"""How well the global model does on the test set."""

from fedbench.store.metrics.base import Metric, column, early, register_metric, summary

register_metric("test_accuracy", Metric("test accuracy (%)", summary("final_accuracy", 100.0), better="higher"))
register_metric("test_loss", Metric("test loss", summary("final_loss"), 4, better="lower"))
register_metric(
    "early_accuracy",
    Metric("test accuracy, first tenth of the rounds (%)", column("test_accuracy", early, 100.0)),
)
