"""The folder of a run, and what is written into it when a disk is full."""

import contextlib
import csv
import errno
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from scripts import shipped_script

from eqgrid_lab.base import Failures, RunError, UsageError
from eqgrid_lab.folders import _folder, locked, open_folder, open_results, short_name
from eqgrid_lab.settings import dump
from eqgrid_lab.show import Csv, _report, draw_curves

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def empty_folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


def settings(seed: int) -> str:
    return dump(shipped_script("ippo")(seed=seed))


@pytest.fixture
def run():
    """Opens a folder, and leaves in it what a run that learned something would leave."""

    def run(out: str, *, resume: bool = False, seed: int = 1) -> Path:
        with open_folder("a", Path(out), settings(seed), resume=resume) as path:
            (path / "metrics.csv").write_text(f"seed = {seed}")
            (path / "checkpoints").mkdir(exist_ok=True)
            (path / "checkpoints" / "last.safetensors").write_text(f"seed = {seed}")
        return path

    return run


def refusal(function, *args, **kwargs) -> str:
    with pytest.raises(UsageError) as error:
        function(*args, **kwargs)
    return str(error.value)


def test_folders_that_are_taken_are_numbered():
    with contextlib.ExitStack() as stack:
        contexts = [open_folder("a", None, f"x = {i}\n") for i in range(3)]
        found = [stack.enter_context(context) for context in contexts]
        assert found == [Path("runs/a"), Path("runs/a-2"), Path("runs/a-3")]
        for i, path in enumerate(found):
            assert (path / "config.toml").read_text() == f"x = {i}\n"


def test_results_of_one_second_have_folders_of_their_own(monkeypatch):
    monkeypatch.setattr(time, "strftime", lambda _: "now")
    with open_results("a", None) as (first, _), open_results("a", None) as others:
        assert (first, others[0]) == (Path("runs/a-now"), Path("runs/a-now-2"))
        (first / "a.json").write_text("1")
    assert [path.name for path in Path("runs").iterdir()] == ["a-now"], "nothing empty stays"


def test_results_are_written_where_nothing_is_and_nobody_else_writes():
    Path("mine").mkdir()
    with open_results("a", Path("mine")) as (folder, _):
        assert "Another process" in refusal(results_in, "mine")
        (folder / "a.json").write_text("1")
    assert "exists and is not empty: choose another --out" in refusal(results_in, "mine")
    assert contents(Path("mine")) == {"mine/a.json": "1"}


def results_in(out: str) -> None:
    with open_results("a", Path(out)):
        pass


@pytest.mark.parametrize("fails", [UsageError, RunError, OSError])
def test_results_that_come_to_nothing_leave_nothing(fails):
    with pytest.raises(fails), open_results("a", Path("deep/mine")):
        raise fails
    assert list(Path().iterdir()) == []


@pytest.mark.slow
def test_of_processes_that_start_at_once_each_has_a_folder_or_none():
    """Four processes, each of which opens 100 folders as soon as all of them are there."""
    script = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
from eqgrid_lab.base import UsageError
from eqgrid_lab.folders import open_folder, open_results
print("ready", flush=True)
sys.stdin.readline()
for i in range(25):
    for opens, more in ((open_folder, ("seed = 1",)), (open_results, ())):
        for out in (None, Path("mine") / opens.__name__ / str(i)):
            try:
                with opens(f"{{opens.__name__}}-{{i}}", out, *more) as opened:
                    folder = opened if more else opened[0]
                    (folder / "metrics.csv").write_text("a row")
                    print(folder)
            except UsageError as error:
                assert "is not empty" in str(error) or "Another process" in str(error)
