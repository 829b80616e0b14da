"""The routes of a study: for the pages of people, and for the page of who runs it."""

import secrets
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeAlias, final

import msgspec
from msgspec import Meta
from msgspec.json import Decoder
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ..base import UsageError
from ..play import Hall, read_body, read_json
from ..study import Course, Person, outcomes
from ._limits import client_of

_LARGEST_BODY = 2**22  # as many long answers as a stage may have
_LONGEST_ID = 200
_UNKNOWN = "This page is not part of the study: open the address of the study again."
_Name = Annotated[str, Meta(max_length=40)]
_Parameter = Annotated[str, Meta(max_length=200)]


@final
class _Join(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Somebody comes, with the id and other parameters in the address, if any, and the token of the
    page, by which it comes back: a page that never got the answer asks again, and is the same
    person.
    """

    token: Annotated[str, Meta(min_length=32, max_length=64)]
    id: str | None = None
    parameters: Annotated[dict[_Name, _Parameter], Meta(max_length=20)] = {}


@final
class _Answers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The answers at a place, which is named so that no answer counts twice; see `Course.place`."""

    at: _Name
    answers: Annotated[dict[_Name, str | int | None], Meta(max_length=200)]


@final
class _Stop(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether the study stops, or continues."""

    on: bool


Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]
Answer: TypeAlias = Callable[[Hall, Request], Awaitable[Response]]
PageFile: TypeAlias = Callable[[str], Endpoint]


def study_routes(
    course: Course, admin: str, in_words: Callable[[Answer], Endpoint], page: PageFile
) -> list[Route]:
    """The routes.

    **Arguments:**

    - `course`: the study.
    - `admin`: the token of who runs it.
    - `in_words`: answers foreseen errors with a sentence.
    - `page`: the endpoint of a file of the page.
    """

    async def facts(_: Hall, __: Request) -> Response:
        plan, study = course.plan, course.people.fact("study")
        known = {"id_parameter": plan.id_parameter, "parameters": plan.parameters}
        return JSONResponse({"title": plan.title, "study": study, **known})

    async def join(_: Hall, request: Request) -> Response:
        given = read_json(await _body(request), Decoder(_Join))
        if len(given.id or "") > _LONGEST_ID:
            raise UsageError(
                f"The id in the address is longer than {_LONGEST_ID} characters: open the address "
                "that was given to you."
            )
        client = client_of(request.scope)
        person = course.join(given.id, given.token, given.parameters, client)
        return JSONResponse({"person": person.person}, 201)

    async def now(person: Person, request: Request) -> Response:
        """What the page of a person shows; somebody who waits is told later, with `?wait`."""
        if "wait" in request.query_params:
            await course.wait(person)
        found = await course.show(course.people.get(person.person) or person)
        return JSONResponse({"study": course.plan.title, **found})

    async def answer(person: Person, request: Request) -> Response:
        given = read_json(await _body(request), Decoder(_Answers))
        person = course.people.get(person.person) or person  # reading the body may take long
        if given.at == course.place(person):  # otherwise it was taken already
            problem = course.answer(person, given.answers)
            if problem is not None:
                raise UsageError(problem)
        return JSONResponse({})

    async def leave(person: Person, _: Request) -> Response:
        course.leave(person)
        return JSONResponse({})

    async def here(person: Person, _: Request) -> Response:
        if person.outcome is None:
            course.people.seen(person.person)
        return JSONResponse({})

    return [
        Route("/", page("study.html")),
        Route("/api/study", in_words(facts)),
        Route("/api/study/join", in_words(join), methods=["POST"]),
        Route("/api/study/now", in_words(_for_person(course, now))),
        Route("/api/study/answer", in_words(_for_person(course, answer)), methods=["POST"]),
        Route("/api/study/here", in_words(_for_person(course, here)), methods=["POST"]),
        Route("/api/study/leave", in_words(_for_person(course, leave)), methods=["POST"]),
        Route("/admin", page("admin.html")),
        *_admin_routes(course, admin, in_words),
    ]


def _admin_routes(
    course: Course, admin: str, in_words: Callable[[Answer], Endpoint]
) -> list[Route]:
    async def overview(_: Hall, request: Request) -> Response:
        _check_admin(request, admin)
        return JSONResponse(_overview(course))

    async def stop(_: Hall, request: Request) -> Response:
        _check_admin(request, admin)
        course.stop(read_json(await _body(request), Decoder(_Stop)).on)
        return JSONResponse({})

    return [
        Route("/api/admin", in_words(overview)),
        Route("/api/admin/stop", in_words(stop), methods=["POST"]),
    ]


def _for_person(course: Course, answer: Callable[[Person, Request], Awaitable[Response]]) -> Answer:
    """Finds the person by the token of a request; the page of an unknown one joins again."""

    async def endpoint(_: Hall, request: Request) -> Response:
        person = course.people.find(request.headers.get("x-token", ""))
        if person is None:
            return JSONResponse({"text": _UNKNOWN}, 401)
        return await answer(person, request)

    return endpoint


def _check_admin(request: Request, admin: str) -> None:
    given = request.headers.get("x-token", "")
    if not admin or not secrets.compare_digest(given.encode(), admin.encode()):
        raise UsageError(
            "This page is for those who run the study: open the address with its token."
        )


async def _body(request: Request) -> bytes:
    content = await read_body(request.stream(), _LARGEST_BODY)
    if content is None:
        raise UsageError("The answer is too long.")
    return content


def _overview(course: Course) -> dict[str, object]:
    """Who is where, and which games are running."""
    people = course.people.rows("people")
    games = [
        {
            "game": name,
            "layout": session.place.title,
            "people": course.players(name),
            "step": session.game.steps,
            "scores": [round(x, 2) for x in session.game.scores],
            "watch": session.watch_token,
        }
        for name, session in course.hall.sessions.items()
        if not session.over.is_set()
    ]
    return {
        "title": course.plan.title,
        "stages": len(course.plan.stage),
        "stopped": course.stopped,
        "outcomes": outcomes(people),
        "people": people,
        "games": games,
    }
