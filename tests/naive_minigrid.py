"""The rules of MiniGrid's rooms for several agents once more, in plain Python.

A room is a dictionary: `things` has what is in each cell as `(kind, colour, state)`; `agents` is a
list of dictionaries of `place`, `facing`, `holds` (a thing or None) and `active`; `balls` is a list
of the cells of obstacles; `time` counts the steps. Colours and states are MiniGrid's numbers.
"""

import copy

from naive_motion import COMPASS, STEPS, settle, shifted, turned

LEFT, RIGHT, FORWARD, PICKUP, DROP, TOGGLE, DONE = range(7)
NUMBERS = {"wall": 2, "door": 4, "key": 5, "ball": 6, "box": 7, "goal": 8, "lava": 9}
OPEN, CLOSED, LOCKED = range(3)


def ahead(agent):
    return shifted(agent["place"], agent["facing"])


def stands_in(room, place):
    return any(agent["active"] and agent["place"] == place for agent in room["agents"])


def use_hands(room, agent, action):
    """What an agent does to the cell in front of it; true if it unlocks a door."""
    things, there = room["things"], ahead(agent)
    kind, colour, state = things.get(there, (None, 0, 0))
    if action == PICKUP and kind in ("key", "ball", "box") and agent["holds"] is None:
        agent["holds"] = things.pop(there)
    elif action == DROP and kind is None and agent["holds"] and not stands_in(room, there):
        things[there], agent["holds"] = agent["holds"], None
    elif action == TOGGLE and kind == "box":
        del things[there]
    elif action == TOGGLE and kind == "door":
        if state == LOCKED and agent["holds"] == ("key", colour, 0):
            things[there] = ("door", colour, OPEN)
            return True
        if state == CLOSED:
            things[there] = ("door", colour, OPEN)
        elif state == OPEN and not stands_in(room, there):
            things[there] = ("door", colour, CLOSED)
    return False


def may_enter(room, place):
    kind, _, state = room["things"].get(place, (None, 0, OPEN))
    return kind in (None, "goal", "lava") or (kind == "door" and state == OPEN)


def go(room, actions):
    """All turn and move at once."""
    agents = room["agents"]
    active = [i for i, agent in enumerate(agents) if agent["active"]]
    wishes = {}
    for i in active:
        turn = {LEFT: -1, RIGHT: 1}.get(actions[i], 0)
        agents[i]["facing"] = turned(agents[i]["facing"], turn)
        walks = actions[i] == FORWARD and may_enter(room, ahead(agents[i]))
        wishes[i] = ahead(agents[i]) if walks else agents[i]["place"]
    places = {i: agents[i]["place"] for i in active}
    for i, end in settle(places, wishes).items():
        agents[i]["place"] = end


def move_balls(room, balls):
    """Obstacles move one after the other to `balls`, which must be allowed."""
    for number, new in enumerate(balls):
        old = room["balls"][number]
        if new != old:
            assert max(abs(new[0] - old[0]), abs(new[1] - old[1])) == 1
            assert new not in room["things"]
            assert not stands_in(room, new)
            room["things"][new] = room["things"].pop(old)
            room["balls"][number] = new
        else:
            around = [(old[0] + a, old[1] + b) for a in (-1, 0, 1) for b in (-1, 0, 1)]
            assert all(x in room["things"] or stands_in(room, x) for x in around)


def step(room, actions, mission, max_steps, *, shared, balls=()):
    """One step.

    **Arguments:**

    - `mission`: `"goal"`, `"unlock"`, `"fetch"` or `"avoid"`.
    - `balls`: where obstacles move.

    **Returns:** the next room, the reward of each agent, and which of them are done.
    """
    room = copy.deepcopy(room)
    room["time"] += 1
    agents = room["agents"]
    began = [agent["active"] for agent in agents]
    facing = [room["things"].get(ahead(agent), (None, 0, 0))[0] for agent in agents]
    unlocked = [False] * len(agents)
    if mission == "avoid":
        move_balls(room, balls)
    else:
        for i, agent in enumerate(agents):
            if agent["active"]:
                unlocked[i] = use_hands(room, agent, actions[i])
    go(room, actions)
    worth, paid, done = 1 - 0.9 * room["time"] / max_steps, [], []
    for i, agent in enumerate(agents):
        under = room["things"].get(agent["place"], (None, 0, 0))[0]
        holds = agent["holds"] is not None and agent["holds"][0] == "ball"
        succeeds = {
            "unlock": unlocked[i],
            "fetch": holds and actions[i] == PICKUP,
        }.get(mission, under == "goal")
        hits = mission == "avoid" and actions[i] == FORWARD and facing[i] not in (None, "goal")
        burns = mission == "goal" and under == "lava"
        paid.append(began[i] * (-1.0 if hits else worth if succeeds else 0.0))
        done.append(began[i] and (succeeds or hits or burns))
    if mission in ("unlock", "fetch") and any(done):
        done = [True] * len(agents)
    if shared:
        paid = [sum(paid) * active for active in began]
    for agent, over in zip(agents, done, strict=True):
        agent["active"] = agent["active"] and not over
    return room, paid, [not agent["active"] for agent in agents]


def look(room, viewer, shape, *, see_through, side=7):
    """The image that an agent sees: `image[column][row]` is `(object, colour, state)`."""
    me = room["agents"][viewer]
    forwards = STEPS[me["facing"]]
    rightwards = STEPS[turned(me["facing"], 1)]
    middle = side // 2

    def cell(col, row):
        far, aside = side - 1 - row, col - middle
        return tuple(me["place"][k] + far * forwards[k] + aside * rightwards[k] for k in (0, 1))

    def inside(place):
        return 0 <= place[0] < shape[0] and 0 <= place[1] < shape[1]

    def is_clear(col, row):
        kind, _, state = room["things"].get(cell(col, row), (None, 0, 0))
        return inside(cell(col, row)) and kind != "wall" and not (kind == "door" and state != OPEN)

    lit = light(is_clear, side) if not see_through else None
    image = [[(0, 0, 0)] * side for _ in range(side)]
    for col in range(side):
        for row in range(side):
            place = cell(col, row)
            if lit is not None and (col, row) not in lit:
                continue
            kind, colour, state = room["things"].get(place, (None, 0, 0))
            image[col][row] = (NUMBERS.get(kind, 1), colour, state)
            if not inside(place):
                image[col][row] = (2, 5, 0)
            for other in room["agents"]:
                if other["active"] and other["place"] == place:
                    turn = COMPASS.index(other["facing"]) - COMPASS.index(me["facing"])
                    image[col][row] = (10, 0, (turn + 3) % 4)
    held = me["holds"]
    image[middle][side - 1] = (1, 0, 0) if held is None else (NUMBERS[held[0]], *held[1:])
    return image


def light(is_clear, side):
    """The cells that are seen: from the row of the agent on, light goes right, then left, and from
    each cell that lets it pass also to the next row.
    """
    lit = {(side // 2, side - 1)}
    for row in reversed(range(side)):
        for way, cols in ((1, range(side - 1)), (-1, reversed(range(1, side)))):
            for col in cols:
                if (col, row) in lit and is_clear(col, row):
                    lit |= {(col + way, row), (col + way, row - 1), (col, row - 1)}
    return lit
