"""Cooks that work towards soups and err: play that reaches what random play never does.

They are plain Python and know nothing of any simulator: they read a `Scene`, so that the same cooks
play in the reference, in a peer library and here.
"""

import random
from collections import deque
from dataclasses import dataclass

Place = tuple[int, int]
Soup = tuple[int, int]

NORTH, SOUTH, EAST, WEST, STAY, INTERACT = range(6)
NOTHING, ONION, TOMATO, DISH, SOUP = range(5)
STEPS = ((-1, 0), (1, 0), (0, 1), (0, -1))
ALL_SOUPS = tuple((o, t) for o in range(4) for t in range(4) if 1 <= o + t <= 3)


@dataclass(frozen=True)
class Scene:
    """One state of a game.

    - `cooks`: for each `((row, col), heading, held item)`.
    - `things`: what lies where, as `(item, (onions, tomatoes), timer)`; a timer is -1 before a soup
        is started, and 0 when it is ready.
    """

    cooks: list[tuple[Place, int, int]]
    things: dict[Place, tuple[int, Soup, int]]


class Kitchen:
    """The distances in one kitchen, computed once."""

    def __init__(self, rows: list[str], orders: list[Soup]):
        self.cells = {(r, c): x for r, row in enumerate(rows) for c, x in enumerate(row)}
        self.floor = {p for p, x in self.cells.items() if x == " " or x.isdigit()}
        self.steps = {p: {a: q for a, q in _around(p) if q in self.floor} for p in self.floor}
        self.distance = {
            p: self._distances(p)
            for p in self.cells
            if p not in self.floor and any(q in self.floor for _, q in _around(p))
        }
        ingredients = {x for x in self.cells.values() if x in "OT"}
        self.makeable = [
            (o, t)
            for o, t in ALL_SOUPS
            if (o == 0 or "O" in ingredients) and (t == 0 or "T" in ingredients)
        ]
        self.orders = [soup for soup in self.makeable if soup in orders] or self.makeable

    def _distances(self, target: Place) -> dict[Place, int]:
        """Steps from every floor cell until one stands next to `target`."""
        found = {q: 0 for _, q in _around(target) if q in self.floor}
        queue = deque(found)
        while queue:
            place = queue.popleft()
            for neighbour in self.steps[place].values():
                if neighbour not in found:
                    found[neighbour] = found[place] + 1
                    queue.append(neighbour)
        return found

    def reach(self, place: Place, kind: str) -> list[Place]:
        """Everything of `kind` that a cook at `place` can walk to."""
        return [p for p, d in self.distance.items() if self.cells[p] == kind and place in d]


def _around(place: Place) -> list[tuple[int, Place]]:
    return [(a, (place[0] + dr, place[1] + dc)) for a, (dr, dc) in enumerate(STEPS)]


