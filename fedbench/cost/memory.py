"""How much of a GPU's memory a trial takes."""

from math import prod

from fedbench.config import TrialConfig
from fedbench.cost.speeds import Speeds
from fedbench.cost.work import kept_numbers, largest_layer, parameter_count
from fedbench.simulation.evaluation import GPU_BATCH

VECTORS = 6  # copies of the parameters that come and go: global model, gradient, aggregate and the like
TWICE = 2  # what layers keep, and gradients of the same sizes on the way back
# Bytes that cuBLAS takes, as deterministic products ask for: for the forward and the backward thread of torch, each on
# torch's usual stream and on that of captures.
WORKSPACES = 2 * 2 * 8 * 4096 * 1024


def kept_models(config: TrialConfig) -> int:
    """How many vectors of the model's size a run holds: the cohort, kept momentum, a few copies."""
    return VECTORS + config.participants + (config.clients.count if config.clients.momentum_state == "keep" else 1)


def image_bytes(config: TrialConfig) -> float:
    """Bytes of all images, which lie in memory as they are."""
    dataset = config.dataset
    return float((dataset.train_size + dataset.test_size) * prod(dataset.sample_shape) * dataset.dtype.itemsize)


def estimated_gpu_memory(config: TrialConfig, speeds: Speeds | None = None) -> float:
    """Return the bytes that a trial reserves on a GPU: for data, for models, and for a training step or for scoring.

    What the last two take comes from `speeds`, if it was measured for the model. What CUDA itself takes for a process
    is not among them.
    """
    item = config.numbers.dtype.itemsize
    measured = [
        row.memory
        for row in (speeds.rows if speeds and speeds.machine.device == "cuda" else ())
        if (row.model, row.precision) == (config.model, config.precision)
    ]
    kept = image_bytes(config) + kept_models(config) * parameter_count(*config.network) * item
    if measured:
        return kept + max(measured)
    step = TWICE * kept_numbers(*config.network) * config.clients.batch_size * item
    scoring = largest_layer(*config.network) * min(GPU_BATCH, config.test_samples) * item
    return kept + max(step, scoring) + WORKSPACES
