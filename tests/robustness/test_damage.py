"""Checkpoints of a run that were damaged afterwards are never taken for whole ones."""

import random
import shutil

import jax
import pytest

from agents import CheckpointError, read_metadata, restore, save

pytestmark = pytest.mark.robustness
NUMBER = 40


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A checkpoint of 200 kB, and what is in it."""
    key = jax.random.key(0)
    state = {"key": key, "weights": jax.random.normal(key, (50, 1000))}
    path = tmp_path_factory.mktemp("run") / "last.safetensors"
    save(path, state, {"env_steps": 3})
    return path, state


def damage(content: bytes, luck: random.Random) -> bytes:
    place = luck.randrange(len(content))
    length = luck.randrange(1, 5000)
    flipped = content[place] ^ 1 << luck.randrange(8)
    return luck.choice(
        [
            content[:place] + bytes([flipped]) + content[place + 1 :],
            content[:place],
            content[:place] + bytes(length) + content[place + length :],
            content[:place] + content[place + length :],
            content[:place] + luck.randbytes(length) + content[place:],
            content + luck.randbytes(length),
            luck.randbytes(length),
            b"",
        ]
    )


@pytest.mark.parametrize("seed", range(NUMBER))
def test_damage_is_one_sentence(whole, tmp_path, seed):
    path, state = whole
    shutil.copy(path, tmp_path / "best.safetensors")
    content = path.read_bytes()
    damaged = damage(content, random.Random(seed))
    assert damaged != content
    (tmp_path / "last.safetensors").write_bytes(damaged)
    for read in (read_metadata, lambda path: restore(path, state)):
        with pytest.raises(CheckpointError, match=r"is damaged, .*best\.safetensors\.$") as error:
            read(tmp_path / "last.safetensors")
        assert "\n" not in str(error.value)
    assert read_metadata(tmp_path / "best.safetensors") == {"env_steps": 3}
