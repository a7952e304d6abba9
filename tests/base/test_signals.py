"""Signals that ask a program to stop."""

import contextlib
import os
import signal
import threading

import pytest

from fedbench.base.signals import STOPS, Interrupted, stop_signals


@pytest.mark.parametrize("number", STOPS)
def test_a_signal_ends_the_block_with_an_exception_that_has_its_exit_code(number: int) -> None:
    with pytest.raises(Interrupted) as stop, stop_signals():
        signal.raise_signal(number)
    assert stop.value.code == 128 + number
    assert isinstance(stop.value, KeyboardInterrupt)


@pytest.mark.parametrize("number", STOPS)
def test_an_answer_hears_every_signal_and_the_handlers_from_before_are_restored(number: int) -> None:
    heard, before = list[int](), signal.getsignal(number)
    with stop_signals(heard.append):
        signal.raise_signal(number)
        signal.raise_signal(number)
    assert heard == [number, number]
    assert signal.getsignal(number) is before


@pytest.mark.parametrize("number", STOPS)
def test_a_signal_that_a_library_took_for_its_own_error_stops_before_anything_new_begins(number: int) -> None:
    begun = False
    with pytest.raises(Interrupted) as stop, stop_signals():
        with contextlib.suppress(BaseException):
            signal.raise_signal(number)
        with stop_signals(lambda _: None):
            begun = True
    assert stop.value.code == 128 + number
    assert not begun


@pytest.mark.parametrize("number", STOPS)
def test_a_signal_of_which_a_library_has_made_an_error_of_its_own_still_stops(number: int) -> None:
    with pytest.raises(Interrupted) as stop, stop_signals():
        try:
            signal.raise_signal(number)
        except BaseException as error:
            raise ValueError("what pydantic does") from error
    assert stop.value.code == 128 + number


def test_an_error_after_a_signal_that_was_handled_is_not_taken_for_it() -> None:
    with pytest.raises(OSError), stop_signals():
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        raise OSError("a full disk")


def test_a_signal_that_was_answered_in_another_way_stops_nothing() -> None:
    heard = list[int]()
    with stop_signals(heard.append):
        signal.raise_signal(signal.SIGINT)
        with stop_signals():
            pass
    assert heard == [signal.SIGINT]


def test_a_signal_that_is_ignored_stays_ignored_except_for_ctrl_c() -> None:
    before = {number: signal.signal(number, signal.SIG_IGN) for number in STOPS}
    heard = list[int]()
    try:
        with stop_signals(heard.append):
            for number in STOPS:
                os.kill(os.getpid(), number)
        assert all(signal.getsignal(number) is signal.SIG_IGN for number in STOPS)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert heard == [signal.SIGINT]


def test_other_threads_than_the_main_one_change_no_handler() -> None:
    before, inside = signal.getsignal(signal.SIGINT), list[object]()

    def work() -> None:
        with stop_signals():
            inside.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert inside == [before]
