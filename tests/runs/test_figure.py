"""Pictures, and the import of matplotlib, which waits for them."""

import subprocess
import sys
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from eqgrid_lab.commands._crossplay import draw_matrix
from eqgrid_lab.show import (
    draw_curves,
    drawing,
    draws_figure,
    label_thousands,
    new_figure,
    write_figure,
    write_title,
)

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


@draws_figure
def draw_line(path: Path) -> None:
    figure = new_figure(3.0, 2.0)
    axes = figure.add_subplot()
    axes.plot([0, 2_000_000], [0, 1])
    label_thousands(axes.xaxis)
    write_title(figure, "costs $1, or $\\nonsense$")
    write_figure(path, figure)
    assert "1M" in [label.get_text() for label in axes.get_xticklabels()]


def test_a_picture_has_its_size_whatever_the_settings_of_the_user_are(tmp_path):
    with matplotlib.rc_context({"text.usetex": True, "savefig.dpi": 7, "figure.figsize": (1, 1)}):
        draw_line(tmp_path / "a.png")
        assert matplotlib.rcParams["text.usetex"]
    with Image.open(tmp_path / "a.png") as picture:
        assert np.abs(np.subtract(picture.size, (450, 300))).max() < 30


def test_only_a_picture_that_cannot_be_written_is_an_error(tmp_path, capsys):
    for error in (FileNotFoundError(2, "no", "a.ttf"), RuntimeError("no latex"), SystemExit(3)):
        with drawing(tmp_path / "a.png"):
            raise error
    warnings = capsys.readouterr().err.splitlines()
    assert all("a.png' cannot be drawn: " in warning for warning in warnings)
    assert len(warnings) == 3
    with pytest.raises(FileNotFoundError):
        draw_line(tmp_path / "nowhere" / "a.png")


LONG = "a-kitchen-with-a-name-of-one-hundred-letters-and-no-spaces-in-it-".ljust(100, "x")
ROWS = [
    {
        "env_steps": 1e5 * i,
        "eval_return_mean": min(280.0, 50.0 * i),
        "eval_return_std": 5.0,
        **{f"event_number_{j}": float(i * j) for j in range(20)},
    }
    for i in range(1, 10)
]


@pytest.fixture
def figures(monkeypatch) -> list[Figure]:
    """The figures that are written, which are checked for content outside of their area."""
    seen: list[Figure] = []

    def check(figure: Figure, *args: object, **kwargs: object) -> None:
        seen.append(figure)
        figure.draw_without_rendering()
        (left, bottom), (right, top) = figure.get_tightbbox().get_points()
        width, height = figure.get_size_inches()
        assert min(left, bottom, width - right, height - top) > -0.05

    monkeypatch.setattr(Figure, "savefig", check)
    return seen


def texts_of(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_curves_explain_their_lines_and_fit(figures, tmp_path, capsys):
    for title in ("IPPO in cramped, seed 0", f"IPPO in {LONG}, seed 0"):
        draw_curves(tmp_path / "a.png", [ROWS], title, 280.0)
        draw_curves(tmp_path / "a.png", [ROWS], title, None, list(ROWS[0])[3:])
        draw_curves(tmp_path / "a.png", [ROWS] * 10, title, 280.0)
    assert capsys.readouterr().err == ""
    assert texts_of(figures[0]) == ["mean return", "± one standard deviation", "best known: 280"]
    assert texts_of(figures[2])[:3] == ["each seed", "interquartile mean", "95 % interval"]
    for figure in (figures[0], figures[2]):
        axes = figure.axes[0]
        *curves, optimum = axes.lines
        assert all(curve.get_zorder() > optimum.get_zorder() for curve in curves)
        bottom, top = axes.get_ylim()
        assert bottom < 0 < 280 < top - 0.04 * (top - bottom)


def test_returns_of_zero_and_less_do_not_lie_on_the_frame(figures, tmp_path):
    for returns in ((0.0, 0.0), (-1000.0, 0.0)):
        rows = [{**x, "eval_return_std": 0.0} for x in ROWS[:2]]
        for row, x in zip(rows, returns, strict=True):
            row["eval_return_mean"] = x
        draw_curves(tmp_path / "a.png", [rows], "title", None)
        bottom, top = figures[-1].axes[0].get_ylim()
        margin = 0.04 * (top - bottom)
        assert bottom + margin < min(returns) <= max(returns) < top - margin


@pytest.mark.parametrize("number", [2, 30])
def test_a_matrix_of_long_names_fills_its_figure(figures, tmp_path, capsys, number):
    names = [f"{LONG}-{i}" for i in range(number)]
    for labels, title, share in ((names, LONG, 0.2), (list(map(str, range(number))), "ring", 0.5)):
        draw_matrix(tmp_path / "a.png", labels, np.eye(number) * 250, title)
        figure = figures[-1]
        axes = figure.axes[0].get_window_extent()
        assert axes.width * axes.height > share * figure.bbox.width * figure.bbox.height
    assert capsys.readouterr().err == ""
