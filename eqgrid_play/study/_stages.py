"""The stages of a study: what each shows, and what follows its answers and games."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, TypeAlias, final

import msgspec
from msgspec import Meta, field

Name = Annotated[str, Meta(pattern=r"^[A-Za-z][\w-]{0,39}$")]
LongText = Annotated[str, Meta(min_length=1, max_length=20_000)]
Line = Annotated[str, Meta(min_length=1, max_length=500)]
_LONGEST_ANSWER = 5000
"""The maximum number of letters, which pages check too."""
Move: TypeAlias = Literal["next", "questions", "again", "declined", "failed"]
"""Where a person goes: to the next game or stage, to the questions after the game, to the same game
again, or to the end of the study with an outcome.
"""


def is_blank(answer: str | int | None) -> bool:
    """Whether an answer has no visible letter, as an answer of spaces only."""
    if isinstance(answer, str):
        return not any(letter.isprintable() and not letter.isspace() for letter in answer)
    return answer is None


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of the TOML file."""


@final
class Question(Part, frozen=True):
    """A question.

    - `name`: its name in the data.
    - `text`: the question.
    - `kind`: `"scale"` of `points` from `low` to `high`, `"choice"` of `options`, or `"text"`.
    - `right`: the right answer of an attention check; a number for a scale.
    - `exclude`: whether the study ends for a person without the right answer, as for an age or a
        check of comprehension. No answer of this page is then stored.
    - `optional`: whether the answer may be left out.
    """

    name: Name
    text: Line
    kind: Literal["scale", "choice", "text"] = "scale"
    points: Annotated[int, Meta(ge=2, le=11)] = 7
    low: str = "strongly disagree"
    high: str = "strongly agree"
    options: tuple[Line, ...] = ()
    right: str | int | None = None
    exclude: bool = False
    optional: bool = False

    def problem(self, answer: str | int | None) -> str | None:
        """A sentence that explains why an answer is not valid; `None` if it is valid."""
        if is_blank(answer):
            return None if self.optional else "Please answer all questions."
        if self.kind == "scale":
            fits = isinstance(answer, int) and 1 <= answer <= self.points
        elif self.kind == "choice":
            fits = answer in self.options
        else:
            fits = isinstance(answer, str)
            if len(str(answer)) > _LONGEST_ANSWER:
                return f"Please shorten your answer to {_LONGEST_ANSWER} letters."
        return None if fits else f"The answer to {self.name!r} is not one of the options."


@final
class PlannedGame(Part, frozen=True):
    """A game of a person.

    - `layout`: the layout.
    - `partner`: a policy file next to the plan; the name of an offer of the menu, such as `"a model
        of people"`; or `"person"` for another participant.
    - `name`: the name of the game in the data; by default the name of the partner.
    - `seat`: the seat of the person, or `"drawn"` for a random seat. Seats are always random in
        games with the partner `"person"`.
    - `people`: the number of people who play together, with the partner `"person"`.
    - `fallback`: the partner in seats without a person, with the partner `"person"`: in the seats
        that remain free, and if no other participant comes in time.
    """

    layout: Line
    partner: Line
    name: str = ""
    seat: Annotated[int, Meta(ge=0, le=63)] | Literal["drawn"] = "drawn"
    people: Annotated[int, Meta(ge=2, le=64)] = 2
    fallback: str = ""


class AbstractStage(Part, frozen=True, tag_field="kind"):
    """A stage of a study; by default, of one text without games.

    The place of a person at a stage is the number of the game, from 0 in the order of play, and
    whether the questions after this game are asked. Without games, it is 0 and `False`.

    - `games`: the games, in the order of the plan.
    - `questions`: the questions on pages of the kind `questions`.
    - `order`: as in `Games`; empty for games that are played as listed, without a record of it.
    - `score`: the score at which games end; 0 to play to the end of the episode.
    - `keys`: whether key presses and releases in the games of later stages are recorded.
    """

    games, questions, order, score, keys = (), (), "", 0.0, False

    @abstractmethod
    def page(self, game: int, asked: bool) -> dict[str, object]:
        """The page at a place, for JSON. Its `kind` is `consent`, `text`, `questions` or `game`."""
        raise NotImplementedError

    def summary(self) -> str:
        """The content in a line, for those who test a plan."""
        return f"{len(str(self.page(0, False).get('text', '')).split())} words"

    def after_answers(self, answers: Mapping[str, str | int | None]) -> Move:
        """Where a person goes with valid answers."""
        return "next"

    def after_game(self, score: float, finished: bool, played: int) -> Move:
        """Where a person goes after a game.

        **Arguments:**

        - `score`: the score of the person.
        - `finished`: whether the game is complete; `False` if somebody left it.
        - `played`: the number of games that the person has played at the stage.
        """
        return "next"