class Cooks:
    """A team for one game.

    **Arguments:**

    - `noise`: how often a cook does anything at all instead of what it should.
    - `by_hand`: whether somebody has to start the pots (`interactive` dynamics).
    """

    def __init__(self, kitchen: Kitchen, seed: int, *, by_hand: bool, noise: float = 0.2):
        self.kitchen, self.by_hand, self.noise = kitchen, by_hand, noise
        self.random = random.Random(seed)
        self.plans: dict[Place, Soup] = {}
        self.reached: dict[tuple[Place, str], list[Place]] = {}
        self.clock, self.first, self.settled_until = 0, 0, 0

    def act(self, scene: Scene) -> list[int]:
        """The next action of every cook."""
        self.clock += 1
        self._choose_first(scene)
        self._plan(scene)
        targets = [self._target(scene, i) for i in range(len(scene.cooks))]
        return [
            self.random.randrange(6)
            if self.random.random() < self.noise
            else self._move(scene, i, targets)
            for i in range(len(scene.cooks))
        ]

    def _choose_first(self, scene: Scene) -> None:
        """Settles which cook the other makes room for: one with a soup, or by turns; but for a
        while the one that stands in a dead end and cannot make room."""
        if self.clock < self.settled_until:
            return
        places = [place for place, _, _ in scene.cooks]
        for i, place in enumerate(places):
            ways = set(self.kitchen.steps[place].values())
            if len(places) == 2 and ways == {places[1 - i]}:
                self.first, self.settled_until = i, self.clock + 15
                return
        carries_soup = [held == SOUP for _, _, held in scene.cooks]
        self.first = carries_soup.index(True) if sum(carries_soup) == 1 else self.clock // 60 % 2

    def _plan(self, scene: Scene) -> None:
        """Settles which soup each pot is for, with what is in it already."""
        for pot, kind in self.kitchen.cells.items():
            if kind != "P":
                continue
            onions, tomatoes = scene.things.get(pot, (0, (0, 0), -1))[1]
            plan = self.plans.get(pot)
            if plan and (onions + tomatoes) and onions <= plan[0] and tomatoes <= plan[1]:
                continue
            if plan and not (onions + tomatoes) and self.random.random() < 0.99:
                continue
            unpaid = self.random.random() < 0.15
            wishes = self.kitchen.makeable if unpaid else self.kitchen.orders
            fits = [s for s in wishes if s[0] >= onions and s[1] >= tomatoes]
            self.plans[pot] = self.random.choice(fits) if fits else (onions, tomatoes)

    def _reach(self, place: Place, kind: str) -> list[Place]:
        if (place, kind) not in self.reached:
            self.reached[place, kind] = self.kitchen.reach(place, kind)
        return self.reached[place, kind]

    def _target(self, scene: Scene, cook: int) -> Place | None:
        """Where this cook should interact next."""
        place, _, held = scene.cooks[cook]
        wants = self._wishes(scene, cook, held)
        if not wants:
            return None
        return min(wants, key=lambda p: (self.kitchen.distance[p][place], p))

    def _wishes(self, scene: Scene, cook: int, held: int) -> list[Place]:
        place = scene.cooks[cook][0]
        if held == NOTHING:
            return self._wishes_of_empty_hands(scene, cook)
        if held in (ONION, TOMATO):
            aims = [p for p in self._reach(place, "P") if self._missing(scene, p)[held - ONION] > 0]
            handed_on = not self._reach(place, "P")
        elif held == DISH:
            pots = self._reach(place, "P")
            timers = {p: scene.things[p][2] for p in pots if p in scene.things}
            aims = [p for p, t in timers.items() if t == 0] or [
                p for p, t in timers.items() if t > 0
            ]
            handed_on = not pots
        else:
            aims = self._reach(place, "S")
            handed_on = not aims
        return aims or self._counters(scene, cook, handed_on)

    def _missing(self, scene: Scene, pot: Place) -> tuple[int, int]:
        """Onions and tomatoes that a pot still waits for."""
        _, (onions, tomatoes), timer = scene.things.get(pot, (0, (0, 0), -1))
        if timer >= 0:
            return (0, 0)
        plan = self.plans[pot]
        if not self.by_hand and onions + tomatoes >= sum(plan):
            return (3 - onions - tomatoes, 0)  # what has too few can only be filled up
        return (plan[0] - onions, plan[1] - tomatoes)

    def _counters(self, scene: Scene, cook: int, handed_on: bool) -> list[Place]:
        """Free counters: those that another cook reaches when something is to be handed on."""
        place = scene.cooks[cook][0]
        free = [p for p in self._reach(place, "X") if p not in scene.things]
        elsewhere = [
            other
            for i, (other, _, _) in enumerate(scene.cooks)
            if i != cook and self._reach(other, "X") != self._reach(place, "X")
        ]
        if not elsewhere:
            return [] if handed_on else free
        shared = [p for p in free if any(o in self.kitchen.distance[p] for o in elsewhere)]
        private = [p for p in free if p not in shared]
        if handed_on:
            spare = 0 if scene.cooks[cook][2] == SOUP else 1
            # When there is no room, hands are freed now and then for what may be waiting.
            make_do = private if self.random.random() < 0.05 else []
            return shared if len(shared) > spare else make_do
        return private or free

    def _wishes_of_empty_hands(self, scene: Scene, cook: int) -> list[Place]:
        place = scene.cooks[cook][0]
        lying = [p for p in self._reach(place, "X") if p in scene.things]
        on_counters = {item: [p for p in lying if scene.things[p][0] == item] for item in range(5)}
        # The first cook works as if it were alone, so that a helper in a bad place cannot stop it.
        others = [held for i, (_, _, held) in enumerate(scene.cooks) if i != cook]
        hands = [] if cook == self.first else others
        reachable_pots = self._reach(place, "P")
        pots = [p for p, kind in self.kitchen.cells.items() if kind == "P"]
        if on_counters[SOUP] and self._reach(place, "S"):
            return on_counters[SOUP]
        full = [p for p in pots if p in scene.things and self._missing(scene, p) == (0, 0)]
        idle = [p for p in full if scene.things[p][2] < 0 and p in reachable_pots]
        if idle and self.by_hand:
            return idle
        handed = [] if reachable_pots else [scene.things[p][0] for p in lying]
        if len(full) > hands.count(DISH) + handed.count(DISH):
            takeable = on_counters[DISH] if reachable_pots else []
            if sources := takeable + self._reach(place, "D"):
                return sources
        sources = []
        for item, kind in ((ONION, "O"), (TOMATO, "T")):
            needed = sum(max(0, self._missing(scene, p)[item - ONION]) for p in pots)
            if needed > hands.count(item) + handed.count(item):
                sources += self._reach(place, kind)
                sources += on_counters[item] if reachable_pots else []
        if sources:
            return sources
        # Nothing to do but to clear what is in the way of handing on.
        return lying if self._reach(place, "P") and self.random.random() < 0.1 else []

    def _move(self, scene: Scene, cook: int, targets: list[Place | None]) -> int:
        place, heading, _ = scene.cooks[cook]
        others = {p for i, (p, _, _) in enumerate(scene.cooks) if i != cook}
        steps = {a: q for a, q in self.kitchen.steps[place].items() if q not in others}
        if cook != self.first:
            if (away := self._give_way(scene, cook, targets, steps)) is not None:
                return away
            contested = self._ahead(scene.cooks[self.first][0], targets[self.first])
            steps = {a: q for a, q in steps.items() if q not in contested}
        target = targets[cook]
        if target is None:
            return self.random.choice([*steps, STAY])
        distance = self.kitchen.distance[target]
        if distance[place] == 0:
            aim = next(a for a, q in _around(place) if q == target)
            return INTERACT if aim == heading else aim
        closer = [a for a, q in steps.items() if distance[q] < distance[place]]
        if closer:
            return self.random.choice(closer)
        if cook == self.first or not steps:
            return STAY
        return self.random.choice([*steps, STAY])

    def _give_way(
        self, scene: Scene, cook: int, targets: list[Place | None], steps: dict[int, Place]
    ) -> int | None:
        """A step aside, or ahead, for the first cook when it wants to come here."""
        goal, here = targets[self.first], scene.cooks[cook][0]
        if goal is None or not steps or here not in self._ahead(scene.cooks[self.first][0], goal):
            return None
        distance = self.kitchen.distance[goal]
        return max(
            steps, key=lambda a: (distance[steps[a]] >= distance[here], self.random.random())
        )

    def _ahead(self, place: Place, goal: Place | None) -> list[Place]:
        """The cells next to `place` that are closer to `goal`."""
        if goal is None:
            return []
        distance = self.kitchen.distance[goal]
        return [q for q in self.kitchen.steps[place].values() if distance[q] < distance[place]]
