"""Candidates: the best one goes on, as if it had been alone, and nothing of them is lost."""

import itertools
import signal
from pathlib import Path
from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from command_lines import call
from jax import Array
from rich.console import Console
from test_seeds import SEEDS, SMALL, files, result, rows

from agents import StopTraining, evaluate, restore, train
from eqgrid_lab.base import CANDIDATES_FILE, Failures, Process, UsageError
from eqgrid_lab.runs.many import _candidates, _seeds
from eqgrid_lab.runs.single import Run, _evaluator, draw, plan_stages, stages
from eqgrid_lab.settings import page, parse
from eqgrid_lab.show import return_texts

CANDIDATES = ("--candidates", "3", "--candidate-steps", "300")
STEPS = 256
UPDATES, ALL_UPDATES = 2, 5


@pytest.fixture(scope="module", params=[(), SEEDS], ids=["one run", "two seeds"])
def flags(request):
    return (*SMALL, *CANDIDATES, *request.param)


@pytest.fixture(scope="module")
def whole(flags, tmp_path_factory):
    """The folder of a run that nobody has disturbed."""
    out = tmp_path_factory.mktemp("candidates") / "whole"
    assert call(*flags, "--out", out) == 0
    return out


def stop(progress):
    if progress.updates == UPDATES:
        raise StopTraining("for the comparison")


@pytest.mark.slow
def test_the_best_one_goes_on_as_if_it_had_been_alone(tmp_path, capsys):
    assert call(*SMALL, *CANDIDATES, "--seed", "5", "--out", tmp_path / "run") == 0
    config = parse(page("ippo"), [*SMALL, "--seed", "5"])
    train_key, eval_key, _ = jax.random.split(jax.random.key(5), 3)
    env = config.train_env()
    judge = config.eval_env(config.env.build(train=False), config.eval_episodes)
    states, returns = [], []
    for key in jax.random.split(train_key, 3):
        state = draw(config)(env, key)
        state = train(
            *(config.ppo, env, state), num_updates=ALL_UPDATES, updates_per_block=2, hooks=[stop]
        ).state
        key = jax.random.split(jax.random.fold_in(eval_key, UPDATES), 1)[0]
        returns.append(float(evaluate(state.policy, judge, key).episode_return.mean()))
        states.append(state)
    said = ", ".join(return_texts(sorted(returns, reverse=True)))
    assert f"seed 5: {said}\n" in capsys.readouterr().out
    best = states[int(np.argmax(returns))]
    alone = train(config.ppo, env, best, num_updates=ALL_UPDATES).state
    saved = restore(tmp_path / "run/checkpoints/last.safetensors", alone)
    for one, other in zip(
        jax.tree.leaves(eqx.filter(saved.policy, eqx.is_array)),
        jax.tree.leaves(eqx.filter(alone.policy, eqx.is_array)),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)


@pytest.mark.slow
def test_the_steps_of_all_candidates_are_counted(whole):
    assert result(whole)["env_steps"] == 640
    assert result(whole)["env_steps_of_others"] == 2 * STEPS
    assert int(rows(whole)[0]["env_steps"]) == 512  # the first block after them
    assert not (whole / CANDIDATES_FILE).exists()


@pytest.mark.slow
@pytest.mark.usefixtures("hears_ctrl_c")
def test_candidates_that_were_stopped_go_on(flags, whole, tmp_path, monkeypatch, capsys):
    count, real = itertools.count(1), _evaluator.EvaluatorOfMany.__call__

    def press(self, progress):
        if next(count) == 1:
            signal.raise_signal(signal.SIGINT)
        return real(self, progress)

    mine = tmp_path / "mine"
    with monkeypatch.context() as patch:
        patch.setattr(_evaluator.EvaluatorOfMany, "__call__", press)
        assert call(*flags, "--out", mine) == 130
    said = capsys.readouterr().out
    assert "interrupted after the candidates began to learn" in said
    assert f"--resume {mine}" in said
    assert (mine / CANDIDATES_FILE).exists()
    assert call("--resume", mine, "--total-steps", "6400") == 2
    assert "still learn: go on with --resume alone" in capsys.readouterr().err
    settings = (mine / "config.toml").read_text()
    (mine / "config.toml").write_text(settings.replace("gamma = 0.99", "gamma = 0.5"))
    assert call("--resume", mine) == 2
    assert "now: --ppo.gamma (was 0.99, is 0.5)." in capsys.readouterr().err
    (mine / "config.toml").write_text(settings)
    assert call("--resume", mine) == 0
    assert files(mine) == files(whole)
    assert rows(mine) == rows(whole)
    assert result(mine) == result(whole)


