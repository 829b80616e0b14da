"""Things that a person may ask for and cannot have. Others are in tests/runs, with the sentence
that rejects them.
"""

from pathlib import Path

COUNTS = {  # every whole number, with its highest value
    "--seed": 2**32 - 1,
    "--num-seeds": 1024,
    "--total-steps": 10**15,
    "--num-envs": 2**24,
    "--width": 2**16,
    "--shaping-steps": 10**15,
    "--eval-every": 10**15,
    "--eval-episodes": 2**20,
    "--final-episodes": 2**20,
    "--env.horizon": 100_000,
    "--ppo.rollout-length": 2**20,
    "--ppo.num-epochs": 2**20,
    "--ppo.num-minibatches": 2**24,
    "--ppo.chunk-length": 2**20,
}
OPTIONAL = ("--stop-at-return", "--patience", "--max-kl", "--checkpoint-every", "--max-hours")
WRONG_COUNTS = ("-1", "-9223372036854775809", "1.5", "1e3", "many", "", "nan", "9" * 5000)
NUMBERS = (
    "--shaping",
    "--env.random-starts",
    "--ppo.learning-rate",
    "--ppo.gamma",
    "--ppo.gae-lambda",
    "--ppo.clip-epsilon",
    "--ppo.entropy-coefficient",
    "--ppo.entropy-coefficient-end",
    "--ppo.value-coefficient",
    "--ppo.max-grad-norm",
    "--ppo.advantage-std-offset",
)
WRONG_NUMBERS = ("nan", "inf", "-inf", "-0.5", "1e39", "1+2j", "some", "")


def flags() -> dict[str, list[str]]:
    """Flags that are refused, by what is wrong with them."""
    cases = {f"{flag}={value[:20]}": [flag, value] for flag in COUNTS for value in WRONG_COUNTS}
    for flag, highest in COUNTS.items():
        for value in (highest + 1, 2**63, 10**30):
            cases[f"{flag}={value}"] = [flag, str(value)]
    cases |= {f"{flag}={value}": [flag, value] for flag in NUMBERS for value in WRONG_NUMBERS}
    cases |= {f"{flag}={value}": [flag, value] for flag in OPTIONAL for value in ("x", "nan", "")}
    cases |= {
        "no number of devices": ["--devices", "many"],
        "half a device": ["--devices", "1.5"],
        "no value": ["--seed"],
        "unknown prefix": ["--enf.layout", "ring"],
        "unknown word": ["cramped"],
        "no class of a network": ["--network", "math:pi"],
        "path of a network": ["--network", "../net.py:Net"],
        "nothing in a module": ["--env.name", "math:World"],
        "function without hints": ["--env.name", "math:sqrt"],
        "class of something else": ["--env.name", "collections:OrderedDict"],
        "networks of no partners": ["--partners.networks", "a:B"],
        "unknown dynamics": ["--env.dynamics", "modern"],
        "unknown observation": ["--env.observation", "pixels"],
        "nonsense": ["--env.layout", "zzzzqqqq"],
        "no layout": ["--env.layout", ""],
        "dots": ["--env.layout", ".."],
        "folder": ["--env.layout", "/"],
        "device": ["--env.layout", "/dev/zero"],
        "long name": ["--env.layout", "x" * 5000],
        "long path": ["--env.layout", "x/" * 5000],
        "no utf-8": ["--env.layout", "caf\udce9"],
        "too long a rollout": ["--num-envs", "16000000", "--ppo.rollout-length", "1000000"],
        "too many updates": ["--total-steps", str(10**14)],
        "too long a schedule": ["--shaping-steps", str(10**14)],
        "settings folder": ["--config", "/"],
        "settings device": ["--config", "/dev/zero"],
        "settings with a long name": ["--config", "x" * 5000],
        "two settings files": ["--config", "a.toml", "--config", "b.toml"],
    }
    return cases


