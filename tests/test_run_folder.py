"""The folder of a run, and what is written into it when a disk is full."""

import contextlib
import csv
import errno
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from experiments import _folder, _hooks, _loggers, _older_run, _report
from experiments._config import Config, dump
from experiments._errors import UsageError

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def empty_folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


def settings(seed: int) -> str:
    return dump("ippo", Config(seed=seed))


@pytest.fixture
def run():
    """Opens a folder, and leaves in it what a run that learned something would leave."""

    def run(out: str, *, overwrite: bool = False, seed: int = 1) -> Path:
        with _folder.open_folder("a", Path(out), overwrite, settings(seed)) as path:
            (path / "metrics.csv").write_text(f"seed = {seed}")
            (path / "checkpoints" / "last.safetensors").write_text(f"seed = {seed}")
        return path

    return run


def refusal(function, *args, **kwargs) -> str:
    with pytest.raises(UsageError) as error:
        function(*args, **kwargs)
    return str(error.value)


def test_folders_that_are_taken_are_numbered():
    with contextlib.ExitStack() as stack:
        contexts = [_folder.open_folder("a", None, False, f"x = {i}\n") for i in range(3)]
        found = [stack.enter_context(context) for context in contexts]
        assert found == [Path("runs/a"), Path("runs/a-2"), Path("runs/a-3")]
        for i, path in enumerate(found):
            assert (path / "config.toml").read_text() == f"x = {i}\n"
            assert (path / "checkpoints").is_dir()


@pytest.mark.slow
@pytest.mark.parametrize("out", ["None", "Path('mine')"])
def test_of_processes_that_start_at_once_each_has_a_folder_or_none(tmp_path, out):
    """Four processes, each of which opens 25 folders as soon as all of them are there."""
    script = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
from experiments._errors import UsageError
from experiments._folder import open_folder
print("ready", flush=True)
sys.stdin.readline()
for i in range(25):
    try:
        out = {out}
        with open_folder(f"race{{i}}", out and out / str(i), False, "seed = 1") as folder:
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
        folders += racer.communicate(timeout=120)[0].split()
        assert racer.returncode == 0
    assert len(folders) == len(set(folders)) == (100 if out == "None" else 25)


def test_an_empty_folder_is_free(run):
    Path("mine").mkdir()
    assert run("mine") == Path("mine")
    assert "not empty" in refusal(run, "mine")


def test_overwriting_replaces_an_older_run_and_nothing_else(run):
    mine = run("mine")
    kept = ("notes.txt", "checkpoints/model.bin")
    for name in ("result.json", "curve.png", "checkpoints/best.safetensors", *kept):
        (mine / name).write_text("old")
    run("mine", overwrite=True, seed=2)
    names = {str(path.relative_to(mine)) for path in mine.rglob("*") if path.is_file()}
    assert names == {"config.toml", "metrics.csv", "checkpoints/last.safetensors", *kept}
    assert (mine / "config.toml").read_text() == settings(2)
    assert (mine / "checkpoints" / "last.safetensors").read_text() == "seed = 2"


