"""A sweep trains the points of a study, together where it can, and goes on where it was stopped."""

import contextlib
import itertools
import json
import signal
from pathlib import Path
from types import SimpleNamespace

import optuna
import pytest
from command_lines import calling, check_refusal
from optuna.trial import TrialState, create_trial
from rich.console import Console
from run_files import SMALL, check_close, rows, table

from agents import NonFiniteLoss, OutOfMemory, StopTraining
from eqgrid_lab.base import UsageError
from eqgrid_lab.runs import _evaluator, _members, _space, _sweep
from eqgrid_lab.runs._report import draw_sweep, print_points, write_table
from eqgrid_lab.settings import shipped_script

call = calling()


@pytest.mark.slow
@pytest.mark.usefixtures("hears_ctrl_c")
def test_a_sweep_from_its_first_point_to_its_table(call, tmp_path, monkeypatch):
    (tmp_path / "rates.toml").write_text('[space]\n"ppo.learning_rate" = [0.01, 0.0001]')
    sweep = (*SMALL, "--sweep", "rates.toml")
    count, real = itertools.count(1), _evaluator.EvaluatorOfMany.__call__

    def press(self, progress):
        if next(count) == 1:
            signal.raise_signal(signal.SIGINT)
        return real(self, progress)

    with monkeypatch.context() as patch:
        patch.setattr(_evaluator.EvaluatorOfMany, "__call__", press)
        code, said = call(*sweep)
    assert code == 130
    assert "repeat the command to continue" in said
    folder = Path("runs") / "ippo-sweep-rates"
    assert not list(folder.glob("*/result.json"))
    code, said = call(*sweep)
    assert (code, "continuing after 256 steps of each" in said) == (0, True), said
    assert "2 of 2 points are finished" in said
    assert not list((folder / "checkpoints").iterdir())
    points = table(folder / "table.csv")
    results = [json.loads(path.read_text()) for path in sorted(folder.glob("*/result.json"))]
    means = {str(i): result["eval_return_mean"] for i, result in enumerate(results)}
    assert {row["point"]: float(row["eval_return_mean"]) for row in points} == means
    with monkeypatch.context() as patch:
        patch.setattr(_members.Members, "train", None)  # nothing is trained again
        assert call(*sweep)[0] == 0
        assert "does not contain this sweep" in call(*sweep, "--width", "9")[1]
    settings = folder / "point-0001" / "config.toml"
    assert "learning_rate = 0.0001" in settings.read_text()
    assert call("--config", settings, "--out", "alone")[0] == 0
    check_close(folder / "point-0001", Path("alone"))


@pytest.mark.slow
def test_several_seeds_of_points_that_are_drawn(call, tmp_path):
    text = 'sampler = "tpe"\nnum_points = 3\nseeds = 2\nat_once = 2\npruner = "median"\n'
    text += '[space]\n"ppo.learning_rate" = {low = 1e-4, high = 1e-2, log = true}\n'
    (tmp_path / "rates.toml").write_text(text)
    code, said = call(*SMALL, "--sweep", "rates.toml", "--out", "mine")
    assert (code, "3 of 3 points are finished" in said) == (0, True), said
    for i, row in enumerate(sorted(table(Path("mine/table.csv")), key=lambda row: row["point"])):
        own = [f"mine/point-{i:04}/seed-{seed}/result.json" for seed in (0, 1)]
        values = [json.loads(Path(name).read_text())["eval_return_mean"] for name in own]
        assert float(row["eval_return_mean"]) == pytest.approx(sum(values) / 2)
    storage = optuna.storages.journal.JournalFileBackend("mine/journal.log")
    study = optuna.load_study(study_name="mine", storage=optuna.storages.JournalStorage(storage))
    assert len(study.trials) == 3
    assert study.best_value == pytest.approx(
        float(table(Path("mine/table.csv"))[0]["eval_return_mean"])
    )


