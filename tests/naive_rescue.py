"""The rules of a rescue once more, in plain Python and as slowly as one likes.

A world is a dictionary: `things` has what lies in each cell, by its name; `rescuers` is a list of
dictionaries of `place`, `facing`, `carries` (a name or None) and `role`; `over` says whether all is
done. `site` has what is built into each cell: `"floor"`, `"wall"` or `"exit"`.
"""

import copy

from naive_motion import settle, shifted, turned

LEFT, RIGHT, FORWARD, STAY, PICKUP, TOGGLE = range(6)
VICTIMS = ("green_victim", "yellow_victim", "red_victim")
COLOURS = ("purple", "blue", "orange")
PORTABLE = ("green_victim", *(f"{colour}_key" for colour in COLOURS))
PAID = {
    "healing": 0.2,
    "clearing": 0.2,
    "opening": 0.2,
    "victim_pickup": 0.1,
    "victim_drop": -0.1,
    "key_pickup": 0.1,
    "key_drop": -0.1,
    "red_reach": 0.3,
    "red_leave": -0.3,
}


def ahead(rescuer):
    """The cell that a rescuer faces."""
    return shifted(rescuer["place"], rescuer["facing"])


def count_victims(world):
    carried = [rescuer["carries"] for rescuer in world["rescuers"]]
    return sum(name in VICTIMS for name in [*world["things"].values(), *carried])


def use_hands(site, world, rescuer):
    """What pick up or put down does: the name of what happens, or None."""
    things, there = world["things"], ahead(rescuer)
    carried, lying = rescuer["carries"], things.get(there)
    if carried is None:
        if lying not in PORTABLE:
            return None
        rescuer["carries"] = things.pop(there)
        return "victim_pickup" if lying == "green_victim" else "key_pickup"
    if site[there] == "exit" and carried == "green_victim":
        rescuer["carries"] = None
        return "carrying_out"
    occupied = any(other["place"] == there for other in world["rescuers"])
    if site[there] != "floor" or lying is not None or occupied:
        return None
    things[there] = carried
    rescuer["carries"] = None
    return "victim_drop" if carried == "green_victim" else "key_drop"


def use_skill(world, rescuer):
    """What toggling does: the name of what happens, or None."""
    things, there = world["things"], ahead(rescuer)
    lying = things.get(there)
    if lying == "yellow_victim" and rescuer["role"] == "medic":
        things[there] = "green_victim"
        return "healing"
    if lying == "high_rubble" and rescuer["role"] == "engineer":
        things[there] = "rubble"
        return "clearing"
    if lying == "rubble" and rescuer["role"] == "engineer":
        del things[there]
        return "clearing"
    for colour in COLOURS:
        if lying == f"{colour}_door" and rescuer["carries"] == f"{colour}_key":
            things[there] = "open_door"
            return "opening"
    return None


def find_ready(world):
    """The numbers of those who face a red victim and carry nothing."""
    return {
        number
        for number, rescuer in enumerate(world["rescuers"])
        if rescuer["carries"] is None and world["things"].get(ahead(rescuer)) == "red_victim"
    }


def lift(world, actions, happened):
    """Red victims leave whom two at once get hold of."""
    for place in [x for x, name in world["things"].items() if name == "red_victim"]:
        lifters = [
            number
            for number, rescuer in enumerate(world["rescuers"])
            if actions[number] in (PICKUP, TOGGLE)
            and rescuer["carries"] is None
            and ahead(rescuer) == place
        ]
        if len(lifters) >= 2:
            del world["things"][place]
            for number in lifters:
                happened[number].add("lifting")


def go(site, world, actions):
    """Turns, and steps of those who are in nobody's way."""
    rescuers, wishes = world["rescuers"], {}
    for number, (rescuer, action) in enumerate(zip(rescuers, actions, strict=True)):
        rescuer["facing"] = turned(rescuer["facing"], {LEFT: -1, RIGHT: 1}.get(action, 0))
        there = ahead(rescuer)
        free = site[there] == "floor" and world["things"].get(there) in (None, "open_door")
        wishes[number] = there if action == FORWARD and free else rescuer["place"]
    places = {number: rescuer["place"] for number, rescuer in enumerate(rescuers)}
    for number, end in settle(places, wishes).items():
        rescuers[number]["place"] = end


def step(site, world, actions):
    """One step.

    **Returns:** the next world, the reward of each, the shaped reward of each, and the set of names
    of what happened to each.
    """
    happened = [set() for _ in actions]
    if world["over"]:
        return world, [0.0] * len(actions), [0.0] * len(actions), happened
    world = copy.deepcopy(world)
    before, ready = count_victims(world), find_ready(world)
    for number, (rescuer, action) in enumerate(zip(world["rescuers"], actions, strict=True)):
        name = None
        if action == PICKUP:
            name = use_hands(site, world, rescuer)
        elif action == TOGGLE:
            name = use_skill(world, rescuer)
        if name is not None:
            happened[number].add(name)
    lift(world, actions, happened)
    go(site, world, actions)
    for number in find_ready(world) - ready:
        happened[number].add("red_reach")
    for number in ready - find_ready(world):
        if "lifting" not in happened[number]:
            happened[number].add("red_leave")
    left = count_victims(world)
    world["over"] = left == 0
    shaped = [sum(PAID.get(name, 0.0) for name in names) for names in happened]
    return world, [float(before - left)] * len(actions), shaped, happened


def look(site, world, viewer, radius, names):
    """What one rescuer sees: a dictionary of `(row, col, name of a plane)` to 1, all else 0.

    Rows and columns are of the window, or of the whole site where `radius` is None.
    """
    here = world["rescuers"][viewer]["place"]
    seen = {}

    def mark(place, name):
        assert name in names
        row, col = place
        if radius is not None:
            row, col = row - here[0] + radius, col - here[1] + radius
            if not (0 <= row <= 2 * radius and 0 <= col <= 2 * radius):
                return
        seen[row, col, name] = 1

    everybody = [] if world["over"] else enumerate(world["rescuers"])
    for place, tile in site.items():
        if tile != "floor":
            mark(place, tile)
    for place, name in world["things"].items():
        mark(place, name)
    for number, rescuer in everybody:
        who = "own" if number == viewer else "other"
        for name in (who, f"{who}_{rescuer['facing']}", rescuer["role"]):
            mark(rescuer["place"], name)
        if rescuer["carries"] is not None:
            mark(rescuer["place"], f"held_{rescuer['carries']}")
    return seen
