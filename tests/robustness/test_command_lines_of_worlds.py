"""Every world trains from one command, and leaves numbers, a curve and a video."""

import json

import pytest

pytestmark = pytest.mark.robustness
WORLDS = ("overcooked_v2", "foraging", "warehouse", "rescue", "minigrid", "goals", "harvest")
WORLDS += ("cleanup", "body")


@pytest.mark.parametrize("world", WORLDS)
def test_it_trains(begin, own_caches, tmp_path, world):
    quickly = {"XLA_FLAGS": own_caches["XLA_FLAGS"]}
    process = begin("--env.name", world, "--total-steps", "512", "--out", "run", env=quickly)
    _, error = process.communicate(timeout=300)
    assert (process.returncode, error) == (0, "")
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["world"] == world
    assert result["env_steps"] == 512
    for name in ("curve.png", "episode.gif", "metrics.csv"):
        assert (tmp_path / "run" / name).stat().st_size > 0
