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
# # How people cook
#
# Carroll et al. (2019) recorded games of two people in five kitchens. This notebook shows how many
# soups they deliver, and when. It also compares where people and a trained policy stand.

# %%
import importlib.util
import subprocess
import sys

REPOSITORY = "https://github.com/eqgrid/eqgrid"
if importlib.util.find_spec("eqgrid") is None:
    where = f"eqgrid[human] @ git+{REPOSITORY}"
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", where], check=True)

# %% [markdown]
# ## The games
#
# Each game has the state, the actions and the reward of each step. A soup was worth 5 in 2019, and
# is worth 20 in eqgrid, so we count soups. The games differ in length, so the table has the number
# of soups in 400 steps, and the shares of steps in which people stood still or interacted.

# %%
import numpy as np

from eqgrid.envs.overcooked import INTERACT, STAY
from eqgrid.envs.overcooked.people import human_games

games = human_games()
kitchens = list(dict.fromkeys(game.kitchen for game in games))


def deliveries(game):
    """The steps in which a soup was delivered."""
    return np.flatnonzero(np.asarray(game.reward[:, 0]))


print("kitchen      games   soups in 400 steps   stay   interact")
for kitchen in kitchens:
    own = [game for game in games if game.kitchen == kitchen]
    soups = np.mean([400 * len(deliveries(game)) / len(game.action) for game in own])
    actions = np.concatenate([game.action for game in own])
    stay, interact = (actions == STAY).mean(), (actions == INTERACT).mean()
    print(f"{kitchen:<12}{len(own):>6}{soups:>21.2f}{stay:>7.0%}{interact:>11.0%}")

# %% [markdown]
# ## Delivery times
#
# Each row is a game, and each mark is a soup.

# %%
import matplotlib.pyplot as plt

figure, panels = plt.subplots(1, len(kitchens), figsize=(13, 2.6), sharey=True)
for axes, kitchen in zip(panels, kitchens, strict=True):
    own = [game for game in games if game.kitchen == kitchen]
    axes.eventplot([deliveries(game) for game in own], colors="#2E86AB", linelengths=0.8)
    axes.set(title=kitchen, xlabel="step")
panels[0].set_ylabel("game")
figure.tight_layout()
plt.show()

# %% [markdown]
# ## Where people stand
#
# The share of all steps that each player spends in each cell of one kitchen. A trained policy
# plays 32 games with itself for comparison.

# %%
import jax

from agents import PolicyPartner, load_policy
from eqgrid import make, record_play

policy = PolicyPartner(load_policy("shipped:ring"))
world = make("overcooked", layout="ring", observation="features")
keys = jax.random.split(jax.random.key(0), 32)
played = record_play(world, (policy, policy), keys, max_steps=400)

# %%
ring = [game for game in games if game.kitchen == "ring"]
positions = {
    "people": np.concatenate([game.state.bodies.position for game in ring]),
    "trained policy": np.asarray(played.state.bodies.position),
}
rows, columns = world.shape
picture = world.render(world.layout.start)
picture = picture[: rows * picture.shape[1] // columns]  # without the bar below the kitchen
figure, panels = plt.subplots(2, 2, figsize=(7, 7))
for row, (name, position) in enumerate(positions.items()):
    for seat in range(2):
        share = np.zeros((rows, columns))
        np.add.at(share, tuple(position[:, seat].T), 1 / len(position))
        axes = panels[row, seat]
        axes.imshow(picture, extent=(-0.5, columns - 0.5, rows - 0.5, -0.5))
        axes.imshow(np.ma.masked_equal(share, 0), cmap="PuBu", vmin=0, alpha=0.85)
        for r, c in np.argwhere(share > 0.005):
            colour = "white" if share[r, c] > 0.16 else "black"
            axes.text(c, r, f"{share[r, c]:.0%}", ha="center", va="center", color=colour)
        axes.set(title=f"{name}, seat {seat}", xticks=[], yticks=[])
figure.tight_layout()
plt.show()

# %% [markdown]
# ## A game as a video
#
# `render_episode` draws the states of a game.

# %%
from IPython.display import Image, display

game = ring[0]
states = jax.tree.map(lambda x: x[:200], game.state)
display(Image(data=world.render_episode(states, frames_per_second=8), format="gif"))

# %% [markdown]
# ## Next steps
#
# - `eqgrid bc` trains models of people from these games.
# - `load_trajectories` reads your own recordings, such as those of `eqgrid play`.
