"""A command's work in a child of a thin parent, which goes on with another one if Ray takes the first one with it.

When a process of Ray's own dies, whoever is inside Ray's C++ at that moment waits there, deaf to everything, until Ray
ends the whole process a minute later. So somebody outside has to look: the parent, forked before anything is imported.
It sees Ray's processes, ends the child and all that it has started, and forks again. What is done is in the store, so
that the work begins where it stopped. Ray is not imported here.

The parent is itself a child, of the process that was started as the command and that only passes signals on: if that
one is killed, there is still somebody who ends all others.
"""

import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress

from fedbench.base.linux import adopt_orphans, die_with_parent
from fedbench.base.signals import STOPS

GONE = signal.SIGUSR1  # says that the command's first process has been killed
TICK = signal.SIGALRM  # says that it is time to look again
FAILED = 1
LOOK_SECONDS = 1.0
START_SECONDS = 55.0  # for Ray to start: it takes one to ten, and many times that on a machine that is overloaded
STOP_SECONDS = 20.0  # for Ray to stop, and for Python to end: it takes one or two, a minute without a control store

# What a child tells its parent, a byte each; a text follows DIED, up to a newline, and the exit code ENDED.
STARTING, STARTED, STOPPING, STOPPED, ENDED, DIED = b"r", b"u", b"s", b"o", b"e", b"d"


class Child:
    """This process, as a supervised one. Where it is not, in a notebook, say, telling does nothing.

    deaths: how often Ray has died already; stop: the signal by which the one before was being stopped, or 0.
    """

    def __init__(self, pipe: int | None = None, deaths: int = 0, stop: int = 0) -> None:
        self.pipe, self.deaths, self.stop = pipe, deaths, stop

    @property
    def supervised(self) -> bool:
        """Whether there is a parent that looks after this process."""
        return self.pipe is not None

    def tell(self, what: bytes) -> None:
        """Tell the parent how far it is."""
        if self.pipe is not None:
            os.write(self.pipe, what)

    def die(self, reason: str) -> None:
        """Leave it to the parent, if there is one, to say this and to go on."""
        if self.supervised:
            self.tell(DIED + reason.encode() + b"\n")
            os._exit(1)


child = Child()


def supervised(work: Callable[[], int], limit: int) -> int:
    """Do the work of a command in a child, again if Ray dies, `limit` times; returns its exit code.

    The last child that there is to be after a death more than that finds that Ray may not be started any more, and
    reports what there is.
    """
    global child
    code = _relayed()
    if code is not None:
        return code
    adopt_orphans()
    deaths = stop = 0
    while True:
        parent = Parent()
        pipe = parent.fork()
        if pipe is not None:
            child = Child(pipe, deaths, stop)
            code = FAILED  # an exception is an end like any other
            try:
                code = work()
                return code
            finally:
                child.tell(ENDED + bytes([code]))
        code = parent.oversee()
        if code is not None:
            return code
        deaths, stop = deaths + 1, parent.asked
        if parent.reason:
            print(f"{parent.reason}; {'starting it again' if deaths <= limit else 'giving up'}", flush=True)


def _relayed() -> int | None:
    """Fork: the parent passes signals on until the child ends, and returns its exit code; the child returns None."""
    from fedbench.tune.vitals import end_children

    adopt_orphans()
    heeded = _heeded()
    pid = _fork(heeded, GONE)
    if not pid:
        return None
    while not (ended := _ended(pid)):
        _pass_on(signal.sigwaitinfo(heeded).si_signo, pid)
    end_children()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, heeded)
    return _exit_code(os.waitstatus_to_exitcode(ended[1]))


def _exit_code(code: int) -> int:
    """As shells have it: of a signal, 128 and its number."""
    return code if code >= 0 else 128 - code


def _heeded() -> set[int]:
    """The signals that are passed on, and the one that tells of a child's end."""
    stops = {n for n in (*STOPS, signal.SIGTSTP) if signal.getsignal(n) is not signal.SIG_IGN}
    return {*stops, signal.SIGCHLD}


