"""The routes of a study: for the pages of people, and for the page of who runs it."""

import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, final

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from agents.runs.display._errors import UsageError

from .._messages import read_body
from ._course import Course
from ._people import Person

_LARGEST_BODY = 2**17
_UNKNOWN = "This page does not know who you are: open the address of the study again."


_Name = Annotated[str, Meta(max_length=40)]
_Text = Annotated[str, Meta(max_length=5000)]


@final
class _Join(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Somebody comes, with the id in the address, if any."""

    id: Annotated[str, Meta(max_length=200)] | None = None


@final
class _Answers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The answers at a stage, which is named so that no answer counts twice."""

    stage: int
    answers: Annotated[
        dict[
            Annotated[str, Meta(max_length=40)], Annotated[str, Meta(max_length=5000)] | int | None
        ],
        Meta(max_length=200),
    ]


Answer = Callable[[Request], Awaitable[Response]]


def study_routes(
    course: Course, admin: str, in_words: Callable[[Any], Answer], page: Callable[[str], Answer]
) -> list[Route]:
    """The routes.

    **Arguments:**

    - `course`: the study.
    - `admin`: the token of who runs it.
    - `in_words`: answers foreseen errors with a sentence.
    - `page`: the endpoint of a file of the page.
    """

    async def join(_: Any, request: Request) -> Response:
        person, token = course.join(msgspec.json.decode(await _body(request), type=_Join).id)
        return JSONResponse({"token": token, "person": person.person}, 201)

    async def now(_: Any, request: Request) -> Response:
        found = await course.show(_person(course, request))
        return JSONResponse({"title": course.plan.title, **found})

    async def answer(_: Any, request: Request) -> Response:
        given = msgspec.json.decode(await _body(request), type=_Answers)
        person = _person(course, request)  # after the body, for which others do not wait
        if given.stage == person.stage:  # otherwise it was taken already, such as by a second click
            problem = course.answer(person, given.answers)
            if problem is not None:
                raise UsageError(problem)
        return JSONResponse({})

    async def overview(_: Any, request: Request) -> Response:
        _check_admin(request, admin)
        return JSONResponse(_overview(course))

    async def stop(_: Any, request: Request) -> Response:
        _check_admin(request, admin)
        course.stopped = True
        course.people.note(None, "stopped")
        return JSONResponse({})

    return [
        Route("/", page("study.html")),
        Route("/admin", page("admin.html")),
        Route("/api/study", in_words(_facts(course))),
        Route("/api/study/join", in_words(join), methods=["POST"]),
        Route("/api/study/now", in_words(now)),
        Route("/api/study/answer", in_words(answer), methods=["POST"]),
        Route("/api/admin", in_words(overview)),
        Route("/api/admin/stop", in_words(stop), methods=["POST"]),
    ]


def _facts(course: Course) -> Callable[[Any, Request], Awaitable[Response]]:
    async def facts(_: Any, __: Request) -> Response:
        plan = course.plan
        return JSONResponse({"title": plan.title, "id_parameter": plan.id_parameter})

    return facts


def _person(course: Course, request: Request) -> Person:
    found = course.people.find(request.headers.get("x-token", ""))
    if found is None:
        raise UsageError(_UNKNOWN)
    return found


def _check_admin(request: Request, admin: str) -> None:
    given = request.headers.get("x-token", "")
    if not admin or not secrets.compare_digest(given.encode(), admin.encode()):
        raise UsageError(
            "This page is for those who run the study: open the address with its token."
        )


async def _body(request: Request) -> bytes:
    content = await read_body(request.stream(), _LARGEST_BODY)
    if content is None:
        raise UsageError("This is too much for an answer.")
    return content


def _overview(course: Course) -> Mapping[str, Any]:
    """Who is where, and which games go on."""
    columns, rows = course.people.table("people")
    people = [dict(zip(columns, row, strict=True)) for row in rows]
    games = [
        {
            "game": name,
            "layout": session.place.title,
            "people": course.players(name),
            "step": session.game.steps,
            "score": round(session.game.score, 2),
            "watch": session.watch_token,
        }
        for name, session in course.hall.sessions.items()
        if not session.over.is_set()
    ]
    return {
        "title": course.plan.title,
        "stages": len(course.plan.stage),
        "stopped": course.stopped,
        "people": people,
        "games": games,
    }
