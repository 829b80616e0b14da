"""People at the page, with keys, fingers and lost connections, in a real browser."""

import contextlib
import dataclasses
import re
import shutil
import subprocess
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest
from browser import chromium as chromium, delayed, entry, running, screenshot
from playing import NOBODY, NOBODY_WORDS, server_of, write_journal
from studies import recorded_rows

from eqgrid_lab import Kitchen
from eqgrid_lab.worlds import world_settings
from eqgrid_play.games import Journal, Menu, _session, read_journal, read_recorded
from eqgrid_play.study import People, StudyRunner, _study_runner, open_people, read_plan

pytestmark = [pytest.mark.slow]
HELD, SCORE, TIME = map(entry, ("You hold", "Score", "Time left"))
STEP = entry("Step", "watch-display")


@pytest.fixture(scope="module")
def kitchen():
    return Menu(Kitchen(layout="cramped", horizon=80))


@pytest.fixture(scope="module")
def long_kitchen():
    """For games that a test leaves: no slow machine comes to their end before."""
    return Menu(Kitchen(layout="cramped", horizon=400))


@pytest.fixture
def visit(chromium, tmp_path, kitchen):
    """Opens the page of a server; whatever goes wrong in it fails the test."""
    problems, stack = [], contextlib.ExitStack()

    def hear(said):
        if not re.search(r"40[01] \((Bad Request|Unauthorized)", said):  # the page says what it is
            problems.append(said)

    def visit(menu=kitchen, rate=12, address=None, study=None, recorded=(), **options):
        if address is None:
            server, runner = server_of(menu, tmp_path, rate, recorded=recorded), None
            visit.server = server
            if study is not None:
                (tmp_path / "plan.toml").write_text(study)
                runner = StudyRunner(read_plan(tmp_path / "plan.toml"), People(tmp_path), server)
            address = stack.enter_context(running(server, runner))
        options = {"viewport": {"width": 1100, "height": 760}} | options
        opened = stack.enter_context(chromium.new_context(**options)).new_page()
        opened.context.set_default_timeout(100_000)
        opened.on("pageerror", lambda error: problems.append(str(error)))
        opened.on("console", lambda said: said.type == "error" and hear(said.text))
        opened.goto(address)
        return opened

    with stack:
        yield visit
    assert not problems


def start(opened, partner=NOBODY_WORDS):
    """Begins a game with a partner, up to the first key."""
    opened.wait_for_selector("#start:not([disabled])")
    opened.select_option("#partner", label=partner)
    opened.click("#start")
    opened.wait_for_selector("text=Press any of your keys")


def invite(opened):
    """Begins a game with another person.

    **Returns:** the address for the other person.
    """
    opened.wait_for_selector("#start:not([disabled])")
    opened.select_option("#partner", value="person")
    opened.click("#start")
    opened.wait_for_selector("#links input", state="attached")
    return opened.input_value("#links input")


def seconds_left(opened):
    return float(opened.inner_text(TIME).removesuffix(" s"))


def until(opened, check, seconds=100.0):
    """Waits until something is true; the page forbids evaluating texts, as Playwright would."""
    for _ in range(int(seconds / 0.05)):
        if check():
            return
        opened.wait_for_timeout(50)
    raise AssertionError(opened.inner_text("body"))


def step(opened, key="ArrowLeft"):
    """Takes the first step, with which a game begins or goes on."""
    opened.keyboard.press(key)
    until(opened, lambda: not opened.inner_text("#status"))


@contextlib.contextmanager
def taken(visit, opened):
    """Waits until steps have taken the press of the code inside, and its repetitions."""
    (session,) = visit.server.sessions.values()
    hands = session.game.hands[0]
    before = hands.taken
    yield
    until(opened, lambda: hands.taken > before and hands.taken == hands._numbered)


def walk(visit, opened, *keys):
    """Takes one action after another, each in a step of its own."""
    for key in keys:
        with taken(visit, opened):
            opened.keyboard.press(key)


def test_a_first_game_by_keys_delivers_a_soup(visit, tmp_path):
    """In cramped, from the first seat: three onions, a dish, the soup, the hatch."""
    opened = visit(Menu(Kitchen(layout="cramped", horizon=150)), rate=5)
    opened.wait_for_selector("#start:not([disabled])")
    screenshot(opened, "menu")
    start(opened)
    onion = ["ArrowLeft", "ArrowUp", "ArrowLeft", "Space", "ArrowRight", "ArrowUp", "Space"]
    for number in range(3):
        walk(visit, opened, *onion[0 if number else 1 :])
    walk(visit, opened, "ArrowLeft", "ArrowDown", "ArrowDown", "Space")
    until(opened, lambda: opened.inner_text(HELD) == "dish")
    screenshot(opened, "game")
    walk(visit, opened, "ArrowUp", "ArrowRight", "ArrowUp")
    opened.keyboard.down("ArrowUp")
    opened.wait_for_timeout(1800)
    opened.keyboard.up("ArrowUp")
    until(opened, lambda: walk(visit, opened, "Space") or opened.inner_text(HELD) == "soup")
    walk(visit, opened, "ArrowDown", "ArrowRight", "ArrowDown", "Space")
    until(opened, lambda: opened.inner_text(SCORE) == "20")
    opened.wait_for_selector("#over:not([hidden])")
    screenshot(opened, "over")
    assert opened.inner_text("#result") == "The game is over, with a score of 20."
    until(opened, lambda: opened.evaluate("document.activeElement.id") == "again")
    you, other = opened.inner_text("#end").split("\n\n")
    assert re.fullmatch(r"1, you: 1 soup · waited \d\d?% of the time", you)
    assert other == f"2, {NOBODY_WORDS}: no soups · waited 100% of the time"
    assert opened.evaluate(END) == [
        "★★☆|Next star: 210. Best known score: 280. Best on this server so far: 200."
        "|1, you: no soups · 1 hand-over · waited 0% of the time"
        "|2, agent: 1 soup · no hand-overs · waited 67% of the time",
        "☆☆☆|Next star: 70. Best known score: 280.|No points this time. Cook.",
        "★★★|Best known score: 280. This game is the best on this server so far (before: 200).",
    ]
    with opened.expect_download() as video:
        opened.click("#video")
    assert video.value.path().read_bytes()[:3] == b"GIF"
    (journal,) = tmp_path.glob("*.jsonl")
    assert read_journal(journal).reward.sum(axis=0).tolist() == [20, 20]
    opened.click("#again")
    opened.wait_for_selector("text=Press any of your keys")
    assert opened.inner_text(SCORE) == "0"


