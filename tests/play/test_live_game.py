"""Live games: what people press, journals, and their replay."""

import contextlib
import dataclasses
import os
from itertools import compress

import equinox as eqx
import jax
import jax.numpy as jnp
import msgspec
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from playing import until

from eqgrid_lab import Kitchen, Partners
from agents import PolicyWorld, load_trajectories
from eqgrid import AbstractPartner, RecordedPartner, record_play
from eqgrid.envs import overcooked, rescue, warehouse
from eqgrid_lab.base import UsageError
from eqgrid_lab.worlds import world_settings
from eqgrid_play.games import (
    Hands,
    Header,
    Journal,
    LiveGame,
    Place,
    Program,
    SeatRecord,
    StepLine,
    TileSheet,
    controls_of,
    read_journal,
    replay,
    whole_frame,
    write_recording,
)
from eqgrid_play.games._ahead import steps_ahead
from eqgrid_play.games._journal import KeyLine

pytestmark = pytest.mark.slow

WORLD = PolicyWorld("overcooked")


def header(place, seed, humans=(True, False)):
    seats = tuple(SeatRecord("somebody", human) for human in humans)
    return Header(place.policy_world, place.title, seed, seats, 6.0, "2026-01-01T00:00:00")


def write_three_steps(path):
    """The journal of three steps in which both agents stay."""
    journal = Journal(path, header(Place.of(Kitchen()), 0))
    for step in range(3):
        journal.add(StepLine([4, 4], [0.0, 0.0], float(step)))
    return journal


def play_live(env, folder, presses, seed=3):
    """A game of a person in the first seat, who presses something before each step."""
    place = Place.of(env)
    others = place.env.num_agents - 1
    agent = next(Partners().menu(place)).partner
    humans = (True, *[False] * others)
    journal = Journal(folder / "game.jsonl", header(place, seed, humans))
    program = Program(place.env, [None, *[agent] * others], place.idle)
    game = LiveGame(program, seed, journal)
    game.compile()
    for step, press in enumerate(presses):
        hands = game.hands[0]
        assert hands is not None
        if press is not None:
            hands.press(*press)
        game.step(step / 6)
        if game.finished:
            break
    game.close("finished" if game.finished else "left")
    return place, game


def take(hands, steps, heard=True):
    """The actions and sources of some steps; whether a message of the page came before each."""
    taken = []
    for _ in range(steps):
        if heard:
            hands.hear()
        taken.append(hands.take())
    return [own.actions for own in taken], [own.source for own in taken]


def test_a_press_counts_once_and_a_key_that_is_down_in_every_step():
    hands = Hands([4])
    assert take(hands, 2) == ([[4], [4]], ["none", "none"])
    hands.press(0, 1, number=7)
    assert hands.taken == 0
    assert take(hands, 2) == ([[1], [4]], ["press", "none"])
    assert hands.taken == 7  # which a page compares with its own presses
    hands.press(0, 2)
    hands.hold(0, 2)
    assert take(hands, 3) == ([[2], [2], [2]], ["press", "hold", "hold"])
    hands.press(0, 5)
    assert take(hands, 2) == ([[5], [2]], ["press", "hold"])
    hands.hold(0, None)
    assert take(hands, 1) == ([[4]], ["none"])


def test_a_released_key_has_counted_as_often_as_the_page_has_shown():
    hands = Hands([4])
    hands.press(0, 2, number=1)
    hands.hold(0, 2, number=1)
    assert hands.expect(2) == [[2], [2]]
    assert take(hands, 2) == ([[2], [2]], ["press", "hold"])
    assert hands.taken == 2  # the page may have shown this repetition or not
    hands.hold(0, None, number=3)
    assert take(hands, 2) == ([[2], [4]], ["hold", "none"])
    assert hands.taken == 3
    hands.press(0, 2, number=4)
    hands.hold(0, 2, number=4)
    hands.press(0, 5, number=6)  # after a repetition
    assert hands.expect(4) == [[2], [5], [2], [2]]  # the first press is older than the last two
    assert take(hands, 3) == ([[2], [5], [2]], ["hold", "queue", "hold"])
    assert hands.taken == 7
    hands.hold(0, None, number=2**31 - 1)
    assert take(hands, 3) == ([[2], [2], [4]], ["hold", "hold", "none"])


