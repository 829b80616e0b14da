import errno
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from safetensors.numpy import load_file

from agents import CheckpointError, read_metadata, restore, save
from agents.files import _checkpoint


class Notes(eqx.Module):
    numbers: jax.Array
    key: jax.Array
    nested: dict
    label: str = eqx.field(static=True, default="a")


def notes(offset=0.0):
    return Notes(
        numbers=jnp.arange(6.0).reshape(2, 3) + offset,
        key=jax.random.key(3),
        nested={
            "rbg": jax.random.split(jax.random.key(4, impl="rbg"), 3),
            "half": jnp.asarray([1.5, 2.5], dtype=jnp.bfloat16),
            "bytes": jnp.arange(4, dtype=jnp.uint8),
            "flag": jnp.asarray(True),
            "function": jnp.tanh,
            "nothing": None,
        },
    )


def shapes(tree):
    return eqx.filter_eval_shape(lambda: tree)


def check_only(folder, expected, number):
    """The folder has this checkpoint and no other file."""
    assert [path.name for path in folder.iterdir()] == ["a"]
    assert eqx.tree_equal(restore(folder / "a", notes(7.0)), expected)
    assert read_metadata(folder / "a") == {"number": number}


def test_what_was_saved_is_restored(tmp_path):
    save(tmp_path / "a", notes(), {"steps": 3, "name": "x"})
    for like in (notes(7.0), shapes(notes())):
        restored = restore(tmp_path / "a", like)
        assert eqx.tree_equal(restored, notes())
        assert restored.key.dtype == notes().key.dtype
        np.testing.assert_array_equal(
            jax.random.bits(restored.nested["rbg"][1]), jax.random.bits(notes().nested["rbg"][1])
        )
    assert read_metadata(tmp_path / "a") == {"steps": 3, "name": "x"}


SYMBOLS = ["o[1]", "[proj]", "a*b?", "{x}", "a[/b]", " ", "-", "~", "$HOME", "%s"]
LETTERS = ["日本語", "new\nline", "a" * 200, os.fsdecode(b"\xff\xfe")]


@pytest.mark.parametrize("folder", [*SYMBOLS, *LETTERS])
def test_any_name_of_a_folder_will_do(tmp_path, folder):
    path = tmp_path / folder / "deeper" / "last.safetensors"
    save(path, notes(), {"number": 1})
    assert eqx.tree_equal(restore(path, notes(7.0)), notes())
    assert read_metadata(path) == {"number": 1}


def test_other_programs_can_read_it(tmp_path):
    save(tmp_path / "a.safetensors", notes())
    assert (tmp_path / "a.safetensors").stat().st_size < 10_000
    arrays = load_file(tmp_path / "a.safetensors")
    np.testing.assert_array_equal(arrays[".numbers"], notes().numbers)


def test_a_newer_one_takes_the_place_of_the_older(tmp_path):
    for number in range(3):
        save(tmp_path / "a", notes(number), {"number": number})
    check_only(tmp_path, notes(2), 2)


def test_a_failed_write_leaves_the_former_one(tmp_path):
    big = np.random.default_rng(0).normal(size=100_000)
    save(tmp_path / "a", {"x": jnp.asarray(big)}, {"number": 1})
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(CheckpointError, match=r"/a' cannot be written: File too large"):
            save(tmp_path / "a", {"x": jnp.asarray(big + 1)}, {"number": 2})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    restored = restore(tmp_path / "a", {"x": jnp.zeros(100_000)})
    np.testing.assert_array_equal(restored["x"], jnp.asarray(big))
    assert read_metadata(tmp_path / "a") == {"number": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_what_was_written_is_read_before_it_counts(tmp_path, monkeypatch):
    save(tmp_path / "a", notes(), {"number": 1})
    # A disk that returns another last bit.
    read = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: flip(read(path), -1))
    with pytest.raises(CheckpointError, match="the file has other content than was written"):
        save(tmp_path / "a", notes(1.0), {"number": 2})
    monkeypatch.undo()
    check_only(tmp_path, notes(), 1)


