"""The rules of the orchard and the river once more, in plain Python and as slowly as one likes.

A world is a dictionary: `objects` has what lies in each cell by its name, `beams` which beam
crosses a cell, `time` the number of steps so far, and `agents` a list of dictionaries with `place`,
`facing`, `away` (steps until it is back; 0 if it is there), `zap_wait`, `clean_wait`, `apples`,
`apple_steps` and `present`. `site` has the tile of each cell. `rules` is a dictionary of numbers.

All that is random is given to `step` as `draws`: a number in `[0, 1)` for each cell (`grow`), two
further ones (`pollute`), and one for each cell by whose size places are taken (`back`).
"""

import copy

import numpy as np
from naive_motion import COMPASS, settle, shifted, turned

STAY, FORWARD, BACK, LEFT, RIGHT, TURN_LEFT, TURN_RIGHT, ZAP, CLEAN = range(9)
WAYS = {FORWARD: 0, RIGHT: 1, BACK: 2, LEFT: 3}
"""Quarters to the right of where an agent faces."""


def there(world):
    """The numbers of the agents that are not away."""
    return [i for i, agent in enumerate(world["agents"]) if agent["away"] == 0]


def go(site, world, actions):
    """Turns and moves; whoever would bump into another or swap places with one stays."""
    agents, numbers = world["agents"], there(world)
    wishes = {}
    for i in numbers:
        agent = agents[i]
        quarters = {TURN_LEFT: -1, TURN_RIGHT: 1}.get(actions[i], 0)
        agent["facing"] = turned(agent["facing"], quarters)
        wishes[i] = agent["place"]
        if actions[i] in WAYS:
            target = shifted(agent["place"], turned(agent["facing"], WAYS[actions[i]]))
            if site[target] != "wall":
                wishes[i] = target
    places = {i: agents[i]["place"] for i in numbers}
    for i, end in settle(places, wishes).items():
        agents[i]["place"] = end


def near(place, places, radius):
    """How many of other places are within a Euclidean distance."""
    return sum(
        0 < (place[0] - row) ** 2 + (place[1] - col) ** 2 <= radius**2 for row, col in places
    )


def polluted(site, objects):
    river = [place for place, tile in site.items() if tile == "river"]
    return np.float32(sum(objects.get(place) == "pollution" for place in river)) / np.float32(
        len(river)
    )


def chance_of(place, site, objects, rules):
    """The probability that an apple grows in a cell."""
    if "regrowth" in rules:
        apples = [x for x, name in objects.items() if name == "apple"]
        chances = rules["regrowth"]
        return np.float32(chances[min(near(place, apples, 2), len(chances) - 1)])
    high, low = np.float32(rules["depletion"]), np.float32(rules["restoration"])
    growth = (high - polluted(site, objects)) / (high - low)
    return np.float32(rules["growth"]) * np.float32(min(max(growth, np.float32(0)), np.float32(1)))


def grow(site, world, before, rules, numbers):
    shares = None if "regrowth" in rules else chance_of(None, site, before, rules)
    for place, tile in site.items():
        if tile == "orchard" and before.get(place) != "apple":
            chance = chance_of(place, site, before, rules) if shares is None else shares
            if numbers[place] < chance:
                world["objects"][place] = "apple"


def eat(world, happened):
    for i in there(world):
        agent = world["agents"][i]
        agent["present"] += 1
        if world["objects"].get(agent["place"]) == "apple":
            del world["objects"][agent["place"]]
            agent["apples"] += 1
            agent["apple_steps"] += world["time"] + 1
            happened[i].add("apple")


def fire(site, world, i, rules, is_hit):
    """The cells that a beam of an agent crosses, and those in which it hits something."""
    agent = world["agents"][i]
    facing, length = agent["facing"], rules["beam_length"]
    crossed, hits = set(), set()

    def ray(place, cells):
        """Whether it gets past its first cell."""
        for number in range(cells):
            if site.get(place, "wall") == "wall":
                return number > 0
            crossed.add(place)
            if is_hit(place):
                hits.add(place)
                return number > 0
            place = shifted(place, facing)
        return True

    ray(shifted(agent["place"], facing), length)
    for quarters in (-1, 1):
        side = turned(facing, quarters)
        for out in range(1, min(rules["beam_radius"], length) + 1):
            if not ray(shifted(agent["place"], side, out), length - out + 1):
                break
    return crossed, hits


