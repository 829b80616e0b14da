"""The server of live games: its pages, its games, and what it refuses."""

import asyncio
import base64
import contextlib
import io
import json
import threading
import time

import httpx
import numpy as np
import pytest
from browser import running
from hypothesis import HealthCheck, given, settings, strategies as st
from PIL import Image
from playing import NOBODY_WORDS, Time, join_game, press, receive_until, server_of, until
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from eqgrid_lab import Kitchen
from eqgrid.envs.goals import Goals
from eqgrid.grid import AgentLook, Direction, agent_colours, bare_looks
from eqgrid_lab.base import UsageError
from eqgrid_lab.worlds import world_settings
from eqgrid_play.games import (
    Hold,
    Key,
    Leave,
    LiveGame,
    Menu,
    Place,
    Press,
    Rules,
    _session,
    read_journal,
    replay,
)
from eqgrid_play.games._session import FREE
from eqgrid_play.study import People, StudyRunner, read_plan
from eqgrid_play.web import _app
from eqgrid_play.web._app import build_app


@pytest.fixture(scope="module")
def menu():
    return Menu(Kitchen(layout="ring", horizon=12))


@pytest.fixture(scope="module")
def long_menu():
    return Menu(Kitchen(layout="ring", horizon=400))


@pytest.fixture
def serve(menu, tmp_path):
    """Opens a client of a server with a fast clock."""

    def serve(rate=60.0, most_games=4, menu=menu):
        return client_of_hall(server_of(menu, tmp_path, rate, most_games))

    return serve


def client_of_hall(server):
    return TestClient(build_app(server, ["testserver"]))


def open_game(client, *seats):
    """Opens a game of these people and partners; of one person with an agent that never moves."""
    offers = client.get("/api/layouts/0/partners").json()["offers"]
    keys = {offer["name"]: offer["key"] for offer in offers}
    wish = {"layout": 0, "seats": seats or ["person", keys[NOBODY_WORDS]]}
    answer = client.post("/api/games", json=wish)
    assert answer.status_code == 201, answer.text
    return answer.json()


class Player:
    """A page that joins a game; without a token, as the first person."""

    def __init__(self, client, made, token=None):
        self.made = made
        self.game = made["game"]
        self.context = client.websocket_connect(f"/api/games/{self.game}")
        self.token = made["tokens"][0] if token is None else token

    def __enter__(self):
        self.socket = self.context.__enter__()
        join_game(self.socket, self.token)
        return self

    def __exit__(self, *error):
        return self.context.__exit__(*error)

    def send(self, **message):
        self.socket.send_text(json.dumps(message))

    def press(self, action):
        press(self.socket, action)

    def begin(self):
        """Waits until the game does, and begins it with a step up."""
        self.until(status="waiting")
        self.press(0)

    def until(self, **wanted):
        """The next message that has these fields, and those before it."""
        seen = []
        while True:
            seen.append(self.socket.receive_json())
            if wanted.get("type") != "refusal":  # nothing would come after it
                assert seen[-1]["type"] != "refusal", seen[-1]
            if all(seen[-1].get(name) == value for name, value in wanted.items()):
                return seen[-1], seen


@contextlib.contextmanager
def playing(serve, **options):
    """The page of a person who plays with an agent that never moves."""
    with serve(**options) as client, Player(client, open_game(client)) as player:
        yield player


def test_the_page_loads_nothing_from_elsewhere(serve):
    with serve() as client:
        answer = client.get("/")
        assert answer.status_code == 200
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        for name in ("play.js", "style.css"):
            text = client.get(f"/page/{name}").text
            assert "http:" not in text.replace('https:" ?', "")
            assert "//cdn" not in text


