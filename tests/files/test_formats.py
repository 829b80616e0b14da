"""Files of a newer format are refused in a sentence, and those of today are read."""

import io
import json
import zipfile

import numpy as np
import pytest
from safetensors.numpy import load, save

import agents
from agents.files import _checkpoint, _trajectory_files
from agents.files._checkpoint import is_newer


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
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])["__metadata__"]
    about = json.dumps(json.loads(header["about"]) | {"format": "eqgrid checkpoint 2", "more": 1})
    data = load(content)
    header = {"about": about, "sha256": _checkpoint._digest(about, data)}
    path.write_bytes(save(data, header))
    with pytest.raises(agents.CheckpointError) as caught:
        agents.read_metadata(path)
    assert str(caught.value) == f"The checkpoint {str(path)!r} {_checkpoint.NEWER}."


def test_a_table_of_a_newer_format_is_one_sentence(tmp_path):
    path = tmp_path / "a.npz"
    agents.write_table(path, {"format": ["b"], "number": [1]})
    assert agents.read_table(path) == {"format": ["b"], "number": [1]}
    arrays = dict(np.load(path))
    assert arrays["eqgrid format"] == _trajectory_files._FORMAT.encode()
    buffer = io.BytesIO()
    np.savez(buffer, **(arrays | {"eqgrid format": np.asarray(b"eqgrid arrays 2")}))
    path.write_bytes(buffer.getvalue())
    with pytest.raises(ValueError, match="newer version of eqgrid") as caught:
        agents.read_table(path)
    assert str(caught.value) == f"The file {str(path)!r} {_checkpoint.NEWER}."
    del arrays["eqgrid format"]
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    path.write_bytes(buffer.getvalue())
    assert agents.read_table(path) == {"format": ["b"], "number": [1]}, "a file without a version"


def test_strange_entries_of_a_format_are_no_trouble(tmp_path):
    path = tmp_path / "a.npz"
    agents.write_table(path, {"number": [1]})
    arrays = dict(np.load(path))
    for strange in (np.zeros(2, "datetime64[s]"), np.asarray([b"a", b"b"]), np.asarray(1.0)):
        buffer = io.BytesIO()
        np.savez(buffer, **(arrays | {"eqgrid format": strange}))
        path.write_bytes(buffer.getvalue())
        assert agents.read_table(path) == {"number": [1]}
    with pytest.raises(ValueError, match="cannot be named 'eqgrid format'"):
        agents.write_table(path, {"eqgrid format": [1]})


def test_an_array_that_no_machine_can_hold_is_refused(tmp_path):
    path, buffer = tmp_path / "a.npz", io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        header = io.BytesIO()
        about = {"descr": "<f8", "fortran_order": False, "shape": (10**14,)}
        np.lib.format.write_array_header_1_0(header, about)
        archive.writestr("number.npy", header.getvalue())
    path.write_bytes(buffer.getvalue())
    with pytest.raises(ValueError, match="is damaged, or no"):
        agents.read_table(path)
