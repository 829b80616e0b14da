"""The features of OvercookedV2 against a plain Python loop over its planes, which are those of
JaxMARL: so features show nothing that planes do not show.
"""

import equinox as eqx
import jax
import numpy as np
import pytest

from eqgrid.envs.overcooked_v2 import INGREDIENTS, OvercookedV2, recipe_features
from eqgrid.grid import Direction

WAYS = ((-1, 0), (1, 0), (0, 1), (0, -1))
SIGNS = ("counter", "serving", "pot", "indicator", "button", "plate_pile")
KITCHENS = (
    ("grounded_coord_ring", {}),
    ("test_time_wide", {"view_radius": 1, "indicate_successful_delivery": True}),
    ("fun_coordination", {"view_radius": 2, "permuted_ingredients": ("onion", "tomato", "carrot")}),
)


class Window:
    """What one cook sees in planes, by name."""

    def __init__(self, planes, n, middle):
        self.middle, self.names = middle, list(INGREDIENTS)[:n]
        widths = {"own": 1, "own_way": 4, "own_held": 2 + n}
        widths |= {"other": 1, "other_way": 4, "other_held": 2 + n}
        widths |= {"signs": 6, "piles": n, "lying": 2 + n, "recipe": 2 + n, "time": 1, "served": 1}
        ends = np.cumsum(list(widths.values()))
        self.planes = dict(
            zip(widths, np.split(planes.astype(int), ends[:-1], axis=-1), strict=True)
        )

    def tile(self, cell):
        signs, piles = self.planes["signs"][cell], self.planes["piles"][cell]
        names = [*SIGNS, *(f"{name}_pile" for name in self.names)]
        return next((x for x, y in zip(names, [*signs, *piles], strict=True) if y), "floor")

    def thing(self, kind, cell):
        """What is held or lies in a cell, and its ingredients."""
        plate, _, *amounts = self.planes[kind][cell].tolist()
        if not plate and not any(amounts):
            return "nothing", amounts
        if plate:
            return ("soup" if any(amounts) else "plate"), amounts
        return self.names[amounts.index(1)], amounts

    def nearest(self, wanted):
        cells = [x for x in np.ndindex(self.planes["own"].shape[:2]) if wanted(x)]
        return sorted(
            cells, key=lambda x: sum(abs(a - b) for a, b in zip(x, self.middle, strict=True))
        )

    def way(self, name, cell):
        if cell is None:
            return {f"{name}_exists": 0.0, f"{name}_row": 0.0, f"{name}_col": 0.0}
        row, col = ((a - b) / 5 for a, b in zip(cell, self.middle, strict=True))
        return {f"{name}_exists": 1.0, f"{name}_row": row, f"{name}_col": col}


def one_hot(prefix, names, value):
    return {f"{prefix}_{name}": float(name == value) for name in names}


def soup(prefix, names, thing, amounts):
    return {
        f"{prefix}_{name}": amount / 3 if thing == "soup" else 0.0
        for name, amount in zip(names, amounts, strict=True)
    }