def test_the_menu_has_layouts_partners_keys_and_pictures(serve, long_menu):
    with serve(menu=long_menu) as client:
        assert client.get("/api/layouts/0").json()["optimum"] == 360
    with serve() as client:
        names = client.get("/api/menu").json()["layouts"]
        assert names == ["ring", "cramped", "asymmetric", "forced", "circuit"]
        found = client.get("/api/layouts/0").json()
        assert found["seats"] == 2
        assert found["optimum"] is None  # in 12 steps
        offers = client.get("/api/layouts/0/partners").json()["offers"]
        names = [offer["name"] for offer in offers[:3]]
        assert names == ["a trained agent", "a model of people", "an optimal plan"]
        assert [x["name"] for x in found["controls"]] == ["up", "down", "right", "left", "interact"]
        assert found["notes"] == ["A soup of 3 onions pays 20."]
        cells, caption, words = found["pictures"][-1]
        assert (len(cells), caption) == (2, "Bring it to the bell.")
        assert words == "agent with soup, serving"
        assert len(found["frame"]["cells"]) == found["height"] * found["width"] == 25
        numbers = {number for _, number in found["frame"]["cells"]}
        agents = found["frame"]["agents"]
        assert len({place for place, *_ in agents}) == found["seats"]
        assert {int(x) for x in found["frame"]["pictures"]} == numbers | {x for *_, x in agents}
        seen = client.get("/api/layouts/0?seat=1").json()["frame"]["agents"]
        assert [x[:2] for x in seen] == [x[:2] for x in agents]
        assert {x for *_, x in seen}.isdisjoint(x for *_, x in agents)  # in other colours
        assert client.get("/api/layouts/1/picture.png").content[1:4] == b"PNG"
        code = client.post("/api/qr", json="https://play.example.org/#/game/token").json()
        assert code["picture"].startswith("data:image/png;base64,")
        assert client.post("/api/qr", json="x" * 501).status_code == 400


def test_several_layouts_are_single_choices():
    menu = Menu(Kitchen(layout="cramped,ring"), {"slow": "agent+delay=2+noise=0.1"})
    menu.check()
    assert menu.layouts == ("cramped", "ring")
    for layout in menu.layouts:
        assert menu.place(layout).title == layout
        own, first, *_ = menu.offers(layout).values()
        assert (own.name, own.words) == ("slow", "a trained agent, 2 steps late, 10% random")
        assert first.words == "a trained agent"
    heights = [Image.open(io.BytesIO(menu.place(x).small_picture)).height for x in menu.layouts]
    assert heights == [4 * 24, 5 * 24]


def own_world():
    return Goals("room", shared=True)


@pytest.mark.parametrize(
    ("world", "number", "first"),
    [
        ("overcooked", 4, "onion dispenser, agent with onion, pot with soup"),
        ("overcooked_v2", 4, "indicator with soup"),
        ("foraging", 2, "agent, food"),
        ("warehouse", 3, "agent, rack with requested shelf"),
        ("rescue", 4, "agent with green victim, exit"),
        ("minigrid", 3, "agent, key"),
        ("goals", 1, "agent, own flag"),
        ("harvest", 4, "agent, orchard with apple"),
        ("cleanup", 4, "agent, orchard with apple"),
        (own_world, 2, "agent, flag"),
    ],
)
def test_each_world_explains_its_rules_in_pictures(world, number, first):
    place = Place.of(world_settings(world))
    assert len(place.rule_pictures) == number
    for cells, caption, words in place.rule_pictures:
        assert all(base64.b64decode(cell)[1:4] == b"PNG" for cell in cells)
        assert caption
        assert len(words.split(", ")) == len(cells)
    assert place.rule_pictures[0][2] == first


def test_agents_and_their_flags_swap_colours_for_the_second_person():
    place = Place.of(world_settings("goals", num_agents=3))
    kinds = place.grid.layout.kinds
    floor, *_ = bare_looks(place.drawn_layout)
    codes = [kinds.code("own_flag", i) for i in range(3)]
    flags = [floor._replace(lying=code).seen_by(1, kinds).lying for code in codes]
    assert flags == [codes[1], codes[0], codes[2]]
    looks = [floor._replace(agent=AgentLook(i, Direction.EAST, 0, True)) for i in (1, 2, 3)]
    agents = [look.seen_by(1, kinds).agent for look in looks]
    assert [agent.number for agent in agents] == [1, 2, 3]
    assert [agent.colours for agent in agents] == [agent_colours(i) for i in (2, 1, 3)]


def test_a_game_is_played_written_and_videoed(serve, tmp_path):
    with serve() as client:
        made = open_game(client)
        with Player(client, made) as player:
            opening, _ = player.until(type="opening")
            assert (opening["seat"], opening["seats"]) == (0, ["person", NOBODY_WORDS])
            assert opening["ticks_per_second"] == 60
            _, seen = player.until(status="waiting")
            (first,) = (x["display"] for x in seen if x["type"] == "frame")
            assert list(first.items()) == [
                ("Score", "0"),
                ("Time left", "1 s"),
                ("You hold", "nothing"),
            ]
            player.press(3)
            over, seen = player.until(status="over")
        frames = [x for x in seen if x["type"] == "frame"]
        assert [x["step"] for x in frames] == list(range(1, 13))
        assert [x["display"] for x in frames] == [{}] * 11 + [first | {"Time left": "0 s"}]
        assert over["text"] == "The game is over, with a score of 0."
        assert (over["finished"], over["best"]) == (True, None)
        journal = tmp_path / f"{made['game']}.jsonl"
        recording = read_journal(journal)
        assert recording.action[0].tolist() == [3, 4]
        assert recording.action[1:].tolist() == [[4, 4]] * 11
        assert recording.end == "finished"
        assert (np.diff(recording.time) > 0).all()
        token = {"token": made["tokens"][0]}
        video = client.get(f"/api/games/{made['game']}/video.gif", params=token)
        assert video.content[:3] == b"GIF"
        record = client.get(f"/api/games/{made['game']}/record", params=token)
        assert record.content == journal.read_bytes()
        until(lambda: journal.with_suffix(".npz").exists(), 20)


