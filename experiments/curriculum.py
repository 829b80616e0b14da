"""A curriculum for IPPO: agents train in easier worlds first, one stage after another.

python experiments/curriculum.py --ppo.entropy-coefficient 0.01

Edit `STAGES`, the list of stages: the settings of each, and the gate at its end. To train with
another script, such as `mappo.py`, import its settings in place of `IPPO`. The loop in `main` is
that of `ippo.py`, and goes to the next stage when one has ended.
"""

import dataclasses
import sys
from collections.abc import Mapping
from typing import Any, final

from eqgrid_lab import Kitchen, Run, WorldSettings, parse
import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from agents import TrainState, transfer
from eqgrid import AbstractVectorEnv
from ippo import IPPO

HANDING_OVER = """
XXXPPXXX
X  1   X
XDXXXXSX
X   2  X
XXXOOXXX"""


@final
@dataclasses.dataclass(frozen=True)
class Stage:
    """A stage of the curriculum. It ends when its gate is passed, or after its steps.

    **Arguments:**

    - `name`: the name, which the run prints.
    - `env`: the settings of the world that differ from the command line.
    - `enough`: the mean return of an evaluation that passes the gate.
    - `evaluations`: the number of evaluations in a row with this return.
    - `steps`: the maximum number of environment steps of the stage.
    """

    name: str
    env: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    enough: float = np.inf
    evaluations: int = 2
    steps: float = np.inf

    def has_ended(self, returns: Float[np.ndarray, "evaluations seeds"], steps: float) -> bool:
        """Whether the stage has ended.

        **Arguments:**

        - `returns`: the mean returns in the evaluations of the stage. Each seed has to pass the
            gate once.
        - `steps`: the environment steps of the stage so far.
        """
        last_starts = range(len(returns) - self.evaluations + 1)
        in_a_row = [(returns[i : i + self.evaluations] >= self.enough).all(0) for i in last_starts]
        return steps >= self.steps or bool(in_a_row and np.any(in_a_row, axis=0).all())


# Cooks first learn to hand onions over: in every second episode they have to, since neither can go
# to the other side. Then they cook in the circuit alone. The last stage ends with the run.
STAGES = (
    Stage(
        "handing over",
        {"random_counters": 0.4, "practice": (HANDING_OVER,)},
        enough=190,
        steps=2_500_000,
    ),
    Stage("the circuit"),
)


@dataclasses.dataclass(frozen=True)
class Curriculum(IPPO):
    """Trains agents with IPPO in stages, and writes results, plots and checkpoints."""

    env: WorldSettings = dataclasses.field(default_factory=lambda: Kitchen(layout="circuit"))


def enter(run: Run, env: Any, number: int) -> None:
    """Changes the settings of a run to those of a stage. `env` is the world of the command line."""
    env = dataclasses.replace(env, **STAGES[number].env)
    run.config = dataclasses.replace(run.config, env=env)
    run.console.print(f"stage {number + 1} of {len(STAGES)}: {STAGES[number].name}")


def is_next(run: Run, number: int) -> bool:
    """Whether the next stage begins, by the log of the run."""
    rows = [row for row in run.rows if row["stage"] == number + 1]
    if not rows or number + 1 == len(STAGES):
        return False
    returns = np.reshape([row["eval_return_mean"] for row in rows], (-1, len(run.seeds)))
    before = max((row["env_steps"] for row in run.rows if row["stage"] <= number), default=0)
    return STAGES[number].has_ended(returns, rows[-1]["env_steps"] - before)


def main(config: Curriculum) -> int:
    with Run(config) as run:
        ppo = config.learner()

        def init(envs: AbstractVectorEnv, key: PRNGKeyArray) -> TrainState:
            policy_key, run_key = jax.random.split(key)
            return ppo.init(config.policy(envs, policy_key), envs, run_key)

        @eqx.filter_jit
        @eqx.filter_vmap(in_axes=(eqx.if_array(0), None, 0))
        def move(state: TrainState, envs: AbstractVectorEnv, key: PRNGKeyArray) -> TrainState:
            # `keep` says what the next stage inherits: by default, all that was learned.
            return transfer(state, init(envs, key), envs)

        number = int(run.rows[-1]["stage"]) - 1 if run.rows else 0  # a resumed run has rows
        enter(run, config.env, number)
        envs = run.config.train_env()
        block, evaluation = run.block(ppo, envs), run.evaluation(envs)
        state = run.start(init, block, evaluation)
        for count in run.blocks():
            if is_next(run, number):
                number += 1
                enter(run, config.env, number)
                envs = run.config.train_env()
                block, evaluation = run.block(ppo, envs), run.evaluation(envs)
                run.use(block, evaluation)
                keys = jax.vmap(jax.random.fold_in, (0, None))(run.train_keys, number)
                state = move(state, envs, keys)
            state, metrics = block(state, count)
            result = evaluation(state)
            result["stage"] = np.full(len(run.seeds), number + 1)  # a column of metrics.csv
            run.log(metrics, result)
            run.save(state, result)
        run.finish(state)
    return run.exit_code


if __name__ == "__main__":
    sys.exit(main(parse(Curriculum)))