def shoot(site, world, actions, rules, present, happened):
    """Both beams. Whoever is hit by a zapping beam is away afterwards, and still shoots."""
    places = {world["agents"][i]["place"]: i for i in present}
    dirty = {x for x, name in world["objects"].items() if name == "pollution"}
    world["beams"], struck, cleaned = {}, set(), set()
    for beam, action, targets in (("zap", ZAP, places), ("clean", CLEAN, dirty)):
        if action == CLEAN and "cleaning_cooldown" not in rules:
            continue
        cooldown = rules["cooldown" if beam == "zap" else "cleaning_cooldown"]
        for i in present:
            agent = world["agents"][i]
            ready = agent[f"{beam}_wait"] == 0
            agent[f"{beam}_wait"] = max(agent[f"{beam}_wait"] - 1, 0)
            if actions[i] == action and ready:
                agent[f"{beam}_wait"] = cooldown
                crossed, hits = fire(site, world, i, rules, targets.__contains__)
                for place in crossed:
                    world["beams"].setdefault(place, beam)
                (struck if beam == "zap" else cleaned).update(hits)
                if beam == "zap" or hits:
                    happened[i].add(beam)
    for place in struck:
        world["agents"][places[place]]["away"] = rules["away"]
        happened[places[place]].add("zapped")
    for place in cleaned:
        del world["objects"][place]


def pollute(site, world, rules, numbers):
    clean = [
        place
        for place in sorted(site)
        if site[place] == "river" and world["objects"].get(place) != "pollution"
    ]
    spawns = world["time"] >= rules["delay"] and numbers[0] < np.float32(rules["pollution"])
    if clean and spawns:
        number = int(np.float32(numbers[1]) * np.float32(len(clean)))
        world["objects"][clean[number]] = "pollution"


def come_back(site, world, were_away, numbers):
    due = []
    for i in were_away:
        agent = world["agents"][i]
        agent["away"] -= 1
        if agent["away"] == 0:
            due.append(i)
            agent["away"] = 1  # there may be no place for it
    occupied = [world["agents"][i]["place"] for i in there(world)]
    free = [
        place
        for place in sorted(site)
        if site[place] == "start" and place not in world["objects"] and place not in occupied
    ]
    for i, place in zip(due, sorted(free, key=lambda x: -numbers[x]), strict=False):
        world["agents"][i] |= {"place": place, "away": 0}


def step(site, world, actions, rules, draws):
    """One step.

    **Returns:** the next world, the reward of each agent, and the set of what happened to each.
    """
    before, world = world, copy.deepcopy(world)
    happened = [set() for _ in actions]
    present = there(world)
    were_away = [i for i in range(len(actions)) if i not in present]
    go(site, world, actions)
    grow(site, world, before["objects"], rules, draws["grow"])
    eat(world, happened)
    shoot(site, world, actions, rules, present, happened)
    if "pollution" in rules:
        pollute(site, world, rules, draws["pollute"])
    come_back(site, world, were_away, draws["back"])
    world["time"] += 1
    paid = {"apple": 1.0, "zap": -rules["zap_cost"], "zapped": -rules["zapped_cost"]}
    rewards = [sum(paid.get(name, 0.0) for name in names) for names in happened]
    if rules["shared"]:
        rewards = [sum(rewards)] * len(rewards)
    return world, rewards, happened


def look(site, world, viewer, radius, planes):
    """What an agent sees: rows, columns and planes of whole numbers."""
    agent = world["agents"][viewer]
    facing, side = agent["facing"], 2 * radius + 1
    others = {world["agents"][i]["place"]: i for i in there(world) if i != viewer}
    seen = np.zeros((side, side, len(planes)), np.uint8)
    for row in range(side):
        for col in range(side):
            place = shifted(agent["place"], facing, side - 2 - row)
            place = shifted(place, turned(facing, 1), col - radius)
            if place not in site:
                seen[row, col, planes.index("wall")] = 1
                continue
            names = {site[place], world["objects"].get(place)}
            if place in others:
                theirs = COMPASS.index(world["agents"][others[place]]["facing"])
                names.add(f"other_{COMPASS[(theirs - COMPASS.index(facing)) % 4]}")
            beam = world["beams"].get(place)
            names.add({"zap": "zap_beam", "clean": "cleaning_beam"}.get(beam))
            names.update(f"can_{x}" for x in ("zap", "clean") if agent[f"{x}_wait"] == 0)
            for name in names & set(planes):
                seen[row, col, planes.index(name)] = 1
    return seen


def measure(trace):
    """The measures of an episode, from what happened to the agents in each of its steps.

    **Arguments:**

    - `trace`: for each step, and each agent, whether it ate an apple and whether it was away.

    **Returns:** efficiency, equality, sustainability and peace.
    """
    steps, agents = len(trace), range(len(trace[0]))
    times = [[t + 1 for t in range(steps) if trace[t][i][0]] for i in agents]
    apples = [len(x) for x in times]
    total = sum(apples)
    gaps = sum(abs(a - b) for a in apples for b in apples)
    equal = 1 - gaps / (2 * len(apples) * total) if total else 0.0
    means = [sum(x) / len(x) for x in times if x]
    away = sum(trace[t][i][1] for t in range(steps) for i in agents)
    return (
        total / steps,
        equal,
        sum(means) / len(means) if means else 0.0,
        (len(apples) * steps - away) / steps,
    )
