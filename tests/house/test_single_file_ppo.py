"""PPO in one file learns, and needs nothing of `agents`."""

import ast
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import single_file_ppo

from agents import gae

FILE = Path(__file__).parents[2] / "experiments" / "single_file_ppo.py"


def test_it_stands_alone():
    text = FILE.read_text()
    imports = [x for x in ast.walk(ast.parse(text)) if isinstance(x, ast.Import | ast.ImportFrom)]
    names = {getattr(x, "module", None) or x.names[0].name for x in imports}
    assert "eqgrid" in names
    assert not {"agents", "experiments"} & {name.split(".")[0] for name in names}
    assert len(text.splitlines()) <= 250


@pytest.mark.slow
def test_it_learns_to_cook(as_people_do):
    flags = ["--total-steps", "1000000", "--shaping-steps", "500000"]
    done = subprocess.run(
        [sys.executable, str(FILE), *flags], env=as_people_do, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout.split()[-1]) >= 200


def test_its_advantages_are_those_of_agents(key):
    keys = jax.random.split(key, 5)
    reward, value, next_value = (jax.random.normal(x, (9, 3, 2)) for x in keys[:3])
    terminated = jax.random.bernoulli(keys[3], 0.2, (9, 3, 2))
    done = jax.random.bernoulli(keys[4], 0.2, (9, 3)) | terminated.all(axis=-1)
    nothing = jnp.zeros((9, 3, 2))
    steps = single_file_ppo.Transition(
        nothing[..., None],
        nothing.astype(int),
        nothing,
        value,
        next_value,
        reward,
        terminated,
        jnp.broadcast_to(done[..., None], reward.shape),
    )
    mine = single_file_ppo.advantages(single_file_ppo.Args(), steps)
    expected = gae(reward, value, next_value, terminated, done, gamma=0.99, gae_lambda=0.95)
    np.testing.assert_allclose(mine, expected, rtol=1e-5, atol=1e-5)


def test_an_unknown_kitchen_is_refused(as_people_do):
    done = subprocess.run(
        [sys.executable, str(FILE), "--layout", "rign"],
        env=as_people_do,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
