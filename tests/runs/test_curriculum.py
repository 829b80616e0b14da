"""Stages of a run: what their tables say, when each ends, and what is refused."""

import dataclasses
import json
import time
from pathlib import Path
from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest
from command_lines import call, call_and_hear, check_refusal, parse

from eqgrid_lab import Experiment, Kitchen
from agents import Evaluation
from eqgrid import NormalizeObservation
from eqgrid.grid import AbstractGridWorld, Stay
from eqgrid_lab.base import UsageError
from eqgrid_lab.runs import (
    Evaluator,
    Gate,
    Stage,
    StageCount,
    stages,
    with_curriculum,
)
from eqgrid_lab.runs._curriculum import summary
from eqgrid_lab.runs._evaluator import evaluated_metrics
from eqgrid_lab.settings import default_settings, dump, load, shipped_script

IPPO = shipped_script("ippo")
TABLES = """
[[stage]]
name = "anywhere"
env = {random_starts = 1.0}
ppo = {learning_rate = 3e-4}
gate = {metric = "eval_return_mean", at_least = 20.0, evaluations = 2}
steps = 1000
reset = ["optimizer"]

[[stage]]
shaping = 0.5
"""


def read(tmp_path, text: str, *flags: str) -> Experiment:
    (tmp_path / "stages.toml").write_text(text)
    return with_curriculum(
        parse("--curriculum", str(tmp_path / "stages.toml"), "--seed", "3", *flags)
    )


@dataclasses.dataclass(frozen=True)
class Winding(IPPO):
    """A script with one more setting that is an array leaf of its environments."""

    stage_settings = (*IPPO.stage_settings, "wind")
    wind: float = 0.0


def test_a_stage_sets_what_its_script_allows(tmp_path):
    def parsed(text):
        (tmp_path / "stages.toml").write_text(text)
        flags = ["--curriculum", str(tmp_path / "stages.toml")]
        return stages(with_curriculum(parse(*flags, algorithm=Winding)))

    first, second = parsed("[[stage]]\nwind = 0.5\nsteps = 9\n[[stage]]\nshaping = 0.5\n")
    assert (first.config.wind, second.config.wind) == (0.5, 0.0)
    assert (first.config.shaping, second.config.shaping) == (1.0, 0.5)
    with pytest.raises(UsageError, match="unknown key 'winds'"):
        parsed("[[stage]]\nwinds = 0.5\n")
    with pytest.raises(UsageError, match="'wind'"):
        parsed('[[stage]]\nwind = "many"\n')


def test_a_stage_replaces_settings_of_the_run(tmp_path):
    first, second = stages(read(tmp_path, TABLES))
    file = tmp_path / "stages.toml"
    plain = dataclasses.replace(default_settings(IPPO, Kitchen()), seed=3, curriculum=file)
    assert (first.name, second.name) == ("anywhere", "2")
    assert first.config.env == dataclasses.replace(plain.env, random_starts=1.0)
    assert first.config.ppo.learning_rate == 3e-4
    assert first.keep == ("parameters", "moments", "shaping")
    assert first.gate == Gate("eval_return_mean", at_least=20.0, evaluations=2)
    assert first.steps == 1000
    assert second.config == dataclasses.replace(plain, shaping=0.5)
    assert second.keep == ("parameters", "optimizer", "moments"), "its own shaping begins with it"
    assert (second.gate, second.steps) == (None, None)


def test_the_settings_file_of_a_run_has_its_stages(tmp_path):
    config = read(tmp_path, TABLES)
    path = tmp_path / "config.toml"
    path.write_text(dump(config))
    again = load(path, IPPO)
    assert again.stage == config.stage
    assert [x.gate for x in stages(again)] == [x.gate for x in stages(config)]
    assert "stage" not in dump(IPPO())