def test_a_key_that_is_down_counts_in_one_step_of_a_silence():
    hands = Hands([4])
    hands.hold(0, 2)
    assert take(hands, 2) == ([[2], [2]], ["hold", "hold"])
    assert take(hands, 4, heard=False) == ([[2], [4], [4], [4]], ["silence"] * 4)
    assert hands.conduct.actions == 3
    assert take(hands, 1) == ([[2]], ["hold"])
    hands.press(0, 1)
    hands.press(0, 3)
    hands.hear()
    assert take(hands, 3, heard=False) == ([[1], [3], [4]], ["press", "queue", "silence"])


def test_of_many_presses_in_one_step_the_last_two_count():
    hands = Hands([4, -1])
    for action in range(4):
        hands.press(0, action)
    hands.press(1, 7)
    assert take(hands, 3) == ([[2, 7], [3, -1], [4, -1]], ["press", "queue", "none"])
    hands.press(0, 1)
    hands.hold(0, 1)
    hands.release()
    assert take(hands, 1) == ([[4, -1]], ["none"])


def test_every_action_but_to_stay_has_a_key_of_its_own():
    for actions in (overcooked.ACTIONS, rescue.ACTIONS, warehouse.ACTIONS):
        controls = controls_of(actions)
        assert len(controls) == len(actions) - 1
        keys = [key for control in controls for key in control.keys]
        assert len(set(keys)) == len(keys) >= len(controls)


WORLDS = {
    "kitchen": Kitchen(layout="ring", horizon=30),
    "v2": world_settings("overcooked_v2", horizon=30),
    "foraging": world_settings("foraging", size=5, horizon=30),
    "warehouse": world_settings("warehouse", horizon=30),
    "rescue": world_settings("rescue", horizon=30),
    "goals": world_settings("goals", horizon=30),
    "generated": Kitchen(layout="generated", horizon=30),
}


@pytest.mark.parametrize("name", WORLDS)
def test_a_live_game_replays_bit_for_bit(name, tmp_path):
    """By `replay`, and by `record_play` with the recorded actions."""
    env = WORLDS[name]
    rng = np.random.default_rng(0)
    controls = Place.of(env).controls
    drawn = [controls[i] for i in rng.integers(len(controls), size=env.horizon)]
    presses = [None if rng.random() < 0.3 else (x.choice, x.action) for x in drawn]
    place, game = play_live(env, tmp_path, presses)
    recording = read_journal(tmp_path / "game.jsonl")
    assert len(recording.action) == game.steps
    np.testing.assert_allclose(game.scores, recording.reward.sum(axis=0), atol=1e-6)
    episode, _ = replay(place, recording)
    team = [RecordedPartner(jnp.asarray(recording.action), 0) for _ in range(place.env.num_agents)]
    keys = jax.random.key(recording.header.seed)[None]
    if game.finished:
        again = record_play(place.env, team, keys, max_steps=env.horizon)
        same = jax.tree.map(lambda a, b: bool((a == b).all()), episode, again)
        assert all(jax.tree.leaves(same))
    np.testing.assert_array_equal(np.asarray(episode.reward), recording.reward)
    last = jax.tree.map(lambda x: x[-1], episode.state)
    assert int(np.asarray(getattr(last, "world", last).time)) == game.steps - 1


