"""How agents turn and get out of each other's way, in plain Python, for the other plain loops."""

COMPASS = ("north", "east", "south", "west")
STEPS = {"north": (-1, 0), "east": (0, 1), "south": (1, 0), "west": (0, -1)}


def turned(facing, quarters):
    """The direction after quarter turns to the right."""
    return COMPASS[(COMPASS.index(facing) + quarters) % 4]


def shifted(place, facing, by=1):
    return tuple(a + by * b for a, b in zip(place, STEPS[facing], strict=True))


def settle(places, wishes):
    """The places where agents end, by their numbers: all move at once to where they wish. Whoever
    would meet another, or swap with one, stays, and so does whoever would walk into one who stays.
    """
    stays = {
        i
        for i in places
        for j in places
        if i != j and wishes[i] == places[j] and wishes[j] == places[i]
    }
    while True:
        ends = {i: places[i] if i in stays else wishes[i] for i in places}
        met = {
            i
            for i in places
            if ends[i] != places[i] and any(ends[i] == ends[j] for j in places if j != i)
        }
        if not met:
            return ends
        stays |= met