def contents(folder: Path) -> dict[str, str]:
    return {str(path): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_a_run_that_learned_nothing_replaces_nothing(run):
    mine = run("mine")
    (mine / "result.json").write_text("old")
    before = contents(mine)
    with _folder.open_folder("a", mine, True, settings(2)):
        assert not (mine / "result.json").exists(), "nothing stale beside the new settings"
    assert contents(mine) == before


def test_a_run_that_was_killed_early_replaces_nothing(run, monkeypatch):
    mine = run("mine")
    (mine / "result.json").write_text("old")
    before = contents(mine)
    with monkeypatch.context() as patch:
        patch.setattr(_folder, "_tidy", lambda *_: None)  # as after `kill -9`
        with _folder.open_folder("a", mine, True, settings(2)):
            pass
    assert not (mine / "result.json").exists()
    with _folder.open_folder("a", mine, True, settings(3)):
        pass
    assert contents(mine) == before


def test_the_older_run_is_forgotten_when_this_one_learned_something(run):
    mine = run("mine")
    with _folder.open_folder("a", mine, True, settings(2)):
        assert (mine / "older-run" / "metrics.csv").exists()
        _older_run.forget_older(mine)
        assert not (mine / "older-run").exists()
    assert list(mine.iterdir()) == []


def test_a_full_disk_at_the_start_leaves_nothing(run, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(_folder, "write_whole", full)
    with pytest.raises(Exception, match=r"'mine/deep' cannot be written: No space left"):
        run("mine/deep")
    assert not Path("mine").exists()


def test_the_settings_of_another_program_are_left_alone(run):
    Path("mine").mkdir()
    Path("mine/config.toml").write_text("[tool]\n")
    assert "since its config.toml is not that of a run" in refusal(run, "mine", overwrite=True)
    assert Path("mine/config.toml").read_text() == "[tool]\n"


def test_a_link_that_leads_nowhere_is_one_sentence():
    Path("runs").symlink_to("/nonexistent/x")
    with pytest.raises(Exception, match=r"'runs' cannot be written"):
        _folder._new_folder("a")


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_that_is_written_into_is_left_alone(run, overwrite):
    with _folder.open_folder("a", Path("mine"), False, "seed = 1") as mine:
        (mine / "result.json").write_text("new")
        with pytest.raises(Exception, match=r"Another process is writing into the folder 'mine'"):
            run("mine", overwrite=overwrite)
        with pytest.raises(Exception, match=r"Another process"), _folder.reopen_folder(mine):
            pass
        assert (mine / "result.json").read_text() == "new"
    assert "run.lock" not in {path.name for path in mine.iterdir()}
    with _folder.reopen_folder(mine) as again:
        assert again == mine


def test_only_a_run_that_learned_nothing_is_discarded(run):
    assert (run("mine") / "config.toml").exists()
    with _folder.open_folder("a", Path("other"), False, ""):
        assert Path("other").exists()
    assert not Path("other").exists()
    with _folder.open_folder("a", None, False, ""):
        assert Path("runs/a").exists()
    assert not Path("runs/a").exists()
    with _folder.open_folder("a", Path("full"), False, "") as full:
        (full / "checkpoints" / "last.safetensors").write_text("a disk too full for a log")
    assert (full / "config.toml").exists()
    Path("other").mkdir()
    with _folder.open_folder("a", Path("other"), False, ""):
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
    assert _folder.short_name(layout) == name


class Disk:
    """`FileIO.write` on a disk that is full from some byte on."""

    def __init__(self, monkeypatch):
        self.room = 10**9
        real = Path.open

        def limited(path, *args, **kwargs):
            file = real(path, *args, **kwargs)
            if path.suffix != ".csv":
                return file
            return Limited(file, self)

        monkeypatch.setattr(Path, "open", limited)


class Limited:
    def __init__(self, file, disk):
        self.file, self.disk = file, disk

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()

    def seek(self, *where):
        return self.file.seek(*where)

    def truncate(self, size):
        return self.file.truncate(size)

    def write(self, content):
        room = self.disk.room - os.fstat(self.file.fileno()).st_size
        if room <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self.file.write(content[:room])


def after(updates: int, measured: dict) -> SimpleNamespace:
    """The progress after a block."""
    return SimpleNamespace(
        updates=updates,
        measured=measured,
        train_seconds=updates / 3,
        env_steps=updates,
        env_steps_before=0,
        metrics=None,
    )


def test_rows_that_find_no_room_are_written_later(monkeypatch, tmp_path, capsys):
    disk = Disk(monkeypatch)
    failures = _hooks.Failures()
    log = _hooks.Log([_loggers.Csv(tmp_path / "metrics.csv")], failures, 0.0)
    wholes = []
    for update in range(1, 9):
        disk.room = 60 if 3 <= update < 6 else 10**9
        log(after(update, {"env_steps": 10 * update, "eval_return_mean": 0.5}))
        with open(tmp_path / "metrics.csv") as file:
            header, *rows = csv.reader(file)
        assert all(len(row) == len(header) for row in rows), "half a row"
        wholes.append(len(rows))
    assert wholes == [1, wholes[1], wholes[1], wholes[1], wholes[1], 6, 7, 8]
    assert wholes[1] == 2
    error = capsys.readouterr().err
    assert error.count("warning: ") == 1
    assert "metrics.csv' cannot be written: No space left on device. The run goes on" in error
    assert not failures.report(), "all was written in the end"


def test_a_log_that_was_removed_is_written_anew(tmp_path):
    path = tmp_path / "metrics.csv"
    log = _hooks.Log([_loggers.Csv(path)], _hooks.Failures(), 0.0)
    for update in range(1, 6):
        if update == 3:
            path.unlink()
        if update == 4:
            path.write_text("upd")
        log(after(update, {"env_steps": update}))
        assert path.read_text().count("\n") == update + 1
        assert "\0" not in path.read_text()


def test_what_fails_in_the_end_is_said_again(tmp_path, capsys):
    failures = _hooks.Failures()
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
    _report.draw_curve(tmp_path / "curve.png", rows, "odd [/b] 台所 $x_", 260.0)
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_thresholds_are_multiples_of_a_soup():
    row = {"env_steps": 3, "wall_seconds": 0.5, "eval_return_mean": 65.0, "eval_return_std": 0.0}
    assert list(_report.reached([row], 20)) == ["20", "40", "60"]
