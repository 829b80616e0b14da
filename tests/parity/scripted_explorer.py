"""A player of the reference MiniGrid that knows the whole grid, and a wild one."""

from collections import deque
from typing import Any

import numpy as np

LEFT, RIGHT, FORWARD, PICKUP, DROP, TOGGLE, DONE = range(7)
DELTAS = ((1, 0), (0, 1), (-1, 0), (0, -1))


class Explorer:
    """Walks to what has to be done next, and uses it; in a share of its steps it acts at random.

    **Arguments:**

    - `noise`: the share of random actions.
    - `num_actions`: the number of actions of the room.
    - `seed`: the seed of its random numbers.
    """

    def __init__(self, noise: float, num_actions: int, seed: int):
        self.noise, self.num_actions = noise, num_actions
        self.rng = np.random.default_rng(seed)

    def act(self, env: Any) -> int:
        if self.rng.random() < self.noise:
            return int(self.rng.integers(self.num_actions))
        return min(self.plan(env), self.num_actions - 1)

    def plan(self, env: Any) -> int:
        """The next action towards the first thing that can be reached."""
        wanted = self.wishes(env)
        first = self.search(env, wanted)
        if first is None:
            return int(self.rng.integers(min(self.num_actions, 3)))
        (x, y), direction = first
        if wanted.get((x, y)) == PICKUP and env.carrying is not None:  # its hands must be empty
            return DROP if env.grid.get(*env.front_pos) is None else RIGHT
        if direction != env.agent_dir:
            return RIGHT if (direction - env.agent_dir) % 4 == 1 else LEFT
        thing = env.grid.get(x, y)
        if (x, y) in wanted and wanted[x, y] != FORWARD:
            return wanted[x, y]
        closed = thing is not None and thing.type == "door" and not thing.is_open
        return TOGGLE if closed else FORWARD

    def wishes(self, env: Any) -> dict[tuple[int, int], int]:
        """Cells that are worth a visit, and what to do when one faces them."""
        cells = {
            (i % env.width, i // env.width): thing
            for i, thing in enumerate(env.grid.grid)
            if thing is not None
        }
        carried = env.carrying.type if env.carrying is not None else None
        locked = {p for p, x in cells.items() if x.type == "door" and x.is_locked}
        if locked and carried == "key":
            return dict.fromkeys(locked, TOGGLE)
        if locked:
            return {p: PICKUP for p, x in cells.items() if x.type == "key"}
        wanted = {p: FORWARD for p, x in cells.items() if x.type == "goal"}
        if wanted:
            return wanted
        return {p: PICKUP for p, x in cells.items() if x.type == "ball"}

    def search(
        self, env: Any, wanted: dict[tuple[int, int], int]
    ) -> tuple[tuple[int, int], int] | None:
        """The first cell on the shortest way to a wish, and its direction."""
        start = tuple(int(x) for x in env.agent_pos)
        queue = deque([(start, None)])
        known = {start}
        while queue:
            place, first = queue.popleft()
            for direction, (dx, dy) in enumerate(DELTAS):
                there = (place[0] + dx, place[1] + dy)
                step = first or (there, direction)
                if there in wanted:
                    return step
                thing = env.grid.get(*there)
                passable = thing is None or (thing.type == "door" and not thing.is_locked)
                if passable and there not in known:
                    known.add(there)
                    queue.append((there, step))
        return None
