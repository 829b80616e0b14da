"""The routes of a study: for the pages of people and the page of the experimenter."""

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

_LARGEST_BODY = 2**22  # enough for the longest possible answers of a stage
_LONGEST_ID = 200
_UNKNOWN = "This page is not part of the study: open the address of the study again."
_Name = Annotated[str, Meta(max_length=40)]
_Parameter = Annotated[str, Meta(max_length=200)]


@final
class _Join(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The request of a page to take part.

    - `token`: a secret that the page chose. A page that never got the response repeats the request
        with the same token, and is then the same person.
    - `id`, `parameters`: from the address of the page, if any.
    """

    token: Annotated[str, Meta(min_length=32, max_length=64)]
    id: str | None = None
    parameters: Annotated[dict[_Name, _Parameter], Meta(max_length=20)] = {}


@final
class _Answers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Answers, and the position (`at`) of their questions, so that no answer counts twice; see
    `Course.place`.
    """

    at: _Name
    answers: Annotated[dict[_Name, str | int | None], Meta(max_length=200)]


@final
class _Stop(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The request of the experimenter to stop the study (`on`), or to continue it."""

    on: bool


Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]
Answer: TypeAlias = Callable[[Hall, Request], Awaitable[Response]]
PageFile: TypeAlias = Callable[[str], Endpoint]


def study_routes(
    course: Course, admin: str, endpoint: Callable[[Answer], Endpoint], page: PageFile
) -> list[Route]:
    """The routes of a study.

    **Arguments:**

    - `course`: the study.
    - `admin`: the token of the experimenter.
    - `endpoint`: turns a function into an endpoint that answers expected errors with a sentence.
    - `page`: returns the endpoint of an HTML file.
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
        client = request.client.host if request.client else ""
        person = course.join(given.id, given.token, given.parameters, client)
        return JSONResponse({"person": person.person}, 201)

    async def now(person: Person, request: Request) -> Response:
        """The content of a person's page. With `?wait`, the response to a waiting person is
        delayed.
        """
        if "wait" in request.query_params:
            await course.wait(person)
        found = await course.show(course.people.get(person.person) or person)
        return JSONResponse({"study": course.plan.title, **found})

    async def answer(person: Person, request: Request) -> Response:
        given = read_json(await _body(request), Decoder(_Answers))
        person = course.people.get(person.person) or person  # reading the body may take long
        if given.at == course.place(person):  # otherwise these answers were stored before
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
        Route("/api/study", endpoint(facts)),
        Route("/api/study/join", endpoint(join), methods=["POST"]),
        Route("/api/study/now", endpoint(_for_person(course, now))),
        Route("/api/study/answer", endpoint(_for_person(course, answer)), methods=["POST"]),
        Route("/api/study/here", endpoint(_for_person(course, here)), methods=["POST"]),
        Route("/api/study/leave", endpoint(_for_person(course, leave)), methods=["POST"]),
        Route("/admin", page("admin.html")),
        *_admin_routes(course, admin, endpoint),
    ]


def _admin_routes(
    course: Course, admin: str, endpoint: Callable[[Answer], Endpoint]
) -> list[Route]:
    async def overview(_: Hall, request: Request) -> Response:
        _check_admin(request, admin)
        return JSONResponse(_overview(course))

    async def stop(_: Hall, request: Request) -> Response:
        _check_admin(request, admin)
        course.stop(read_json(await _body(request), Decoder(_Stop)).on)
        return JSONResponse({})

    return [
        Route("/api/admin", endpoint(overview)),
        Route("/api/admin/stop", endpoint(stop), methods=["POST"]),
    ]


def _for_person(course: Course, answer: Callable[[Person, Request], Awaitable[Response]]) -> Answer:
    """Finds the person by the token of a request. Status 401 makes the page join again."""

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
    """The state of a study: its people with their positions, and its running games."""
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
