"""The plan of a study: a TOML file with its stages, from the consent to the last question."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal, final

import msgspec
from msgspec import Meta

from eqgrid_lab.base import UsageError, read_toml
from eqgrid_lab.partners import in_folder

from ..games import PERSON, Menu
from ._stages import Line, LongText, Name, Part, PlannedGame, Stage

FIELD = r"\{(.*?)\}"
"""A placeholder in a link for the id, the code or a parameter."""
_Outcome = Annotated[str, Meta(pattern="^(declined|excluded|failed|left|expired|stopped)$")]
_LARGEST_PLAN = 2**20
_MARKS = {"edge": "Edg", "firefox": "Firefox|FxiOS", "chrome": "Chrome|CriOS", "safari": "Safari"}
"""What the `User-Agent` of each browser contains, of which the first one counts."""


@final
class Entry(Part, frozen=True):
    """What people need to take part. They are told what to change, and can then come back. Pages
    measure it themselves and can claim anything: this helps honest people, and is no protection.

    - `browsers`: the allowed browsers; by default, all. Browsers built on Chrome count as Chrome.
    - `screen`: the minimum width and height of the screen, in pixels of the page.
    - `latency`: the maximum median time of a request, in milliseconds; 0 for no limit.
    """

    browsers: tuple[Literal["chrome", "edge", "firefox", "safari"], ...] = ()
    screen: tuple[int, int] = (0, 0)
    latency: Annotated[float, Meta(ge=0)] = 0.0

    def reason(self, agent: str, screen: tuple[int, int], latency: float | None) -> str:
        """Why a person cannot take part: `browser`, `screen` or `latency`; empty for no reason."""
        browser = next((name for name, mark in _MARKS.items() if re.search(mark, agent)), "")
        if self.browsers and browser not in self.browsers:
            return "browser"
        if screen[0] < self.screen[0] or screen[1] < self.screen[1]:
            return "screen"
        is_slow = self.latency > 0 and (latency is None or latency > self.latency)
        return "latency" if is_slow else ""


@final
class Bonus(Part, frozen=True):
    """A bonus for the scores in the games of all stages of the kind `games`, also in games that
    somebody left.

    - `per_point`: the amount for each point of the person's own score.
    - `most`: the maximum amount for a person.
    - `currency`: the name of the currency for people, such as `"GBP"`.
    """

    per_point: Annotated[float, Meta(gt=0)]
    most: Annotated[float, Meta(gt=0)]
    currency: Line


@final
class Ending(Part, frozen=True):
    """The last page of people who do not reach the end of a study.

    - `text`: the text of the page; by default, a sentence for the outcome.
    - `code`: the code of these people, if they get one.
    - `redirect`: as in `Plan`.
    """

    text: str = ""
    code: str = ""
    redirect: str = ""


@final
class Plan(Part, frozen=True):
    """A study.

    - `title`: its title.
    - `stage`: its stages, in order.
    - `seed`: the seed of random orders and seats.
    - `code`: the code that all people get at the end, for platforms with one code per study, such
        as Prolific; if empty, each person gets a random code.
    - `redirect`: the address to which a person is sent at the end. `{id}` in it is replaced by the
        id, `{code}` by the code, and the name of a parameter in braces by its value.
    - `ending`: the last pages of people who do not finish, by outcome: `declined`, `excluded` (by
        `entry` or a question), `failed` (the tutorial), `left` (stopped taking part), `expired` (no
        time left) or `stopped` (with the study).
    - `entry`: what people need to take part.
    - `bonus`: the bonus for scores, if there is one.
    - `id_parameter`: the parameter of the address that has the person's id, such as `PROLIFIC_PID`.
    - `id_once`: whether each person needs an id, and can take part only once with this id. The id
        then leads back to the same place from any browser.
    - `parameters`: other parameters of the address that are stored, such as `SESSION_ID`.
    - `patience`: the number of seconds for which a person waits for other people.
    - `partner_latency`: the maximum sum of the latencies of two people who play together, in
        milliseconds; 0 for no limit. A person sees a partner's reaction after this time.
    - `waiting`: the text for people who wait.
    - `most_people`: the maximum number of people who take part at the same time.
    - `most_minutes`: the number of minutes after which a person begins nothing new; 0 for no limit.
    """

    title: Line
    stage: Annotated[tuple[Stage, ...], Meta(min_length=1)]
    seed: int = 0
    code: str = ""
    redirect: str = ""
    ending: dict[_Outcome, Ending] = msgspec.field(default_factory=dict)
    entry: Entry = Entry()
    bonus: Bonus | None = None
    id_parameter: str = "id"
    id_once: bool = False
    parameters: Annotated[tuple[Name, ...], Meta(max_length=20)] = ()
    patience: Annotated[float, Meta(ge=1, le=3600)] = 60.0
    partner_latency: Annotated[float, Meta(ge=0)] = 0.0
    waiting: LongText = "Your partner is on the way. Please keep this page open."
    most_people: Annotated[int, Meta(ge=1, le=10_000)] = 100
    most_minutes: Annotated[float, Meta(ge=0)] = 0.0

    def games(self) -> Iterator[PlannedGame]:
        """All games of the plan."""
        return (game for stage in self.stage for game in stage.games)


def read_plan(path: Path) -> Plan:
    """Reads the plan of a study.

    **Raises:** `UsageError` when the plan is not valid.
    """
    where = f"The plan {str(path)!r}"
    try:
        plan = msgspec.convert(read_toml(path, _LARGEST_PLAN), Plan)
    except UsageError as error:
        raise UsageError(f"{where} {error}") from error
    except msgspec.ValidationError as error:
        raise UsageError(f"{where} cannot be used: {error}.") from error
    for problem in _problems(plan):
        raise UsageError(f"{where} {problem}.")
    return plan


def _problems(plan: Plan) -> Iterator[str]:
    """What is wrong with a plan, apart from the types of its values."""
    for stage in plan.stage:
        names = [question.name for question in stage.questions]
        for question in stage.questions:
            name = question.name
            if names.count(name) > 1:
                yield f"asks {name!r} twice at the same stage"
            if question.kind == "choice" and len(question.options) < 2:
                yield f"needs at least two `options` for {name!r}"
            if question.kind != "choice" and question.options:
                yield f"has `options` for {name!r}, which is not a choice"
            if question.right is not None and question.problem(question.right) is not None:
                yield f"has a `right` for {name!r} that is not one of its possible answers"
            if question.exclude and question.right is None:
                yield f"has `exclude` for {name!r}, which needs the `right` answer"
        games = [(game.name or game.partner, game.layout) for game in stage.games]
        for name, layout in games:  # the data tell games apart by them
            if games.count((name, layout)) > 1:
                yield (
                    f"has two games {name!r} in {layout!r} at a stage: give each a `name` of its "
                    "own"
                )
    for game in plan.games():
        if game.partner != PERSON:
            continue
        pairs = f"pairs people in {game.layout!r}"
        if game.fallback in ("", PERSON):
            yield (
                f"{pairs}, and needs a `fallback`: the partner of a person for whom no other "
                "person arrives"
            )
        if plan.most_people < game.people:
            yield (
                f"needs a `most_people` of at least {game.people}, who play together in "
                f"{game.layout!r}"
            )
        if game.seat != "drawn":
            yield f"{pairs}, where seats are random: leave out `seat`"
    known = ("id", "code", *plan.parameters)
    for address in (plan.redirect, *(ending.redirect for ending in plan.ending.values())):
        if address and not address.startswith(("https://", "http://")):
            yield "needs a `redirect` that begins with https://"
        for field in re.findall(FIELD, address):
            if field not in known:
                yield (
                    f"has {{{field}}} in a `redirect`; known are {', '.join(known)}. Name further "
                    "parameters of the address in `parameters`"
                )


def plan_partners(plan: Plan, folder: Path) -> dict[str, str]:
    """The partners that a plan names, and what `Partners.build` builds for each name.

    **Arguments:**

    - `plan`: the plan.
    - `folder`: the folder of the plan, to which paths of policies are relative.
    """
    names = (x for game in plan.games() for x in (game.partner, game.fallback))
    return {x: in_folder(x, folder) for x in names if x not in ("", PERSON)}


def check_plan(plan: Plan, menu: Menu) -> None:
    """Checks that the games of a plan can be played.

    **Arguments:**

    - `plan`: the plan.
    - `menu`: the worlds and partners.

    **Raises:** `UsageError` when a layout, partner or seat does not exist.
    """
    for game in plan.games():
        _check_game(game, menu)


def _check_game(game: PlannedGame, menu: Menu) -> None:
    if game.layout not in menu.layouts:
        known = ", ".join(menu.layouts)
        raise UsageError(f"The plan has the layout {game.layout!r}; known are {known}.")
    names = {offer.name for offer in menu.offers(game.layout).values()}
    agents = menu.place(game.layout).env.num_agents
    for partner in filter(None, (game.partner, game.fallback)):
        if partner != PERSON and partner not in names:
            raise UsageError(
                f"The plan has the partner {partner!r} in {game.layout!r}, where there are "
                f"{', '.join(repr(name) for name in sorted(names))} and 'person'."
            )
    if game.partner == PERSON and agents < game.people:
        raise UsageError(
            f"The plan has {game.people} people in {game.layout!r}, which is for {agents}."
        )
    if game.seat != "drawn" and game.seat >= agents:
        seats = f"{game.layout!r} has {agents} seats, from 0"
        raise UsageError(f"The plan has the seat {game.seat}, but {seats}.")