class Numbered(eqx.Module):
    """As much of the states of candidates as their choice needs."""

    updates: Array
    number: Array


def test_each_seed_goes_on_with_the_best_of_its_own_candidates(tmp_path, monkeypatch):
    config = parse(page("ippo"), [*SMALL, *CANDIDATES, *SEEDS])
    whole = Run(config, stages(config), plan_stages(stages(config)), Process(), tmp_path, {})
    runs = _seeds._group(whole).runs
    group = _candidates.candidates_of(whole, runs)
    monkeypatch.setattr(
        _candidates,
        "start_together",
        lambda of, keys: Numbered(jnp.full(6, UPDATES), jax.random.key_data(keys)),
    )

    def play(self, state, number):
        seeds = [run.config.seed for run in group.runs]
        assert seeds == [3, 3, 3, 4, 4, 4]
        own = jnp.stack([runs[seed - 3].keys[1] for seed in seeds])
        assert jax.numpy.array_equal(jax.random.key_data(self.keys), jax.random.key_data(own))
        return SimpleNamespace(episode_return=np.array([1.0, 9, 2, 5, 3, 8])[:, None, None])

    monkeypatch.setattr(_evaluator.EvaluatorOfMany, "play", play)
    chosen, stopped = _candidates.choose(group, Console(quiet=True), Failures())
    assert stopped is None
    best = [jax.random.split(run.keys[0], 3)[i] for run, i in zip(runs, (1, 2), strict=True)]
    np.testing.assert_array_equal(chosen.number, jax.random.key_data(jnp.stack(best)))


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--curriculum", "stages.toml"], "--candidates cannot be given with --curriculum"),
        (["--sweep", "grid.toml"], "--candidates cannot be given with --sweep"),
        (["--devices", "2"], "--candidates cannot be given with --devices"),
        (["--distributed"], "--candidates cannot be given with --distributed"),
        (["--candidate-steps", "0"], "--candidate-steps must be at least 1"),
        (["--candidates", "0"], "--candidates must be at least 1"),
    ],
    ids=lambda x: x[0] if isinstance(x, list) else "",
)
def test_what_does_not_go_with_candidates(flags, sentence):
    with pytest.raises(UsageError, match=sentence):
        parse(page("ippo"), [*SMALL, *CANDIDATES, *flags])


@pytest.mark.parametrize(
    ("flags", "updates", "block"),
    [
        (["--total-steps", "128"], 0, 0),  # a single update: there is nothing to choose
        (["--total-steps", "256"], 1, 1),
        (["--total-steps", "1280", "--candidate-steps", "5000"], 5, 1),  # half of ten
        (["--total-steps", "12800", "--candidate-steps", "5000"], 39, 1),
        (["--total-steps", "12800", "--candidate-steps", "5120"], 40, 2),
        (["--candidate-steps", "127"], 0, 0),
    ],
)
def test_candidates_always_leave_something_to_learn(flags, updates, block):
    config = parse(page("ippo"), [*SMALL, *CANDIDATES, *flags])
    run = Run(config, stages(config), plan_stages(stages(config)), Process(), Path(), {})
    assert (run.candidate_updates, run.candidate_block) == (updates, block)
    assert run.candidate_updates < run.plan.num_updates