def test_only_what_changed_is_sent(serve):
    with playing(serve) as player:
        first, _ = player.until(type="frame")
        assert len(first["cells"]) == 25
        player.press(0)
        _, seen = player.until(status="over")
    later = [x for x in seen if x["type"] == "frame"]
    assert sum(len(x["cells"]) for x in later) <= 4
    assert all(not x["pictures"] for x in later[1:])


def test_two_people_play_when_both_have_begun(serve):
    with serve() as client:
        made = open_game(client, "person", "person")
        with Player(client, made) as first:
            first.until(status="waiting")
            first.press(3)
            waiting, _ = first.until(text="Waiting for the other person.")
            assert waiting["status"] == "waiting"
            with Player(client, made, made["tokens"][1]) as second:
                assert second.until(type="opening")[0]["seat"] == 1
                second.press(0)
                assert first.until(status="over")[0] == second.until(status="over")[0]


def test_who_comes_back_goes_on_where_the_game_stopped(serve, long_menu, tmp_path):
    with serve(rate=20, menu=long_menu) as client:
        made = open_game(client)
        session = client.app.state.server.sessions[made["game"]]
        with Player(client, made) as player:
            player.until(status="waiting")
            player.press(2)
            player.send(type="hold", choice=0, action=2)
            player.until(type="frame", step=3)
        until(lambda: session.conduct(0).absent)
        steps = session.game.steps
        assert 3 <= steps < 400
        time.sleep(0.3)
        with Player(client, made) as player:
            frame, _ = player.until(type="frame")
            assert frame["step"] == steps
            assert len(frame["cells"]) == 25
            player.until(status="waiting")
            time.sleep(0.2)
            player.press(0)
            after, _ = player.until(type="frame")
            assert after["step"] == steps + 1
            player.send(type="leave")
            player.until(status="over")
        recording = read_journal(tmp_path / f"{made['game']}.jsonl")
        assert len(recording.action) == session.game.steps > steps
        assert recording.action[steps].tolist() == [0, 4]


def test_a_second_window_takes_over(serve):
    with serve(rate=20) as client:
        made = open_game(client)
        with Player(client, made) as old:
            old.until(status="waiting")
            with Player(client, made) as new:
                new.until(type="opening")
                old.until(status="replaced")
                with pytest.raises(WebSocketDisconnect):
                    old.socket.receive_json()


def test_what_is_pressed_in_a_pause_does_not_count(serve, long_menu, tmp_path):
    with playing(serve, rate=20, menu=long_menu) as player:
        player.begin()
        player.until(type="frame", step=1)
        player.send(type="pause", on=True)
        player.until(status="paused")
        for _ in range(3):
            player.press(5)
        player.send(type="hold", choice=0, action=2)
        player.send(type="pause", on=False)
        player.until(status="playing")
        for _ in range(6):
            player.until(type="frame")
        player.send(type="leave")
        player.until(status="over")
    actions = read_journal(tmp_path / f"{player.game}.jsonl").action[:, 0].tolist()
    assert actions[0] == 0
    assert set(actions[1:]) == {4}


def test_who_only_lets_go_of_a_key_has_not_begun(serve):
    with playing(serve) as player:
        player.until(status="waiting")
        player.send(type="hold", choice=0, action=None)
        player.send(type="ping", sent=1.0)
        _, seen = player.until(type="pong")
        assert not [x for x in seen if x.get("status") == "playing"]


def test_games_that_begin_at_once_keep_to_the_limit(menu, tmp_path):
    async def open_all():
        server = server_of(menu, tmp_path, most_games=2)
        wishes = [server.open("ring", ["person", "person"]) for _ in range(8)]
        found = await asyncio.gather(*wishes, return_exceptions=True)
        await server.close()
        return found

    found = asyncio.run(open_all())
    assert sum(isinstance(x, str) for x in found) == 2
    assert sum(isinstance(x, UsageError) and "try again" in str(x) for x in found) == 6


