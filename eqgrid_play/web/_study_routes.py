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

from eqgrid_lab.base import UsageError

from ..games import GameServer, read_body, read_json
from ..study import Person, StudyRunner, outcomes

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
    - `screen`, `latency_ms`: as in `Entry`, if the page has measured them.
    """

    token: Annotated[str, Meta(min_length=32, max_length=64)]
    id: str | None = None
    parameters: Annotated[dict[_Name, _Parameter], Meta(max_length=20)] = {}
    screen: tuple[int, int] = (0, 0)
    latency_ms: Annotated[float, Meta(ge=0)] | None = None


@final
class _Answers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Answers, and the position (`at`) of their questions, so that no answer counts twice; see
    `StudyRunner.place`.
    """

    at: _Name
    answers: Annotated[dict[_Name, str | int | None], Meta(max_length=200)]


@final
class _Stop(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The request of the experimenter to stop the study (`on`), or to continue it."""

    on: bool


Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]
Answer: TypeAlias = Callable[[GameServer, Request], Awaitable[Response]]
PageFile: TypeAlias = Callable[[str], Endpoint]


def study_routes(
    runner: StudyRunner, admin: str, endpoint: Callable[[Answer], Endpoint], page: PageFile
) -> list[Route]:
    """The routes of a study.

    **Arguments:**

    - `runner`: the study.
    - `admin`: the token of the experimenter.
    - `endpoint`: turns a function into an endpoint that answers expected errors with a sentence.
    - `page`: returns the endpoint of an HTML file.
    """

    async def facts(_: GameServer, __: Request) -> Response:
        plan, study = runner.plan, runner.people.fact("study")
        known = {"id_parameter": plan.id_parameter, "parameters": plan.parameters}
        measured = bool(plan.entry.latency or plan.partner_latency)
        return JSONResponse({"study": study, "latency": measured, **known})

    async def join(_: GameServer, request: Request) -> Response:
        given = read_json(await _body(request), Decoder(_Join))
        if len(given.id or "") > _LONGEST_ID:
            raise UsageError(
                f"The id in the address is longer than {_LONGEST_ID} characters: open the address "
                "that was given to you."
            )
        client = request.client.host if request.client else ""
        agent, latency = request.headers.get("user-agent", ""), given.latency_ms
        reason = runner.plan.entry.reason(agent, given.screen, latency)
        person = runner.join(given.id, given.token, given.parameters, client, reason, latency)
        return JSONResponse({"person": person.person}, 201)

    async def now(person: Person, request: Request) -> Response:
        """The content of a person's page. With `?wait`, a waiting person gets it later."""
        if "wait" in request.query_params:
            await runner.wait(person)
        found = await runner.show(runner.people.get(person.person) or person)
        return JSONResponse({"study": runner.plan.title, **found})

    async def answer(person: Person, request: Request) -> Response:
        given = read_json(await _body(request), Decoder(_Answers))
        person = runner.people.get(person.person) or person  # reading the body may take long
        if given.at == runner.place(person):  # otherwise these answers were stored before
            problem = runner.answer(person, given.answers)
            if problem is not None:
                raise UsageError(problem)
        return JSONResponse({})

    async def leave(person: Person, _: Request) -> Response:
        runner.leave(person)
        return JSONResponse({})

    async def here(person: Person, _: Request) -> Response:
        if person.outcome is None:
            runner.people.record_request(person.person)
        return JSONResponse({})

    return [
        Route("/", page("study.html")),
        Route("/api/study", endpoint(facts)),
        Route("/api/study/join", endpoint(join), methods=["POST"]),
        Route("/api/study/now", endpoint(_for_person(runner, now))),
        Route("/api/study/answer", endpoint(_for_person(runner, answer)), methods=["POST"]),
        Route("/api/study/here", endpoint(_for_person(runner, here)), methods=["POST"]),
        Route("/api/study/leave", endpoint(_for_person(runner, leave)), methods=["POST"]),
        Route("/admin", page("admin.html")),
        *_admin_routes(runner, admin, endpoint),
    ]


def _admin_routes(
    runner: StudyRunner, admin: str, endpoint: Callable[[Answer], Endpoint]
) -> list[Route]:
    async def overview(_: GameServer, request: Request) -> Response:
        _check_admin(request, admin)
        people = runner.overview()
        facts = {"title": runner.plan.title, "stages": len(runner.plan.stage)}
        facts |= {"stopped": runner.stopped, "outcomes": outcomes(people), "people": people}
        return JSONResponse(facts)

    async def stop(_: GameServer, request: Request) -> Response:
        _check_admin(request, admin)
        runner.stop(read_json(await _body(request), Decoder(_Stop)).on)
        return JSONResponse({})

    return [
        Route("/api/admin", endpoint(overview)),
        Route("/api/admin/stop", endpoint(stop), methods=["POST"]),
    ]


def _for_person(
    runner: StudyRunner, answer: Callable[[Person, Request], Awaitable[Response]]
) -> Answer:
    """Finds the person by the token of a request. Status 401 makes the page join again."""

    async def endpoint(_: GameServer, request: Request) -> Response:
        person = runner.people.find(request.headers.get("x-token", ""))
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