GRID = _space.Sweep(space={"ppo.gamma": [0.9, 0.95, 0.97, 0.98, 0.99]})


@pytest.fixture
def begin(tmp_path):
    """Opens a sweep, as one process of several does."""

    def begin(sweep=GRID) -> _sweep.Search:
        config, console = shipped_script("ippo")(), SimpleNamespace(print=lambda *_, **__: None)
        study = _sweep._open(tmp_path / "mine", config, sweep)
        process, failures = SimpleNamespace(check=lambda: None), _sweep.Failures()
        return _sweep.Search(sweep, config, study, tmp_path / "mine", process, console, failures)

    return begin


@contextlib.contextmanager
def claimed(program):
    """The points that a process has until it ends."""
    with contextlib.ExitStack() as stack:
        yield _sweep._claim(program, stack)


def ends(program) -> dict[int, str]:
    return {x.number: x.state.name for x in program.study.get_trials() if x.state.is_finished()}


def test_what_is_an_array_is_trained_together(begin):
    space = {"ppo.gamma": [0.9, 0.99], "shaping": [0.5, 1.0], "num_envs": [8, 16]}
    with claimed(begin(_space.Sweep(space=space))) as points:
        groups = _sweep.groups_of(points)
    assert [[point.configs[0].num_envs for point in group] for group in groups] == [
        [8, 8, 8, 8],
        [16, 16, 16, 16],
    ]


def test_processes_share_a_study_and_what_one_leaves_behind_is_taken_over(begin):
    sweep = _space.Sweep(space=GRID.space, at_once=2)
    one, other = begin(sweep), begin(sweep)
    with contextlib.ExitStack() as first, contextlib.ExitStack() as second:
        numbers = [point.number for point in _sweep._claim(one, first)]
        numbers += [point.number for point in _sweep._claim(other, second)]
        assert numbers == [0, 1, 2, 3]
        first.close()  # as at the end of a process that was killed
        assert [point.number for point in _sweep._claim(other, second)] == [0, 1]
        assert [point.number for point in _sweep._claim(one, first)] == [4]
        assert _sweep._claim(other, second) is None


@pytest.mark.slow
@pytest.mark.usefixtures("hears_ctrl_c")
def test_a_sweep_that_is_interrupted_in_its_final_evaluations_keeps_what_it_learned(
    call, tmp_path, monkeypatch
):
    (tmp_path / "rates.toml").write_text('[space]\n"ppo.learning_rate" = [0.01, 0.0001]')
    real = _members.Conclusion.conclude

    def conclude(self):
        signal.raise_signal(signal.SIGINT)
        return real(self)

    sweep = (*SMALL, "--sweep", "rates.toml", "--out", "mine")
    with monkeypatch.context() as patch:
        patch.setattr(_members.Conclusion, "conclude", conclude)
        code, said = call(*sweep)
    assert (code, "repeat the command to continue" in said) == (130, True), said
    code, said = call(*sweep)
    assert (code, "continuing after 640 steps of each" in said) == (0, True), said
    assert len(list(Path("mine").glob("*/curve.png"))) == 2


def test_what_nobody_begins_is_adopted_and_a_batch_stays_together(begin):
    """Processes were killed after they had asked for points, or while they trained two batches."""
    sweep = _space.Sweep(space=GRID.space, at_once=2)
    program = begin(sweep)
    with contextlib.ExitStack() as stack:
        _sweep._claim(program, stack)
        _sweep._claim(begin(sweep), stack)
    elsewhere, dead = program.study.ask(), program.study.get_trials(deepcopy=False)[0]
    elsewhere.set_user_attr(_sweep._BATCH, "another-host:/runs/mine:4")
    (program.folder / "point-0000" / "run.lock").unlink(missing_ok=True)
    (program.folder / "point-0000").rmdir()
    assert dead.state == TrialState.RUNNING
    for numbers in ([0, 1], [2, 3]):
        with claimed(program) as points:
            assert [point.number for point in points] == numbers
            for point in points:
                program.study.tell(point.number, 1.0)
    with claimed(program) as points:
        assert points is None, "point 4 is that of another host"


