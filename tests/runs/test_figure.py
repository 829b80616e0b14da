"""Pictures, and the import of matplotlib, which waits for them."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from eqgrid_lab.base import Failures, PictureError
from eqgrid_lab.show import label_thousands, new_figure, write_figure

ROOT = Path(__file__).parents[2]
OF_PICTURES = ("matplotlib", "mpl_toolkits", "PIL", "imageio")
OF_PROGRAMS = ("tyro", "rich", "matplotlib", "tomli_w", "platformdirs", "filelock", "PIL")


def test_learners_need_nothing_of_programs_which_start_without_what_draws():
    code = f"""
import sys
sys.modules.update(dict.fromkeys({OF_PROGRAMS}))
import agents, eqgrid
for name in {OF_PROGRAMS}:
    del sys.modules[name]
import eqgrid_lab.runs, eqgrid_lab.commands
print([name for name in {OF_PICTURES} if name in sys.modules])
"""
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert out.stdout.strip() == "[]"


def test_a_picture_has_its_size_and_short_numbers(tmp_path):
    figure = new_figure(3.0, 2.0)
    axes = figure.add_subplot()
    axes.plot([0, 2_000_000], [0, 1])
    label_thousands(axes)
    write_figure(tmp_path / "a.png", figure, dpi=100)
    header = (tmp_path / "a.png").read_bytes()[:24]
    assert header[:8] == b"\x89PNG\r\n\x1a\n"
    assert [int.from_bytes(header[at : at + 4]) for at in (16, 20)] == [300, 200]
    assert "1M" in [label.get_text() for label in axes.get_xticklabels()]


@pytest.mark.parametrize(
    "error",
    [
        ModuleNotFoundError("No module named 'matplotlib'"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
        OSError("Too many open files"),
        AttributeError("partially initialized module\nand a second line"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_matplotlib_that_cannot_be_imported_is_one_sentence(monkeypatch, tmp_path, capsys, error):
    def fail(name: str):
        raise error

    monkeypatch.setattr(importlib, "import_module", fail)
    with pytest.raises(PictureError, match=rf"imported \({type(error).__name__}: .*repair"):
        new_figure(3.0, 2.0)
    failures = Failures()
    with failures.writing(tmp_path / "a.png"):
        new_figure(3.0, 2.0)
    assert failures.report()
    assert "a.png' cannot be written: m" in capsys.readouterr().err