def _fork(heeded: set[int], at_death: int) -> int:
    """A child, which gets a signal when this process dies. In this one signals wait to be asked for from now on."""
    sys.stdout.flush()
    sys.stderr.flush()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {*heeded, GONE, TICK})
    pid = os.fork()
    if not pid:
        die_with_parent(at_death)
        os.setpgid(0, 0)  # a terminal's signals come from the parent alone, once
        signal.pthread_sigmask(signal.SIG_SETMASK, {*mask, *({GONE} & {at_death})})
    return pid


def _pass_on(number: int, pid: int) -> None:
    """Let a child have a signal. Ctrl-Z stops it and this process, until the shell goes on with this one."""
    if number == signal.SIGTSTP:
        os.kill(pid, signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)
        os.kill(pid, signal.SIGCONT)
    elif number != signal.SIGCHLD:
        os.kill(pid, number)


def _ended(pid: int) -> tuple[int, int] | None:
    """Id and status of a child if it has ended; others that have, and were left to this process, are taken note of."""
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == pid:
                return ended
    return None


class Parent:
    """Who looks after a child.

    reason: of which it died; asked: the signal that was passed on to it last, 0 if none was.
    """

    def __init__(self) -> None:
        from fedbench.tune.vitals import Vitals

        self._vitals = Vitals()  # before there is a child: what is dead now is not of its Ray
        self.reason, self.asked = "", 0
        self._told = b""
        self._phase, self._late = b"", float("inf")  # how far Ray is, and by when it should be further
        self._signals = _heeded() | {GONE, TICK}

    def fork(self) -> int | None:
        """Begin; returns to the child the pipe on which to tell, to the parent None."""
        self._pipe, pipe = os.pipe()
        self._pid = _fork(self._signals, signal.SIGKILL)
        if not self._pid:
            os.close(self._pipe)
            return pipe
        os.close(pipe)
        os.set_blocking(self._pipe, False)
        return None

    def oversee(self) -> int | None:
        """Wait for the child; returns its exit code, None if it died, or had to be ended, because of Ray."""
        from fedbench.tune.vitals import end_children

        ended = None
        # Not sigtimedwait: Python makes up a signal where its process is stopped and goes on after that time.
        signal.setitimer(signal.ITIMER_REAL, LOOK_SECONDS, LOOK_SECONDS)
        while not (ended or self.reason or time.monotonic() > self._late):
            heard = signal.sigwaitinfo(self._signals).si_signo
            if heard == GONE:
                end_children()
                os._exit(1)
            if heard != TICK:
                self.asked = heard if heard in STOPS else self.asked
                _pass_on(heard, self._pid)
            ended = _ended(self._pid)
            self._listen()
            if not ended and self._phase in (STARTING, STARTED) and not self.reason:
                self.reason = self._vitals.trouble()
        end_children()
        os.close(self._pipe)
        signal.setitimer(signal.ITIMER_REAL, 0)
        if TICK in signal.sigpending():
            signal.sigwait({TICK})
        signal.pthread_sigmask(signal.SIG_UNBLOCK, self._signals - {GONE})
        return self._judge(os.waitstatus_to_exitcode(ended[1]) if ended else None)

    def _listen(self) -> None:
        """What the child has told."""
        with suppress(BlockingIOError):
            self._told += os.read(self._pipe, 4096)
        if DIED in self._told and self._told.endswith(b"\n"):
            self._told, _, reason = self._told.partition(DIED)
            self.reason = reason.decode().strip()
        phase = ENDED if ENDED in self._told else self._told[-1:]
        if phase != self._phase:
            limits = {STARTING: START_SECONDS, STOPPING: STOP_SECONDS, ENDED: STOP_SECONDS}
            limit = limits.get(phase, float("inf"))
            self._phase, self._late = phase, time.monotonic() + limit

    def _judge(self, code: int | None) -> int | None:
        """The exit code of a child that came to an end, by itself or before Ray was there; else None, and a reason."""
        if code is None and ENDED in self._told:  # its work was done, and Ray did not let it go
            return (self._told.partition(ENDED)[2] or bytes([FAILED]))[0]
        if code is not None and (ENDED in self._told or STARTING not in self._told):
            return _exit_code(code)
        if code is None and self._phase == STARTING and not self.reason:
            self.reason = f"Ray did not start within {START_SECONDS:g} s"
        if code is not None and not self.reason:
            self.reason = f"signal {-code} has ended the command" if code < 0 else "Ray has ended the command"
        return None
