import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest
from command_lines import HEARS_CTRL_C

from agents import read_metadata

ROOT = Path(__file__).parents[2]
SMALL = [
    *("--num-envs", "4", "--ppo.rollout-length", "32", "--env.horizon", "40"),
    *("--eval-every", "128", "--eval-episodes", "4"),
]


@pytest.fixture(scope="session")
def programs(as_people_do):
    """The environment of processes that share what they compile, so that they begin soon."""
    return as_people_do | {"COLUMNS": "200"}


@pytest.fixture
def begin(programs, tmp_path):
    """Starts a small run in an empty folder, as a person would."""
    started = []

    def begin(*args: str, algorithm: str = "ippo", **options) -> subprocess.Popen[str]:
        script = str(ROOT / "experiments" / f"{algorithm}.py")
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "cwd": tmp_path} | options
        process = subprocess.Popen(
            [*HEARS_CTRL_C, script, *SMALL, *args],
            text=True,
            errors="backslashreplace",
            env=programs | dict(options.pop("env", {})),
            **options,
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture
def run_all(programs, tmp_path):
    """Makes many small runs in one process; `around` is a command that runs the one after it."""

    def run_all(lines: list[tuple[Path, list[str]]], around: list[str]):
        listed = [{"folder": str(folder), "args": [*SMALL, *args]} for folder, args in lines]
        (tmp_path / "lines.json").write_text(json.dumps(listed))
        script = Path(__file__).parent / "many_runs.py"
        command = [sys.executable, str(script), str(tmp_path / "lines.json")]
        return subprocess.run(
            [*around, *command], env=programs, capture_output=True, text=True, timeout=800
        )

    return run_all


@pytest.fixture
def what_is_left():
    return check_what_is_left


def check_what_is_left(folder: Path) -> None:
    """Whatever is in the folder of a run is whole, and its parts agree."""
    for path in folder.rglob("*.safetensors"):
        assert read_metadata(path)["env_steps"] > 0
    metrics = folder / "metrics.csv"
    if metrics.exists():
        header, *rows = csv.reader(metrics.read_text().splitlines())
        assert all(len(row) == len(header) for row in rows), "half a row"
        at = [(int(row[header.index("update")]), row[header.index("seed")]) for row in rows]
        assert at == sorted({*at})
    if (folder / "result.json").exists():
        result = json.loads((folder / "result.json").read_text())
        assert result["env_steps"] <= int(rows[-1][header.index("env_steps")])