@final
class Consent(AbstractStage, frozen=True, tag="consent"):
    """A text to which a person agrees. A person who does not agree leaves the study.

    - `keys`: whether key presses and releases in later games are recorded with the times of the
        page.
    """

    text: LongText
    title: str = "Consent"
    agree: str = "I agree"
    keys: bool = False

    def page(self, game: int, asked: bool) -> dict[str, object]:
        return {"kind": "consent", "title": self.title, "text": self.text, "agree": self.agree}

    def after_answers(self, answers: Mapping[str, str | int | None]) -> Move:
        return "next" if answers.get("agree") == "yes" else "declined"


@final
class Reading(AbstractStage, frozen=True, tag="text"):
    """A text to read, with a line for each paragraph."""

    text: LongText
    title: str = ""

    def page(self, game: int, asked: bool) -> dict[str, object]:
        return {"kind": "text", "title": self.title, "text": self.text}


@final
class Questions(AbstractStage, frozen=True, tag="questions"):
    """Questions to answer."""

    questions: Annotated[tuple[Question, ...], Meta(min_length=1, max_length=200)] = field(
        name="question"
    )
    title: str = ""

    def page(self, game: int, asked: bool) -> dict[str, object]:
        return _questions_page(self.title, self.questions)

    def summary(self) -> str:
        return ", ".join(x.name for x in self.questions)


@final
class Tutorial(AbstractStage, frozen=True, tag="tutorial"):
    """A game that ends when the person reaches a score. A person who does not reach it plays again,
    up to the number of attempts. With a score of 0, the person plays one whole game.
    """

    game: PlannedGame
    score: float = 0.0
    attempts: Annotated[int, Meta(ge=1, le=20)] = 3
    text: str = ""

    def page(self, game: int, asked: bool) -> dict[str, object]:
        return {"kind": "game", "note": self.text}

    def summary(self) -> str:
        return f"{self.game.layout} until {self.score:g}; bots need one game"

    @property
    def games(self) -> tuple[PlannedGame, ...]:
        return (self.game,)

    def after_game(self, score: float, finished: bool, played: int) -> Move:
        if finished and (self.score <= 0 or score >= self.score):
            return "next"
        return "failed" if played >= self.attempts else "again"

    def failure(self, scores: Sequence[float]) -> str:
        """What was missing in the last try, and how many tries are left.

        **Arguments:**

        - `scores`: the score of the person in each try, at least one.
        """
        missing = f"You reached {round(scores[-1], 2):g} of {self.score:g} points."
        missing = missing if self.score > 0 else "The game was not played to its end."
        left = self.attempts - len(scores)
        tries = {0: "This was your last try.", 1: "You have one try left."}
        return f"{missing} {tries.get(left, f'You have {left} tries left.')}"


@final
class Games(AbstractStage, frozen=True, tag="games"):
    """Games, with an order for each person.

    - `order`: `"counterbalanced"`: the first game of each person is the next game in the list after
        the first game of the person before (a cyclic Latin square), or the least frequent first
        game if people have left; `"drawn"`: random, by the seed of the study and the person;
        `"fixed"`: as listed. If people play with each other, people who arrive together have the
        same order.
    - `questions`: questions after each game, in tables `after`.
    """

    games: Annotated[tuple[PlannedGame, ...], Meta(min_length=1)] = field(name="game")
    order: Literal["counterbalanced", "drawn", "fixed"] = "counterbalanced"
    questions: Annotated[tuple[Question, ...], Meta(max_length=200)] = field(
        default=(), name="after"
    )

    def page(self, game: int, asked: bool) -> dict[str, object]:
        title = f"Game {game + 1} of {len(self.games)}" if len(self.games) > 1 else ""
        return _questions_page(title, self.questions) if asked else {"kind": "game", "note": title}

    def summary(self) -> str:
        names = ", ".join(f"{x.name or x.partner} ({x.layout})" for x in self.games)
        return f"{names}; {self.order}; {len(self.questions)} questions after each"

    def after_game(self, score: float, finished: bool, played: int) -> Move:
        return "questions" if self.questions else "next"


Stage: TypeAlias = Consent | Reading | Questions | Tutorial | Games


def _questions_page(title: str, questions: Sequence[Question]) -> dict[str, object]:
    """The page with questions, without the right answers of attention checks."""
    shown = [msgspec.structs.asdict(x) for x in questions]
    for question in shown:
        del question["right"], question["exclude"]
    return {"kind": "questions", "title": title, "questions": shown}