@pytest.mark.parametrize(
    ("name", "seat"),
    [("kitchen", 0), ("kitchen", 1), ("rescue", 1), ("warehouse", 0), ("goals", 1)],
)
def test_slow_pages_know_the_effect_of_each_key(name, seat):
    """The steps that they get in advance are those that follow."""
    place, tiles = Place.of(dataclasses.replace(WORLDS[name], horizon=200)), TileSheet()
    team = [next(Partners().menu(place)).partner] * place.env.num_agents
    game = LiveGame(Program(place.env, [*team[:seat], None, *team[seat + 1 :]], place.idle), 3)
    hands, rng = game.hands[seat], np.random.default_rng(0)
    assert hands is not None

    def frame():
        return whole_frame(place.drawn_layout, game.state, 0, (), tiles, (), [seat])

    until(lambda: steps_ahead(place, game, tiles))
    worked = 0
    for step in range(150):
        before = frame()
        ahead = steps_ahead(place, game, tiles)
        number = int(rng.integers(len(place.controls)))
        control = place.controls[number]
        hands.press(control.choice, control.action)
        if step % 3 == 0:  # then the expected action
            hands.release()
        game.step(step / 6)
        after = frame()
        poses = [[cell, direction] for cell, direction, _ in after.agents]
        if step % 3 == 0:
            shown = [own[0] >= 0 for own in poses]
            assert [*compress(ahead[0].poses, shown)] == [*compress(poses, shown)]
        elif (effect := ahead[0].effects.get(number)) is None:
            assert before.agents[seat][:2] == after.agents[seat][:2]
        else:
            assert effect.pose == poses[seat]
            if effect.faced is not None:
                worked += 1
                cells, _ = after.views.get(seat, (after.cells, ()))
                assert effect.turned == after.turned[seat]
                assert effect.faced == cells[effect.faced[0]]
    assert worked or name != "kitchen"


def test_programs_see_only_steps_that_are_played():
    place, tiles = Place.of(WORLDS["kitchen"]), TileSheet()
    calls = []

    class Outside(AbstractPartner):
        def initial_carry(self):
            return None

        def __call__(self, seen, carry, key):
            shape = jax.ShapeDtypeStruct((), jnp.int32)
            return jax.pure_callback(lambda: calls.append(0) or np.int32(4), shape), None

    game = LiveGame(Program(place.env, [None, Outside()], place.idle), 3)
    game.step(0.0)
    for _ in range(2):
        assert steps_ahead(place, game, tiles) == []
        compiling = game._program._compiling
        assert compiling is not None
        compiling.join()
    assert len(calls) == 1


def test_a_game_is_written_as_an_episode(tmp_path):
    presses = [(0, 3), (0, 5), None, (0, 0), (0, 2)] * 6
    place, game = play_live(WORLDS["kitchen"], tmp_path, presses)
    recording = read_journal(tmp_path / "game.jsonl")
    path = write_recording(place, recording, "game", tmp_path)
    found = load_trajectories(path, place.env)
    assert eqx.tree_equal(found, replay(place, recording)[0])
    np.testing.assert_array_equal(np.asarray(found.action), recording.action)
    np.testing.assert_array_equal(np.asarray(found.reward), recording.reward)
    assert game.finished
    assert [x for x, _ in recording.source] == ["press", "press", "silence", "press", "press"] * 6
    assert {x for _, x in recording.source} == {""}


def test_of_a_killed_program_all_steps_are_left(tmp_path):
    path = tmp_path / "game.jsonl"
    journal = write_three_steps(path)
    whole = path.read_bytes()
    journal.close("left")
    assert read_journal(path).end == "left"
    for cut in range(whole.index(b"\n") + 1, len(whole) + 1):
        path.write_bytes(whole[:cut])
        assert len(read_journal(path).action) == whole[:cut].count(b"\n") - 1
        assert read_journal(path).end is None


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_damaged_journals_are_refused_in_a_sentence(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("journal") / "game.jsonl"
    write_three_steps(path).close("left")
    content = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] = data.draw(st.integers(0, 255))
    path.write_bytes(bytes(content))
    with contextlib.suppress(UsageError):  # any other error fails
        assert len(read_journal(path).action) <= 4