SETTINGS = {  # texts of settings files
    "no text": b"\xff\xfe\x00seed",
    "zero bytes": b"\x00" * 100,
    "nothing near": b"qqqqqqqqq = 1\n",
    "long key": b"k" * 5000 + b" = 1\n",
    "unknown table": b"[agent]\nx = 1\n",
    "number for a text": b"[env]\nlayout = 3\n",
    "flag for a number": b"seed = true\n",
    "number for a flag": b"[ppo]\nanneal_learning_rate = 1\n",
    "list for a number": b"seed = [1]\n",
    "number for stages": b"stage = 3\n",
    "number for a stage": b"stage = [3]\n",
    "text for a number or all": b'devices = "many"\n',
    "numbers for texts": b"partners.policies = [3]\n",
    "date for a number": b"seed = 2020-01-01\n",
    "table for a number": b"[seed]\nx = 1\n",
    "unknown choice": b'network = "rnn"\n',
    "unnamed network": b'network = "math:sqrt"\n',
    "unnamed world": b'[env]\nname = "math:sqrt"\n',
    "hyperparameters of no network": b"[network_settings]\nwidth = 3\n",
    "unnamed networks of partners": b'[partners]\nnetworks = ["math:sqrt"]\n',
    "seed of 33 bits": b"seed = 4294967296\n",
    "seed of 64 bits": b"seed = 9223372036854775808\n",
    "negative seed": b"seed = -1\n",
    "large int": b"total_steps = 1" + b"0" * 100 + b"\n",
    "endless int": b"seed = 1" + b"0" * 10_000 + b"\n",
    "large int for a float": b"[ppo]\ngamma = 1" + b"0" * 400 + b"\n",
    "nan": b"shaping = nan\n",
    "inf": b"shaping = inf\n",
    "deep list": b"seed = " + b"[" * 20_000 + b"]" * 20_000 + b"\n",
    "deep table": b"seed = " + b"{a = " * 5_000 + b"1" + b"}" * 5_000 + b"\n",
    "deep key": b"a." * 20_000 + b"a = 1\n",
    "deep known key": b"env." * 5_000 + b"layout = 1\n",
    "deep value of a known key": b"[env]\nlayout = " + b"[" * 900 + b"]" * 900 + b"\n",
    "duplicate": b"seed = 1\nseed = 2\n",
    "open string": b'[env]\nlayout = "cramped\n',
    "zero in a path": b'[env]\nlayout = "a\\u0000b"\n',
    "unknown algorithm": b'algorithm = "dqn"\n',
    "number for an algorithm": b"algorithm = 3\n",
    "too large": b"# " + b"x" * 1_000_000 + b"\nseed = 1\n",
    "unwritable settings": b'out = "elsewhere"\n',
}

GRID = "'grid': 'XXPXX\\nO 12O\\nXDXSX'"
PLAYER = "{'position': (%s), 'orientation': (%s), 'held_object': %s}"
COOK = ("2, 1", "0, -1", "None")
ONION = "{'name': 'onion'}, "
ORDERS = "'start_all_orders': [{'ingredients': ['onion']}]"