def test_what_is_written_can_be_read_back(tmp_path):
    """The largest curriculum that is read takes more room in `config.toml`."""
    stage = "[[stage]]\nenv={random_starts=0.5}\nppo={gamma=0.9}\nsteps=9\n"
    text = stage * (99_000 // len(stage))
    config = read(tmp_path, text)
    written = dump(config)
    assert len(text) < 100_000 < len(written)
    (tmp_path / "config.toml").write_text(written)
    assert parse("--out", str(tmp_path), "--resume").stage == config.stage


@pytest.mark.parametrize(
    ("returns", "passes"),
    [
        ([30, 30, 30], [1, 2, 2]),
        ([30, 19, 30, 30, 19], [1, 0, 1, 2, 2]),  # a gate that is passed stays passed
        ([float("nan"), 20, 21], [0, 1, 2]),
    ],
)
def test_a_gate_counts_evaluations_in_a_row(returns, passes):
    stage = Stage("a", IPPO(), Gate("eval_return_mean", at_least=20.0, evaluations=2), 1000)
    count = StageCount(stage, number=2, begin=500)
    steps = [100 * i for i in range(1, 1 + len(returns))]
    each = zip(returns, steps, strict=True)
    rows = [count({"eval_return_mean": mean, "env_steps": 500 + step}) for mean, step in each]
    assert [row["gate_passes"] for row in rows] == passes
    assert [row["stage_steps"] for row in rows] == steps
    assert {row["stage"] for row in rows} == {2}
    ended = [None if number < 2 else "its gate is passed" for number in passes]
    assert [stage.ended(row) for row in rows] == ended


def test_a_budget_ends_a_stage_and_says_that_its_gate_was_not_passed():
    gate = Gate("event_soup_delivery", at_most=1.0)
    rows = [{"gate_passes": 0, "stage_steps": steps} for steps in (999, 1000)]
    assert [Stage("a", IPPO(), gate, 1000).ended(row) for row in rows] == [
        None,
        "its 1,000 steps have been used, without passing its gate",
    ]
    assert Stage("a", IPPO(), None, 1000).ended(rows[1]) == "its 1,000 steps have been used"
    assert Stage("a", IPPO()).ended(rows[1]) is None
    assert Stage("a", IPPO(), gate, 1000).ended({}) is None, "nothing is measured yet"
    end = Stage("a", IPPO(), dataclasses.replace(gate, evaluations=3), 1000).end
    assert end == (
        "until event_soup_delivery is at most 1 in 3 evaluations in a row, at most 1,000 steps"
    )


def test_what_came_of_the_stages():
    run = (
        Stage("a", IPPO(), None, 100),
        Stage("b", IPPO()),
        Stage("c", IPPO()),
    )
    rows = [
        {"stage": 1, "env_steps": 100, "stage_steps": 100, "gate_passes": 0, "eval_return_mean": 1},
        {"stage": 2, "env_steps": 150, "stage_steps": 50, "gate_passes": 0, "eval_return_mean": 2},
    ]
    assert [(x["name"], x["ended"]) for x in summary(run, rows)] == [
        ("a", "its 100 steps have been used"),
        ("b", "with the run"),
    ]


BAD = {
    "no stages": ("", "has no stages: add a table [[stage]]"),
    "more": ("width = 3\n[[stage]]", "has 'width' in addition to its stages"),
    "unknown key": ("[[stage]]\nnmae = 'a'", "unknown key 'nmae'"),
    "unknown setting": ("[[stage]]\nenv = {horizn = 3}", "'env.horizn'"),
    "unknown part": ("[[stage]]\nreset = ['all']", "'reset'"),
    "no end": ("[[stage]]\n[[stage]]", "Stage 1 of the curriculum: it has no end"),
    "no bound": ("[[stage]]\ngate = {metric = 'eval_return_mean'}", "needs one bound"),
    "unknown metric": (
        "[[stage]]\ngate = {metric = 'event_soup_deliver', at_least = 1.0}",
        "did you mean event_soup_delivery",
    ),
    "fixed": ("[[stage]]\nppo = {rollout_length = 64}", "is the same in all stages"),
    "other shapes": (
        "[[stage]]\nsteps = 1\n[[stage]]\nenv = {observation = 'planes'}",
        "Stage 2 of the curriculum: its observations or actions differ",
    ),
}


@pytest.mark.parametrize(("text", "words"), BAD.values(), ids=BAD)
def test_what_is_wrong_is_one_sentence(tmp_path, monkeypatch, capsys, text, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stages.toml").write_text(text)
    heard = call_and_hear(capsys, "--curriculum", "stages.toml", "--out", "run")
    check_refusal(heard, words, codes=(2,))
    assert not (tmp_path / "run").exists()


CURRICULA = sorted((Path(__file__).parents[2] / "experiments" / "curricula").glob("*.toml"))
MADE_FOR = {
    "circuit": ["--env.layout", "circuit"],
    "biped": ["--env.name", "body", "--env.model", "biped"],
    "hidden-recipe": ["--env.name", "overcooked_v2", "--env.layout", "test_time_simple"],
}
"""The flags of the run that each file is for."""


def gates():
    """Every gate that is shipped, with the settings of its stage."""
    for path in CURRICULA:
        args = ["--curriculum", str(path), *MADE_FOR[path.stem]]
        for stage in stages(with_curriculum(parse(*args))):
            if stage.gate is not None:
                yield pytest.param(stage, id=f"{path.stem}-{stage.name}")


@eqx.filter_jit
def play(env, nothing, at_random, steps: int) -> Evaluation:
    """The first episode in every environment, of agents that do nothing or act at random."""
    kept = ("episode_return", "episode_length", *(f"episode_{name}" for name in env.env.env.totals))

    def step(carry, key):
        state, over, sums = carry
        action_key, step_key = jax.random.split(key)
        keys = jax.random.split(action_key, nothing.shape[:2])
        anything = jax.vmap(jax.vmap(env.action_space.sample))(keys)
        action = jnp.where(at_random, anything, nothing)
        timestep, state = env.step(step_key, state, action)
        first = timestep.done & ~over
        new = {name: timestep.info[name] for name in kept}
        sums = jax.tree.map(lambda x, old: jax.vmap(jnp.where)(first, x, old), new, sums)
        return (state, over | first, sums), None

    _, state = env.reset(jax.random.key(0))
    info = jax.eval_shape(env.step, jax.random.key(0), state, nothing)[0].info
    sums = {name: jnp.zeros(info[name].shape, info[name].dtype) for name in kept}
    start = (state, jnp.zeros(env.num_envs, bool), sums)
    keys = jax.random.split(jax.random.key(1), steps)
    (_, over, sums), _ = jax.lax.scan(step, start, keys)
    sums = {name.removeprefix("episode_"): x for name, x in sums.items()}
    return Evaluation(sums.pop("return"), sums.pop("length"), sums, over)


@pytest.mark.slow
@pytest.mark.parametrize("stage", list(gates()))
def test_nobody_passes_a_gate_without_learning(stage):
    config, world = stage.config, stage.config.env.build(train=False)
    totals = config.env.totals(world)
    env = config.eval_env(world, 16, tuple(totals))
    env = env.env if isinstance(env, NormalizeObservation) else env
    nothing, steps = jnp.zeros((env.num_envs, env.num_agents, 6)), 150
    if isinstance(world, AbstractGridWorld):
        stay = next(i for i, action in enumerate(world.actions) if isinstance(action, Stay))
        nothing, steps = jnp.full((env.num_envs, env.num_agents), stay), config.env.horizon
    evaluator = Evaluator(env, jax.random.key(0), time.perf_counter, [], totals)
    for at_random in (False, True):
        episodes = play(env, nothing, jnp.array(at_random), steps)
        assert bool(episodes.finished.all())
        assert not stage.gate.holds(evaluator.add(SimpleNamespace(env_steps=0), episodes))


@pytest.mark.slow
def test_the_log_names_the_events(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    flags = "--env.layout cramped,ring --env.horizon 20 --num-envs 4 --ppo.rollout-length 32"
    flags += " --total-steps 128 --eval-episodes 4 --final-episodes 4 --out run"
    assert call(*flags.split()) == 0
    header = (tmp_path / "run" / "metrics.csv").read_text().splitlines()[0].split(",")
    env = parse("--env.layout", "cramped,ring").env
    assert set(evaluated_metrics(env.totals(env.build(train=False)))) < set(header)
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert set(result["layouts"]) == {"cramped", "ring"}
    assert result["optimum"] is None, "known for 400 steps only"