def test_of_a_full_disk_no_part_of_a_line_stays(tmp_path, monkeypatch):
    """The lines after it, for which there is room again, are not joined to it."""
    path, write, calls = tmp_path / "game.jsonl", os.write, []
    journal = Journal(path, Header(WORLD, "ring", 0, (SeatRecord("a", True),), 5.0, ""))
    journal.add(StepLine([0], [0.0], 0.5))

    def full_for_a_moment(file, content):
        calls.append(content)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        return write(file, content[:9] if len(calls) == 1 else content)

    monkeypatch.setattr(os, "write", full_for_a_moment)
    with pytest.raises(OSError, match="No space left"):
        journal.add(StepLine([1], [0.0], 1.0))
    journal.add(StepLine([2], [0.0], 1.5))
    journal.close("left", [0])
    recording = read_journal(path)
    assert recording.action.tolist() == [[0], [2]]
    assert (recording.end, recording.left) == ("left", (0,))


def test_a_game_whose_first_line_cannot_be_written_leaves_no_file(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space left"):
        Journal(tmp_path / "game.jsonl", Header(WORLD, "ring", 0, (), 5.0, ""))
    assert not list(tmp_path.iterdir())


HEAD = Header(WORLD, "ring", 0, (SeatRecord("a", True), SeatRecord("b", False)), 5.0, "")


def test_a_damaged_journal_is_named(tmp_path):
    path = tmp_path / "game.jsonl"
    for line in (
        StepLine([1], [0.0, 20.5], 0.0),
        StepLine([1, 4], [0.0, 20.5], 0.0, ["press"]),
        KeyLine("KeyQ", True, 0, "soon", None),  # pyright: ignore
    ):
        journal = Journal(path, HEAD)
        journal.add(line)
        journal.close("left")
        with pytest.raises(UsageError, match=r"^The journal '.*game\.jsonl' is damaged: [^\n]*$"):
            read_journal(path)
        path.unlink()
    path.write_bytes(b'{"format": 5, "something": "new"}\n')
    with pytest.raises(UsageError, match="is of another version of eqgrid"):
        read_journal(path)


def test_a_line_that_cannot_be_removed_is_the_last(tmp_path, monkeypatch):
    """On a disk that accepts neither the rest of the line nor its removal."""
    path, write = tmp_path / "game.jsonl", os.write

    def refuse(*_):
        raise OSError(5, "Input/output error")

    journal = Journal(path, HEAD)
    journal.add(StepLine([1, 4], [0.0, 20.5], 0.0))
    monkeypatch.setattr(os, "ftruncate", refuse)
    monkeypatch.setattr(os, "write", lambda file, content: write(file, content[:9]) and refuse())
    with pytest.raises(OSError, match="Input/output"):
        journal.add(StepLine([2, 4], [0.0, 0.0], 0.2))
    monkeypatch.undo()
    with pytest.raises(OSError, match="was cut"):
        journal.close("left")
    assert read_journal(path).action.tolist() == [[1, 4]]


def test_a_game_of_other_rules_is_refused(tmp_path):
    place, _ = play_live(WORLDS["goals"], tmp_path, [None] * 30)
    recording = read_journal(tmp_path / "game.jsonl")
    other = msgspec.structs.replace(recording, reward=recording.reward + 1)
    with pytest.raises(UsageError, match=r"game\.jsonl' does not replay"):
        replay(place, other)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"seed":3', b'"seed":1'),
        (b'"action":[3,', b'"action":[2,'),
        (b'"end":"finished"', b'"end":"left"'),
        (b'"time":0.0,', b'"time":0.5,'),
    ],
)
def test_an_edited_recording_is_refused(tmp_path, old, new):
    presses = [(0, 3), (0, 5), None, (0, 0), (0, 2)] * 6
    play_live(WORLDS["kitchen"], tmp_path, presses)
    path = tmp_path / "game.jsonl"
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new, 1))
    with pytest.raises(UsageError, match=r"line \d+ or a line before it was changed"):
        read_journal(path)
    first, _, *rest = content.splitlines(keepends=True)
    path.write_bytes(b"".join([first, *rest]))  # without its first step
    with pytest.raises(UsageError, match="line 2 or a line before it was changed"):
        read_journal(path)
