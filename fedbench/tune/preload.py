"""What workers import as soon as they start, while the command still reads its study: all that a trial needs."""

import gc
from importlib import import_module

gc.disable()  # or it would walk through all of torch again and again
import_module("fedbench.tune.trainable")
gc.freeze()
gc.enable()
