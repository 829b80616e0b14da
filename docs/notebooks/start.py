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
# You train two cooks for a minute, look at what they have learned, take a step by hand, write a
# wrapper, let the cooks play with somebody else, and look into the files that a run leaves. It
# works with and without an accelerator.

# %%
import importlib.util
import subprocess
import sys

REPOSITORY = "https://github.com/eqgrid/eqgrid"
if importlib.util.find_spec("eqgrid") is None:
    where = f"eqgrid @ git+{REPOSITORY}"
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", where], check=True)

# %% [markdown]
# ## Train two cooks
#
# Two cooks share a kitchen. A soup of three onions is worth 20, and an episode has 400 steps. The
# command below is the one that people type in a terminal; a million steps take about a minute,
# compilation included.

# %%
# !eqgrid-ippo --env.layout cramped --total-steps 1000000 --out runs/notebook --overwrite

# %% [markdown]
# The run has left a folder. Here are its curve and a film of one episode:

# %%
from IPython.display import Image, display

display(Image("runs/notebook/curve.png", width=600))
display(Image("runs/notebook/episode.gif"))

# %% [markdown]
# ## A step by hand
#
# An environment is a module without hidden state: `reset` and `step` return a state, and take one.
# Cook 1 goes to the north, turns to the west, and takes an onion from the pile that it faces.

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
# What a cook sees is a vector of named numbers (or planes, with `observation="planes"`):

# %%
names = env.observation.names(env.layout)
for name, value in list(zip(names, observation[0], strict=True))[:8]:
    print(f"{name:28} {value:.2f}")

# %% [markdown]
# ## A wrapper
#
# A wrapper holds an environment, and is one. This one makes floors slippery: now and then, an
# action is replaced by a random one.

# %%
from eqgrid import AbstractEnv, AbstractWrapper


class Slippery(AbstractWrapper):
    """Replaces each action by a random one, with some probability."""

    env: AbstractEnv
    probability: float = 0.1

    def reset(self, key):
        return self.env.reset(key)

    def step(self, key, state, action):
        step_key, slip_key, draw_key = jax.random.split(key, 3)
        slips = jax.random.bernoulli(slip_key, self.probability, action.shape)
        drawn = jax.random.randint(draw_key, action.shape, 0, self.action_space.n)
        return self.env.step(step_key, state, jnp.where(slips, drawn, action))

    def observe(self, state):
        return self.env.observe(state)


eqgrid.check_env(Slippery(env))  # raises an error if it breaks the protocol of environments

# %% [markdown]
# How well do the trained cooks work on slippery floors? `evaluate` plays complete episodes in
# many environments at once:

# %%
from agents import evaluate, load_policy
from eqgrid import AutoReset, LogEpisodes, Vectorize

cooks = load_policy("runs/notebook/policy.safetensors")
for probability in (0.0, 0.1, 0.3):
    world = env if probability == 0 else Slippery(env, probability)
    result = evaluate(cooks, Vectorize(AutoReset(LogEpisodes(world)), 64), jax.random.key(1))
    print(f"{probability:.0%} of the actions are random: {result.episode_return.mean():.0f}")

# %% [markdown]
# ## Another partner
#
# The two cooks know each other. With somebody else they may earn less. Here one of them plays
# with a scripted cook that follows shortest ways; in the second seat, the roles are exchanged.

# %%
from agents import PolicyPartner
from eqgrid import play
from eqgrid.envs.overcooked import ScriptedCook

trained, scripted = PolicyPartner(cooks), ScriptedCook("cramped", "greedy")
keys = jax.random.split(jax.random.key(2), 32)
for name, team in {
    "trained, trained": (trained, trained),
    "trained, scripted": (trained, scripted),
    "scripted, trained": (scripted, trained),
}.items():
    games = eqx.filter_jit(eqx.filter_vmap(play, in_axes=(None, None, 0)))(env, team, keys)
    print(f"{name:20} {games.episode_return[:, 0].mean():.0f}")

# %% [markdown]
# ## A look into the files
#
# A policy is one safetensors file: arrays with names, and a description in text. No code is run
# when it is read.

# %%
from safetensors.numpy import load_file

from agents import read_metadata

for name, array in load_file("runs/notebook/policy.safetensors").items():
    print(f"{name:55} {array.dtype} {array.shape}")
print(sorted(read_metadata("runs/notebook/policy.safetensors")))

# %% [markdown]
# `runs/notebook/config.toml` has every setting, `metrics.csv` a row for each block of updates,
# and `checkpoints/` the whole state of the run: `eqgrid-ippo --resume runs/notebook --total-steps
# 4000000` goes on where it ended, to the bit.
#
# ## Where to go on
#
# - The tutorials: wrappers in your own project, a world of your own, partners and people.
# - `eqgrid new ippo mine.py` copies the page of the experiment, on which everything can be
#   changed.
