"""Wrong flags and files: each ends with the exit code 2 and a message that names it, and leaves
nothing behind. Wrong inputs of a single feature are tested with this feature.
"""

import pytest
from command_lines import call, check_refusal

FLAGS = {
    "no number": ("--seed many", "--seed"),
    "below its range": ("--num-envs 0", "--num-envs"),
    "above its range": ("--seed 4294967296", "--seed"),
    "above the largest default": ("--ppo.num-epochs 9999999999", "num-epochs"),
    "not finite": ("--ppo.gamma nan", "gamma"),
    "no value": ("--seed", "--seed"),
    "unknown flag": ("--env.layuot ring", "--env.layuot"),
    "unknown word": ("cramped", "cramped"),
    "none of several types": ("--devices many", "--devices"),
    "None for a number": ("--env.name goals --env.num-agents None", "--env.num-agents"),
    "unknown network": ("--network transformer", "--network"),
    "a value twice": ("--log jsonl --log jsonl", "--log"),
    "unknown world": ("--env.name overkooked", "overkooked"),
    "function without hints": ("--env.name math:sqrt", "math:sqrt"),
    "unknown layout": ("--env.layout cramped_rom", "cramped_rom"),
    "a folder as a layout": ("--env.layout /", "'/'"),
    "a device as a layout": ("--env.layout /dev/zero", "/dev/zero"),
    "unknown dynamics": ("--env.dynamics modern", "--env.dynamics"),
    "missing settings file": ("--config no.toml", "no.toml"),
    "a folder as a settings file": ("--config /", "'/'"),
    "no entry of info": ("--log-info speed", "speed"),
    "images for a vector": ("--network cnn", "--network cnn"),
    "no shaped reward": ("--env.name goals --shaping 2", "--shaping"),
    "minibatches of two sizes": ("--ppo.num-minibatches 7", "num_minibatches"),
    "too long a rollout": ("--num-envs 16000000 --ppo.rollout-length 1000000", "--num-envs"),
    "too long a schedule": ("--shaping-steps 100000000000000", "--shaping-steps"),
}
SETTINGS = {  # contents of settings files, and what the message names beside the file
    "unknown key": (b"seeed = 1\n", "seeed"),
    "wrong type": (b'seed = "one"\n', "seed"),
    "wrong type in a table": (b"[env]\nlayout = 3\n", "env.layout"),
    "no table": (b"env = 3\n", "env"),
    "a table for a number": (b"[seed]\nx = 1\n", "seed"),
    "unknown world": (b'[env]\nname = "overkooked"\n', "overkooked"),
    "unknown algorithm": (b'algorithm = "qmix"\n', "qmix"),
    "no TOML": (b"seed = = 1\n", "TOML"),
    "no text": (b"\xff\xfe\x00seed", ""),
    "too deep": (b"seed = " + b"[" * 20_000 + b"]" * 20_000 + b"\n", "TOML"),
    "too large": (b"# " + b"x" * 1_000_000 + b"\nseed = 1\n", "1,000,000 bytes"),
}
GRID = "'grid': 'XXPXX\\nO 12O\\nXDXSX'"
START = "'start_state': {'players': [%s], 'objects': [%s]}"
COOK = "{'position': (%s), 'orientation': (%s), 'held_object': None}"
HERE = COOK % ("2, 1", "0, -1")
ENTRIES = {  # of the dictionary in a layout file, beside its grid
    "an infinite value": "'delivery_reward': 1e999",
    "half a cook time": "'cook_time': 2.5",
    "orders of numbers": "'start_all_orders': [1, 2]",
    "too many values": "'start_all_orders': [{'ingredients': ['onion']}], 'recipe_values': [1, 2]",
    "no cooks": START % ("", ""),
    "a cook in a counter": START % (COOK % ("0, 0", "0, 1"), ""),
    "a cook off the grid": START % (COOK % ("9, 9", "0, 1"), ""),
    "two cooks in a cell": START % (f"{HERE}, {HERE}", ""),
    "a cook that faces nowhere": START % (COOK % ("1, 1", "0, 0"), ""),
    "an unknown object": START % (HERE, "{'name': 'carrot', 'position': (0, 0)}"),
}
LAYOUTS = {
    "ragged": b"XXPXX\nO 12O\nXXX\n",
    "a picture": b"\x89PNG\r\n\x1a\n" + b"\x00" * 500,
    "too large": b"X" * 1_000_000,
    "no dictionary": b"{1, 2, 3}",
    "too deep": b"{'grid': " + b"[" * 5_000 + b"]" * 5_000 + b"}",
    **{name: f"{{{GRID}, {entry}}}".encode() for name, entry in ENTRIES.items()},
}


@pytest.fixture
def refused(monkeypatch, capsys, tmp_path):
    """Runs the program in a folder, where it must end with code 2, print a message with all of
    these words, and write nothing.
    """

    def run(*args: str, words: tuple[str, ...]) -> None:
        before = sorted(tmp_path.rglob("*"))
        code = call(*args)
        heard = capsys.readouterr()
        assert heard.out == ""
        for word in words:
            check_refusal((code, heard.err), word, codes=(2,))
        assert sorted(tmp_path.rglob("*")) == before

    monkeypatch.chdir(tmp_path)
    return run


@pytest.mark.parametrize(("args", "word"), FLAGS.values(), ids=FLAGS)
def test_flags(refused, args, word):
    refused(*args.split(), words=(word,))


@pytest.mark.parametrize(("content", "word"), SETTINGS.values(), ids=SETTINGS)
def test_settings_files(refused, tmp_path, content, word):
    (tmp_path / "settings.toml").write_bytes(content)
    refused("--config", "settings.toml", words=("settings.toml", word))


@pytest.mark.parametrize("content", LAYOUTS.values(), ids=LAYOUTS)
def test_layout_files(refused, tmp_path, content):
    (tmp_path / "kitchen.layout").write_bytes(content)
    refused("--env.layout", "kitchen.layout", words=("kitchen.layout",))


@pytest.mark.parametrize("flag", ["--env.layout", "--config"])
def test_files_of_five_gigabytes_are_not_read(refused, tmp_path, flag):
    with (tmp_path / "large").open("wb") as file:
        file.truncate(5 * 2**30)
    refused(flag, "large", words=("large", "bytes"))
