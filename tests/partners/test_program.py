"""Programs in the seats of agents: the same games as partners of this process, bad programs, and
transcripts.
"""

import errno
import json
import os
import socketserver
import sys
import threading
from pathlib import Path
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scripted_program
from learners import Clock

from agents import PartnerTeam, evaluate
from eqgrid import (
    AbstractPartner,
    AutoReset,
    ConstantPartner,
    LogEpisodes,
    OneOf,
    RandomPartner,
    RecordedPartner,
    TimeLimit,
    Vectorize,
    make,
    play,
    record_play,
)
from eqgrid.envs.goals import GeneratedMazes, Goals
from eqgrid.grid import (
    MOVES,
    Go,
    GridWorld,
    Layout,
    LocalCollision,
    OwnActions,
    RandomLayouts,
    Say,
    Speak,
    Stay,
    WeightedEventReward,
)
from eqgrid_lab.base import RunError, UsageError
from eqgrid_lab.commands._policies import play_teams
from eqgrid_lab.partners import Program, ProgramPartner, _program
from eqgrid_play import games

SCRIPT = Path(scripted_program.__file__)
WORLD = Goals(horizon=12)
RANDOM = RandomPartner(WORLD.action_space)


def start(*arguments, **options):
    words = sys.executable, SCRIPT, *arguments
    return Program(" ".join(map(str, words)), **options)


@final
class Walker(AbstractPartner):
    """Walks to its flag, as the scripted program does."""

    env: Goals | RandomLayouts

    def initial_carry(self):
        return None

    def __call__(self, seen, carry, key):
        *_, row, col = self.env.observe(seen.state)[seen.seat][:5]
        along_column = jnp.where(col > 0, 2, jnp.where(col < 0, 3, 4))
        return jnp.where(row > 0, 1, jnp.where(row < 0, 0, along_column)), carry


WALKER = Walker(WORLD)


def same(one, other):
    return bool(eqx.tree_equal(one, other))


@pytest.mark.parametrize("behaviour", ["", "bare", "reversed"])
def test_a_program_plays_as_a_partner_of_this_process(key, behaviour):
    keys = jax.random.split(key, 3)
    with start(behaviour) as program:
        played = record_play(WORLD, (ProgramPartner(program, WORLD), RANDOM), keys, max_steps=12)
        assert same(played, record_play(WORLD, (WALKER, RANDOM), keys, max_steps=12))
    walked = [int(np.argmax(x)) + 1 for x in episodes(played.terminated[:, 0], played.length)]
    assert program.requests == sum(min(x) for x in zip(walked, played.length.tolist(), strict=True))
    assert (program.late, program.unusable) == (0, 0)


def episodes(x, length):
    """The rows of each episode; `True` at the end of the column, if it has no other."""
    parts = np.split(np.asarray(x), np.cumsum(length)[:-1])
    return [np.append(part, True) for part in parts]


def test_one_program_in_both_seats_of_a_random_layout(key):
    mazes = GeneratedMazes(7, 7)
    world = TimeLimit(RandomLayouts(Goals(mazes.example), mazes), 10)
    with start() as program:
        partner = ProgramPartner(program, world)
        played = eqx.filter_jit(play)(world, (partner, partner), key)
        walker = Walker(world.env)
        assert same(played, eqx.filter_jit(play)(world, (walker, walker), key))


def test_evaluation_in_parallel_environments(key):
    envs = Vectorize(AutoReset(LogEpisodes(WORLD)), 4)
    with start() as program:
        team = PartnerTeam((RANDOM, ProgramPartner(program, WORLD)))
        result = evaluate(team, envs, key)
        assert same(result, evaluate(PartnerTeam((RANDOM, WALKER)), envs, key))
    assert program.requests > 0


def test_crossplay_asks_only_in_its_own_games(key, tmp_path):
    keys, teams = jax.random.split(key, 2), np.array([[[0, 1], [1, 1]], [[1, 0], [0, 0]]])
    with start(transcript=tmp_path / "t.jsonl") as program:
        partners = [ProgramPartner(program, WORLD), RANDOM]
        returns = [*play_teams(WORLD, partners, teams, keys)]
    np.testing.assert_array_equal(returns, [*play_teams(WORLD, [WALKER, RANDOM], teams, keys)])
    found = {(x["game"], x["step"]) for x in requests_in(tmp_path / "t.jsonl")}
    assert len(found) == program.requests  # no request is sent twice
    # Two episodes in the first seat of two teams, and in the second seat of two teams.
    assert {game for game, _ in found} == {f"{seat}-{n}" for seat in (0, 1) for n in (1, 2, 3, 4)}


def test_partners_that_differ_within_a_batch(key, tmp_path):
    @eqx.filter_jit
    def games_with(partner, numbers):
        one_of = OneOf([partner, RANDOM])
        return jax.vmap(lambda number: play(WORLD, (one_of.pick(number), RANDOM), key))(numbers)

    numbers = jnp.array([0, 1, 0])
    with start(transcript=tmp_path / "t.jsonl") as program:
        played = games_with(ProgramPartner(program, WORLD), numbers)
        assert same(played, games_with(WALKER, numbers))
    found = [x["game"] for x in requests_in(tmp_path / "t.jsonl")]
    assert found.count("0-2") == 1  # the first step of the game in which it does not act
    assert min(found.count("0-1"), found.count("0-3")) > 1


