"""The rules once more, in plain Python and as slowly as one likes."""

import itertools

FLOOR, COUNTER, POT, ONIONS, TOMATOES, DISHES, SERVING, WALL = range(8)
NOTHING, ONION, TOMATO, DISH, SOUP = range(5)
STAY, INTERACT = 4, 5
STEPS = ((-1, 0), (1, 0), (0, 1), (0, -1))


def interaction(fixture, cell, hand, cook_time, by_hand):
    """What one cook does to the cell in front of it.

    **Arguments:**

    - `cell`: `(item, (onions, tomatoes), timer)`, and `hand`: `(item, (onions, tomatoes))`.

    **Returns:** what it is called (None when nothing happens), the cell and the hand.
    """
    item, contents, timer = cell
    held, inside = hand
    nothing, empty = (NOTHING, (0, 0)), (NOTHING, (0, 0), -1)
    if fixture == COUNTER and held and not item:
        return "PutDown", (held, inside, timer), nothing
    if fixture == COUNTER and item and not held:
        return "PickUp", empty, (item, contents)
    for dispenser, thing in ((ONIONS, ONION), (TOMATOES, TOMATO), (DISHES, DISH)):
        if fixture == dispenser and not held:
            return "Take", cell, (thing, (0, 0))
    if fixture == SERVING and held == SOUP:
        return "Deliver", cell, nothing
    if fixture == POT:
        if held in (ONION, TOMATO) and timer == -1 and sum(contents) < 3:
            onions, tomatoes = contents
            more = (onions + 1, tomatoes) if held == ONION else (onions, tomatoes + 1)
            return "AddIngredient", (SOUP, more, -1), nothing
        if held == DISH and item == SOUP and timer == 0:
            return "Plate", empty, (SOUP, contents)
        if by_hand and not held and item == SOUP and timer == -1:
            return "StartCooking", (SOUP, contents, cook_time[contents]), hand
    return None, cell, hand


def move(floor, positions, headings, actions):
    """Where everybody stands and looks afterwards."""
    new, looking = [], []
    for (row, col), heading, action in zip(positions, headings, actions, strict=True):
        step = STEPS[action] if action < STAY else (0, 0)
        target = (row + step[0], col + step[1])
        new.append(target if target in floor else (row, col))
        looking.append(action if action < STAY else heading)
    for i, j in itertools.combinations(range(len(new)), 2):
        if new[i] == new[j] or (new[i] == positions[j] and new[j] == positions[i]):
            return list(positions), looking
    return new, looking


def step(fixtures, state, actions, cook_time, by_hand):
    """One step of a game. `state` is a dictionary of `cells`, `positions`, `headings`, `hands`.

    **Returns:** the next state, and who did what: a name or None per cook.
    """
    cells, hands, done = dict(state["cells"]), list(state["hands"]), []
    for cook, action in enumerate(actions):
        row, col = state["positions"][cook]
        drow, dcol = STEPS[state["headings"][cook]]
        target = (row + drow, col + dcol)
        name = None
        if action == INTERACT:
            name, cells[target], hands[cook] = interaction(
                fixtures[target], cells[target], hands[cook], cook_time, by_hand
            )
        done.append(name)
    floor = {place for place, fixture in fixtures.items() if fixture == FLOOR}
    positions, headings = move(floor, state["positions"], state["headings"], actions)
    for place, (item, contents, timer) in cells.items():
        if not by_hand and fixtures[place] == POT and timer == -1 and sum(contents) == 3:
            timer = cook_time[contents]
        cells[place] = (item, contents, timer - 1 if timer > 0 else timer)
    return {"cells": cells, "positions": positions, "headings": headings, "hands": hands}, done
