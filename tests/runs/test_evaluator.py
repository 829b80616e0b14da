"""The episodes of evaluations: others each time, and the same for a seed alone or among others."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
from command_lines import parse
from drift import Drift

from eqgrid_lab import Evaluation, Run
from eqgrid import Vectorize
from eqgrid_lab.runs import _evaluation


def distinct(keys):
    return len(np.unique(np.asarray(keys).reshape(-1, 2), axis=0))


def test_every_batch_of_every_evaluation_is_another_one(monkeypatch, tmp_path):
    # In place of episodes, evaluations return the key that they are played with.
    monkeypatch.setattr(_evaluation, "evaluate", lambda policy, env, key: jax.random.key_data(key))
    monkeypatch.chdir(tmp_path)
    env, played = Vectorize(Drift(), 2), {}
    for seed, number in ((3, 1), (3, 3), (4, 1)):
        with Run(parse("--seed", str(seed), "--num-seeds", str(number))) as run:
            evaluation = Evaluation(env, env, run.eval_keys, run.mesh)
            keys = run.train_keys, run.eval_keys, run.video_keys
            assert distinct([jax.random.key_data(x) for x in keys]) == 3 * number
        batches = [evaluation.play(jnp.zeros(number), i, 3) for i in range(5)]
        played[seed, number] = np.asarray([*itertools.chain(*batches)])
    assert distinct(played[3, 3]) == 3 * 5 * 3
    np.testing.assert_array_equal(played[3, 3][:, :1], played[3, 1])
    np.testing.assert_array_equal(played[3, 3][:, 1:2], played[4, 1])