def test_a_pause_stops_the_clock(serve, long_menu):
    with playing(serve, rate=20, menu=long_menu) as player:
        player.begin()
        player.until(type="frame", step=2)
        player.send(type="pause", on=True)
        _, seen = player.until(status="paused")
        player.send(type="ping", sent=7.0)
        _, more = player.until(type="pong", sent=7.0)
        time.sleep(0.3)
        player.send(type="ping", sent=8.0)
        _, still = player.until(type="pong", sent=8.0)
        assert not [x for x in still if x["type"] == "frame"]
        steps = [x["step"] for x in (*seen, *more) if x["type"] == "frame"]
        player.send(type="pause", on=False)
        after, _ = player.until(type="frame")
        assert after["step"] == max(steps, default=2) + 1
        player.send(type="leave")
        over, _ = player.until(status="over")
        assert over["text"].startswith("The game has ended early")


def test_watchers_see_everything_and_change_nothing(serve):
    with serve() as client:
        made = open_game(client)
        with Player(client, made) as player, Player(client, made, made["watch"]) as watcher:
            assert watcher.until(type="opening")[0]["controls"] == []
            watcher.press(1)
            watcher.send(type="leave")
            player.begin()
            _, seen = watcher.until(status="over")
            assert [x["step"] for x in seen if x["type"] == "frame"][-1] == 12


@pytest.mark.parametrize("token", ["", "wrong", "x" * 64])
def test_without_a_token_there_is_no_game(serve, token):
    with serve() as client:
        made = open_game(client)
        with Player(client, made, token) as player:
            assert "not yours" in player.until(type="refusal")[0]["text"]
        answer = client.get(f"/api/games/{made['game']}/record", params={"token": token})
        assert answer.status_code == 400
        with Player(client, made | {"game": "20260101-000000-nothing"}) as player:
            assert "no such game" in player.until(type="refusal")[0]["text"]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("", "truncated"),
        ('{"layout": 0, "seats": ["person"]}', "the number of players is wrong"),
        ('{"layout": 0, "seats": ["person", "../../etc/passwd"]}', "no such partner"),
        ('{"layout": 99, "seats": ["person", "person"]}', "no such layout"),
        ("x" * 5000, "too large"),
    ],
)
def test_bad_wishes_for_a_game_get_a_sentence(serve, tmp_path, body, says):
    with serve() as client:
        answer = client.post("/api/games", content=body)
        assert answer.status_code in (400, 413)
        assert says in answer.json()["text"]
        assert not list(tmp_path.iterdir())


def test_one_client_has_a_share_of_games_places_and_requests(menu, tmp_path):
    """Clients have the addresses that a proxy on the same machine passes on."""
    plan = tmp_path / "plan.toml"
    plan.write_text('title = "T"\n[[stage]]\nkind = "text"\ntext = "Welcome."\n')
    server, people = server_of(menu, tmp_path, 6, most_games=9, most_per_client=2), People(tmp_path)
    paths = {None: "games", StudyRunner(read_plan(plan), people, server): "study/join"}
    for runner, path in paths.items():
        with running(server, runner) as address:
            for client, codes in (("10.0.0.1", [201, 201, 400]), ("10.0.0.2", [201])):
                for number, code in enumerate(codes):
                    token = {"token": f"{client}-{number}".ljust(32, "x")}
                    seats = {"layout": 0, "seats": ["person", "person"]}
                    answer = httpx.post(
                        f"{address}api/{path}",
                        json=seats if runner is None else token,
                        headers={"x-forwarded-for": client},
                        timeout=100,
                    )
                    assert answer.status_code == code, answer.text
                    assert code == 201 or "network" in answer.json()["text"]
    people.close()


def test_a_client_with_too_many_open_connections_is_rejected(menu, tmp_path):
    server = server_of(menu, tmp_path, most_per_client=1)
    with contextlib.ExitStack() as stack:
        client = stack.enter_context(client_of_hall(server))
        assert client.get("/api/menu").status_code == 200
        made = open_game(client)
        for _ in range(4):  # which stay open, since they have joined
            stack.enter_context(Player(client, made, made["watch"]))
        answer = client.get("/api/menu")
        assert (answer.status_code, "too many requests" in answer.text) == (429, True)
        with pytest.raises(WebSocketDisconnect) as caught, client.websocket_connect("/api/games/x"):
            pass
        assert caught.value.code == 1013


