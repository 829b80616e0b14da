"""Runs in notebooks and threads, which share their process with other code."""

import contextlib
import signal
import sys
import threading
import types
from collections.abc import Iterator

import pytest

from eqgrid_lab import run_experiment
from eqgrid_lab.base import Process, run_process
from eqgrid_lab.base._command import _Output
from eqgrid_lab.settings import command_of, dump, is_shipped, shipped_script

TINY = [
    *("--env.name", "goals", "--num-envs", "8", "--ppo.rollout-length", "32", "--width", "8"),
    *("--eval-episodes", "4", "--final-episodes", "4", "--total-steps", "256"),
]
WRONG = ["--env.layout", "no_such_layout"]


class Stream:
    """A stream that can do no more than write, as those of some notebooks and editors."""

    def __init__(self):
        self.text = ""

    def write(self, text: str) -> int:
        self.text += text
        return len(text)


@contextlib.contextmanager
def notebook() -> Iterator[tuple[Stream, Stream]]:
    """A notebook: it has a prompt, and its streams cannot be reconfigured."""
    out, errors = Stream(), Stream()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "ps1", "In : ", raising=False)
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", errors)
        before = signal.getsignal(signal.SIGINT), sys.excepthook
        yield out, errors
        assert (sys.stdout, sys.stderr) == (out, errors)
        assert (signal.getsignal(signal.SIGINT), sys.excepthook) == before


def test_a_mistake_in_a_notebook_is_one_sentence():
    with notebook() as (_, errors), pytest.raises(SystemExit) as stop:
        run_experiment(shipped_script("ippo"), WRONG)
    assert stop.value.code == 2
    assert errors.text.startswith("error: There is no layout 'no_such_layout'.")


def test_a_cell_goes_on_after_a_command_that_succeeds():
    with notebook() as (out, _):
        run_process(lambda process: print(process.is_shared, sys.stdout.isatty(), flush=True), "")
    assert out.text == "True False\n"


def test_an_interrupt_before_a_run_begins_keeps_the_notebook_alive(hears_ctrl_c):
    with notebook(), pytest.raises(KeyboardInterrupt):
        run_process(lambda _: signal.raise_signal(signal.SIGINT), "")


def test_an_interrupt_of_a_run_in_a_notebook_stops_the_run(hears_ctrl_c):
    def work(process: Process) -> None:
        process.begin()
        signal.raise_signal(signal.SIGINT)
        print(process.stop_reason())

    with notebook() as (out, _):
        run_process(work, "")
    assert out.text == "interrupted\n"


def test_threads_receive_no_signals_and_report_mistakes():
    codes = []

    def work() -> None:
        try:
            run_experiment(shipped_script("ippo"), WRONG)
        except SystemExit as stop:
            codes.append(stop.code)

    with notebook() as (_, errors):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert codes == [2]
    assert "There is no layout" in errors.text


@pytest.mark.slow
@pytest.mark.parametrize("threads", [False, True])
def test_runs_train_in_notebooks_and_threads(tmp_path, threads):
    args = shipped_script("ippo"), [*TINY, "--out", str(tmp_path / "run")]
    with notebook() as (out, _):
        if threads:
            thread = threading.Thread(target=run_experiment, args=args)
            thread.start()
            thread.join()
        else:
            run_experiment(*args)
    assert (tmp_path / "run" / "result.json").is_file()
    assert "evaluation return" in out.text


def test_output_that_cannot_be_written_is_discarded():
    class Full(Stream):
        def write(self, text: str) -> int:
            raise OSError(28, "No space left on device")

    output = _Output(Full())
    assert output.write("text") == 4
    output.flush()


@pytest.fixture
def cell(monkeypatch):
    """An experiment that a cell of a notebook defines, which is in no file."""
    module = types.ModuleType("cell_of_a_notebook")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    code = "import dataclasses\nclass Mine(IPPO):\n    '''A cell.'''\n    algorithm = 'mine'"
    exec(
        code,
        vars(module) | {"IPPO": shipped_script("ippo"), "__name__": module.__name__},
        vars(module),
    )
    return vars(module)["Mine"]


def test_an_experiment_may_be_defined_in_a_cell(cell):
    assert not is_shipped(cell)
    assert command_of(cell) == "run_experiment(Mine)"
    assert 'script = "Mine"' in dump(cell())