def requests_in(transcript):
    return [json.loads(line)["request"] for line in transcript.read_text().splitlines()]


def test_a_person_plays_with_a_program():
    with start() as program:
        partners = ProgramPartner(program, WORLD), WALKER
        steps = [games.Program(WORLD, (None, x), jnp.asarray(4)) for x in partners]
        now = [step.start(3) for step in steps]
        for _ in range(12):
            both = zip(steps, now, strict=True)
            now = [step.step(x.state, np.array([4, 4])) for step, x in both]
            assert same(now[0].world, now[1].world)
    assert program.requests > 0


def test_a_server_on_a_socket(key):
    class Handler(socketserver.StreamRequestHandler):
        def handle(self):
            for line in self.rfile:
                answer = scripted_program.answer(json.loads(line))
                self.wfile.write(json.dumps(answer).encode() + b"\n")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever).start()
        address = server.server_address[:2]
        with Program(address) as program:
            team = ProgramPartner(program, WORLD), RANDOM
            played = record_play(WORLD, team, key[None], max_steps=12)
            assert same(played, record_play(WORLD, (WALKER, RANDOM), key[None], max_steps=12))
        server.shutdown()
    with pytest.raises(UsageError, match=rf"'127.0.0.1:{address[1]}' cannot be used"):
        Program(address)


ANSWERS = """
import sys
for line, action in zip(sys.stdin, {}):
    print(action, flush=True)
"""


def requests_of(world, team, actions, folder, key):
    """The requests of a game to a program that takes these actions, and the game."""
    answers = [json.dumps({"action": action}) for action in actions]
    (folder / "program.py").write_text(ANSWERS.format(answers))
    command, transcript = f"{sys.executable} {folder / 'program.py'}", folder / "t.jsonl"
    with Program(command, transcript=transcript) as program:
        partners = [ProgramPartner(program, world) if x is None else x for x in team]
        played = record_play(world, partners, key[None], max_steps=len(actions))
    return requests_in(transcript), played


def test_a_kitchen_as_text(key, tmp_path):
    """Seat 0 puts an onion on a counter."""
    world = make("overcooked", layout="cramped", horizon=6)
    cook = RecordedPartner(jnp.array([[0] * 2, [3] * 2, [5] * 2, [0] * 2, [5] * 2]), 4)
    sent, _ = requests_of(world, (cook, None), ["stay"] * 6, tmp_path, key)
    names = {"P": "pot", "O": "onion_dispenser", "D": "dish_dispenser", "S": "serving"}
    agent = {"row": 2, "column": 1, "facing": "north", "holds": "nothing"}
    assert sent[0] == {
        "game": "1-1",
        "step": 0,
        "seat": 1,
        "actions": ["north", "south", "east", "west", "stay", "interact"],
        "observation": {
            "grid": "XXPXX\nO  2O\nX1  X\nXDXSX",
            "legend": names | {"X": "counter", " ": "floor", "1": "seat 0", "2": "seat 1"},
            "agents": [{"seat": 0} | agent, {"seat": 1} | agent | {"row": 1, "column": 3}],
            "objects": [],
        },
        "changes": [],
    }
    put = ["seat 0 now holds nothing", "row 0, column 1 now has onion"]
    assert [x["changes"] for x in sent[1:]] == [[], [], ["seat 0 now holds onion"], [], put]
    onion = {"row": 0, "column": 1, "object": "onion", "on": "counter", "timer": -1}
    assert sent[-1]["observation"]["objects"] == [onion]


def test_words_choices_and_masks(key, tmp_path):
    kinds = Goals().layout.kinds
    move, talk = (*MOVES, Stay()), (Stay(), Say("go"), Say("stop"))
    world = GridWorld(
        Layout.parse("#####\n#1 2#\n#####", kinds),
        actions=(move, talk),
        phases=(Go(LocalCollision()), Speak()),
        reward=WeightedEventReward({}, ()),
        action_mask=OwnActions(((*move, Say("go")), (Stay(), Say("go"), Say("stop")))),
        horizon=3,
    )
    answers = [["east", "say go"], ["east", "say stop"], ["stay", "stay"]]
    team = None, ConstantPartner(jnp.array([4, 2]))
    sent, played = requests_of(world, team, answers, tmp_path, key)
    assert [x["actions"] for x in sent] == [[DIRECTIONS, ["stay", "say go"]]] * 3
    stop = "seat 1 said stop"
    assert [x["changes"] for x in sent] == [[], ["seat 0 said go", stop], [stop]]
    assert played.action[:, 0].tolist() == [[2, 1], [4, 0], [4, 0]]


# The protocol, without games.

DIRECTIONS = ["north", "south", "east", "west", "stay"]


