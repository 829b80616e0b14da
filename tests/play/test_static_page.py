"""The page without a server, in a real browser."""

import contextlib
import json
import re

import jax
import numpy as np
import pytest
from browser import NEEDS, chromium as chromium, entry, screenshot
from exporting import POLICIES, leaves_of, page_world, runtime as runtime

from eqgrid_lab import Kitchen
from eqgrid_play.games import place_of, read_journal, replay
from eqgrid_play.static import _export_page

for name in ("jax2onnx", "onnxruntime"):
    pytest.importorskip(name, reason="needs the extra [onnx]")
pytest.importorskip("playwright.sync_api", reason=NEEDS)

from page_speed import served  # noqa: E402

pytestmark = [pytest.mark.slow]
SCORE, TIME = entry("Score"), entry("Time left")
CRAMPED = POLICIES / "cramped.safetensors"
FLAGS = [str(CRAMPED), "--env.layout", "cramped", "--env.horizon", "120"]


@pytest.fixture(scope="module")
def folder(runtime, tmp_path_factory):
    """A folder with the page."""
    out = tmp_path_factory.mktemp("static")
    _export_page.run([*FLAGS, "--runtime", runtime, "--out", str(out / "index.html")])
    return out


@pytest.fixture(scope="module")
def address(folder):
    """The address of the page at a file host."""
    with served(folder) as found:
        yield found


@pytest.fixture
def visit(chromium):
    """Opens a page; whatever goes wrong in it, or comes from elsewhere, fails the test."""
    problems, stack = [], contextlib.ExitStack()

    def visit(address, **options):
        options = {"viewport": {"width": 1100, "height": 760}} | options
        opened = stack.enter_context(chromium.new_context(**options)).new_page()
        opened.context.set_default_timeout(100_000)
        opened.on("pageerror", lambda error: problems.append(str(error)))
        opened.on("console", lambda said: problems.append(said.text))
        inside = (address, "data:", "blob:")
        opened.on(
            "request", lambda x: x.url.startswith(inside) or problems.append(f"foreign: {x.url}")
        )
        opened.goto(address)
        return opened

    with stack:
        yield visit
    assert not problems


def wait_for_world(opened):
    opened.wait_for_function("globalThis.eqgrid?.game?.world", timeout=100_000)


def walk(opened, *keys):
    """Takes one action after another, each in a step of its own."""
    for key in keys:
        opened.keyboard.press(key)
        opened.wait_for_timeout(190)


def play_to_the_end(opened, tmp_path):
    """Plays a game by keys, and returns its recording."""
    wait_for_world(opened)
    walk(opened, "ArrowLeft", "ArrowUp", "ArrowLeft", "Space")
    opened.keyboard.down("ArrowRight")
    opened.wait_for_timeout(600)
    opened.keyboard.up("ArrowRight")
    screenshot(opened, "static-game")
    opened.keyboard.press("KeyP")
    opened.wait_for_selector("text=Paused.")
    left = opened.inner_text(TIME)
    opened.wait_for_timeout(1200)
    assert opened.inner_text(TIME) == left
    opened.keyboard.press("KeyP")
    walk(opened, "ArrowUp", "Space", "ArrowDown")
    opened.wait_for_selector("#over:not([hidden])", timeout=100_000)
    screenshot(opened, "static-over")
    with opened.expect_download() as download:
        opened.click("#record")
    path = tmp_path / download.value.suggested_filename
    download.value.save_as(path)
    return path


def check_recording(opened, path, steps):
    """The recording replays in Python, and its score is the one in the page."""
    recording = read_journal(path)
    assert recording.action.shape == (steps, 2)
    assert (recording.header.format, recording.end) == (4, "finished")  # with checked lines
    assert [seat.human for seat in recording.header.seats] == [True, False]
    assert (recording.action[:, 0] != 4).sum() >= 6
    assert (recording.action[:, 1] != 4).any()
    episode, _ = replay(place_of(recording), recording)
    score = np.asarray(episode.reward).sum(axis=0).mean()
    assert f"a score of {score:g}." in opened.inner_text("#result")
    assert re.search(r"No points this time\. .*\n\n1, you: waited \d+%", opened.inner_text("#end"))