END = """async () => {
  const { showEnd } = await import("/page/end.js");
  const pictures = [[[], "Cook.", ""]];
  const opening = { width: 5, optimum: 280, seat: 0, seats: ["person", "agent"], pictures };
  const says = (message, ...frames) => {
    showEnd({ opening, message, frames, last: frames.at(-1) });
    return [...document.getElementById("end").children].map((x) => x.textContent).join("|");
  };
  const frame = (step, score, held, acted, cells = []) => ({
    step, scores: [score, score], held, cells, acted, agents: [[6, 2, 0], [8, 3, 0]],
  });
  return [
    says(
      { finished: true, best: 200 },
      frame(0, 120, ["soup", ""], []), // both agents face the cell 7
      frame(1, 120, ["", ""], [true, false], [[7, 1]]),
      frame(2, 120, ["", "soup"], [true, true], [[7, 0]]),
      frame(3, 140, ["", ""], [true, false]),
    ),
    says({ finished: true, best: 0 }, frame(9, 0, ["", ""], [])),
    says({ finished: true, best: 200 }, frame(9, 300, ["", ""], [])),
  ];
}"""
"""The end of a game in which an agent brings a soup that another one has put down, of a game
without points, and of the best one, of which the page has not seen all.
"""


def test_two_people_play_in_two_browsers(visit):
    one = visit(rate=6)
    one.wait_for_selector("#start:not([disabled])")
    one.select_option("#partner", value="person")
    one.click("#start")
    one.wait_for_selector("text=Press any of your keys")
    one.keyboard.press("ArrowLeft")
    one.wait_for_selector("text=Waiting for the other person.")
    one.wait_for_selector("#invite:not([hidden])")
    assert "--host" in one.inner_text("#local")
    screenshot(one, "invitation")
    two = visit(address=one.input_value("#links input"))
    two.wait_for_selector("text=Press any of your keys")
    assert "2: you" in two.inner_text("#seats")
    two.keyboard.press("ArrowDown")
    for opened in (one, two):
        opened.wait_for_selector("#over:not([hidden])")
    assert one.inner_text("#result") == two.inner_text("#result")
    assert not one.is_visible("#pause")
    assert not one.is_visible("#leave")
    one.click("#again")
    one.wait_for_selector("text=Press any of your keys")
    two.wait_for_selector("text=The other person plays again.")
    two.click("#again")
    one.wait_for_selector("text=The other person is here.")
    for opened in (one, two):
        opened.wait_for_selector("text=Press any of your keys")
        opened.keyboard.press("ArrowLeft")
    until(one, lambda: not one.inner_text("#status"))
    two.close()
    one.click("#leave")
    one.click("#again")
    one.wait_for_selector("#invite:not([hidden])")
    three = visit(address=one.input_value("#links input"))
    one.wait_for_selector("text=The other person is here.")
    assert not one.is_visible("#invite")
    three.close()
    one.wait_for_selector("#invite:not([hidden])")


def test_a_reload_comes_back_into_the_game(visit, tmp_path):
    opened = visit(rate=5)
    start(opened)
    opened.keyboard.press("ArrowLeft")
    until(opened, lambda: seconds_left(opened) < 16)
    opened.reload()
    opened.wait_for_selector("text=Press any of your keys")
    left = seconds_left(opened)
    assert 1 < left < 16
    opened.wait_for_timeout(700)
    assert seconds_left(opened) == left  # the game waits
    opened.keyboard.press("ArrowRight")
    opened.wait_for_selector("#over:not([hidden])")
    (journal,) = tmp_path.glob("*.jsonl")
    assert len(read_journal(journal).action) == 80


def test_a_lost_connection_comes_back(visit):
    opened, routes = visit(rate=5), []

    def connect(route):
        routes.append((route, route.connect_to_server()))

    opened.route_web_socket(re.compile("api/games"), connect)
    start(opened)
    opened.keyboard.press("ArrowLeft")
    until(opened, lambda: seconds_left(opened) < 16)
    for end in routes[0]:
        end.close()
    opened.wait_for_selector("text=Press any of your keys")
    assert len(routes) >= 2
    assert seconds_left(opened) > 1
    opened.keyboard.press("ArrowRight")
    opened.wait_for_selector("#over:not([hidden])")