def test_a_batch_that_contradicts_itself_does_not_end_a_sweep(begin):
    space = {"env.observation": ["features", "planes"], "network": ["cnn"]}
    program = begin(_space.Sweep(space=space, at_once=1))
    with contextlib.ExitStack() as stack:
        assert _sweep._claim(program, stack) == []
        assert [point.number for point in _sweep._claim(program, stack)] == [1]
        assert ends(program) == {0: "FAIL"}


def test_two_sweeps_of_one_name_in_a_database_are_told_apart(begin, tmp_path):
    storage = f"sqlite:///{tmp_path}/a.db"
    begin(_space.Sweep(space=GRID.space, storage=storage))
    (tmp_path / "mine").rename(tmp_path / "other host")
    begin(_space.Sweep(space=GRID.space, storage=storage))
    (tmp_path / "mine").rename(tmp_path / "third host")
    with pytest.raises(
        UsageError, match="cannot be opened: it contains a different sweep with the name"
    ):
        begin(_space.Sweep(space={"width": [8, 9]}, storage=storage))
    assert not (tmp_path / "mine").exists(), "a sweep with another storage can begin there"


@pytest.mark.slow
def test_a_sweep_that_was_killed_in_its_final_evaluations_does_not_train_again(
    call, tmp_path, monkeypatch
):
    (tmp_path / "rates.toml").write_text('[space]\n"ppo.learning_rate" = [0.01, 0.001, 0.0001]')
    real, count = _members.Conclusion.conclude, itertools.count(1)

    def conclude(self):
        if next(count) == 2:
            raise KeyboardInterrupt
        return real(self)

    sweep = (*SMALL, "--sweep", "rates.toml", "--out", "mine")
    with monkeypatch.context() as patch:
        patch.setattr(_members.Conclusion, "conclude", conclude)
        with pytest.raises(KeyboardInterrupt):
            call(*sweep)
    assert len(list(Path("mine").glob("*/result.json"))) == 1
    code, said = call(*sweep)
    assert (code, "continuing after 640 steps of each" in said) == (0, True), said
    assert "3 of 3 points are finished" in said
    assert len(rows(Path("mine/point-0002"))) == 3


def test_samplers_of_several_processes_draw_different_points(begin):
    space = {"ppo.gamma": {"low": 0.9, "high": 0.99}}
    sweep = _space.Sweep(sampler="random", num_points=4, at_once=2, space=space)
    drawn = []
    for _ in range(2):
        program = begin(sweep)
        with claimed(program) as points:
            drawn += [point.configs[0].ppo.gamma for point in points]
            for point in points:
                program.study.tell(point.number, 1.0)
    assert len(set(drawn)) == 4
    assert all(0.9 <= x <= 0.99 for x in drawn)


def test_points_that_contradict_themselves_are_left_out(begin):
    space = {"network": ["mlp", "cnn"], "env.observation": ["features", "planes"]}
    program = begin(_space.Sweep(sampler="random", num_points=12, space=space))
    with claimed(program) as points:
        pass
    tried = {(x.configs[0].network, x.configs[0].env.observation) for x in points}
    assert ("cnn", "features") not in tried
    assert set(ends(program).values()) == {"FAIL"}
    assert len(points) + len(ends(program)) == 12


def test_what_was_asked_for_before_a_kill_is_taken_over(begin):
    space = {"ppo.gamma": {"low": 0.9, "high": 0.99}}
    sweep = _space.Sweep(sampler="random", num_points=2, at_once=2, space=space)
    program = begin(sweep)
    program.study.ask()
    with claimed(program) as points:
        assert [point.number for point in points] == [0]
        assert 0.9 <= points[0].configs[0].ppo.gamma <= 0.99


