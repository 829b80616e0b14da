"""Files of a newer format are refused in a sentence, and those of today are read."""

import io
import json
import zipfile

import equinox as eqx
import jax
import numpy as np
import pytest
from safetensors import safe_open
from saved_policies import forge

import agents
from agents.files import _checkpoint, _trajectory_files, is_newer
from eqgrid import RandomPartner, make, record_play


def test_newer_formats_are_told_from_others():
    assert is_newer("eqgrid policy 10", "eqgrid policy 9")
    assert not is_newer("eqgrid policy 1", "eqgrid policy 1")
    assert not is_newer("eqgrid policy x", "eqgrid policy 1")
    assert not is_newer("another 2", "eqgrid policy 1")
    assert not is_newer(None, "eqgrid policy 1")
    assert not is_newer("eqgrid policy " + "9" * 5000, "eqgrid policy 1")
    assert not is_newer("eqgrid policy \u0662", "eqgrid policy 1"), "a digit of another script"


def test_a_checkpoint_of_a_newer_format_is_one_sentence(tmp_path):
    path = tmp_path / "a.safetensors"
    agents.save(path, {"x": np.zeros(2)})
    about, data = _checkpoint.read(path)
    forge(path, about | {"format": "eqgrid checkpoint 2", "more": 1}, data)
    with pytest.raises(agents.CheckpointError) as caught:
        agents.read_metadata(path)
    assert str(caught.value) == f"The checkpoint {str(path)!r} {_checkpoint.NEWER}."


def test_saving_twice_gives_the_same_bytes(tmp_path):
    path, state = (
        tmp_path / "a.safetensors",
        {"x": np.ones(3, np.float32), "key": jax.random.key(0)},
    )
    contents = set()
    for _ in range(12):  # safetensors itself chooses one of two orders for each of them
        agents.save(path, state, {"note": "naïve", "number": 1})
        contents.add(path.read_bytes())
    assert len(contents) == 1
    assert (8 + int.from_bytes(contents.pop()[:8], "little")) % 8 == 0, "arrays are aligned"
    assert agents.restore(path, state)["x"].tolist() == [1, 1, 1]
    assert safe_open(path, "numpy").metadata().keys() == {"about", "sha256"}


def test_a_checksum_depends_on_the_content_and_on_no_order(tmp_path):
    a, b = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    agents.save(a, {"x": np.ones(3), "y": np.zeros(2)}, {"one": 1, "two": {"c": 3, "d": 4}})
    agents.save(b, {"y": np.zeros(2), "x": np.ones(3)}, {"two": {"d": 4, "c": 3}, "one": 1})
    assert agents.files.checksum(a) == agents.files.checksum(b)
    content = a.read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:end])
    header["__metadata__"] = dict(reversed(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    b.write_bytes(content[:8] + text.ljust(end - 8) + content[end:])
    assert a.read_bytes() != b.read_bytes()
    assert agents.files.checksum(a) == agents.files.checksum(b)
    agents.save(b, {"x": np.ones(3), "y": np.zeros(2)}, {"one": 2, "two": {"c": 3, "d": 4}})
    assert agents.files.checksum(a) != agents.files.checksum(b)


def test_episodes_of_newer_and_strange_formats(tmp_path):
    path, env = tmp_path / "a.npz", make("goals", horizon=3)
    team = (RandomPartner(env.action_space),) * env.num_agents
    games = record_play(env, team, jax.random.split(jax.random.key(0), 2), max_steps=3)
    agents.save_trajectories(path, games)
    arrays = dict(np.load(path))
    assert arrays.pop("eqgrid format") == _trajectory_files._FORMAT.encode()
    np.savez(path, **arrays, **{"eqgrid format": np.asarray(b"eqgrid arrays 2")})
    with pytest.raises(ValueError, match="newer version of eqgrid") as caught:
        agents.load_trajectories(path, env)
    assert str(caught.value) == f"The file {str(path)!r} {_checkpoint.NEWER}."
    np.savez(path, **arrays)
    assert eqx.tree_equal(agents.load_trajectories(path, env), games), "a file without a version"
    for strange in (np.zeros(2, "datetime64[s]"), np.asarray([b"a", b"b"]), np.asarray(1.0)):
        np.savez(path, **arrays, **{"eqgrid format": strange})
        assert eqx.tree_equal(agents.load_trajectories(path, env), games)


def test_an_array_that_no_machine_can_hold_is_refused(tmp_path):
    path, buffer = tmp_path / "a.npz", io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        header = io.BytesIO()
        about = {"descr": "<f8", "fortran_order": False, "shape": (10**14,)}
        np.lib.format.write_array_header_1_0(header, about)
        archive.writestr("number.npy", header.getvalue())
    path.write_bytes(buffer.getvalue())
    with pytest.raises(ValueError, match="is damaged, or no"):
        agents.load_trajectories(path, make("goals"))
