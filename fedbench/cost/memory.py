"""How much of a GPU's memory a trial takes."""

from math import prod

from fedbench.config import TrialConfig
from fedbench.cost.speeds import Speeds
from fedbench.cost.work import kept_numbers, parameter_count

VECTORS = 6  # copies of the parameters that come and go: global model, gradient, aggregate and the like
TWICE = 2  # what layers keep, and gradients of the same sizes on the way back


def kept_models(config: TrialConfig) -> int:
    """How many vectors of the model's size a run holds: the cohort, kept momentum, a few copies."""
    return VECTORS + config.participants + (config.clients.count if config.clients.momentum_state == "keep" else 1)


def image_bytes(config: TrialConfig) -> float:
    """Bytes of all images, which lie in memory as they are."""
    dataset = config.dataset
    return float((dataset.train_size + dataset.test_size) * prod(dataset.sample_shape) * dataset.dtype.itemsize)


def estimated_gpu_memory(config: TrialConfig, speeds: Speeds | None = None) -> float:
    """Bytes that a trial reserves on a GPU: data, models, and a training step's, as measured where it was."""
    network = (config.model, config.dataset.shape, config.dataset.num_classes)
    item = config.numbers.dtype.itemsize
    measured = [
        row.memory
        for row in (speeds.rows if speeds and speeds.machine.device == "cuda" else ())
        if (row.model, row.precision) == (config.model, config.precision)
    ]
    step = max(measured, default=TWICE * kept_numbers(*network) * config.clients.batch_size * item)
    return image_bytes(config) + kept_models(config) * parameter_count(*network) * item + step