def test_a_crash_while_writing_leaves_the_former_one(tmp_path):
    save(tmp_path / "a", notes(), {"number": 1})
    script = f"""
import os
import jax.numpy as jnp
from agents import save
os.replace = lambda *_: os._exit(9)
save({str(tmp_path / "a")!r}, {{"x": jnp.zeros(3)}})
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert done.returncode == 9, done.stderr.decode()
    assert eqx.tree_equal(restore(tmp_path / "a", notes(7.0)), notes())
    save(tmp_path / "a", notes(2.0), {"number": 2})
    check_only(tmp_path, notes(2.0), 2)


def press_ctrl_c(file):
    signal.raise_signal(signal.SIGINT)


def fill_the_disk(file):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.usefixtures("hears_ctrl_c")
@pytest.mark.parametrize(
    ("accident", "error", "message"),
    [
        (press_ctrl_c, KeyboardInterrupt, "^$"),
        (fill_the_disk, CheckpointError, r"/a' cannot be written: No space left on device\.$"),
    ],
)
def test_an_accident_leaves_the_former_one(tmp_path, monkeypatch, accident, error, message):
    save(tmp_path / "a", notes(), {"number": 1})
    monkeypatch.setattr(os, "fsync", accident)
    with pytest.raises(error, match=message):
        save(tmp_path / "a", notes(2.0), {"number": 2})
    check_only(tmp_path, notes(), 1)


def test_one_that_cannot_be_read_is_named_and_others_are_offered(tmp_path):
    for read in (read_metadata, lambda path: restore(path, notes())):
        with pytest.raises(CheckpointError, match=r"There is no checkpoint .*nowhere'\.$"):
            read(tmp_path / "nowhere")
    save(tmp_path / "best.safetensors", notes())
    with pytest.raises(CheckpointError, match=r"The same folder contains best\.safetensors\.$"):
        read_metadata(tmp_path / "nowhere")
    (tmp_path / "last.safetensors").write_bytes(b"{}")
    with pytest.raises(CheckpointError, match=r"last.* is damaged, .*best\.safetensors\.$"):
        read_metadata(tmp_path / "last.safetensors")


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match=r"cannot be written: (File exists|Not a directory)"):
        save(tmp_path / "file" / "a", notes())


def flip(content: bytes, bit: int) -> bytes:
    damaged = bytearray(content)
    damaged[bit // 8] ^= 1 << bit % 8
    return bytes(damaged)


@pytest.mark.slow
def test_every_flipped_bit_is_noticed_or_harmless(tmp_path):
    path = tmp_path / "a"
    save(path, notes(), {"number": 1})
    whole = path.read_bytes()
    noticed = 0
    for bit in range(8 * len(whole)):
        path.write_bytes(flip(whole, bit))
        try:
            about = read_metadata(path)
            restored = restore(path, notes(7.0)) if bit % 8 == 0 else notes()
        except CheckpointError as error:
            noticed += 1
            assert "damaged" in str(error)  # noqa: PT017
        else:
            assert about == {"number": 1}
            assert eqx.tree_equal(restored, notes()), f"bit {bit} was flipped, and nobody noticed"
    assert noticed > 0.95 * 8 * len(whole)


@given(length=st.integers(0, 3000), junk=st.binary(max_size=64), end=st.integers(0, 4000))
@settings(
    deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_bytes_that_are_cut_added_or_replaced_are_noticed(tmp_path, length, junk, end):
    path = tmp_path / "a"
    save(path, notes())
    whole = path.read_bytes()
    damaged = whole[:length] + junk + whole[end:]
    path.write_bytes(damaged)
    if damaged == whole:
        assert eqx.tree_equal(restore(path, notes(7.0)), notes())
    else:
        with pytest.raises(CheckpointError, match="damaged, or not a checkpoint"):
            restore(path, notes())


def test_what_is_too_large_to_be_read_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr(_checkpoint, "MAX_FILE_BYTES", 100)
    with pytest.raises(CheckpointError, match="cannot be written: it has more than 100 bytes"):
        save(tmp_path / "a", notes())
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_no_checkpoint(tmp_path):
    (tmp_path / "a").mkdir()
    with pytest.raises(CheckpointError, match=r"cannot be read: it is not a file, but a folder"):
        restore(tmp_path / "a", notes())


@pytest.mark.parametrize(
    ("where", "replacement", "message"),
    [
        (lambda n: n.numbers, jnp.zeros((3, 2)), r"float32\[2, 3\], but float32\[3, 2\] is needed"),
        (lambda n: n.numbers, jnp.zeros((2, 3), dtype=int), r"float32\[2, 3\], but int32\[2, 3\]"),
        (lambda n: n.nested["flag"], None, r"bool\[\], but nothing is needed"),
        (lambda n: n.nested["function"], jnp.zeros(2), r"nothing, but float32\[2\] is needed"),
        (lambda n: n.key, jax.random.key(0, impl="rbg"), r"key<fry>\[\], but key<rbg>\[\]"),
    ],
)
def test_another_kind_of_run_is_refused(tmp_path, where, replacement, message):
    save(tmp_path / "a", notes())
    like = eqx.tree_at(where, notes(), replacement, is_leaf=lambda x: x is None)
    with pytest.raises(CheckpointError, match=message):
        restore(tmp_path / "a", like)


def test_numpy_arrays_stay_what_they_are(tmp_path):
    state = {"large": np.asarray([2**40 + 1, -1]), "other": np.asarray([1.5], ">f8")}
    save(tmp_path / "a", state)
    restored = restore(tmp_path / "a", state)
    for name, value in state.items():
        assert restored[name].dtype == value.dtype
        np.testing.assert_array_equal(restored[name], value)


@pytest.mark.parametrize(
    "bad",
    [
        lambda path: save(path / "a", {"x": np.asarray([object()])}),
        lambda path: save(path / "a", {}, {"x": np.float32(1)}),
        lambda path: read_metadata(path / "a\0b"),
    ],
)
def test_what_cannot_be_kept_is_refused(tmp_path, bad):
    with pytest.raises(CheckpointError, match=r"cannot be (written|read)"):
        bad(tmp_path)
    assert list(tmp_path.iterdir()) == []