def test_checkpoints_of_points_that_have_ended_are_removed(begin):
    program = begin()
    program.study.tell(program.study.ask().number, 1.0)
    checkpoints = program.folder / "checkpoints"
    checkpoints.mkdir()
    for name in ("point-0000", "point-0001"):
        (checkpoints / f"{name}.safetensors").touch()
    with claimed(program):
        pass
    assert [path.stem for path in checkpoints.iterdir()] == ["point-0001"]


def test_a_loss_that_is_no_number_ends_its_point_alone(begin, monkeypatch):
    trained, program = [], begin()

    def train(program, points, plans):
        trained.append([point.number for point in points])
        if len(points) == 5:
            raise NonFiniteLoss(7, "the entropy", 1)
        if len(points) == 1:
            raise NonFiniteLoss(7, "the entropy")

    monkeypatch.setattr(_sweep, "_train_together", train)
    with claimed(program) as points:
        _sweep._train(program, points, ())
        assert trained == [[0, 1, 2, 3, 4], [0, 2, 3, 4]]
        assert ends(program) == {1: "FAIL"}
        _sweep._train(program, points[2:3], ())
        assert ends(program) == {1: "FAIL", 2: "FAIL"}, "it may be that of the last point"


def test_what_does_not_fit_is_trained_in_halves(begin, monkeypatch):
    trained, program = [], begin()

    def train(program, points, plans):
        if len(points) > 2:
            raise OutOfMemory(2, 1)
        trained.append([point.number for point in points])

    monkeypatch.setattr(_sweep, "_train_together", train)
    with claimed(program) as points:
        _sweep._train(program, points, ())
    assert trained == [[0, 1], [2], [3, 4]]


def test_points_end_early_when_all_of_them_are_pruned():
    pruned = [False, True]
    trials = [
        SimpleNamespace(report=lambda *x: reported.append(x), should_prune=lambda i=i: pruned[i])
        for i in range(2)
    ]
    rows = [SimpleNamespace(rows=[{"eval_return_mean": float(i)}]) for i in range(4)]
    hook, reported = _members.Prune(trials, rows), []
    hook(SimpleNamespace(env_steps=64))
    assert reported == [(0.5, 64), (2.5, 64)]
    pruned[0] = True
    with pytest.raises(StopTraining, match=_members.ALL_PRUNED):
        hook(SimpleNamespace(env_steps=128))


@pytest.mark.parametrize(
    ("text", "more", "words"),
    [
        ("[space]\nwidth = [8, 9]", ["--num-seeds", "2"], "--num-seeds cannot be given with"),
        ("[space]\ndevices = [1, 2]", [], "has 'devices', which is the same for all points"),
        (
            "[space]\nwidth = [8, 9]",
            ["--out", "x", "--resume"],
            "--resume cannot be given with --sweep",
        ),
        ("[space]\nwith = [8, 9]", [], "unknown key 'with'"),
        (None, [], "cannot be read: No such file"),
    ],
)
def test_what_cannot_be_swept_is_one_sentence(call, tmp_path, text, more, words):
    if text is not None:
        (tmp_path / "sweep.toml").write_text(text)
    before = list(tmp_path.iterdir())
    check_refusal(call("--sweep", "sweep.toml", *more), words, codes=(2,))
    assert list(tmp_path.iterdir()) == before


@pytest.mark.parametrize("storage", ["sqlite:////no/such/folder/a.db", "mysql://nobody@nowhere/a"])
def test_a_database_that_cannot_be_reached_is_one_sentence(call, tmp_path, storage):
    text = f'storage = "{storage}"\n[space]\nwidth = [8, 9]'
    (tmp_path / "sweep.toml").write_text(text)
    heard = call("--sweep", "sweep.toml", "--out", "mine")
    check_refusal(heard, f"The study in '{storage}' cannot be opened: ", codes=(2,))
    assert not (tmp_path / "mine").exists(), "the mended file can be used there"


