"""The episodes of evaluations: others each time, the same for many runs, and none of training."""

import itertools
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from command_lines import parse
from drift import Drift

from eqgrid import Vectorize
from eqgrid_lab.base import Failures, Process
from eqgrid_lab.runs import Evaluator, _evaluator, stages
from eqgrid_lab.runs._conclusion import Conclusion
from eqgrid_lab.runs._evaluator import EvaluatorOfMany
from eqgrid_lab.runs._members import Members
from eqgrid_lab.runs._run import Run


@pytest.fixture(autouse=True)
def keys_of_episodes(monkeypatch):
    """In place of episodes, evaluations return the key that they are played with."""
    monkeypatch.setattr(_evaluator, "evaluate", lambda policy, env, key: jax.random.key_data(key))


def state_of(shape=()):
    return SimpleNamespace(policy=jnp.zeros(shape), runner=SimpleNamespace(env_state=None))


def evaluator_of(seed):
    plan = SimpleNamespace(eval_env=Vectorize(Drift(), 2), totals={})
    config = parse("--seed", str(seed))
    run = Run(config, stages(config), (plan,), Process(), Path())
    return run, Members(run, (run,), Path())._evaluators([{}])[0]


def distinct(keys):
    rows = np.asarray([np.asarray(key).ravel() for key in keys])
    return len(np.unique(rows, axis=0))


def test_every_batch_of_every_evaluation_is_another_one():
    runs, evaluators = zip(*map(evaluator_of, (0, 1)), strict=True)
    asked = list(itertools.product(evaluators, range(5)))
    keys = [key for one, number in asked for key in one.play(state_of(), number, 3)]
    assert len(keys) == distinct(keys) == 2 * 5 * 3
    again = [key for one, number in asked for key in one.play(state_of(), number, 3)]
    np.testing.assert_array_equal(keys, again)
    # They follow from the key of evaluations, and neither from that of training nor of the video.
    for run, one in zip(runs, evaluators, strict=True):
        keys = np.stack([jax.random.key_data(key) for key in run.keys])
        assert distinct(keys) == 3
        np.testing.assert_array_equal(jax.random.key_data(one.key), keys[1])


def test_many_runs_play_the_episodes_that_each_plays_alone():
    evaluators = [evaluator_of(seed)[1] for seed in (3, 4, 5)]
    together = EvaluatorOfMany(evaluators)
    for number in (0, 1, 7):
        alone = [next(one.play(state_of(), number)) for one in evaluators]
        np.testing.assert_array_equal(together.play(state_of((3,)), number), alone)


def test_final_evaluations_play_episodes_that_no_earlier_one_has_played(monkeypatch):
    numbers = []

    def play(self, state, number, repeats):
        numbers.append(number)
        episodes = SimpleNamespace(episode_return=np.zeros((4, 2)))
        return itertools.repeat(episodes, repeats)

    monkeypatch.setattr(Evaluator, "play", play)
    run, evaluator = evaluator_of(0)
    progress = SimpleNamespace(num_updates=9, state=state_of())
    end = Conclusion(run, progress, evaluator, Failures())
    returns = [end._play(state_of(), number) for number in (1, 2)]
    assert len(returns[0]) == 4 * -(-run.config.final_episodes // run.config.eval_episodes)
    assert min(numbers) > 9, "evaluations of training have the numbers of updates"
    assert numbers[0] != numbers[1]
