# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # A biped that learns to stand, to walk, and to stop
#
# A body with six joints, simulated by MuJoCo MJX, learns in three stages. This notebook trains the
# first stage for a few minutes, explains the stages, and shows a bundled policy of the last stage.
# A GPU is not needed.

# %%
import importlib.util
import os
import subprocess
import sys

REPOSITORY = "https://github.com/eqgrid/eqgrid"
if importlib.util.find_spec("eqgrid") is None or importlib.util.find_spec("mujoco") is None:
    where = f"eqgrid[mjx] @ git+{REPOSITORY}"
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", where], check=True)
os.environ["TTY_COMPATIBLE"] = "0"  # commands print lines instead of a progress bar

# %% [markdown]
# ## The body
#
# The body moves in a vertical plane, with motors in hips, knees and ankles. An action is six
# numbers from -1 to 1, and a step is 20 milliseconds. Without actions, the body falls.

# %%
import jax
import matplotlib.pyplot as plt

from eqgrid_lab import world_settings
from eqgrid import unwrap, unwrap_state

world = world_settings("body", model="biped", task="balance").build(train=False)
print("actions:", world.action_space)
observation, state = world.reset(jax.random.key(0))
print("an observation has", observation.shape[-1], "numbers")
plt.imshow(unwrap(world).render(unwrap_state(state)))  # without the time limit around it
plt.axis("off")
plt.show()

# %% [markdown]
# ## The first stage: to stand
#
# Each step gives a reward of up to 1 for an upright torso. An episode has 500 steps, and ends early
# after a fall. A biped that does nothing falls within a second, with a return of 38. After 200,000
# steps of training, it stands for ten seconds. Training takes one to four minutes on a CPU.

# %%
# !eqgrid body --env.model biped --total-steps 200000 --out runs/stand --resume

# %%
from IPython.display import Image, display

display(Image("runs/stand/curve.png", width=600))
display(Image("runs/stand/episode.gif"))

# %% [markdown]
# ## Why stages
#
# Walking to a goal and stopping there is hard to learn at once: a biped that falls after a second
# never reaches the goal. The run has three stages with the same body, observations and actions, but
# different rewards. A stage ends when enough evaluations have passed its gate, a mean return:
#
# | stage | reward | gate |
# |---|---|---|
# | balance | an upright torso | 400, twice in a row |
# | locomotion | walking forward, up to 1 m/s | 300, twice in a row |
# | reach a goal | walking to a flag 2 to 5 m ahead, or being there | 400, three times in a row |
#
# Each stage starts with the parameters, the optimiser state and the observation statistics of the
# stage before it. In a copy of `experiments/curriculum.py`, they are a list:
#
# ```python
# STAGES = (
#     Stage("balance", {"task": "balance"}, enough=400),
#     Stage("locomotion", {"task": "walk"}, enough=300),
#     Stage("reach a goal", {"task": "reach"}, enough=400, evaluations=3),
# )
# ```
#
# All three stages take about ten minutes on two CPU cores.
#
# ## The last stage
#
# A bundled policy was trained in all three stages. It walks to the flag, and stops:

# %%
import equinox as eqx

from agents import load_policy

policy = load_policy("shipped:biped")
world = world_settings("body", model="biped", task="reach").build(train=False)


@eqx.filter_jit
def episode(key):
    reset_key, steps_key = jax.random.split(key)
    observation, state = world.reset(reset_key)

    def step(carry, key):
        observation, state = carry
        act_key, step_key = jax.random.split(key)
        action, _ = policy.act(observation, None, act_key)
        timestep, state = world.step(step_key, state, action)
        return (timestep.observation, state), (state, timestep.reward)

    keys = jax.random.split(steps_key, 400)
    return jax.lax.scan(step, (observation, state), keys)[1]


states, rewards = episode(jax.random.key(3))
print("return in eight seconds:", rewards.sum())
video = unwrap(world).render_episode(unwrap_state(states))
display(Image(data=video, format="gif"))

# %% [markdown]
# ## Next steps
#
# - `eqgrid body --help` lists all settings. `--env.model cartpole --env.task swing_up` trains the
#   other body.
# - `MjxEnv` makes an environment from your own MuJoCo model. The page on bodies has an example.