def test_a_damaged_journal_is_one_sentence(begin, call, tmp_path):
    begin()
    (tmp_path / "mine" / "journal.log").write_text("{" * 99 + "\n" + "{}\n")
    with pytest.raises(UsageError, match=r"The study in .*journal.log' is damaged: [^\n]*$"):
        begin()


def test_a_database_has_the_study_of_many_hosts(begin, tmp_path):
    sweep = _space.Sweep(space=GRID.space, storage=f"sqlite:///{tmp_path}/a.db")
    assert len(begin(sweep).study.trials) == 5
    study = optuna.load_study(study_name="mine", storage=sweep.storage)
    assert study.trials[0].state == TrialState.WAITING
    assert not (tmp_path / "mine" / "journal.log").exists()


def test_a_sweep_does_not_go_on_in_a_kitchen_that_was_edited(call, tmp_path, monkeypatch):
    kitchen, text = tmp_path / "mine.layout", "XXPXX\nO 12O\nX   X\nXDXSX\n"
    kitchen.write_text(text)
    (tmp_path / "sweep.toml").write_text("[space]\nwidth = [8, 9]")
    monkeypatch.setattr(_sweep, "_train_all", lambda *_: None)
    args = ("--sweep", "sweep.toml", "--env.layout", "mine.layout", "--out", "mine")
    assert call(*args)[0] == 0
    assert call(*args)[0] == 0
    kitchen.write_text(text.replace("X   X", "O   X"))
    check_refusal(call(*args), "this sweep with these settings and files", codes=(2,))


def test_a_folder_with_something_else_is_left_alone(call, tmp_path):
    (tmp_path / "sweep.toml").write_text("[space]\nwidth = [8, 9]")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "diary.txt").write_text("dear")
    heard = call("--sweep", "sweep.toml", "--out", "mine")
    check_refusal(heard, "does not contain this sweep", codes=(2,))
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["diary.txt"]


@pytest.fixture
def trials():
    kinds = {
        "rate": optuna.distributions.FloatDistribution(0.0, 1.0),
        "layout": optuna.distributions.CategoricalDistribution(["ring", "cramped"]),
    }
    study = optuna.create_study(direction="maximize")
    for rate, values in {0.1: [1.0, 4.0], 0.2: [3.0, 3.5], 0.3: None}.items():
        trial = create_trial(
            params={"rate": rate, "layout": "ring"},
            distributions=kinds,
            value=None if values is None else sum(values) / 2,
            state=TrialState.FAIL if values is None else TrialState.COMPLETE,
            user_attrs={"values": values, "env_steps": 7},
        )
        study.add_trial(trial)
    return study.trials


def test_every_point_has_its_rank(trials, tmp_path):
    write_table(tmp_path / "table.csv", trials, "eval_return_mean")
    best, second, last = table(tmp_path / "table.csv")
    assert [row["point"] for row in (best, second, last)] == ["1", "0", "2"]
    assert [row["rank"] for row in (best, second, last)] == ["1", "2", "3"]
    assert (best["rate"], best["layout"], best["env_steps"]) == ("0.2", "ring", "7")
    assert (last["eval_return_mean"], last["state"]) == ("", "fail")


def test_points_are_printed_best_first(trials):
    console = Console(width=120, record=True)
    print_points(console, trials, "eval_return_mean")
    lines = console.export_text().splitlines()
    assert [line.split()[:4] for line in lines[1:]] == [
        ["1", "0.2", "ring", "3.25"],
        ["2", "0.1", "ring", "2.50"],
        ["3", "0.3", "ring", "fail"],
    ]
    assert lines[1].rstrip().endswith("1")


def test_a_picture(trials, tmp_path):
    draw_sweep(tmp_path / "sweep.png", trials, "eval_return_mean")
    draw_sweep(tmp_path / "nothing.png", trials[-1:], "eval_return_mean")
    for name in ("sweep.png", "nothing.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
