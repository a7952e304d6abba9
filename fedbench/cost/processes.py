"""Running what is measured in processes of its own, within a time: a process that fails or hangs is a reason in words.

The processes come from a server that has imported torch already, and has not touched a GPU: each starts at once.
"""

import multiprocessing
import os
import signal
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from threading import BrokenBarrierError
from typing import Any, TypeVar

import psutil

from fedbench.base.environment import WORKER_ENV
from fedbench.base.errors import UserError
from fedbench.base.plugins import import_modules
from fedbench.cost.cases import Case, Found
from fedbench.cost.trial import context_memory, matrix_speed, measure

T = TypeVar("T")
START_SECONDS = 60.0  # for processes to come up, and a GPU to be made ready, before they are given up

OTHERS = "another one failed"  # which says why


class LeftOut(Exception):
    """Something could not be measured; the text says why."""


class Server:
    """Where processes come from, and what they found; `modules` are imported in each of them."""

    def __init__(self, modules: Sequence[str] = ()) -> None:
        os.environ.update(WORKER_ENV)
        ready = "forkserver" in multiprocessing.get_all_start_methods()
        self.context: Any = multiprocessing.get_context("forkserver" if ready else "spawn")
        self.context.set_forkserver_preload(["fedbench.cost.trial"])
        self.modules = tuple(modules)
        if ready:
            _start_server()

    def trials(self, case: Case, device: str, seconds: float) -> list[Found]:
        """What each of the trials of a case found, all measured at the same time for so many seconds."""
        return self.together(measure, case, device, seconds, count=case.setting.at_once, seconds=seconds)

    def matrices(self, precision: str, device: str, cores: int, seconds: float) -> float:
        """Floating-point operations a second in products of large matrices, on a GPU or on so many cores together."""
        count = cores if device == "cpu" else 1
        return sum(self.together(matrix_speed, precision, device, seconds, count=count, seconds=seconds))

    def context_bytes(self) -> int:
        """Return the bytes of GPU memory that CUDA takes for a process, while nobody else uses the GPU."""
        return next(size for size in self.together(context_memory, count=2) if size is not None)

    def together(self, work: Callable[..., T], *arguments: Any, count: int = 1, seconds: float = 60.0) -> list[T]:
        """Call a function in so many processes at a time; its last argument is where they wait for each other.

        seconds: about how long it takes at most.
        """
        return self.run(work, (*arguments, self.context.Barrier(count)), count, seconds)

    def run(self, work: Callable[..., T], arguments: tuple[Any, ...], count: int = 1, seconds: float = 60.0) -> list[T]:
        """Call a function in so many processes at a time. LeftOut is raised if one of them fails or takes too long."""
        started: list[tuple[BaseProcess, Connection]] = []
        try:
            for _ in range(count):
                here, there = self.context.Pipe(duplex=False)
                inside = (there, work, arguments, self.modules, os.getcwd())
                process = self.context.Process(target=_inside, args=inside, daemon=True)
                process.start()
                there.close()
                started.append((process, here))
            return _answers(started, START_SECONDS + 10 * seconds)
        except KeyboardInterrupt:
            _end_server()
            raise
        finally:
            for process, here in started:
                here.close()
                process.kill()
                process.join()


def _start_server() -> None:
    """Start the server deaf to Ctrl-C, which would else be met with a traceback while Python starts there."""
    resource_tracker.ensure_running()  # first: it lets the signal through again
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _end_server() -> None:
    """End the server, and the process that it may just be starting, and that would miss who asked for it."""
    for child in psutil.Process().children():
        with suppress(psutil.Error):  # it may just be ending
            if "multiprocessing.forkserver" in " ".join(child.cmdline()):
                for process in (child, *child.children(recursive=True)):
                    process.kill()


def _answers(started: list[tuple[BaseProcess, Connection]], limit: float) -> list[Any]:
    """What all processes say, in any order; raises LeftOut at the first that has no answer, or at the limit."""
    answers: dict[Any, BaseProcess] = {here: process for process, here in started}
    found: list[Any] = []
    end = time.monotonic() + limit
    while answers:
        ready: list[Any] = wait(list(answers), timeout=max(0.0, end - time.monotonic()))
        if not ready:
            raise LeftOut(f"not done after {limit:.0f} s")
        for here in ready:
            process = answers.pop(here)
            try:
                answer, reason = here.recv()
            except EOFError:
                process.join()
                raise LeftOut(f"its process died (exit code {process.exitcode})") from None
            if reason and reason != OTHERS:
                raise LeftOut(reason)
            found.append(answer)
    return found


def _inside(
    there: Connection, work: Callable[..., object], arguments: tuple[Any, ...], modules: Sequence[str], folder: str
) -> None:
    """In the process: do the work, and send what came of it, or why nothing did."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to hear
    warnings.simplefilter("ignore")
    try:
        import_modules(modules, folder)
        there.send((work(*arguments), ""))
    except BrokenBarrierError:
        there.send((None, OTHERS))
    except Exception as error:
        for argument in arguments:
            if hasattr(argument, "abort"):  # the others need not wait for this one
                argument.abort()
        first = (str(error).strip().splitlines() or [""])[0][:200]
        there.send((None, first if isinstance(error, UserError) else f"{type(error).__name__}: {first}"))
