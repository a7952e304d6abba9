"""Weights & Biases: a group for each study, a run for each trial."""

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from fedbench.simulation import Record, Simulation
from fedbench.store.folder import summary
from fedbench.trackers.base import Tracker, folder_key, numbers, parameters, register_tracker
from fedbench.trackers.guard import reach

PROJECT = "fedbench"
FOLDER, SERVICE = "WANDB_DIR", "WANDB_SERVICE"  # the second one is W&B's own, of one process
SETTINGS = {
    **{"init_timeout": 10, "finish_timeout": 30, "finish_timeout_raises": True},  # seconds
    "x_disable_meta": True,  # the command line, which may hold an address with a password
}
DONE, FAILED, STOPPED = 0, 1, 255  # exit codes, which W&B shows as finished, failed and killed

_known: list[dict[str, str]] = []  # the environment at W&B's last use, once there was one


@register_tracker("wandb")
class WandB(Tracker):
    """Weights & Biases runs in the group STUDY; with WANDB_MODE=offline in OUT/wandb, for `wandb sync`."""

    package = "wandb"
    variables = ("WANDB_",)
    patience: ClassVar = {"WANDB_SILENT": "true", "WANDB_CONSOLE": "off"}

    run: Any = None

    def start(self, run: Simulation) -> None:
        """Continue the existing run, or create one; then send the rounds that it lacks."""
        self._open()
        for record in run.state.history:
            self._log(record)

    def round(self, run: Simulation, seen: Record) -> None:
        """One point for every number; the step is the round."""
        self._log(seen)

    def end(self, run: Simulation) -> None:
        """Send the summary, then end the run."""
        content = summary(run)
        self.run.summary.update(numbers(content))
        self._close(DONE if content["status"] == "done" else FAILED, content["status"], content["reason"])

    def stopped(self) -> None:
        """Close the run, which is continued later."""
        self._close(STOPPED, "stopped")

    def crashed(self, reason: str) -> None:
        """Mark the run as failed, with the reason."""
        if self.run is None:
            self._open()
        self._close(FAILED, "failed", reason)

    def _open(self) -> None:
        about = {"name": str(self.name), "job_type": "trial", "config": parameters(self.config)}
        self.run = _run(self.out, self.name.study, self.key, about)

    def _log(self, record: Record) -> None:
        """A round that the run does not have: steps never go back."""
        if record.round >= self.run.step:
            self.run.log({**record.numbers(), "round": record.round}, step=record.round)

    def _close(self, code: int, status: str, reason: str | None = None) -> None:
        self.run.summary.update({"status": status, "reason": reason or ""})
        self.run.finish(exit_code=code)

    @classmethod
    def prepare(cls, out: Path, study: str) -> None:
        """Check that the server answers and that there is a key, unless W&B is offline."""
        _check()

    @classmethod
    def report(cls, out: Path, study: str, scale: str, files: Sequence[Path]) -> None:
        """Store the files as an artifact of a further run in the group of the study."""
        import wandb

        about = {"name": f"report, {scale}", "job_type": "report", "config": {"study": study, "scale": scale}}
        run = _run(out, study, f"report-{scale}-{folder_key(out)}", about)
        artifact = wandb.Artifact(_plain(f"{study}-{scale}"), type="report")
        for path in files:
            artifact.add_file(str(path))
        run.log_artifact(artifact)
        run.finish(exit_code=DONE)

    @classmethod
    def environment(cls) -> dict[str, str]:
        """Return W&B's variables, its folder by an absolute path."""
        found = {name: value for name, value in super().environment().items() if name != SERVICE}
        return {**found, FOLDER: str(Path(found[FOLDER]).resolve())} if FOLDER in found else found


def _settings() -> Any:
    """W&B's settings; since it keeps those of its first use, it is started anew where the environment has changed."""
    import wandb  # seconds to import: for those who want it

    now = WandB.environment()
    if _known and _known != [now]:
        wandb.teardown()
    _known[:] = [now]
    return wandb.setup().settings.model_copy()


def _check() -> None:
    """Raise where W&B would ask for a key, or wait for a server that does not answer."""
    import wandb

    settings = _settings()
    if settings.mode not in ("online", "shared"):
        return
    reach(settings.base_url)
    if not wandb.login(prompt=False):
        raise ConnectionError("no API key: wandb login, or set WANDB_API_KEY or WANDB_MODE=offline")


def _run(out: Path, study: str, key: str, about: dict[str, Any]) -> Any:
    """The run with a key; offline a new one in place of the old, since there nothing can be taken up."""
    import wandb

    _check()
    home, name = Path(os.environ.get(FOLDER) or out), _plain(f"{study or 'trial'}-{key}")
    home.mkdir(parents=True, exist_ok=True)
    for old in home.glob(f"wandb/offline-run-*-{name}"):
        shutil.rmtree(old, ignore_errors=True)
    settings = _settings()
    settings.update_from_dict(SETTINGS)
    return wandb.init(
        project=os.environ.get("WANDB_PROJECT") or PROJECT,
        group=os.environ.get("WANDB_RUN_GROUP") or study or None,
        id=name,
        resume="allow",
        dir=str(home),
        reinit="create_new",
        settings=settings,
        **about,
    )


def _plain(text: str) -> str:
    """Return a name with the letters that W&B allows, cut to its longest length."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text)[-128:]
