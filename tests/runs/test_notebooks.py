"""Runs in notebooks and threads, which share their process with other code."""

import contextlib
import json
import signal
import sys
import threading
import types
from collections.abc import Iterator

import pytest
from command_lines import parse
from run_files import SMALL, check_equal, rows
from scripts import shipped_script

from eqgrid_lab import Run, parse as parse_or_exit
from eqgrid_lab.runs import _run
from eqgrid_lab.settings import command_of, dump, is_shipped

IPPO = shipped_script("ippo")
main = vars(sys.modules[IPPO.__module__])["main"]


class Stream:
    """A stream that can do no more than write, as those of some notebooks and editors."""

    def __init__(self):
        self.text = ""

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return False


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
        parse_or_exit(IPPO, ["--config", "no.toml"])
    assert stop.value.code == 2
    assert errors.text.startswith("error: The settings file 'no.toml' cannot be read")


@pytest.mark.slow
def test_an_interrupted_cell_keeps_the_notebook_and_the_run(hears_ctrl_c, tmp_path, monkeypatch):
    """In training, the run is saved and ends; at the end, the cell is interrupted."""
    with notebook():
        assert main(parse(*SMALL, "--out", str(tmp_path / "whole"))) == 0

    def press(function):
        def press_first(*args):
            signal.raise_signal(signal.SIGINT)
            return function(*args)

        return press_first

    args = (*SMALL, "--out", str(tmp_path / "mine"), "--resume")
    with monkeypatch.context() as patch, notebook() as (out, errors):
        patch.setattr(Run, "log", press(Run.log))
        assert main(parse(*args)) == 130
        assert out.text.count("interrupted after 256 steps") == 1
        assert "to continue: " in out.text
        assert [row["update"] for row in rows(tmp_path / "mine")] == ["2"]
    with monkeypatch.context() as patch, notebook() as (_, errors):
        patch.setattr(_run, "write_policies", press(_run.write_policies))
        with pytest.raises(KeyboardInterrupt):
            main(parse(*args))
    assert json.loads((tmp_path / "mine" / "result.json").read_text())["stopped"] == "interrupted"
    # In a thread, which receives no signals.
    codes = []
    with notebook() as (out, errors):
        thread = threading.Thread(target=lambda: codes.append(main(parse(*args))))
        thread.start()
        thread.join()
    assert (codes, errors.text) == ([0], "")
    assert "evaluation return" in out.text
    check_equal(tmp_path / "mine", tmp_path / "whole")


@pytest.fixture
def cell(monkeypatch):
    """An experiment that a cell of a notebook defines, which is in no file."""
    module = types.ModuleType("cell_of_a_notebook")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    code = "import dataclasses\nclass Mine(IPPO):\n    '''A cell.'''\n    algorithm = 'mine'"
    exec(code, vars(module) | {"IPPO": IPPO, "__name__": module.__name__}, vars(module))
    return vars(module)["Mine"]


def test_an_experiment_may_be_defined_in_a_cell(cell):
    assert not is_shipped(cell)
    assert command_of(cell) == "Mine"
    assert 'algorithm = "mine"' in dump(cell())