LAYOUTS = {  # contents of layout files
    "empty": b"",
    "blank": b"\n\n   \n",
    "small": b"XX\nXX\n",
    "ragged": b"XXPXX\nO 12O\nXXX\n",
    "unknown character": b"XXPXX\nO 1?O\nXDXSX\n",
    "two first cooks": b"XXPXX\nO 11O\nXDXSX\n",
    "missing first cook": b"XXPXX\nO 2 O\nXDXSX\n",
    "no border": b"XX XX\nO 12O\nXDXSX\n",
    "too wide": b"X" * 200 + b"\nX1" + b" " * 197 + b"X\n" + b"X" * 200 + b"\n",
    "too high": b"XXX\n" + b"X X\n" * 200 + b"X1X\nXXX\n",
    "zero bytes": b"\x00" * 50,
    "picture": b"\x89PNG\r\n\x1a\n" + b"\x00" * 500,
    "too large": b"X" * 1_000_000,
    "no dictionary": b"{1, 2, 3}",
    "deep list": b"{'grid': " + b"[" * 5_000 + b"]" * 5_000 + b"}",
    "deep parentheses": b"{'grid': " + b"(" * 90 + b")" * 90 + b"}",
    "deep sign": b"{'grid': " + b"-" * 40_000 + b"1}",
    "deep dictionary": b"{'grid': " + b"{1: " * 150 + b"1" + b"}" * 150 + b"}",
    "endless int": b"{'grid': 1" + b"0" * 10_000 + b"}",
    "grid of a list": b"{'grid': ['XXX', 'X1X', 'XXX']}",
}
ENTRIES = {  # what such a dictionary has beside its grid
    "infinite value": "'delivery_reward': 1e999",
    "no value": "'delivery_reward': float('nan')",
    "complex value": "'delivery_reward': 1+2j",
    "text value": "'delivery_reward': 'much'",
    "true value": "'delivery_reward': True",
    "huge value": f"'delivery_reward': {10**60}",
    "half a cook time": "'cook_time': 2.5",
    "long cook time": "'cook_time': 5000",
    "negative cook time": "'cook_time': -1",
    "infinite cook time": "'cook_time': 1e999",
    "list of cook times": "'cook_time': [1]",
    "infinite onion": "'onion_time': 1e999, 'tomato_time': 1",
    "text bonus": "'order_bonus': 'x'",
    "bonus of a list": "'order_bonus': []",
    "too many values": f"{ORDERS}, 'recipe_values': [1, 2]",
    "too few times": (
        "'start_all_orders': [{'ingredients': ['onion']}, {'ingredients': ['tomato']}], "
        "'recipe_times': [1]"
    ),
    "orders of numbers": "'start_all_orders': [1, 2]",
    "one order": "'start_all_orders': 3",
    "bonus that is no order": f"{ORDERS}, 'start_bonus_orders': [{{'ingredients': ['tomato']}}]",
    "start of a number": "'start_state': 3",
    "start without players": "'start_state': {'objects': []}",
}
PLAYERS = {  # where cooks start, what they face and what they hold
    "no cooks": [],
    "cook in a counter": [("0, 0", "0, 1", "None")],
    "cook in a pot": [("2, 0", "0, 1", "None")],
    "cook off the grid": [("9, 9", "0, 1", "None")],
    "cook before the grid": [("-3, 1", "0, 1", "None")],
    "two cooks in a cell": [COOK, COOK],
    "half a cell": [("1.5, 1", "0, 1", "None")],
    "one coordinate": [("1,", "0, 1", "None")],
    "three coordinates": [("1, 1, 1", "0, 1", "None")],
    "cook that faces nowhere": [("1, 1", "0, 0", "None")],
    "cook that faces a text": [("1, 1", "'up', 0", "None")],
}
OBJECTS = {  # names and positions of objects at the start, and more about them
    "object off the grid": [("'onion'", "9, 9", "")],
    "object before the grid": [("'onion'", "-1, 0", "")],
    "object on the floor": [("'onion'", "1, 1", "")],
    "object in a dispenser": [("'onion'", "0, 1", "")],
    "onion in a pot": [("'onion'", "2, 0", "")],
    "unknown object": [("'carrot'", "0, 0", "")],
    "object of a number": [("3", "0, 0", "")],
    "two objects in a cell": [("'onion'", "0, 0", ""), ("'dish'", "0, 0", "")],
    "empty soup": [("'soup'", "0, 0", "'_ingredients': []")],
    "large soup": [("'soup'", "0, 0", f"'_ingredients': [{4 * ONION}]")],
    "soup of carrots": [("'soup'", "0, 0", "'_ingredients': [{'name': 'carrot'}]")],
    "soup without a time": [("'soup'", "2, 0", f"'_ingredients': [{ONION}]")],
    "half a time": [("'soup'", "2, 0", f"'_cooking_tick': 2.5, '_ingredients': [{ONION}]")],
    "endless time": [("'soup'", "2, 0", f"'_cooking_tick': {10**12}, '_ingredients': [{ONION}]")],
}


def start(players: list[tuple[str, ...]], objects: list[tuple[str, ...]]) -> str:
    """The entry of a dictionary that says where cooks and objects are at the start."""
    cooks = ", ".join(PLAYER % player for player in players)
    lying = "{'name': %s, 'position': (%s), %s}"
    things = ", ".join(lying % thing for thing in objects)
    return f"'start_state': {{'players': [{cooks}], 'objects': [{things}]}}"


ENTRIES |= {name: start(players, []) for name, players in PLAYERS.items()}
ENTRIES |= {name: start([COOK], objects) for name, objects in OBJECTS.items()}
LAYOUTS |= {name: f"{{{GRID}, {entry}}}".encode() for name, entry in ENTRIES.items()}


def places(folder: Path) -> dict[str, list[str]]:
    """Places where nothing can be written, made in `folder`."""
    (folder / "file").write_text("no folder")
    (folder / "full").mkdir()
    (folder / "full" / "precious.txt").write_text("mine")
    (folder / "link").symlink_to(folder / "link")
    return {
        "file": ["--out", str(folder / "file")],
        "in a file": ["--out", str(folder / "file" / "run")],
        "full": ["--out", str(folder / "full")],
        "long": ["--out", str(folder / ("x" * 300))],
        "loop": ["--out", str(folder / "link")],
        "in proc": ["--out", "/proc/run"],
        "device": ["--out", "/dev/null"],
        "file, to overwrite": ["--out", str(folder / "file"), "--overwrite"],
    }
