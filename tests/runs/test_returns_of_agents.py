"""In worlds whose rewards differ between agents, each agent has a return of its own everywhere."""

import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from command_lines import call_and_hear, hear
from own_modules import in_folder_of
from rich.console import Console
from run_files import table
from safetensors.numpy import load_file

from eqgrid_lab.commands import evaluate_command, report_command
from eqgrid_lab.runs._display import Display
from eqgrid_lab.runs._finish import joint_result
from eqgrid_lab.show import (
    _report,
    draw_curves,
    is_constant_sum,
    mean_returns,
    returns_of_agents,
)

CHASE = """
import jax
import jax.numpy as jnp

from eqgrid import AbstractEnv, Discrete, TimeStep


class Chase(AbstractEnv):
    \"\"\"On a ring of eight places, an agent gets what the other one loses.\"\"\"

    num_agents: int = 2
    action_space: Discrete = Discrete(3)

    def reset(self, key):
        state = jax.random.randint(key, (2,), 0, 8), jnp.zeros((), jnp.int32)
        return self.observe(state), state

    def step(self, key, state, action):
        place, time = (state[0] + action - 1) % 8, state[1] + 1
        gain, over = jnp.where(place[0] == place[1], 1.0, -0.25), jnp.full(2, time == 8)
        info, reward = {"together": place == place[::-1]}, jnp.stack([gain, -gain])
        shown = self.observe((place, time))
        return TimeStep(shown, reward, over, jnp.asarray(False), info), (place, time)

    def observe(self, state):
        gap = (state[0][::-1] - state[0]) % 8
        return jnp.concatenate([jax.nn.one_hot(gap, 8), jnp.eye(2)], axis=1)
"""
FLAGS = (
    *("--env.name", "chase:Chase", "--num-envs", "4", "--width", "8"),
    *("--ppo.rollout-length", "16", "--ppo.num-epochs", "1", "--ppo.num-minibatches", "2"),
    *("--eval-every", "64", "--eval-episodes", "4"),
)


def evaluations(*returns) -> list[dict[str, float]]:
    """The rows of evaluations with these returns, of agents in episodes."""
    found: list[dict[str, float]] = []
    for number, own in enumerate(returns, start=1):
        each = bool(found and returns_of_agents(found[-1]))
        row = mean_returns(np.asarray(own, np.float32), each=each)
        found.append({"env_steps": 64 * number, "wall_seconds": 1.0, **row})
    return found


ZERO_SUM = ([[1, -1], [-0.25, 0.25]], [[3, -3], [0, 0]], [[-0.1, 0.1], [0.1, -0.1]])
SHARED = ([[1, 1], [2, 2]], [[0, 0], [0, 0]])


def test_only_returns_that_differ_have_columns_of_their_own():
    first, second = evaluations(*SHARED)
    names = ["env_steps", "wall_seconds", "eval_return_mean", "eval_return_std"]
    assert [*first] == [*second] == names
    same, differ, later = evaluations(SHARED[0], [[4, 0], [0, 0]], SHARED[1])
    assert [*same] == names
    assert returns_of_agents(differ) == [2.0, 0.0]
    assert returns_of_agents(later) == [0.0, 0.0], "once they differed, they stay"
    assert (differ["eval_return_mean"], differ["eval_return_std"]) == (1.0, 1.0)


@pytest.mark.parametrize(
    ("returns", "expected"),
    [
        (ZERO_SUM, True),
        ([[[0.3, 9.7], [5, 5]], [[10, 0], [3.3, 6.7]]], True),  # the sum is always 10
        ([[[1e3, 0.1], [0.1, 1e3]]], True),
        (SHARED, False),
        ([[[0, 0]], *ZERO_SUM], True),
        ([[[1, 0], [0, 1]], [[2, 0], [0, 1]]], False),  # foragers that compete for apples
        ([[[1, -1]], [[2, -1]]], False),
        ([[[np.nan, np.nan]]], False),
        ([], False),
    ],
)
def test_a_sum_that_is_always_the_same_is_found(returns, expected):
    assert is_constant_sum(evaluations(*returns)) == expected


