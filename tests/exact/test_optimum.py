"""The command that finds the best possible return, and the plans that are kept with the package."""

import functools
import json

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest
from command_lines import check_refusal, hear
from kitchen_checks import Blind

from eqgrid_lab import Kitchen
from eqgrid.envs.overcooked import KITCHENS, Overcooked, load_layout
from eqgrid_exact import reachable_counters, replay, stored_plans
from eqgrid_exact.commands import _optimum
from eqgrid_lab.base import run_command

optimum_command = functools.partial(run_command, _optimum.run)


@pytest.mark.parametrize("dynamics", ["classic", "interactive"])
def test_every_stored_plan_earns_what_it_says(dynamics):
    plans = [plan for plan in stored_plans().values() if plan.dynamics == dynamics]
    assert {plan.horizon for plan in plans} == {400}
    envs = [
        Overcooked(load_layout(plan.layout).pad(5, 9), dynamics=dynamics, observation=Blind())
        for plan in plans
    ]
    _, rest = eqx.partition(envs[0], eqx.is_array)
    stacked = jax.tree.map(
        lambda *x: jnp.stack(x), *(eqx.filter(env, eqx.is_array) for env in envs)
    )
    actions = jnp.stack([plan.joint_actions() for plan in plans])
    play = eqx.filter_vmap(lambda env, actions: replay(env, actions)[1].sum())
    earned = play(eqx.combine(stacked, rest), actions)
    assert earned.tolist() == [plan.value for plan in plans]
    for plan in plans:
        assert plan.upper is None or plan.upper >= plan.value
        assert set(plan.counters) <= set(reachable_counters(load_layout(plan.layout)))


def test_the_best_known_returns_are_those_of_the_plans():
    assert {name for name, _, _ in stored_plans()} == set(KITCHENS)
    for dynamics in ("classic", "interactive"):
        for layout in KITCHENS:
            plan = stored_plans().get((layout, dynamics, 400))
            known = Kitchen(layout=layout, dynamics=dynamics).optimum
            assert known == (None if plan is None else plan.value)
    assert Kitchen(layout="cramped_room").optimum == Kitchen(layout="cramped").optimum == 280
    assert Kitchen(layout="cramped", horizon=300).optimum is None
    said = {name: _optimum.describe(plan) for name, plan in stored_plans().items()}
    task = "400 steps: 280 is the best possible return"
    assert said["cramped", "classic", 400] == f"cramped, classic rules, {task}"
    assert "in use; it is at most 580 with all" in said["asymmetric", "classic", 400]


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["nowhere"], "There is no layout 'nowhere'"),
        (["cramped", "--counters", "0,2"], "There is no counter in row 0, column 2"),
        (["cramped", "--memory-gib", "0.0001"], "more than --memory-gib 0.0001"),
        (["cramped", "--disk-gib", "0.0001"], "more than --disk-gib 0.0001"),
    ],
)
def test_bad_usage_is_one_line(capsys, tmp_path, args, says):
    out = tmp_path / "deep" / "out"
    check_refusal(hear(capsys, optimum_command, *args, "--out", out), says, codes=(2,))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_plan_is_found_replayed_and_videoed(capsys, tmp_path):
    out = tmp_path / "out"
    code, said = hear(capsys, optimum_command, "cramped_room", "--horizon", 33, "--out", out)
    assert code == 0, said
    assert "20 is the best possible return without counters" in said
    assert sorted(path.name for path in out.iterdir()) == ["episode.gif", "plan.json"]
    found = json.loads((out / "plan.json").read_text(encoding="utf-8"))
    assert found["value"] == 20
    assert found["joint_states"] == 36_800
    assert [len(digits) for digits in found["actions"]] == [33, 33]
    assert found["layout"] == "cramped"
