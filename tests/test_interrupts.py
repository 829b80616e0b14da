import os
import signal
import threading

import pytest

from agents._interrupts import interrupts_held


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
    with interrupts_held():
        press_ctrl_c()
        press_ctrl_c()
        assert handler == []
    assert handler == ["ctrl-c"]
    press_ctrl_c()
    assert handler == ["ctrl-c"] * 2


def test_nothing_is_heard_when_nothing_was_pressed(handler):
    with interrupts_held():
        pass
    assert handler == []


def test_the_outermost_decides(handler):
    with interrupts_held():
        with interrupts_held():
            press_ctrl_c()
        assert handler == []
    assert handler == ["ctrl-c"]


def test_an_error_counts_more(handler):
    def body():
        with interrupts_held():
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
    with interrupts_held():
        press_ctrl_c()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_other_threads_change_nothing(handler):
    def body():
        with interrupts_held():
            during.append(signal.getsignal(signal.SIGINT))

    during, before = [], signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    assert during == [before]
    assert handler == []