def request(step=0, game="0-1", actions=DIRECTIONS, **flag):
    flag = {"flag_row": 0, "flag_col": 1} | flag
    return {"game": game, "step": step, "seat": 0, "actions": actions, "observation": flag}


def test_late_answers_count_for_the_steps_in_which_they_were_asked():
    for behaviour in ("late", "bare-late"):
        with start(behaviour, 2, seconds=0.6) as program:
            chosen = [program._ask([request(step, flag_row=step % 2)]) for step in range(6)]
        right = [["east"], ["south"], None, ["south"], ["east"], ["south"]]
        assert [x for [x] in chosen] == right
        assert (program.requests, program.late, program.unusable) == (6, 1, 0)
    assert "6 requests. The agent stayed in 1 steps without" in program.summary


def test_nonsense_is_counted_and_the_agent_stays():
    count = len(scripted_program.NONSENSE)
    with start("nonsense") as program:
        assert [program._ask([request(step)]) for step in range(count)] == [[None]] * count
    assert (program.requests, program.late, program.unusable) == (count, 0, count)


def test_a_program_that_dies_is_one_sentence_and_its_games_are_finished(key, tmp_path):
    keys = jax.random.split(key, 3)
    program = start("dies", 7, transcript=tmp_path / "t.jsonl")
    team = ProgramPartner(program, WORLD), RANDOM
    played = record_play(WORLD, team, keys, max_steps=12)
    assert len(played.length) == 3
    ended = r"The program '.*' ended with exit code 3 \(ValueError: no more ideas\)\.$"
    with pytest.raises(RunError, match=ended):
        program.check()
    with pytest.raises(RunError, match=ended), program:
        pass
    rows = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
    assert len(rows) == program.requests
    assert [row["action"] is not None for row in rows] == [i < 7 for i in range(len(rows))]


def test_a_program_that_hangs_is_given_up(monkeypatch):
    monkeypatch.setattr(_program, "_MOST_SILENT", 3)
    program = start("hangs", 1, seconds=0.1)
    large = request(1, text="x" * 2**20)  # larger than all buffers: it reads nothing, either
    assert program._ask([request(0)]) == [["east"]]
    for step in range(1, 5):
        both = [large | {"step": step, "game": game} for game in ("0-1", "0-2")]
        assert program._ask(both) == [None, None]
    assert (program.requests, program.late) == (9, 8)
    silent = "answered nothing within 0.1 seconds in 3 steps in a row"
    with pytest.raises(RunError, match=silent), program:
        pass


def test_the_first_step_may_take_longer(monkeypatch):
    monkeypatch.setattr(_program, "_STARTING_SECONDS", 0.1)
    with start("late", 0, seconds=0.01) as program:
        assert program._ask([request(0)]) == [None]
    monkeypatch.undo()
    with start("late", 0, seconds=0.01) as program:
        assert program._ask([request(0)]) == [["east"]]


def test_a_transcript_plays_the_same_games_again(key, tmp_path):
    keys = jax.random.split(key, 2)
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    with start("late", 3, seconds=0.7, transcript=first) as program:
        team = ProgramPartner(program, WORLD), RANDOM
        played = record_play(WORLD, team, keys, max_steps=12)
        again = record_play(WORLD, team, keys, max_steps=12)  # other games, without a late answer
    assert not same(played, again)
    with Program(first, transcript=second) as replay:
        team = ProgramPartner(replay, WORLD), RANDOM
        assert same(record_play(WORLD, team, keys, max_steps=12), played)
        assert same(record_play(WORLD, team, keys, max_steps=12), again)
    assert second.read_text() == first.read_text()
    assert replay.late == program.late > 0
    other = Program(first)
    record_play(WORLD, (ProgramPartner(other, WORLD), RANDOM), keys[::-1], max_steps=12)
    with pytest.raises(RunError, match=r"Step \d+ of game '0-1' is not as in the transcript"):
        other.check()
    other.close()


def test_wrong_inputs_are_one_sentence(tmp_path):
    taken = tmp_path / "taken.jsonl"
    taken.write_text('{"no": "request"}\n')
    for source in ("no-such-program --fast", "", tmp_path / "none.jsonl", taken):
        with pytest.raises(UsageError, match=r"The program '.*' cannot be used: .*\.$"):
            Program(source)
    with pytest.raises(UsageError, match="File exists"):
        start(transcript=taken)
    assert taken.read_text() == '{"no": "request"}\n'
    with start() as program, pytest.raises(UsageError, match="only in grid worlds, not in Clock"):
        ProgramPartner(program, Clock())


def test_a_closed_program_is_a_fault_of_the_caller(key):
    with start() as program:
        pass
    with pytest.raises(RunError, match="is closed"):
        program._ask([request()])


def test_a_full_disk_does_not_end_the_games(tmp_path, capsys):
    class Full:
        def write(self, text):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with start(transcript=tmp_path / "t.jsonl") as program:
        file, program._transcript = program._transcript, Full()
        assert [program._ask([request(step)]) for step in range(2)] == [[["east"]]] * 2
        file.close()
    [warning] = capsys.readouterr().err.splitlines()
    assert warning.endswith("is incomplete: No space left on device.")
