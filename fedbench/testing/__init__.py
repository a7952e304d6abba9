"""The promises of methods, models, data sets, partitions and indicators, as tests: for ours and for everybody's.

A check returns if all promises are kept; else it raises AssertionError with a sentence that says which one was broken.
"""

from fedbench.testing.data import check_dataset, check_partition
from fedbench.testing.indicators import check_indicator
from fedbench.testing.methods import check_method
from fedbench.testing.models import check_model
from fedbench.testing.tiny import tiny

__all__ = ["check_dataset", "check_indicator", "check_method", "check_model", "check_partition", "tiny"]
