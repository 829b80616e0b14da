"""A run of several seeds is, for each of them, the run of this seed alone."""

from pathlib import Path

import numpy as np
import pytest
from command_lines import call, call_and_hear, check_refusal
from run_files import SMALL, check_close, files, result, rows
from safetensors.numpy import load_file

from agents import CheckpointError, NonFiniteLoss, find_policies, find_policy, read_metadata
from eqgrid_lab.runs import _run
from eqgrid_lab.show import bootstrap_interval

SEEDS = ("--seed", "3", "--num-seeds", "2")


@pytest.mark.slow
def test_two_seeds_share_a_folder_and_train_as_each_does_alone(tmp_path):
    whole, alone = tmp_path / "whole", tmp_path / "alone"
    assert call(*SMALL, *SEEDS, "--out", whole) == 0
    names = {"config.toml", "metrics.csv", "result.json", "curve.png", "episode.gif"}
    names |= {f"policy-{seed}.safetensors" for seed in (3, 4)}
    names |= {f"checkpoints/{name}.safetensors" for name in ("last", "best-3", "best-4")}
    assert files(whole) == names
    assert call(*SMALL, "--seed", "4", "--out", alone) == 0
    assert [(x["seed"], x["update"]) for x in rows(whole)] == [
        (seed, update) for update in "245" for seed in "34"
    ]
    check_close([row for row in rows(whole) if row["seed"] == "4"], rows(alone))
    together, own = result(whole), result(alone)
    scores = [x["eval_return_mean"] for x in together["runs"]]
    assert (together["seeds"], [x["seed"] for x in together["runs"]]) == ([3, 4], [3, 4])
    assert together["eval_return_iqm"] == pytest.approx(np.mean(scores))
    assert tuple(together["eval_return_interval"]) == bootstrap_interval(np.asarray(scores))
    for name, value in together["runs"][1].items():
        if name != "seed":
            close = pytest.approx(value, rel=1e-3) if isinstance(value, float) else value
            assert own[name] == close, name
    for name in ("policy", "checkpoints/best"):
        parameters = load_file(alone / f"{name}.safetensors")
        for leaf, numbers in load_file(whole / f"{name}-4.safetensors").items():
            np.testing.assert_allclose(numbers, parameters[leaf], rtol=1e-3, atol=1e-5)
    described = [
        read_metadata(x / f"policy{y}.safetensors") for x, y in ((whole, "-4"), (alone, ""))
    ]
    assert described[0]["run"] == described[1]["run"]
    assert [path.name for path in find_policies(whole)] == sorted(
        name for name in names if name.startswith("policy-")
    )
    with pytest.raises(CheckpointError, match="policy-3"):
        find_policy(whole)


def test_a_loss_that_is_no_number_names_its_seed(tmp_path, monkeypatch, capsys):
    def fail(*_):
        raise NonFiniteLoss(7, "the entropy", 1)

    monkeypatch.setattr(_run.Run, "start", fail)
    heard = call_and_hear(capsys, *SMALL, *SEEDS, "--out", tmp_path / "mine")
    says = "update 7 of seed 4 is not a finite number (first the entropy)"
    check_refusal(heard, says, codes=(1,))
    assert not (tmp_path / "mine").exists()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--num-seeds", "0"], "--num-seeds must be at least 1"),
        (["--num-seeds", "2", "--devices", "2"], "2 devices are needed, but jax has 1"),
        (["--num-seeds", "2", "--seed", str(2**32 - 1)], "is too large for --num-seeds 2"),
    ],
)
def test_what_cannot_go_together_is_one_sentence(more, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    check_refusal(call_and_hear(capsys, *more), words, codes=(2,))
    assert not list(Path().iterdir())
