"""TensorBoard: every number of every round, under OUT/tensorboard."""

import shutil

from fedbench.config.naming import SHORT_HASH
from fedbench.simulation import Record, Simulation
from fedbench.trackers.base import Tracker, register_tracker


@register_tracker("tensorboard")
class TensorBoard(Tracker):
    """TensorBoard files with every number of every round: tensorboard --logdir OUT/tensorboard."""

    def start(self, run: Simulation) -> None:
        """Open a folder of the run's own, named by its axes; the rounds that it has behind it come first."""
        from tensorboardX import SummaryWriter  # a second to import: for those who want it

        home = self.out / "tensorboard"
        for old in home.rglob(f"*, {self.config.hash[:SHORT_HASH]}"):
            shutil.rmtree(old, ignore_errors=True)  # of a process that was stopped: its rounds are written again
        self.writer = SummaryWriter(str(home / self.name.folder(self.config.hash)))
        for record in run.state.history:
            self._write(record)

    def round(self, run: Simulation, seen: Record) -> None:
        """One point for every number; the step is the round."""
        self._write(seen)
        self.writer.flush()

    def end(self, run: Simulation) -> None:
        """Close the file."""
        self.writer.close()

    def _write(self, record: Record) -> None:
        for name, value in record.numbers().items():
            self.writer.add_scalar(name, value, record.round)
