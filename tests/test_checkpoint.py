import gc
import resource
import shutil
import signal
import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest

from agents import CheckpointError, read_metadata, restore, save

# On broken files, threads of orbax complain as well, some of them when garbage is collected.
quiet = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning",
    "ignore::pytest.PytestUnhandledThreadExceptionWarning",
)


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


def files(path):
    return [file for file in sorted(path.rglob("*")) if file.is_file()]


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


def test_a_checkpoint_stands_on_its_own_and_is_small(tmp_path):
    save(tmp_path / "a", notes())
    assert sum(file.stat().st_size for file in files(tmp_path / "a")) < 100_000
    shutil.move(tmp_path / "a", tmp_path / "elsewhere")
    assert eqx.tree_equal(restore(tmp_path / "elsewhere", notes(7.0)), notes())


def test_a_newer_one_takes_the_place_of_the_older(tmp_path):
    for offset in (0.0, 1.0, 2.0):
        save(tmp_path / "a", notes(offset), {"offset": offset})
    assert eqx.tree_equal(restore(tmp_path / "a", notes()), notes(2.0))
    assert read_metadata(tmp_path / "a") == {"offset": 2.0}
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["3"], "older ones must go"


@quiet
def test_a_failed_write_leaves_the_former_one(tmp_path):
    big = np.random.default_rng(0).normal(size=100_000)
    save(tmp_path / "a", {"x": jnp.asarray(big)}, {"number": 1})
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(CheckpointError, match="cannot be written"):
            save(tmp_path / "a", {"x": jnp.asarray(big + 1)}, {"number": 2})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        gc.collect()
    restored = restore(tmp_path / "a", {"x": jnp.zeros(100_000)})
    np.testing.assert_array_equal(restored["x"], jnp.asarray(big))
    assert read_metadata(tmp_path / "a") == {"number": 1}


def test_a_crash_while_writing_leaves_the_former_one(tmp_path):
    save(tmp_path / "a", notes(), {"number": 1})
    script = f"""
import os
import jax.numpy as jnp
import orbax.checkpoint as ocp
from agents import save
def crash(*_, **__):
    os._exit(9)
ocp.StandardCheckpointHandler.finalize = crash
save({str(tmp_path / "a")!r}, {{"x": jnp.zeros(3)}})
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert done.returncode == 9, done.stderr.decode()
    assert eqx.tree_equal(restore(tmp_path / "a", notes(7.0)), notes())
    save(tmp_path / "a", notes(2.0), {"number": 2})
    assert eqx.tree_equal(restore(tmp_path / "a", notes(7.0)), notes(2.0))


@pytest.mark.usefixtures("hears_ctrl_c")
def test_ctrl_c_waits_for_a_checkpoint_to_be_complete(tmp_path, monkeypatch):
    finalize = ocp.StandardCheckpointHandler.finalize

    def interrupted(self, directory):
        signal.raise_signal(signal.SIGINT)
        finalize(self, directory)

    monkeypatch.setattr(ocp.StandardCheckpointHandler, "finalize", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save(tmp_path / "a", notes(1.0), {"number": 1})
    assert eqx.tree_equal(restore(tmp_path / "a", notes()), notes(1.0))
    assert read_metadata(tmp_path / "a") == {"number": 1}


def test_a_full_disk_is_noticed_beforehand(tmp_path, monkeypatch):
    save(tmp_path / "a", notes())
    usage = shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(CheckpointError, match=r"no room for the checkpoint .* before it is kept"):
        save(tmp_path / "a", notes(1.0))
    assert eqx.tree_equal(restore(tmp_path / "a", notes()), notes())


def test_a_missing_one_is_named(tmp_path):
    for read in (read_metadata, lambda path: restore(path, notes())):
        with pytest.raises(CheckpointError, match=r"There is no checkpoint .*nowhere"):
            read(tmp_path / "nowhere")


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="cannot be written"):
        save(tmp_path / "file" / "a", notes())


@quiet
def test_damage_is_noticed(tmp_path):
    save(tmp_path / "a", notes())
    whole = tmp_path / "whole"
    shutil.copytree(tmp_path / "a", whole)
    noticed = 0
    for file in files(whole):
        if file.stat().st_size < 200:
            continue
        shutil.rmtree(tmp_path / "a")
        shutil.copytree(whole, tmp_path / "a")
        damaged = tmp_path / "a" / file.relative_to(whole)
        damaged.write_bytes(damaged.read_bytes()[: file.stat().st_size // 2])
        try:
            restored = restore(tmp_path / "a", notes(7.0))
        except CheckpointError as error:
            noticed += 1
            assert "damaged" in str(error)  # noqa: PT017
        else:
            assert eqx.tree_equal(restored, notes()), f"{file} was damaged, and nobody noticed"
    assert noticed > 3
    gc.collect()


def test_an_empty_folder_is_no_checkpoint(tmp_path):
    (tmp_path / "a").mkdir()
    with pytest.raises(CheckpointError, match="damaged, or no checkpoint"):
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
