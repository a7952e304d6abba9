"""Running trials on Ray Tune: scheduling is Ray's, results and resuming are the store's."""

import logging
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# Before Ray is imported: quiet output, no warning about how often its (disposable) snapshots are written.
os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")
os.environ.setdefault("TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S", "0")
os.environ.setdefault("TUNE_DISABLE_SIGINT_HANDLER", "1")  # the store has all there is to save: stop at once
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")

import ray
from ray import tune

from fedbench.base.errors import UserError
from fedbench.config import TrialConfig
from fedbench.data.official import cache_dir
from fedbench.tune.options import RunOptions, StudyListener
from fedbench.tune.trainable import payload, run_trial

GPU_SHARE = 0.25  # of a GPU, for each trial, where there are GPUs and nothing was asked for

# glibc gives freed memory back to the system at once by default: large forwards then page-fault all the time.
WORKER_ENV = {
    "MALLOC_MMAP_THRESHOLD_": "1073741824",
    "MALLOC_TRIM_THRESHOLD_": "1073741824",
    "MALLOC_TOP_PAD_": "67108864",
}


@contextmanager
def cluster(options: RunOptions) -> Iterator[None]:
    """A Ray cluster for the time of a study: the one at `address`, or one started here and stopped at the end."""
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if ray.is_initialized():  # a test, or a notebook, brought its own
        yield
        return
    if options.address:
        try:
            ray.init(address=options.address, runtime_env={"env_vars": WORKER_ENV}, **quiet)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise UserError(f"--address {options.address}: no Ray cluster there ({error})") from error
    else:
        token = private_token()
        os.environ.update(WORKER_ENV)  # inherited by workers; a runtime_env would throw Ray's warm ones away
        context = ray.init(address="local", include_dashboard=options.dashboard, dashboard_host="127.0.0.1", **quiet)
        if options.dashboard:
            print(f"dashboard: http://{context.dashboard_url} (it asks for the token in {token})", flush=True)
    try:
        yield
    finally:
        ray.shutdown()


def private_token() -> Path:
    """The file with the token that guards a cluster started here, readable by its owner alone.

    Ray would make one that everybody on the machine can read.
    """
    named = os.environ.get("RAY_AUTH_TOKEN_PATH")
    path = Path(named) if named else cache_dir() / "ray-token"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as stream:
            stream.write(secrets.token_hex(32))
    os.environ["RAY_AUTH_TOKEN_PATH"] = str(path)
    return path


def run_trials(name: str, trials: dict[str, TrialConfig], options: RunOptions, listener: StudyListener) -> None:
    """Run all trials; returns when every one has ended, or its process has died too often.

    Trials whose process died are run again once the others have ended. Ctrl-C comes through as KeyboardInterrupt.
    """
    with cluster(options):
        logging.getLogger("ray.tune").setLevel(logging.CRITICAL)
        gpus = gpu_share(options)
        for _ in range(options.max_failures + 1):
            left = {hash_: config for hash_, config in trials.items() if hash_ not in listener.outcomes}
            if not left:
                return
            _fit(name, left, options, gpus, listener)


def _fit(name: str, trials: dict[str, TrialConfig], options: RunOptions, gpus: float, listener: StudyListener) -> None:
    payloads = [payload(config, options, gpus) for config in trials.values()]
    tuner = tune.Tuner(
        tune.with_resources(run_trial, {"cpu": options.cpus_per_trial, "gpu": gpus}),
        param_space={"trial": tune.grid_search(payloads)},
        tune_config=tune.TuneConfig(
            reuse_actors=True,
            max_concurrent_trials=options.max_concurrent,
            trial_name_creator=_trial_name,
            trial_dirname_creator=_trial_name,
        ),
        run_config=tune.RunConfig(
            name=f"{name}-{time.strftime('%Y%m%d-%H%M%S')}",
            storage_path=str((options.out / "ray").resolve()),
            failure_config=tune.FailureConfig(max_failures=0),  # see run_trials
            callbacks=[ProgressCallback(listener)],
            verbose=0,
        ),
    )
    tuner.fit()


class ProgressCallback(tune.Callback):
    """Tells the listener what Tune hears from the trials."""

    def __init__(self, listener: StudyListener) -> None:
        self.listener = listener

    def __getstate__(self) -> dict[str, Any]:
        """Tune pickles its callbacks into the (disposable) experiment folder; the listener stays here."""
        return {}

    def on_trial_result(self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **_: Any) -> None:
        """A report of a trial: a round, or its end."""
        if result.get("status") == "running":
            self.listener.update(result["hash"], result["round"], result["test_accuracy"])
        elif "status" in result:
            final = result.get("final_accuracy")
            detail = f"final {100 * final:.2f} %" if final is not None else f"{result['status']}: {result['reason']}"
            self.listener.ended(result["hash"], result["status"], detail)


def _trial_name(trial: Any) -> str:
    config = TrialConfig(**trial.config["trial"]["config"])
    return f"{config.method.name}-{config.model}-seed{config.seed}-{config.hash[:12]}"


def gpu_share(options: RunOptions) -> float:
    """GPUs for each trial: what was asked for, else a share where the cluster has any."""
    if options.gpus_per_trial is not None:
        return options.gpus_per_trial
    return GPU_SHARE if ray.cluster_resources().get("GPU", 0) > 0 else 0.0