def test_progress_and_curves_show_each_agent(tmp_path, monkeypatch):
    rows = evaluations(SHARED[0], *ZERO_SUM)
    steps = {"env_steps": 256, "steps_per_update": 256, "speed": lambda: 100.0, "seeds": [0]}
    run: Any = SimpleNamespace(**steps, updates=1, num_updates=2)
    console = Console(file=io.StringIO(), width=200)
    (display := Display(console)).start(512)
    display.show(run, {name: np.asarray([x]) for name, x in rows[1].items()})
    assert "return  0.000 (agents: 0.375, -0.375) " in console.file.getvalue()
    figures = []
    monkeypatch.setattr(_report, "write_figure", lambda _, figure: figures.append(figure))
    for seeds in ([rows], [rows, rows]):
        draw_curves(tmp_path / "curve.png", seeds, "title", None)
        axes = figures[-1].axes[0]
        lines = {line.get_label(): line.get_ydata() for line in axes.lines}
        np.testing.assert_allclose(lines["agent 0"], [1.5, 0.375, 1.5, 0])
        np.testing.assert_allclose(lines["agent 1"], [1.5, -0.375, -1.5, 0])
        (mean,) = (lines[name] for name in ("mean return", "interquartile mean") if name in lines)
        np.testing.assert_allclose(mean, [1.5, 0, 0, 0])
        lowest, highest = axes.get_ylim()
        assert lowest <= -1.5
        assert highest >= 1.5
    draw_curves(tmp_path / "curve.png", [evaluations(*SHARED)], "title", None)
    assert "agent 0" not in [line.get_label() for line in figures[-1].axes[0].lines]


def test_the_results_of_seeds_have_the_returns_of_each_agent():
    own = {"eval_return_mean": 0.0, "eval_return_std": 0.0, "constant_sum": True}
    names = ("algorithm", "world", "layout", "dynamics", "env_steps", "wall_seconds", "optimum")
    own |= dict.fromkeys((*names, "compile_seconds", "train_seconds", "steps_per_second"))
    own |= {"eval_episodes": 8, "seeds": [0], "total_steps": 8}
    different = own | {"seeds": [1], "eval_return_agent_0": 2.0, "eval_return_agent_1": -2.0}
    result = joint_result([own, different])
    assert returns_of_agents(result) == [1.0, -1.0]
    assert result["constant_sum"]
    assert [returns_of_agents(run) for run in result["runs"]] == [[], [2.0, -2.0]]


@pytest.mark.slow
def test_a_run_of_a_zero_sum_game(tmp_path, monkeypatch, capsys):
    with in_folder_of(tmp_path, monkeypatch, chase=CHASE):
        more = ("--log-info", "together", "--total-steps", "128", "--out", "run")
        code, said = call_and_hear(capsys, *FLAGS, *more)
        assert code == 0, said
        code, said = call_and_hear(
            capsys, *FLAGS[:2], "--out", "run", "--resume", "--total-steps", "256"
        )
        assert code == 0, said
        check_run(tmp_path / "run", said)
        code, said = call_and_hear(
            capsys, *FLAGS, "--total-steps", "128", "--num-seeds", "2", "--out", "two"
        )
        assert code == 0, said
        check_seeds(tmp_path / "two", said)
        policy = ("run/policy.safetensors", *FLAGS[:2], "--episodes", "4", "--out", "evaluation")
        code, said = hear(capsys, evaluate_command, *policy)
        assert code == 0, said
        assert " of each seat " in said
        code, said = hear(capsys, report_command, "two", "--out", "report")
        assert code == 0, said
        assert "| 0.000 (agents: " in said
        for row in table(tmp_path / "report" / "seeds.csv"):
            assert float(row["agent_0"]) == -float(row["agent_1"]) != 0


def check_run(folder: Path, said: str) -> None:
    """The files and the last lines of a run with one seed."""
    rows, result = table(folder / "metrics.csv"), json.loads((folder / "result.json").read_text())
    assert len(rows) == 4
    assert all(float(x["eval_return_agent_0"]) == -float(x["eval_return_agent_1"]) for x in rows)
    assert len({x["eval_return_agent_0"] for x in rows}) > 1
    own = returns_of_agents(result)
    assert own[0] == -own[1] != 0
    expected = {"constant_sum": True, "policy": "last", "best_return_mean": None, "reached": {}}
    assert expected.items() <= result.items()
    best, last = (load_file(folder / f"{x}.safetensors") for x in ("checkpoints/best", "policy"))
    assert best.keys() == last.keys()
    for name, leaf in best.items():
        np.testing.assert_array_equal(leaf, last[name])
    for words in (
        "return  0.000 (agents: ",
        "the last one, since the returns of the agents have the same sum",
    ):
        assert words in said


def check_seeds(folder: Path, said: str) -> None:
    """The files and the last lines of a run with two seeds."""
    result = json.loads((folder / "result.json").read_text())
    means = [returns_of_agents(run) for run in result["runs"]]
    assert returns_of_agents(result) == np.mean(means, axis=0).tolist()
    assert {"seed", "eval_return_agent_0"} <= table(folder / "metrics.csv")[0].keys()
    assert "mean of each agent" in said
