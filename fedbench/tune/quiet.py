"""Ray's environment, to be set before Ray is imported."""

import os

# Quiet output, no warning about how often its (disposable) snapshots are written.
os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")
os.environ.setdefault("TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S", "0")
os.environ.setdefault("TUNE_DISABLE_SIGINT_HANDLER", "1")  # the store has all there is to save: stop at once
os.environ.setdefault("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")  # their TensorBoard steps count reports, not rounds
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
