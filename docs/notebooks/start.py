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
# # eqgrid in five minutes
#
# This notebook trains two agents, shows what they learned, steps an environment by hand, adds a
# wrapper, tests the agents with another partner, and reads the files of the run. A GPU is not
# needed.

# %%
import importlib.util
import os
import subprocess
import sys

REPOSITORY = "https://github.com/eqgrid/eqgrid"
if importlib.util.find_spec("eqgrid") is None:
    where = f"eqgrid @ git+{REPOSITORY}"
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", where], check=True)
os.environ["TTY_COMPATIBLE"] = "0"  # commands print lines instead of a progress bar

# %% [markdown]
# ## Train two agents
#
# Two agents share a kitchen. Each delivered soup of three onions gives a reward of 20, and an
# episode has 400 steps. The next cell runs the command that trains agents in a terminal. One
# million steps take one to two minutes on two CPU cores.

# %%
# !eqgrid ippo --env.layout cramped --total-steps 1000000 --out runs/notebook --resume

# %% [markdown]
# The run wrote a folder. It contains a learning curve and a video of one episode:

# %%
from IPython.display import Image, display

display(Image("runs/notebook/curve.png", width=600))
display(Image("runs/notebook/episode.gif"))

# %% [markdown]
# ## A step by hand
#
# An environment is an Equinox module without hidden state: `reset` returns a state, and `step`
# takes a state and returns the next one. Here, agent 0 moves north, turns west, and takes an onion
# from the pile that it faces.

# %%
import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt

import eqgrid

env = eqgrid.make("overcooked", layout="cramped", observation="features")
NORTH, SOUTH, EAST, WEST, STAY, INTERACT = range(6)

observation, state = env.reset(jax.random.key(0))
states = [state]
step = eqx.filter_jit(env.step)
for action in (NORTH, WEST, INTERACT):
    timestep, state = step(jax.random.key(0), state, jnp.array([action, STAY]))
    states.append(state)

figure, axes = plt.subplots(1, len(states), figsize=(12, 3))
for axis, shown, title in zip(axes, states, ("start", "north", "west", "interact"), strict=True):
    axis.imshow(env.render(shown))
    axis.set_title(title)
    axis.axis("off")
plt.show()

# %% [markdown]
# An observation of `"features"` is a vector of named numbers. Here are eight of them:

# %%
names = env.observation.names(env.layout)
for name, value in list(zip(names, observation[0], strict=True))[:8]:
    print(f"{name:28} {value:.2f}")

# %% [markdown]
# ## A wrapper
#
# A wrapper contains an environment, and is itself an environment. This wrapper makes the floor
# slippery: it replaces some actions by random ones.

# %%
from eqgrid import AbstractEnv, AbstractWrapper


class Slippery(AbstractWrapper):
    """Replaces each action by a random one, with some probability."""

    env: AbstractEnv
    probability: float = 0.1

    def reset(self, key):
        return self.env.reset(key)

    def step(self, key, state, action):
        step_key, slip_key, action_key = jax.random.split(key, 3)
        slips = jax.random.bernoulli(slip_key, self.probability, action.shape)
        sampled = jax.random.randint(action_key, action.shape, 0, self.action_space.n)
        return self.env.step(step_key, state, jnp.where(slips, sampled, action))

    def observe(self, state):
        return self.env.observe(state)


eqgrid.check_env(Slippery(env))  # raises an error if it breaks the protocol of environments

# %% [markdown]
# How well do the trained agents work on a slippery floor? `evaluate` plays complete episodes in
# many environments at once, and returns the return of each episode:

# %%
from agents import evaluate, load_policy
from eqgrid import AutoReset, LogEpisodes, Vectorize

policy = load_policy("runs/notebook/policy.safetensors")
for probability in (0.0, 0.1, 0.3):
    world = env if probability == 0 else Slippery(env, probability)
    result = evaluate(policy, Vectorize(AutoReset(LogEpisodes(world)), 64), jax.random.key(1))
    print(f"{probability:.0%} of the actions are random: {result.episode_return.mean():.0f}")

# %% [markdown]
# ## Another partner
#
# The two agents learned together. With another partner, their return can be lower. Here, a
# scripted agent that follows shortest paths replaces one of them, first in the second seat and
# then in the first.

# %%
from agents import PolicyPartner
from eqgrid import play
from eqgrid.envs.overcooked import ScriptedCook

trained, scripted = PolicyPartner(policy), ScriptedCook("cramped", "greedy")
keys = jax.random.split(jax.random.key(2), 32)
for name, team in {
    "trained, trained": (trained, trained),
    "trained, scripted": (trained, scripted),
    "scripted, trained": (scripted, trained),
}.items():
    games = eqx.filter_jit(eqx.filter_vmap(play, in_axes=(None, None, 0)))(env, team, keys)
    print(f"{name:20} {games.episode_return[:, 0].mean():.0f}")

# %% [markdown]
# ## Files of a run
#
# A policy is one safetensors file, with named arrays and a description. Reading the file runs no
# code.

# %%
from safetensors.numpy import load_file

from agents import read_metadata

for name, array in load_file("runs/notebook/policy.safetensors").items():
    print(f"{name:55} {array.dtype} {array.shape}")
print(sorted(read_metadata("runs/notebook/policy.safetensors")))

# %% [markdown]
# `runs/notebook/config.toml` contains all settings, and `metrics.csv` a row for each block of
# updates. `checkpoints/` contains the state of the run: `eqgrid ippo --out runs/notebook
# --resume --total-steps 4000000` continues it.
#
# ## Next steps
#
# - The tutorials use wrappers in a project of your own, write a world, and train with partners.
# - `eqgrid new ippo mine.py` copies the script of the experiment, so that you can change it.