def test_a_full_disk_ends_the_game_in_a_sentence(visit, long_kitchen, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    opened = visit(long_kitchen)
    start(opened)
    monkeypatch.setattr(Journal, "add", full)
    opened.keyboard.press("ArrowLeft")
    opened.wait_for_selector("text=it cannot be recorded: No space left on device")
    opened.wait_for_selector("#again:not([disabled])")


class Network:
    """Passes on all messages between pages and the server, until it falls silent: then it passes on
    nothing, and closes nothing.
    """

    def __init__(self, opened):
        self.silent, self.connections = False, 0
        opened.route_web_socket(re.compile("api/games"), self._connect)

    def _connect(self, route):
        self.connections += 1
        if self.silent:
            return
        server = route.connect_to_server()
        route.on_message(lambda text: self.silent or server.send(text))
        server.on_message(lambda text: self.silent or route.send(text))
        route.on_close(lambda *why: self.silent or server.close())


def test_a_silent_network_is_noticed_by_the_page_and_by_the_server(
    visit, long_kitchen, tmp_path, monkeypatch
):
    one = visit(long_kitchen, rate=6)
    network = Network(one)
    two = visit(address=invite(one))
    for opened in (one, two):
        opened.wait_for_selector("text=Press any of your keys")
        opened.keyboard.press("ArrowLeft")
    one.keyboard.down("ArrowDown")
    until(one, lambda: seconds_left(one) < 66)
    monkeypatch.setattr(_session, "_SILENT", 3.0)
    network.silent = True
    one.wait_for_selector("text=Nothing is coming from the server.")
    one.wait_for_selector("text=The connection was lost. Trying again.")
    two.wait_for_selector("text=Your partner has lost the connection.")
    assert re.fullmatch(r"The game ends in (60|5\d) s\.", two.inner_text("#aside"))
    screenshot(two, "silent-partner")
    left = seconds_left(two)
    one.keyboard.up("ArrowDown")
    one.wait_for_timeout(1500)
    assert seconds_left(two) == left  # the game waits
    network.silent = False
    one.wait_for_selector("text=Press any of your keys or buttons to continue.")
    assert network.connections > 1
    one.keyboard.press("ArrowRight")
    for opened in (one, two):
        until(opened, lambda opened=opened: not opened.inner_text("#status"))
    monkeypatch.setattr(_session, "_SILENT", 600.0)
    before = network.connections
    one.keyboard.press("p")
    two.wait_for_selector("text=Paused.")
    two.wait_for_timeout(6000)
    assert network.connections == before  # a game that waits is no dead one
    one.keyboard.press("p")
    until(two, lambda: not two.inner_text("#status"))
    one.click("#leave")
    two.wait_for_selector("#over:not([hidden])")
    (journal,) = tmp_path.glob("*.jsonl")
    recording = read_journal(journal)
    paused = int((recording.time < recording.events[0].time).sum())
    silence = [source[0] for source in recording.source[:paused]]
    heard = max(i for i, source in enumerate(silence) if source != "silence")
    assert paused - heard >= 10  # of 18 steps in 3 seconds
    assert set(recording.action[heard + 2 : paused, 0].tolist()) == {4}  # no invented steps
    assert recording.action[heard, 0] == 1  # down, as before
    assert [(x.event, x.seat) for x in recording.events] == [("paused", 0), ("resumed", 0)] * 2
    assert [x.why for x in recording.events] == ["silent", "away", "pause", "pause"]
    assert recording.left == (0,)


GAMEPAD = """
const buttons = Array.from({ length: 16 }, () => ({ pressed: false }));
const pad = { buttons, axes: [0, 0] };
navigator.getGamepads = () => [null, pad];
globalThis.pad = pad;
"""
"""A gamepad that a test holds."""

TWO_FRAMES = """
() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))
"""
"""Waits until the page has looked at the gamepad."""


def test_a_gamepad_walks_and_pauses(visit, long_kitchen):
    opened = visit(long_kitchen)
    opened.add_init_script(GAMEPAD)
    opened.reload()
    start(opened)
    with taken(visit, opened):
        opened.evaluate("pad.axes[0] = -1")
    until(opened, lambda: not opened.inner_text("#status"))
    opened.evaluate("pad.axes[0] = 0")
    with taken(visit, opened):
        opened.evaluate("pad.buttons[12].pressed = true")
    opened.evaluate("pad.buttons[12].pressed = false")
    opened.evaluate("pad.buttons[9].pressed = true")
    opened.wait_for_selector("text=Paused.")
    opened.evaluate("pad.buttons[9].pressed = false")
    opened.evaluate(TWO_FRAMES)
    opened.evaluate("pad.buttons[9].pressed = true")
    until(opened, lambda: not opened.inner_text("#status"))
    with taken(visit, opened):
        opened.evaluate("pad.axes[0] = -1")
    opened.evaluate("pad.axes[0] = 0")
    opened.evaluate("pad.buttons[0].pressed = true")
    until(opened, lambda: opened.inner_text(HELD) == "onion")


def test_on_a_phone_it_is_played_by_touch(visit, long_kitchen):
    opened = visit(
        long_kitchen,
        viewport={"width": 390, "height": 780},
        has_touch=True,
        is_mobile=True,
        device_scale_factor=2,
    )
    opened.wait_for_selector("#start:not([disabled])")
    screenshot(opened, "phone-menu")
    start(opened)
    opened.tap("button[aria-label=left]")
    until(opened, lambda: not opened.inner_text("#status"))
    before = opened.inner_text(HELD)
    opened.tap("button[aria-label=up]")
    opened.wait_for_timeout(300)
    screenshot(opened, "phone-game")
    assert before == "nothing"
    fits = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    assert opened.evaluate(fits)
    assert opened.evaluate("document.getElementById('world').getBoundingClientRect().height > 250")
    opened.tap("#pause")
    opened.wait_for_selector("text=Paused.")
    opened.tap("#pause")
    opened.tap("#leave")
    opened.wait_for_selector("#over:not([hidden])")
    assert re.search("ended early", opened.inner_text("#result"))


def test_a_phone_on_its_side_shows_the_board_and_the_buttons(visit, long_kitchen):
    opened = visit(
        long_kitchen, viewport={"width": 780, "height": 390}, has_touch=True, is_mobile=True
    )
    start(opened)
    opened.tap("button[aria-label=left]")
    until(opened, lambda: not opened.inner_text("#status"))
    screenshot(opened, "phone-landscape")
    for selector in ("button[aria-label=down]", "button[aria-label=interact]"):
        box = opened.query_selector(selector).bounding_box()
        assert box["y"] + box["height"] <= 390


def test_other_worlds_have_other_keys(visit):
    opened = visit(Menu(world_settings("rescue", horizon=400)))
    opened.wait_for_selector("#start:not([disabled])")
    assert "turn left" in opened.inner_text("#keys")
    assert "Carry green victims to an exit" in opened.inner_text("#notes")
    start(opened)
    step(opened)
    opened.wait_for_timeout(300)
    screenshot(opened, "rescue")
    opened.click("#leave")
    opened.wait_for_selector("#over:not([hidden])")


def test_every_seat_has_a_partner_of_its_own(visit):
    world = world_settings("goals", layout="room", num_agents=3, horizon=20)
    opened = visit(Menu(world), rate=30)
    opened.wait_for_selector("#start:not([disabled])")
    names = opened.inner_text("#partner").split("\n")
    opened.select_option("#partner", label=names[1])  # for all places
    opened.click("text=Choose each partner")
    labels = opened.query_selector_all("#partners details label")
    assert [x.inner_text() for x in labels] == ["At place 2", "At place 3"]
    chosen = [x.input_value() for x in opened.query_selector_all("#partners details select")]
    assert chosen == [opened.input_value("#partner")] * 2
    opened.select_option("#partner-2", label=names[0])
    opened.select_option("#seat", label="2")
    opened.wait_for_selector("#start:not([disabled])")
    opened.click("text=Choose each partner")
    labels = opened.query_selector_all("#partners details label")
    assert [x.inner_text() for x in labels] == ["At place 1", "At place 3"]
    opened.select_option("#partner-2", label=names[0])
    opened.click("#start")
    opened.wait_for_selector("text=Press any of your keys")
    seats = opened.inner_text("#seats").split("\n")
    assert seats == [f"1: {names[0]}", "2: you", f"3: {names[1]}"]


def test_a_game_is_looked_at_step_by_step(visit):
    opened = visit()
    start(opened, "a trained agent")
    opened.keyboard.press("ArrowLeft")
    opened.wait_for_selector("#over:not([hidden])")
    opened.click("#look")
    until(opened, lambda: opened.inner_text(STEP) == "0 of 80")
    opened.select_option("#mind", label="a trained agent")
    until(opened, lambda: "value:" in opened.inner_text("#thoughts"))
    opened.focus("#slider")
    for _ in range(3):
        opened.keyboard.press("ArrowRight")
    assert opened.inner_text(STEP) == "3 of 80"
    screenshot(opened, "watch")
    opened.click("#run")
    until(opened, lambda: opened.inner_text(STEP) == "80 of 80")
    opened.click("#close")
    opened.wait_for_selector("#start:not([disabled])")


def test_recorded_games_are_listed_with_the_newest_first(visit, kitchen, tmp_path):
    rng = np.random.default_rng(0)
    walk = {"steps": 60, "presses": lambda _: rng.integers(4, size=2).tolist()}
    write_journal(tmp_path / "a.jsonl", world_settings("goals", horizon=60), seed=0, **walk)
    (game,) = read_recorded([str(tmp_path / "a.jsonl")], kitchen)
    days = [f"2026-01-{day:02}T12:00:00+00:00" for day in range(25, 0, -1)]
    games = [dataclasses.replace(game, started=day) for day in days]
    opened = visit(recorded=games)
    opened.wait_for_selector("#recordings:not([hidden])")
    rows = [x.inner_text().split("\t") for x in opened.query_selector_all("#shelf tr")[1:]]
    assert len(rows) == 20
    assert all(row[2] == "60" for row in rows)
    assert (rows[0][1][:6], rows[-1][1][:5]) == ("Jan 25", "Jan 6")
    screenshot(opened, "recordings")
    opened.click("#older")
    assert len(opened.query_selector_all("#shelf tr")) == 6
    opened.click("#shelf a >> nth=0")
    until(opened, lambda: opened.inner_text(STEP) == "0 of 60")
    steps = np.flatnonzero(game.reward.any(axis=1)) + 1
    named = ", ".join(f"step {step}" for step in steps)
    assert opened.get_attribute("#strip", "aria-label") == f"Rewards: {named}"
    screenshot(opened, "watch-strip")


STUDY = """
title = "Small"
code = "C0DE"
[[stage]]
kind = "consent"
text = "You will cook.\\n\\nYour answers are kept."
[[stage]]
kind = "tutorial"
text = "Walk around a little."
game = { layout = "cramped", partner = "greedy", seat = 0 }
[[stage]]
kind = "games"
[[stage.game]]
layout = "ring"
partner = "agent"
[[stage.after]]
name = "fluent"
text = "My partner and I worked together fluently."
[[stage]]
kind = "questions"
title = "At last"
[[stage.question]]
name = "attentive"
text = "Choose the second answer."
kind = "choice"
options = ["first", "second"]
right = "second"
[[stage.question]]
name = "remarks"
text = "What was hard?"
kind = "text"
"""


def test_a_whole_study_to_the_completion_code(visit, tmp_path):
    opened = visit(rate=30, study=STUDY)
    opened.wait_for_selector("text=Your answers are kept.")
    screenshot(opened, "study-consent")
    admin = visit(address=f"{opened.url}admin#secret")
    opened.click("text=I agree")
    for kind in ("tutorial", "game"):
        opened.wait_for_selector("text=Press any of your keys")
        assert "partner" in opened.inner_text("#seats")
        assert not opened.is_visible("#pause")
        if kind == "game":
            admin.click("text=Watch")
            until(admin, lambda: "Time left" in admin.inner_text("#game"))
        opened.keyboard.press("ArrowLeft")
        opened.wait_for_timeout(500)
        if kind == "game":
            screenshot(admin, "study-admin")
            screenshot(opened, "study-game")
        opened.wait_for_selector("#over:not([hidden])")
        opened.wait_for_selector("#go-on:not([disabled])")
        opened.dblclick("#go-on")
    opened.wait_for_selector("text=fluently")
    screenshot(opened, "study-questions")
    opened.click("text=Continue")
    opened.wait_for_selector("text=Please answer the marked questions.")
    assert opened.locator("fieldset.wrong :focus").count() == 1
    opened.check("input[value='6']")
    opened.reload()
    opened.wait_for_selector("text=fluently")
    opened.check("input[value='6']")
    opened.click("text=Continue")
    opened.check("input[value='second']")
    opened.fill("textarea", "x" * 5001)
    opened.wait_for_selector("text=5001 of 5000 letters")
    opened.click("text=Continue")
    opened.wait_for_selector("text=Please shorten the marked answers")
    opened.fill("textarea", "<b>Nothing</b> & more")
    screenshot(opened, "study-last")
    opened.click("text=Continue")
    until(opened, lambda: opened.is_visible("#code"))
    assert opened.inner_text("#code") == "C0DE"
    screenshot(opened, "study-end")
    until(admin, lambda: "1 finished" in admin.inner_text("#summary"))


def test_a_phone_is_kept_out_and_a_computer_is_let_in(visit, tmp_path):
    """Also measures the connection, saves the consent, and stores where the focus was."""
    entry = "[entry]\nscreen = [800, 600]\nlatency = 5000\n[[stage]]"
    study = f"id_once = true\n{STUDY.replace('[[stage]]', entry, 1)}"
    phone = {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark"}
    opened = visit(rate=12, study=study, **phone)
    address = f"{opened.url}?id=abc"
    opened.wait_for_selector("text=does not contain your id")
    opened.goto(address)
    opened.wait_for_selector("text=open your link on a larger screen")
    screenshot(opened, "study-excluded")
    opened = visit(address=address)
    opened.wait_for_selector("text=Your answers are kept.")

    def saved():
        with opened.expect_download() as download:
            opened.click("text=Save a copy of the consent")
        assert download.value.suggested_filename == "consent.txt"
        return download.value.path().read_text(encoding="utf-8")

    text = "Small\n\nConsent\n\nYou will cook.\n\nYour answers are kept.\n\nAnswer: "
    assert saved() == f"{text}none yet"
    opened.click("text=I agree")
    opened.wait_for_selector("text=Press any of your keys")
    step(opened)
    until(opened, lambda: seconds_left(opened) < 5)
    opened.evaluate("document.hasFocus = () => false")
    until(opened, lambda: seconds_left(opened) < 3)
    opened.evaluate(HIDE, True)
    opened.wait_for_selector("#over:not([hidden])")
    opened.once("dialog", lambda asks: asks.accept())
    opened.click("#stop")
    opened.wait_for_selector("text=You have stopped taking part.")
    screenshot(opened, "study-copy")
    assert re.search(r"\n\nAnswer: I agree \(\d{4}-\d\d-\d\d \d\d:\d\d UTC\)$", saved())
    with open_people(tmp_path) as people:
        [row], steps = people.rows("people"), recorded_rows(people, tmp_path, "steps")
    assert 0 < row["latency_ms"] < 5000
    found = [(x["focus"], x["shown_ms"] is None) for x in steps if x["focus"] is not None]
    assert list(dict.fromkeys(found)) == [(1, False), (0, False), (0, True)]


PAIRS = f"""
title = "Pairs"
[[stage]]
kind = "text"
title = "Welcome"
text = "You will cook with somebody."
[[stage]]
kind = "games"
[[stage.game]]
layout = "cramped"
partner = "person"
fallback = "{NOBODY}"
"""


def test_two_people_of_a_study_wait_for_each_other(visit, tmp_path):
    one = visit(rate=30, study=PAIRS)
    one.wait_for_selector("text=Welcome")
    two = visit(address=one.url)
    one.click("text=Continue")
    one.wait_for_selector("text=Your partner is on the way.")
    screenshot(one, "study-waiting")
    two.click("text=Continue")
    for each in (one, two):
        each.wait_for_selector("text=Press any of your keys")
    one.keyboard.press("ArrowLeft")
    one.wait_for_selector("text=Your partner is here. The game begins when")
    two.keyboard.press("ArrowLeft")
    for each in (one, two):
        each.wait_for_selector("#go-on:not([disabled])")
        each.click("#go-on")
        each.wait_for_selector("text=Thank you for taking part!")


def test_a_person_stops_in_a_game(visit, long_kitchen, tmp_path):
    study = STUDY.replace('kind = "consent"', 'kind = "consent"\nkeys = true')
    opened = visit(long_kitchen, study=study, viewport={"width": 320, "height": 568})
    opened.wait_for_selector("text=I agree")
    assert not opened.is_visible("#stop")
    opened.click("text=I agree")
    opened.wait_for_selector("text=Press any of your keys")
    screenshot(opened, "study-stop")
    opened.keyboard.press("KeyQ")
    opened.keyboard.press("ArrowLeft")
    until(opened, lambda: seconds_left(opened) < 33)
    opened.reload()
    opened.wait_for_selector("text=Press any of your keys")
    opened.once("dialog", lambda asks: asks.dismiss())
    opened.click("#stop")
    opened.once("dialog", lambda asks: asks.accept())
    opened.click("#stop")
    opened.wait_for_selector("text=You have stopped taking part.")
    assert not opened.is_visible("#stop")
    with open_people(tmp_path) as people:
        [game], keys = people.rows("games"), recorded_rows(people, tmp_path, "keys")
        steps = recorded_rows(people, tmp_path, "steps")
    assert (game["left_how"], game["reloads"]) == ("left", 1)
    assert 1 <= game["actions"] <= 20  # more than one if the key came up late
    found = [(x["key"], x["event"], x["step"]) for x in keys]
    assert found[::2] == [("KeyQ", "press", None), ("ArrowLeft", "press", 1)]
    assert found[1::2] == [(x["key"], "release", None) for x in keys[::2]]
    times = [x["page_ms"] for x in keys]
    assert times == sorted(times)
    assert steps[0]["source"] == "press"
    seen = [x for x in steps if x["shown_ms"] is not None]
    assert seen
    assert all(0 <= x["shown_ms"] <= x["latency_ms"] for x in seen)


HIDE = """on => {
  Object.defineProperty(document, "hidden", { value: on, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""
"""Hides the page or shows it again, as another tab does; a browser without windows cannot."""


def test_a_reload_is_no_hidden_tab(visit, long_kitchen):
    opened = visit(long_kitchen, rate=5)
    start(opened)
    step(opened)
    (session,) = visit.server.sessions.values()
    for reloads in (1, 2):
        opened.reload()
        opened.wait_for_selector("text=Press any of your keys")
        until(opened, lambda reloads=reloads: session.conduct(0).reloads == reloads)
        step(opened)
    assert (session.conduct(0).hidden, session.conduct(0).hidden_s) == (0, 0.0)
    for on in (True, False):
        opened.evaluate(HIDE, on)
    until(opened, lambda: session.conduct(0).hidden_s > 0)
    assert (session.conduct(0).hidden, session.conduct(0).reloads) == (1, 2)


def test_windows_of_one_browser_are_one_person(visit, tmp_path):
    first = visit(rate=30, study=PAIRS)
    context, address = first.context, first.url
    first.wait_for_selector("text=Welcome")
    admin = visit(address=f"{address}admin#secret")
    others = [context.new_page() for _ in range(3)]
    for other in others[:2]:
        other.evaluate("address => { location.href = address; }", f"{address}?id=abc")
    for other in others[:2]:
        other.wait_for_selector("text=Welcome")
    until(admin, lambda: "2 people" in admin.inner_text("#summary"))  # one of them is "abc"
    others[0].click("text=Continue")
    others[0].wait_for_selector("text=Your partner is on the way.")
    others[1].click("text=Continue")  # an answer that was given already
    others[1].wait_for_selector("text=Your partner is on the way.")
    first.reload()
    first.wait_for_selector("text=Welcome")


def test_a_browser_whose_person_was_forgotten_joins_anew(visit, tmp_path):
    opened = visit(rate=30, study=PAIRS)
    opened.wait_for_selector("text=Welcome")
    admin = visit(address=f"{opened.url}admin#secret")
    with contextlib.closing(People(tmp_path)) as people:
        people.forget("1")
    opened.reload()
    opened.wait_for_selector("text=Welcome")
    until(admin, lambda: "1 people" in admin.inner_text("#summary"))
    opened.click("text=Continue")
    opened.wait_for_selector("text=Your partner is on the way.")


def test_a_game_goes_on_in_the_window_that_was_replaced(visit, tmp_path):
    game = f'[[stage]]\nkind = "games"\n[[stage.game]]\nlayout = "cramped"\npartner = "{NOBODY}"\n'
    first = visit(rate=30, study=f'title = "One"\n{game}')
    first.wait_for_selector("text=Press any of your keys")
    second = first.context.new_page()
    second.goto(first.url)
    second.wait_for_selector("text=Press any of your keys")
    first.wait_for_selector("text=This game continues in another window.")
    first.click("#go-on:not([disabled])")
    first.wait_for_selector("text=Press any of your keys")
    assert not first.is_visible("#over")
    second.wait_for_selector("text=This game continues in another window.")
    first.keyboard.press("ArrowLeft")
    first.wait_for_selector("#go-on:not([disabled])")
    first.click("text=Continue")
    first.wait_for_selector("text=Thank you for taking part!")


def test_a_page_that_cannot_join_tries_again_by_itself(visit, tmp_path, monkeypatch):
    study = PAIRS.replace('partner = "person"\nfallback', "partner")
    first = visit(rate=30, study="most_people = 1\n" + study)
    first.wait_for_selector("text=Welcome")
    second = visit(address=first.url)
    second.wait_for_selector("text=All places are taken")
    # Nothing is heard of the first one for so long.
    monkeypatch.setattr(_study_runner, "_ABSENT", 1.0)
    second.wait_for_selector("text=Welcome")
    assert second.inner_text("#problem") == ""


def test_questions_may_have_the_names_of_what_forms_can_do(visit, tmp_path):
    names = ("replaceChildren", "onsubmit", "append")
    asked = [f'[[stage.question]]\nname = "{x}"\ntext = "{x}?"\nkind = "text"\n' for x in names]
    text = '[[stage]]\nkind = "text"\ntitle = "Read"\ntext = "Well."\n'
    opened = visit(study=f'title = "T"\n[[stage]]\nkind = "questions"\n{"".join(asked)}{text}')
    opened.wait_for_selector("text=append?")
    for field in opened.query_selector_all("textarea"):
        field.fill("yes")
    opened.click("text=Continue")
    opened.wait_for_selector("text=Well.")


REWARDS = """async () => {
  const { rewardsIn } = await import("/page/board.js");
  const agents = [[6, 1, 0], [8, 2, 0]]; // on a board of five columns
  const before = { scores: [0, 0], held: ["soup", "onion"], agents };
  const cells = (scores, ...held) => (
    rewardsIn(before, { scores, held, agents }, 5).map((x) => [x.place, x.gain]));
  return [cells([20, 20], "", ""), cells([0, 1], "soup", "onion"), cells([-0.01, -0.01], "", "")];
}"""
"""The cells and rewards of a shared soup, an own apple and a penalty of each step."""

GLIDE = """async () => {
  const { Board } = await import("/page/board.js");
  const board = new Board(document.createElement("canvas"));
  board.clear(3, 3);
  for (const place of [0, 1]) board.show({ pictures: {}, cells: [], agents: [[place, 2, 0]] });
  const column = (time) => board.position(0, board.moved[0] + time)[0];
  return [column(0), column(60), column(120)];
}"""
"""The column of an agent that walks from the first to the second one, every 60 milliseconds."""

OWN = """() => {
  const canvas = document.getElementById("world");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const isOwn = (i) => Math.hypot(data[i] - 255, data[i + 1] - 212, data[i + 2] - 59) < 8;
  return Array.from({ length: data.length / 4 }, (_, i) => 4 * i).filter(isOwn).length;
}"""
"""The pixels in the colour of one's own mark."""


def test_rewards_steps_and_the_own_agent_are_shown_where_they_are(visit, long_kitchen):
    opened = visit(long_kitchen)
    hatch = [[11, 20]]
    assert opened.evaluate(REWARDS) == [hatch, [[8, 1]], []]
    assert opened.evaluate(GLIDE) == pytest.approx([0, 0.5, 1])
    still = visit(address=opened.url, reduced_motion="reduce")
    assert still.evaluate(GLIDE) == [1, 1, 1]
    start(opened)
    opened.click("#help")  # closes the rules, with which the board is smaller
    opened.evaluate(TWO_FRAMES)
    named = opened.evaluate(OWN)
    step(opened)
    until(opened, lambda: 1000 < opened.evaluate(OWN) < 0.8 * named)  # the ring stays, "you" goes
    assert opened.get_attribute("#sound", "aria-pressed") == "false"
    opened.click("#sound")
    opened.reload()
    opened.wait_for_selector("#sound[aria-pressed=true]")
    assert not opened.is_visible("#help-text")  # which is for the first game
    opened.click("#help")
    assert "A soup of 3 onions pays 20." in opened.inner_text("#help-text")


RINGS = """
globalThis.keys = [];
globalThis.rings = [];
addEventListener("keydown", () => keys.push(performance.now()), true);
const arc = CanvasRenderingContext2D.prototype.arc;
CanvasRenderingContext2D.prototype.arc = function (x, y, ...more) {
  const last = rings.at(-1);
  if (!last || last[1] !== x || last[2] !== y) rings.push([performance.now(), x, y]);
  return arc.call(this, x, y, ...more);
};
"""
"""Keeps when keys went down, and when and where the ring of one's own agent was drawn."""


def delay_of_a_step(opened, number):
    """The seconds from a key to the picture of half a step, which is not taken back."""
    opened.evaluate("() => { keys.length = 0; rings.splice(0, rings.length - 1); }")
    opened.keyboard.press(["ArrowDown", "ArrowUp"][number % 2])
    opened.wait_for_timeout(700 + 37 * number)
    until(opened, lambda: opened.evaluate("Math.abs(rings.at(-1)[2] - rings[0][2]) >= 0.9"))
    (key,), rings = opened.evaluate("[keys, rings]")
    rows = [x[2] for x in rings]
    assert max(rows) - min(rows) <= 1
    half = next(x[0] for x in rings if abs(x[2] - rows[0]) >= 0.5)  # of the way
    return (half - key) / 1000


@pytest.mark.parametrize(("trip", "most"), [(0, 0.12), (0.1, 0.15), (0.3, 0.2)])
def test_a_step_is_shown_before_the_server_answers(visit, trip, most):
    opened = visit(Menu(Kitchen(layout="forced", horizon=400)), rate=6)
    with delayed(opened.url, trip) as address:
        opened.add_init_script(RINGS)
        opened.goto(address)
        start(opened)
        step(opened, "ArrowUp")
        opened.wait_for_timeout(1200)
        for _ in range(4):  # again if the machine is busy with something else
            delays = [delay_of_a_step(opened, number) for number in range(10)]
            if np.median(delays) <= most:
                break
        slow = r"Your connection is slow \(0\.\d s\)\." if trip == 0.3 else ""
        until(opened, lambda: re.fullmatch(slow, opened.inner_text("#aside")))
        print(f"round trip {trip} s: from the key to the picture {np.median(delays):.3f} s")
        assert np.median(delays) <= most
        (session,) = visit.server.sessions.values()
        assert session.latencies()[0] >= 1000 * trip


def test_held_keys_and_further_presses_are_shown_as_early(visit):
    """At a round trip of 300 ms, beside an agent that walks, too."""
    opened = visit(Menu(Kitchen(layout="circuit", horizon=2000)), rate=6)
    with delayed(opened.url, 0.3) as address:
        opened.add_init_script(RINGS)
        opened.goto(address)
        start(opened, "a trained agent")
        opened.wait_for_timeout(1000)
        step(opened, "ArrowUp")
        (session,) = visit.server.sessions.values()
        game = session.game
        until(opened, lambda: session._frame().ahead)
        opened.wait_for_timeout(1000)
        opened.evaluate("() => { rings.splice(0, rings.length - 1); }")
        played = [tuple(game.state.bodies.position[0].tolist())]
        step_of = game.step

        def keep(time):
            step_of(time)
            played.append(tuple(game.state.bodies.position[0].tolist()))

        game.step = keep
        for number in range(24):
            key = ["ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp"][number % 4]
            opened.keyboard.down(key)
            opened.wait_for_timeout(1000 if number % 2 == 0 else 300)
            opened.keyboard.up(key)
        opened.wait_for_timeout(1000)
        cells = [(row - 0.5, column - 0.5) for _, column, row in opened.evaluate("rings")]
        opened.goto("about:blank")  # so that it does not miss the proxy
    shown = [own for own, _ in groupby(x for x in cells if x == (round(x[0]), round(x[1])))]
    path = [own for own, _ in groupby(played)]
    print(f"{len(shown)} cells shown, {len(path)} visited")
    assert len(shown) > 20
    assert len(shown) - longest_common(shown, path) <= 1


def longest_common(one, other):
    """The length of the longest common subsequence."""
    row = [0] * (len(other) + 1)
    for x in one:
        before = row
        row = [0]
        for i, y in enumerate(other):
            row.append(before[i] + 1 if x == y else max(row[i], before[i + 1]))
    return row[-1]


@pytest.fixture(scope="module")
def axe(tmp_path_factory):
    """The source of axe-core, which looks for what people with disabilities cannot use."""
    if (npm := shutil.which("npm")) is None:
        pytest.skip("axe-core needs npm: apt-get install npm")
    folder = tmp_path_factory.mktemp("axe")
    command = [npm, "install", "--no-audit", "--no-fund", "--prefix", str(folder), "axe-core@4"]
    try:
        subprocess.run(command, capture_output=True, check=True, timeout=300)
    except subprocess.SubprocessError:
        pytest.skip("npm cannot install axe-core here: check the network")
    return Path(folder, "node_modules/axe-core/axe.min.js").read_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_reports_nothing_serious(visit, long_kitchen, axe, scheme, tmp_path):
    def check(opened, name):
        opened.wait_for_timeout(100)
        screenshot(opened, f"axe-{scheme}-{name}")
        opened.evaluate(axe)
        found = opened.evaluate("axe.run().then((x) => x.violations)")
        serious = [x for x in found if x["impact"] in ("serious", "critical")]
        assert not [(name, x["id"], x["nodes"][0]["html"]) for x in serious]

    small = {"viewport": {"width": 320, "height": 568}, "has_touch": True, "color_scheme": scheme}
    opened = visit(long_kitchen, **small)
    opened.wait_for_selector("#start:not([disabled])")
    check(opened, "menu")
    opened.focus("#layouts :checked")
    opened.keyboard.press("ArrowRight")
    until(opened, lambda: opened.is_checked("#layouts label:nth-child(2) input"))
    opened.wait_for_selector("#start:not([disabled])")
    opened.select_option("#partner", value="person")
    opened.click("#start")
    opened.wait_for_selector("#invite:not([hidden])")
    check(opened, "invitation")
    opened.goto(opened.url.split("#")[0])
    start(opened)
    check(opened, "begin")
    opened.click("#close-help")
    assert not opened.is_visible("#help-text")
    step(opened)
    for button in opened.query_selector_all("#buttons button"):
        box = button.bounding_box()
        assert box["y"] + box["height"] <= 568
        assert box["x"] + box["width"] <= 320
    check(opened, "game")
    opened.click("#leave")
    opened.wait_for_selector("#over:not([hidden])")
    check(opened, "over")
    opened.click("#look")
    until(opened, lambda: " of " in opened.inner_text(STEP))
    check(opened, "watch")
    person = visit(study=STUDY, **small)
    person.wait_for_selector("text=Your answers are kept.")
    check(person, "consent")
    admin = visit(address=f"{person.url}admin#secret", **small)
    until(admin, lambda: "people" in admin.inner_text("#summary"))
    check(admin, "admin")