def naive(window, served):
    names, here = window.names, window.middle
    things = ("nothing", "plate", *names, "soup")
    ways = [way.name.lower() for way in Direction]
    (way,) = np.flatnonzero(window.planes["own_way"][here])
    held, amounts = window.thing("own_held", here)
    seen = one_hot("own_direction", ways, ways[way]) | one_hot("own_held", things, held)
    seen |= soup("own_held_soup", names, held, amounts)
    there = window.nearest(lambda cell: window.planes["other"][cell][0])
    seen |= naive_other(window, there[0] if there else None, things, ways)
    for name, (down, right) in zip(ways, WAYS, strict=True):
        cell = (here[0] + down, here[1] + right)
        seen[f"{name}_free"] = float(window.tile(cell) == "floor" and cell not in there)
        seen[f"{name}_agent"] = float(cell in there)
    faced = (here[0] + WAYS[way][0], here[1] + WAYS[way][1])
    tiles = ("floor", "wall", *SIGNS, *(f"{name}_pile" for name in names))
    seen |= one_hot("faced", tiles, window.tile(faced)) | {"faced_agent": float(faced in there)}
    plate, ready, *amounts = window.planes["lying"][faced].tolist()
    cooks = float(window.planes["time"][faced][0] > 0)
    seen |= {"faced_plate": float(plate), "faced_ready": float(ready), "faced_cooking": cooks}
    seen |= {f"faced_{name}": x / 3 for name, x in zip(names, amounts, strict=True)}
    for name in ("serving", "plate_pile", "indicator", "button", *(f"{x}_pile" for x in names)):
        found = window.nearest(lambda cell, name=name: window.tile(cell) == name)
        seen |= window.way(name, found[0] if found else None)
    for name in things:
        found = window.nearest(
            lambda cell, name=name: (
                window.tile(cell) == "counter" and window.thing("lying", cell)[0] == name
            )
        )
        title = "empty_counter" if name == "nothing" else f"counter_{name}"
        seen |= window.way(title, found[0] if found else None)
    pots = window.nearest(lambda cell: window.tile(cell) == "pot")
    for k, pot in enumerate([*pots, None, None][:2], start=1):
        _, ready, *amounts = [0] * (2 + len(names)) if pot is None else window.planes["lying"][pot]
        left = 0 if pot is None else window.planes["time"][pot][0]
        seen |= window.way(f"pot_{k}", pot)
        seen |= {f"pot_{k}_{name}": x / 3 for name, x in zip(names, amounts, strict=True)}
        seen |= {f"pot_{k}_cooking": float(left > 0), f"pot_{k}_ready": float(ready)}
        seen |= {f"pot_{k}_time_left": left / 20}
    recipe = window.planes["recipe"].reshape(-1, 2 + len(names)).max(axis=0)[2:]
    seen |= {"recipe_shown": float(recipe.any())}
    seen |= {f"recipe_{name}": x / 3 for name, x in zip(names, recipe, strict=True)}
    return seen | ({"served": float(window.planes["served"].any())} if served else {})


def naive_other(window, cell, things, ways):
    if cell is None:
        nothing = ["row", "col", *(f"direction_{x}" for x in ways), *(f"held_{x}" for x in things)]
        nothing += [f"held_soup_{name}" for name in window.names]
        return {f"other_1_{name}": 0.0 for name in nothing}
    place = window.way("other_1", cell)
    (way,) = np.flatnonzero(window.planes["other_way"][cell])
    held, amounts = window.thing("other_held", cell)
    return {
        **{name: x for name, x in place.items() if not name.endswith("exists")},
        **one_hot("other_1_direction", ways, ways[way]),
        **one_hot("other_1_held", things, held),
        **soup("other_1_held_soup", window.names, held, amounts),
    }


@pytest.mark.parametrize(
    ("name", "options"),
    [KITCHENS[0], *(pytest.param(*x, marks=pytest.mark.slow) for x in KITCHENS[1:])],
)
def test_features_show_what_planes_show(key, name, options):
    options = {"random_reset": True, "sample_recipe_on_delivery": True, **options}
    env = OvercookedV2(name, **options)
    features = OvercookedV2(name, observation="features", **options)

    @eqx.filter_jit
    def play(key):
        def step(world, key):
            own, env_key = jax.random.split(key)
            shown = env.observe(world), features.observe(world), world.bodies.position
            action = jax.random.randint(own, (2,), 0, 6)
            return env.step(env_key, world, action)[1], shown

        return jax.lax.scan(step, env.reset(key)[1], jax.random.split(key, 40))[1]

    games = jax.vmap(play)(jax.random.split(key, 3))
    planes, numbers, places = jax.tree.map(lambda x: np.asarray(x).reshape(-1, *x.shape[2:]), games)
    names = features.observation.names(features.layout)
    assert len(set(names)) == len(names) == numbers.shape[-1]
    served, radius = "served" in names, options.get("view_radius")
    n = (planes.shape[-1] - 25 - served) // 5
    for seen, vectors, cooks in zip(planes, numbers, places, strict=True):
        for agent in range(2):
            middle = tuple(cooks[agent].tolist()) if radius is None else (radius, radius)
            expected = naive(Window(seen[agent], n, middle), served)
            assert set(expected) == set(names)
            got = dict(zip(names, vectors[agent].tolist(), strict=True))
            assert got == pytest.approx(expected, abs=1e-6)


def test_what_cannot_be():
    with pytest.raises(ValueError, match="radius of at least 1 cell, not 0"):
        recipe_features(2, radius=0)
    with pytest.raises(ValueError, match="cannot be combined with `view_radius`"):
        OvercookedV2(observation=recipe_features(2), view_radius=2)
