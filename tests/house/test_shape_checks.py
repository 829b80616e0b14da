"""Checked shapes in people's own code, switched on with jaxtyping's pytest flag."""

import subprocess
import sys
from pathlib import Path

import pytest

FLAG = "--jaxtyping-packages=eqgrid,agents,beartype.beartype"
USER_TEST = """
import jax
import jax.numpy as jnp
from eqgrid import TimeStep


def test_wrong_shape():
    TimeStep(
        observation=jnp.zeros((2, 3)),
        reward=jnp.zeros(2),
        terminated=jnp.zeros(3, bool),  # three for two agents
        truncated=jnp.array(False),
        info={},
    )
"""


def run_pytest(folder: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_mine.py").write_text(USER_TEST, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "test_mine.py", *flags]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


@pytest.mark.slow
def test_a_wrong_shape_is_caught_and_named(tmp_path):
    out = run_pytest(tmp_path, FLAG)
    assert out.returncode == 1
    assert "The problem arose whilst typechecking parameter 'terminated'" in out.stdout
    assert "Actual value: bool[3]" in out.stdout


@pytest.mark.slow
def test_nothing_is_checked_by_default(tmp_path):
    assert run_pytest(tmp_path).returncode == 0