@pytest.mark.parametrize(
    ("host", "origin", "code"),
    [
        ("proxy", "https://proxy", 200),
        ("proxy:443", "https://proxy", 200),
        ("proxy:80", "http://proxy", 200),
        ("PROXY:443", "https://Proxy", 200),
        ("proxy", "https://proxy:443", 200),
        ("[fe80::a]:443", "https://[FE80::A]", 200),
        ("proxy:8443", "https://proxy:8443", 200),
        ("proxy:443", "http://proxy", 400),
        ("proxy:8443", "https://proxy", 400),
        ("[fe80::a]:443", "https://[fe80::b]", 400),
        ("proxy", "null", 400),
        ("proxy", "ftp://proxy", 400),
        ("proxy", "https://proxy:x", 400),
    ],
)
def test_an_origin_is_compared_with_its_default_port(menu, tmp_path, host, origin, code):
    app = build_app(server_of(menu, tmp_path), ["Proxy", "FE80::A"])
    with TestClient(app) as client:
        headers = {"host": host, "origin": origin}
        assert client.get("/", headers=headers).status_code == code


def test_pages_of_others_are_kept_out(serve):
    with serve() as client:
        made = open_game(client)
        for host, code in (("evil.example", 400), ("[::1", 400), ("testserver:8443", 200)):
            assert client.get("/", headers={"host": host}).status_code == code
        evil = {"origin": "http://evil.example"}
        wish = '{"layout": 0, "seats": ["person", "person"]}'
        headers = evil | {"content-type": "text/plain"}
        assert client.post("/api/games", content=wish, headers=headers).status_code == 400
        with (
            pytest.raises(WebSocketDisconnect),
            client.websocket_connect(f"/api/games/{made['game']}", headers=evil),
        ):
            pass