def check_watching_again(opened, tmp_path):
    """The same game is shown once more, and as a video."""
    score = opened.inner_text(SCORE)
    opened.click("#look")
    opened.wait_for_selector("text=You watch the game.")
    opened.wait_for_selector(f"{SCORE}:text-is('0')")
    opened.wait_for_selector(f"{TIME}:text-is('15 s')")
    opened.click("#make-video")
    opened.wait_for_selector("text=Making a video")
    with opened.expect_download(timeout=100_000) as download:
        opened.click("#video", timeout=100_000)
    path = tmp_path / download.value.suggested_filename
    download.value.save_as(path)
    assert path.suffix in (".webm", ".mp4")
    assert path.stat().st_size > 10_000
    assert opened.inner_text(SCORE) == score


def test_a_whole_game_by_keys_replays_in_python(visit, address, tmp_path):
    opened = visit(address)
    opened.wait_for_selector("text=1: you")
    path = play_to_the_end(opened, tmp_path)
    check_recording(opened, path, 120)
    check_watching_again(opened, tmp_path)
    opened.click("#again")
    opened.wait_for_selector("text=Press any of your keys")
    assert opened.inner_text(SCORE) == "0"
    opened.select_option("#seat", index=1)
    opened.wait_for_selector("text=2: you")
    opened.keyboard.press("ArrowLeft")
    opened.wait_for_timeout(500)
    opened.click("#leave")
    opened.wait_for_selector("#over:not([hidden])")
    assert "ended early" in opened.inner_text("#result")


def test_a_page_is_played_without_any_host(visit, folder, tmp_path):
    opened = visit((folder / "index.html").as_uri())
    check_recording(opened, play_to_the_end(opened, tmp_path), 120)


RANDOM_STEPS = """async ([seed, actions, names]) => {
  const world = eqgrid.world;
  let state = await world.start(seed);
  const rows = [];
  for (const action of actions) {
    state = await world.step(state, Int32Array.from(action), 0);
    rows.push(names.map((name) => [...(state[name] ?? state.state[name]).data].map(Number)));
  }
  return rows;
}"""


def test_random_steps_in_the_browser_are_those_of_python(visit, address):
    opened = visit(address)
    wait_for_world(opened)
    world = page_world(Kitchen(layout="cramped", horizon=120), "agent")
    step, chooser = jax.jit(world.step), np.random.default_rng(3)
    names = [f"state_{i}" for i in range(world.size)] + ["action", "reward"]
    for game in range(3):
        actions = chooser.integers(0, 6, (120, 2)).tolist()
        state = world.start(jax.random.key(game)).state
        for own, action in zip(
            opened.evaluate(RANDOM_STEPS, [game, actions, names]), actions, strict=True
        ):
            after = step(state, np.asarray(action, np.int32), np.array([True, False]))
            state = after.state
            python = leaves_of([*state, after.action, after.reward])
            for expected, found in zip(python, own, strict=True):
                np.testing.assert_array_equal(np.ravel(expected), np.asarray(found, np.float64))


def test_on_a_phone_it_is_played_by_touch(visit, address):
    opened = visit(
        address,
        viewport={"width": 390, "height": 780},
        has_touch=True,
        is_mobile=True,
        device_scale_factor=2,
    )
    wait_for_world(opened)
    opened.tap("button[aria-label=left]")
    opened.wait_for_timeout(800)
    screenshot(opened, "static-phone")
    fits = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    assert opened.evaluate(fits)
    opened.tap("#leave")
    opened.wait_for_selector("#over:not([hidden])")


def test_the_first_picture_needs_no_runtime(visit, address):
    """It is drawn from what is in the page, before anything is computed."""
    opened = visit(address)
    opened.wait_for_function("performance.getEntriesByName('first-frame').length")
    facts = json.loads(opened.inner_text("#facts") or opened.text_content("#facts"))
    assert facts["opening"]["title"] == "cramped"
    wait_for_world(opened)
    marks = "performance.getEntriesByType('mark').map((x) => [x.name, x.startTime])"
    times = dict(opened.evaluate(marks))
    assert times["first-frame"] < times["first-step"]
