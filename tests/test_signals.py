import os
import signal
import threading

import pytest

from agents._signals import STOP_SIGNALS, hold_signals


@pytest.fixture
def handler():
    """Counts what it hears, in place of whatever this process does at a Ctrl-C."""
    heard = []
    before = signal.signal(signal.SIGINT, lambda *_: heard.append("ctrl-c"))
    yield heard
    signal.signal(signal.SIGINT, before)


def press_ctrl_c():
    os.kill(os.getpid(), signal.SIGINT)


def test_it_is_heard_once_and_at_the_end(handler):
    with hold_signals():
        press_ctrl_c()
        press_ctrl_c()
        assert handler == []
    assert handler == ["ctrl-c"]
    press_ctrl_c()
    assert handler == ["ctrl-c"] * 2


def test_nothing_is_heard_when_nothing_was_pressed(handler):
    with hold_signals():
        pass
    assert handler == []


def test_the_outermost_decides(handler):
    with hold_signals():
        with hold_signals():
            press_ctrl_c()
        assert handler == []
    assert handler == ["ctrl-c"]


def test_an_error_counts_more(handler):
    def body():
        with hold_signals():
            press_ctrl_c()
            raise ValueError("body")

    with pytest.raises(ValueError, match="body"):
        body()
    assert handler == []
    press_ctrl_c()
    assert handler == ["ctrl-c"]


@pytest.mark.usefixtures("handler")
def test_who_is_deaf_to_it_stays_deaf():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with hold_signals() as held:
        press_ctrl_c()
    assert held.first is None
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_other_threads_change_nothing(handler):
    def body():
        with hold_signals():
            during.append(signal.getsignal(signal.SIGINT))

    during, before = [], signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    assert during == [before]
    assert handler == []


def test_what_was_handled_is_not_passed_on(handler):
    with hold_signals() as held:
        press_ctrl_c()
        assert held.first is signal.SIGINT
        held.handled = True
    assert handler == []


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_every_signal_that_ends_a_program_is_held(number):
    heard = []
    before = signal.signal(number, lambda *_: heard.append(number))
    try:
        with hold_signals() as held:
            os.kill(os.getpid(), number)
            assert heard == []
        assert held.first is number
        assert heard == [number]
    finally:
        signal.signal(number, before)