def test_a_disk_without_room_ends_the_game_in_a_sentence(serve, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    with playing(serve) as player:
        player.until(status="waiting")
        monkeypatch.setattr("eqgrid_play.games._journal.os.write", full)
        player.press(0)
        over, _ = player.until(status="over")
        monkeypatch.undo()
        assert "cannot be recorded: No space left" in over["text"]


async def status_of(page, wanted):
    """The next status of a page with a text in its sentence, or its name."""
    while True:
        found = json.loads(await asyncio.wait_for(page.waiting.get(), 100))
        if found["type"] == "status" and (found["status"] == wanted or wanted in found["text"]):
            return found


@contextlib.asynccontextmanager
async def two_people(menu, folder, rules=FREE):
    """A game of two people, of whom the second one is heard of all the time. The time of the game
    passes only while it waits for a tick, however slow the machine is.
    """
    time = Time()
    server = server_of(menu, folder, sleep=time.sleep, now=time)
    name = await server.open("ring", ["person", "person"], ["a", "b"], rules)
    session = server.sessions[name]
    one, two = session.connect(0), session.connect(1)
    pinging = [one, two]

    async def ping():
        while True:
            for x in pinging:
                session.hear(x)
            await asyncio.sleep(0.001)

    pings = asyncio.create_task(ping())
    await status_of(one, "Press any of your keys")
    pinging.remove(one)
    session.receive(one, Press(0, 2))
    session.receive(two, Press(0, 2))
    session.receive(one, Hold(0, 2))
    try:
        yield time, session, one, two
    finally:
        pings.cancel()
        await server.close()


def the_recording(folder):
    (path,) = folder.glob("*.jsonl")
    return read_journal(path)


def test_a_page_that_is_closed_after_leaving_has_not_lost_its_connection(long_menu, tmp_path):
    async def leave():
        async with two_people(long_menu, tmp_path) as (_, session, _, two):
            session.leave([1], "left")
            session.disconnect(two)  # before the clock has ended the game
            return session.conduct(1).disconnections

    assert asyncio.run(leave()) == 0


@pytest.mark.parametrize("again", ["message", "connection"])
def test_a_connection_that_is_dead_pauses_the_game(long_menu, tmp_path, monkeypatch, again):
    """Nobody has closed it, so no disconnection comes; both people are told."""
    monkeypatch.setattr(_session, "_SILENT", 0.3)

    async def play():
        async with two_people(long_menu, tmp_path) as (time, session, one, two):
            assert (await status_of(two, "playing"))["text"] == ""
            told = await status_of(two, "lost")
            assert told["text"] == "Your partner has lost the connection."
            assert 55 < told["ends_in"] <= 60
            assert await status_of(one, "has not heard from this page")
            steps = session.game.steps
            await asyncio.sleep(0.2)
            assert session.game.steps == steps
            time.now += 1000  # the server stands still, so nobody's patience has ended
            session.hear(two)
            if again == "connection":
                one = session.connect(0)
                assert await status_of(two, "Waiting for the other person.")
                session.receive(one, Press(0, 1))
            else:
                session.hear(one)
            await status_of(two, "playing")
            while session.game.steps < steps + 5:
                session.hear(one)
                await asyncio.sleep(0.001)
            session.receive(two, Leave())
            await session.over.wait()
            return session, steps

    session, steps = asyncio.run(play())
    recording = the_recording(tmp_path)
    assert 0 < steps <= 0.5 * 60
    # Of the steps without a message, the key that is held counts in the first one only.
    assert recording.action[:steps, 0].tolist() == [2, 2, *[4] * (steps - 2)]
    assert [x[0] for x in recording.source[:steps]] == ["press", *["silence"] * (steps - 1)]
    after = [1] if again == "connection" else [4]  # the key that was held is released
    assert recording.action[steps : steps + 5, 0].tolist() == [*after, 4, 4, 4, 4]
    found = [(x.event, x.seat, x.why) for x in recording.events]
    back = "away" if again == "connection" else "silent"
    assert found == [("paused", 0, "silent"), ("resumed", 0, back)]
    assert recording.time[steps - 1] <= recording.events[0].time < recording.events[1].time
    assert (recording.end, recording.left) == ("left", (1,))
    assert (np.asarray(replay(session.place, recording)[0].reward) == recording.reward).all()


def test_a_person_who_is_silent_for_too_long_has_left(long_menu, tmp_path, monkeypatch):
    monkeypatch.setattr(_session, "_SILENT", 0.2)

    async def play():
        rules = Rules(free=False, patience=(0.3, 60.0, 60.0))
        async with two_people(long_menu, tmp_path, rules) as (time, session, _, two):
            assert "Your partner has lost" in (await status_of(two, "lost"))["text"]
            time.now += 0.4
            session.hear(two)
            assert "early" in (await status_of(two, "over"))["text"]
            return session

    assert asyncio.run(play()).left == (0,)
    recording = the_recording(tmp_path)
    assert (recording.end, recording.left) == ("left", (0,))
    assert 0 < len(recording.action) < 60


def test_a_server_that_stands_still_takes_nobody_for_silent(long_menu, tmp_path, monkeypatch):
    """Messages that came meanwhile are read after the next step."""
    monkeypatch.setattr(_session, "_SILENT", 0.3)

    async def play():
        async with two_people(long_menu, tmp_path) as (time, session, one, two):
            while session.game.steps < 3:
                session.hear(one)
                await asyncio.sleep(0.001)

            def slow_step(seconds):
                time.now += 0.5
                del session.game.step
                session.game.step(seconds)

            for in_a_step in (False, True):
                session.hear(one)
                if in_a_step:
                    session.game.step = slow_step
                else:
                    time.now += 0.5
                steps = session.game.steps
                while session.game.steps < steps + 2:
                    await asyncio.sleep(0.001)
            session.receive(two, Leave())
            await session.over.wait()

    asyncio.run(asyncio.wait_for(play(), 100))
    assert not the_recording(tmp_path).events


def test_connections_lost_while_the_server_stands_still_are_not_counted(
    long_menu, tmp_path, monkeypatch
):
    """Pages connect again when nothing comes from the server, which reads this afterwards."""

    async def play():
        async with two_people(long_menu, tmp_path) as (time, session, one, two):
            while session.game.steps < 3:
                await asyncio.sleep(0.001)
            time.now += 5
            session.disconnect(one)  # before the game has noticed
            session.connect(0)
            await asyncio.sleep(0.05)
            session.disconnect(two)  # afterwards
            monkeypatch.setattr(_session, "_AFTER_STANDSTILL", 0.0)
            both = [session.conduct(seat).disconnections for seat in (0, 1)]
            session.disconnect(session.connect(1))  # when the server runs normally
            return [*both, session.conduct(1).disconnections]

    assert asyncio.run(play()) == [0, 0, 1]


def test_a_server_that_is_slow_before_a_game_takes_nobody_for_silent(
    long_menu, tmp_path, monkeypatch
):
    """As after a restart, when it compiles the games of many people at once."""
    compiled = threading.Event()
    monkeypatch.setattr(LiveGame, "compile", lambda _: compiled.wait(100))
    monkeypatch.setattr(_session, "_SILENT", 3.0)

    async def play():
        time = Time()
        server = server_of(long_menu, tmp_path, sleep=time.sleep, now=time)
        session = server.sessions[await server.open("ring", ["person", "person"], ["a", "b"])]
        one, two = session.connect(0), session.connect(1)
        await asyncio.sleep(0.05)
        time.now += 100
        session.disconnect(one)  # before the game has noticed that the server stood still
        one = session.connect(0)
        await asyncio.sleep(0.3)
        compiled.set()
        await status_of(one, "Press any of your keys")
        statuses = [json.loads(two.waiting.get_nowait()) for _ in range(two.waiting.qsize())]
        await server.close()
        texts = [x["text"] for x in statuses if x["type"] == "status"]
        return session.conduct(0).disconnections, texts

    lost, texts = asyncio.run(play())
    assert lost == 0
    assert _session._UNHEARD not in texts
    assert texts[-1].endswith("Press any of your keys or buttons to begin.")


def test_who_is_silent_is_told_so_by_the_server(serve, long_menu, tmp_path, monkeypatch):
    with playing(serve, rate=20, menu=long_menu) as player:
        player.begin()
        player.until(status="playing")
        monkeypatch.setattr(_session, "_SILENT", 0.5)
        player.until(text=_session._UNHEARD)
        player.send(type="ping", sent=1.0)
        player.until(type="pong")
        monkeypatch.setattr(_session, "_SILENT", 600.0)
        player.until(status="playing")
        player.send(type="pause", on=True)
        player.until(status="paused")
        time.sleep(0.1)
        player.send(type="pause", on=False)
        player.until(status="playing")
        player.send(type="leave")
        player.until(status="over")
    recording = the_recording(tmp_path)
    found = [(x.event, x.seat, x.why) for x in recording.events]
    both = [("paused", 0), ("resumed", 0)]
    silences = len(found) // 2 - 1  # more than one if the machine was slow after the ping
    assert silences >= 1
    assert found == [(*x, why) for why in ["silent"] * silences + ["pause"] for x in both]
    assert recording.left == (0,)


def test_a_persons_own_score_comes_first(serve, monkeypatch):
    """Where every agent has its own reward, the mean of all agents is not what a person earned."""
    monkeypatch.setattr(LiveGame, "scores", property(lambda _: [3.0, 37.0]))
    with serve() as client:
        made = open_game(client)
        with Player(client, made) as player, Player(client, made, made["watch"]) as watcher:
            player.begin()
            over, seen = player.until(status="over")
            assert [x["scores"] for x in seen if x["type"] == "frame"] == [[3.0, 37.0]] * 12
            shown = seen[-2]["display"]
            assert (shown["Your score"], shown["Mean of all"]) == ("3", "20")
            assert over["text"] == "The game is over, with a score of 3 (mean of all agents: 20)."
            over, seen = watcher.until(status="over")
            assert over["text"] == "The game is over, with a score of 20."
            assert seen[-2]["display"] == {"Score": "20", "Time left": "0 s"}
        with Player(client, open_game(client)) as player:  # which is compared with the mean
            player.begin()
            assert player.until(status="over")[0]["best"] == 20


def test_a_page_cannot_claim_a_latency(serve, long_menu, tmp_path):
    """Wrong and repeated numbers of frames have no effect, and neither have keys that the rules do
    not record.
    """
    with serve(rate=20, menu=long_menu) as client:
        made = open_game(client)
        session = client.app.state.server.sessions[made["game"]]
        with Player(client, made) as player, Player(client, made, made["watch"]) as watcher:
            assert watcher.until(type="frame")[0]["number"] == 0
            player.begin()
            player.send(type="ping", sent=1.0, latency=999_999)
            player.until(type="refusal")
            player.send(type="press", choice=0, action=1, key="ArrowDown", time=1.0)
            numbers = {x: player.until(type="frame", step=x)[0]["number"] for x in (3, 4)}
            assert len({0, *numbers.values()}) == 3
            for number, after in [(0, 0.0), (numbers[3], 0.0), (numbers[3], 0.0)]:
                player.send(type="shown", frame=number, after=after, focus=number == 0)
            player.send(type="shown", frame=numbers[4], after=999_999.0, focus=True)
            hidden = player.until(type="frame", step=5)[0]["number"]
            player.send(type="shown", frame=hidden, after=None, focus=False)
            player.send(type="leave")
            player.until(status="over")
    recording = the_recording(tmp_path)
    found = [(x.frame, x.seat, x.shown_ms, x.focus) for x in recording.frames]
    assert found == [(3, 0, 0.0, False), (4, 0, None, True), (5, 0, None, False)]
    assert all(x.time >= recording.time[x.frame - 1] for x in recording.frames)
    latencies = [x.latency_ms for x in recording.frames]
    assert all(0 < x < 999_999 for x in latencies)
    assert session.latencies() == {0: pytest.approx(np.median(latencies), abs=1e-3)}
    assert recording.keys == ()


def test_a_key_that_cannot_be_recorded_ends_the_game(menu, tmp_path, monkeypatch, capsys):
    def full(*_):
        raise OSError(28, "No space left on device")

    async def press_a_key():
        server = server_of(menu, tmp_path)
        name = await server.open("ring", ["person", "person"], rules=Rules(keys=True))
        session = server.sessions[name]
        page = session.connect(0)
        await status_of(page, "Press any of your keys")
        session.receive(page, Key("KeyQ", 1.0))
        monkeypatch.setattr("eqgrid_play.games._journal.os.write", full)
        session.receive(page, Key("KeyQ", 2.0, down=False))
        assert "cannot be recorded: No space left" in (await status_of(page, "over"))["text"]
        monkeypatch.undo()
        await server.close()
        return session.broken

    assert asyncio.run(press_a_key())
    assert "cannot be written: No space left" in capsys.readouterr().err
    [(key, step)] = the_recording(tmp_path).keys
    assert (key.key, key.down, key.time, step) == ("KeyQ", True, None, None)


def test_a_message_that_is_no_utf8_gets_a_sentence(serve):
    with serve() as client:
        for content in (b'{"layout": 0, "seats": ["\xff"]}', b"\xff", b"\xed\xa0\x80"):
            answer = client.post("/api/games", content=content)
            assert answer.status_code == 400
            assert answer.json()["text"]
        for path in ("/api/games/%ff/record?token=%ff", "/api/layouts/%ff", "/page/%ff%00"):
            assert client.get(path).status_code in (400, 404)
        with client.websocket_connect("/api/games/x") as socket:
            socket.send_bytes(b"\xff")
            assert "no such game" in socket.receive_json()["text"]


NONSENSE = st.one_of(
    st.text(max_size=50),
    st.binary(max_size=50),
    # One character alone is drawn: examples that need too many are thrown away.
    st.characters().map(lambda x: 1100 * x),
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=20),
        lambda x: st.lists(x, max_size=3) | st.dictionaries(st.text(max_size=8), x, max_size=3),
        max_leaves=8,
    ).map(json.dumps),
    st.fixed_dictionaries(
        {"type": st.sampled_from(["press", "hold", "pause", "ping", "join", "leave", "step"])},
        optional={
            "choice": st.integers(-3, 300),
            "action": st.none() | st.integers(-3, 300),
            "on": st.integers(),
            "token": st.text(max_size=5),
        },
    )
    .filter(lambda x: x != {"type": "leave"})
    .map(json.dumps),
)