"""
    command = [sys.executable, "-c", script]
    racers = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    for racer in racers:
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        racer.stdin.write("\n")
        racer.stdin.flush()
    folders = []
    for racer in racers:
        folders += racer.communicate(timeout=400)[0].split()
        assert racer.returncode == 0
    assert len(folders) == len(set(folders)) == 4 * 2 * 25 + 2 * 25


def write(folder: Path, *names: str, text: str = "precious") -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def test_only_the_folder_of_a_run_is_written_into_and_only_to_resume_it(run):
    write(Path("theirs"), "notes.txt")
    for resume in (False, True):
        assert "is not empty: choose another" in refusal(run, "theirs", resume=resume)
    assert contents(Path("theirs")) == {"theirs/notes.txt": "precious"}
    before = contents(run("mine"))
    assert "or add --resume to continue the run in it" in refusal(run, "mine", seed=2)
    with open_folder("a", Path("mine"), settings(2), resume=True):
        pass
    assert contents(Path("mine")) == before, "the settings are those of the checkpoint"
    Path("mine/checkpoints/last.safetensors").unlink()
    assert contents(run("mine", resume=True, seed=2))["mine/config.toml"] == settings(2)


@pytest.mark.parametrize("name", ["result.json", "policy.safetensors", "policy-3.safetensors"])
def test_results_without_a_checkpoint_stay(run, name):
    write(Path("mine"), "config.toml", name)
    before = contents(Path("mine"))
    assert "has results without a checkpoint" in refusal(run, "mine", resume=True)
    assert contents(Path("mine")) == before


def contents(folder: Path) -> dict[str, str]:
    return {str(path): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_a_full_disk_at_the_start_leaves_nothing(run, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(_folder, "write_atomic", full)
    with pytest.raises(Exception, match=r"'mine/deep' cannot be written: No space left"):
        run("mine/deep")
    assert not Path("mine").exists()


def test_a_link_that_leads_nowhere_is_one_sentence():
    Path("runs").symlink_to("/nonexistent/x")
    words = r"'runs' cannot be written"
    with pytest.raises(RunError, match=words), open_folder("a", None, ""):
        pass


@pytest.mark.parametrize("resume", [False, True])
def test_a_folder_that_is_written_into_is_left_alone(run, resume):
    with open_folder("a", Path("mine"), "seed = 1") as mine:
        (mine / "result.json").write_text("new")
        with pytest.raises(Exception, match=r"Another process is writing to the folder 'mine'"):
            run("mine", resume=resume)
        with pytest.raises(Exception, match=r"Another process"), locked(mine):
            pass
        assert (mine / "result.json").read_text() == "new"
    assert "run.lock" not in {path.name for path in mine.iterdir()}
    with locked(mine):
        assert (mine / "run.lock").exists()


def test_only_a_run_that_learned_nothing_is_discarded(run):
    assert (run("mine") / "config.toml").exists()
    with open_folder("a", Path("other"), ""):
        assert Path("other").exists()
    assert not Path("other").exists()
    with open_folder("a", None, ""):
        assert Path("runs/a").exists()
    assert not Path("runs/a").exists()
    with open_folder("a", Path("full"), "") as full:
        write(full, "checkpoints/last.safetensors")
    assert (full / "config.toml").exists()
    with open_folder("a", Path("logged"), "") as logged:
        write(logged, "tensorboard/events")
    assert len(contents(logged)) == 2
    write(Path("killed"), "config.toml", text=settings(1))
    with open_folder("a", Path("killed"), settings(1), resume=True):
        pass
    assert list(contents(Path("killed"))) == ["killed/config.toml"], "a resume needs it"
    Path("other").mkdir()
    with open_folder("a", Path("other"), ""):
        pass
    assert list(Path("other").iterdir()) == [], "what was there before stays"


@pytest.mark.parametrize(
    ("layout", "name"),
    [
        ("cramped", "cramped"),
        ("/a/b/mine.layout", "mine"),
        ("XXX\nX1X\nXXX", "custom"),
        ("a/[b].layout", "_b_"),
        ("x" * 300, "x" * 100),
        ("𠀀" * 60, "𠀀" * 25),
        ("台所.layout", "台所"),
    ],
)
def test_any_layout_has_a_short_name(layout, name):
    assert short_name(layout) == name


@contextlib.contextmanager
def full_disk(size: int):
    """A file that reaches this size grows no more."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_rows_that_find_no_room_are_written_later(tmp_path, capsys):
    failures, path = Failures(), tmp_path / "metrics.csv"
    log, wholes = Csv(path), []
    for update in range(1, 9):
        disk = full_disk(60) if 3 <= update < 6 else contextlib.nullcontext()
        with disk, failures.writing(path):
            log.write([{"seed": 0, "update": update, "eval_return_mean": 0.5}])
        with open(path) as file:
            header, *rows = csv.reader(file)
        wholes.append(sum(len(row) == len(header) for row in rows))
    assert wholes[:2] == [1, 2]
    assert wholes[2:5] != [3, 4, 5]
    assert wholes[5:] == [6, 7, 8], "no row is lost or cut"
    error = capsys.readouterr().err
    assert error.count("warning: ") == 1
    assert "metrics.csv' cannot be written: File too large. The run continues" in error
    assert not failures.report(), "all was written in the end"


def test_a_log_that_was_removed_is_written_anew(tmp_path):
    path = tmp_path / "metrics.csv"
    log = Csv(path)
    for update in range(1, 6):
        if update == 3:
            path.unlink()
        if update == 4:
            path.write_text("upd")
        log.write([{"update": update}])
        assert path.read_text().count("\n") == update + 1
        assert "\0" not in path.read_text()


def test_what_fails_in_the_end_is_said_again(tmp_path, capsys):
    failures = Failures()
    for name in ("a", "b", "a"):
        with failures.writing(tmp_path / name):
            raise OSError(errno.ENOSPC, "No space left on device")
    with failures.writing(tmp_path / "c"):
        pass
    assert failures.report()
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in lines] == ["warning", "warning", "error", "error"]
    assert all("/a'" in line or "/b'" in line for line in lines)


@pytest.mark.parametrize(
    "returns", [[0.0, 1e12], [5.0, np.inf], [np.nan], [], [-3.0], [1e30, 10.0]]
)
def test_reports_of_odd_returns_come_to_an_end(tmp_path, returns):
    rows = [
        {"env_steps": i, "wall_seconds": 0.5, "eval_return_mean": x, "eval_return_std": 0.0}
        for i, x in enumerate(returns)
    ]
    reached = _report.reached(rows, 20)
    assert len(reached) <= 1000
    assert bool(reached) == any(np.isfinite(x) and x >= 20 for x in returns)
    draw_curves(tmp_path / "curve.png", [rows], "odd [/b] $x_", 260.0)
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_thresholds_are_multiples_of_a_soup():
    row = {"env_steps": 3, "wall_seconds": 0.5, "eval_return_mean": 65.0, "eval_return_std": 0.0}
    assert list(_report.reached([row], 20)) == ["20", "40", "60"]
