"""Pages of studies that run: a thread of the driver writes them every few seconds."""

import math
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from types import TracebackType
from typing import Self

from fedbench.analysis.tables import fill_tables
from fedbench.console.progress import StudyProgress
from fedbench.render.pages.content import Live, Now
from fedbench.render.pages.render import RELOAD
from fedbench.render.report import write_pages
from fedbench.render.study import StudyReport, folder_of
from fedbench.specs.expand import ScaledStudy
from fedbench.store.store import DamagedError, Store, StoredTrial, read_rounds, scored_over

LONGEST = 60.0  # seconds after which a page is written again although nothing has changed: it shows that we run
SHARE = 0.1  # of one core, at most, goes into pages


class LivePages:
    """Writes the pages of studies while they run. A context manager around the run; `progress` hears of the trials.

    A page is written when something has changed, and at most so often that writing takes a tenth of one core.
    A page that cannot be written is one warning and the end of it: the study goes on.
    """

    every = RELOAD - 1.0  # seconds between two pages, at least

    def __init__(self, studies: Sequence[ScaledStudy], store: Store, progress: StudyProgress) -> None:
        self.studies, self.progress = studies, progress
        self.store = Store(store.out)  # one of this thread's own
        self._scored: dict[tuple[str, int | None], StoredTrial] = {}
        self._written: dict[str, tuple[float, Live, list[str]]] = {}  # by folder: when, and what is on the page
        self._over = threading.Event()
        self._writer = threading.Thread(target=self._keep_writing, daemon=True)

    def __enter__(self) -> Self:
        self._writer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._writer.join()
        if self.progress.trials.keys() - self.progress.outcomes.keys():
            self._try(running=False)

    def _keep_writing(self) -> None:
        pause = 0.0
        while not self._over.wait(pause):
            started = time.thread_time()
            if not self._try(running=True):
                return
            pause = max(self.every, (time.thread_time() - started) / SHARE)

    def _try(self, *, running: bool) -> bool:
        """Write all pages that have changed; whether that could be done."""
        try:
            for study in self.studies:
                if not self._over.is_set() or not running:
                    self._write(study, running)
        except DamagedError as error:  # the next page is without it
            self.store.leave_out(error)
            self._scored = {key: trial for key, trial in self._scored.items() if key[0] != error.hash}
        except Exception as error:  # whatever it is, trials matter more
            self.progress.warn(f"pages are not kept up to date ({type(error).__name__}: {error})")
            return False
        return True

    def _write(self, study: ScaledStudy, running: bool) -> None:
        folder = folder_of(study, self.store)
        trials = self._ended(study)
        live, now = self._live(study, trials, running), time.monotonic()
        content = replace(live, left=""), list(trials)  # the time that is left changes all the time
        written, *shown = self._written.get(str(folder), (-math.inf,))
        if tuple(shown) == content and now - written < LONGEST:
            return
        folder.mkdir(parents=True, exist_ok=True)
        read_rounds(trials.values())
        write_pages(StudyReport(study, trials, fill_tables(study, trials)), folder, self.store, live)
        self._written[str(folder)] = now, *content

    def _ended(self, study: ScaledStudy) -> dict[str, StoredTrial]:
        """The study's trials that have ended, now or before, scored as it says."""
        told, rounds = self.progress, study.score.rounds
        ended = [hash_ for hash_ in study.trials if hash_ not in told.trials or hash_ in told.outcomes]
        fresh = [hash_ for hash_ in ended if (hash_, rounds) not in self._scored]
        found = scored_over({hash_: trial for hash_ in fresh if (trial := self.store.get(hash_))}, rounds)
        self._scored |= {(hash_, rounds): trial for hash_, trial in found.items()}
        return {hash_: self._scored[hash_, rounds] for hash_ in ended if (hash_, rounds) in self._scored}

    def _live(self, study: ScaledStudy, trials: dict[str, StoredTrial], running: bool) -> Live:
        """How far a study is: trials that ended count in full."""
        told, total = self.progress, sum(config.rounds for config in study.trials.values())
        now = [hash_ for hash_ in study.trials if hash_ in told.running] if running else []
        left = {hash_: told.rounds[hash_] for hash_ in study.trials if hash_ in told.trials}
        done = sum(left.get(hash_, config.rounds) for hash_, config in study.trials.items())
        elsewhere = len(study.trials.keys() & set(told.elsewhere))
        waiting = len(study.trials) - len(trials) - len(now) - elsewhere
        counts = f"{len(trials)} of {len(study.trials)} trials have ended"
        if running:
            others = f", {elsewhere} elsewhere" if elsewhere else ""
            counts += f", {len(now)} run{others}, {waiting} wait"
        if told.questions:
            counts += f"; {told.questions}"
        return Live(
            running=running,
            share=done / total,
            counts=counts,
            left=told.left() if len(self.studies) == 1 else "",
            now=[Now(h, told.names[h], told.rounds[h], study.trials[h].rounds, dict(told.curves[h])) for h in now],
        )
