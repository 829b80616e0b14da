"""The display of a game: its state in words, which pages show as they get it."""

import math
import statistics
from collections.abc import Sequence

from ._menu import Place
from ._messages import Frame

QUIET = ("Score", "Your score", "Mean of all", "Time left", "Step")
"""The labels whose changes are not read aloud. Pages announce rewards and the last seconds."""


def display(place: Place, frame: Frame, seat: int, ticks_per_second: float) -> dict[str, str]:
    """The state of a game in words for a page: the text of each label, in the order of the page.

    **Arguments:**

    - `place`: the world.
    - `frame`: the whole frame.
    - `seat`: the seat of the page; -1 for a page that only watches.
    - `ticks_per_second`: the rate of the clock.
    """
    horizon = place.settings.horizon
    own, mean = score_texts(frame.scores, seat)
    found = {"Score": own} if mean is None else {"Your score": own, "Mean of all": mean}
    if horizon is None:
        found["Step"] = str(frame.step)
    else:
        left = math.ceil((horizon - frame.step) / ticks_per_second)
        found["Time left"] = f"{max(0, left)} s"
    if seat >= 0 and can_hold(place):
        found["You hold"] = frame.held[seat] or "nothing"
    return found


def can_hold(place: Place) -> bool:
    """Whether the agents of a world can hold objects."""
    return any(kind.carryable for kind in place.grid.layout.kinds.objects)


def score_texts(scores: Sequence[float], seat: int = -1) -> tuple[str, str | None]:
    """The score of an agent and the mean score of all agents.

    **Arguments:**

    - `scores`: the return of each agent.
    - `seat`: the seat of the agent; -1 for the mean score.

    **Returns:** `None` in place of the mean if it is the first score, or all scores are equal.
    """
    texts = [f"{round(x, 2) + 0.0:.9g}" for x in (*scores, statistics.fmean(scores))]
    return (texts[-1], None) if seat < 0 or len(set(scores)) == 1 else (texts[seat], texts[-1])