@pytest.mark.slow
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(NONSENSE, min_size=100, max_size=100))
def test_no_nonsense_ends_a_game(serve, messages):
    """1,000 malformed messages, from pages that are disconnected for them and come back."""
    with serve() as client:
        made = open_game(client)
        with Player(client, made) as player:
            player.begin()
            for message in messages:
                if isinstance(message, str):
                    player.socket.send_text(message)
                else:
                    player.socket.send_bytes(message)
        with Player(client, made) as player:
            player.until(type="opening")
            player.send(type="pause", on=False)
            player.press(0)
            over, _ = player.until(status="over")
            assert over["text"].startswith("The game is over")


def test_who_sends_too_much_is_disconnected(serve, monkeypatch):
    monkeypatch.setattr(_app, "_MESSAGES_PER_SECOND", 1.0)  # a busy machine sends them slowly
    with serve(rate=1) as client:
        made = open_game(client)
        with Player(client, made) as player:
            player.until(status="waiting")
            for _ in range(300):
                player.send(type="ping", sent=0.0)
            with pytest.raises(WebSocketDisconnect):
                receive_until(player.socket, type="nothing")
        with Player(client, made) as player:
            player.until(type="opening")


def test_a_game_does_not_wait_forever_for_a_page_that_comes_and_goes(menu, tmp_path):
    """The other page connects again and again, and nobody presses anything."""

    async def flap():
        server = server_of(menu, tmp_path)
        rules = Rules(free=False, patience=(0.5, 60.0, 60.0))
        name = await server.open("ring", ["person", "person"], ["a", "b"], rules)
        session = server.sessions[name]
        session.connect(0)
        end = time.monotonic() + 100
        while not session.over.is_set() and time.monotonic() < end:
            session.disconnect(session.connect(1))
            await asyncio.sleep(0.02)
        over = session.over.is_set()
        await server.close()
        return over

    assert asyncio.run(flap())
