"""Things that a person may ask for and cannot have. Others are in tests/runs, with the sentence
that rejects them.
"""

COUNTS = {  # some whole numbers, with their highest values
    "--seed": 2**32 - 1,
    "--total-steps": 10**15,
    "--env.horizon": 100_000,
    "--ppo.num-minibatches": 2**24,
}
WRONG_COUNTS = ("-1", "1.5", "many", "9" * 5000)
NUMBERS = ("--shaping", "--ppo.gamma")
WRONG_NUMBERS = ("nan", "-0.5", "1e39", "some")


def flags() -> dict[str, list[str]]:
    """Flags that are refused, by what is wrong with them."""
    cases = {f"{flag}={value[:20]}": [flag, value] for flag in COUNTS for value in WRONG_COUNTS}
    for flag, highest in COUNTS.items():
        for value in (highest + 1, 2**63, 10**30):
            cases[f"{flag}={value}"] = [flag, str(value)]
    cases |= {f"{flag}={value}": [flag, value] for flag in NUMBERS for value in WRONG_NUMBERS}
    cases |= {
        "no number of devices": ["--devices", "many"],
        "no value": ["--seed"],
        "unknown prefix": ["--enf.layout", "ring"],
        "unknown word": ["cramped"],
        "no class of a network": ["--network", "math:pi"],
        "function without hints": ["--env.name", "math:sqrt"],
        "unknown dynamics": ["--env.dynamics", "modern"],
        "folder": ["--env.layout", "/"],
        "device": ["--env.layout", "/dev/zero"],
        "long name": ["--env.layout", "x" * 5000],
        "too long a rollout": ["--num-envs", "16000000", "--ppo.rollout-length", "1000000"],
        "too long a schedule": ["--shaping-steps", str(10**14)],
        "settings folder": ["--config", "/"],
        "two settings files": ["--config", "a.toml", "--config", "b.toml"],
    }
    return cases


SETTINGS = {  # texts of settings files
    "no text": b"\xff\xfe\x00seed",
    "nothing near": b"qqqqqqqqq = 1\n",
    "number for a text": b"[env]\nlayout = 3\n",
    "number for stages": b"stage = 3\n",
    "table for a number": b"[seed]\nx = 1\n",
    "endless int": b"seed = 1" + b"0" * 10_000 + b"\n",
    "deep list": b"seed = " + b"[" * 20_000 + b"]" * 20_000 + b"\n",
    "duplicate": b"seed = 1\nseed = 2\n",
    "too large": b"# " + b"x" * 1_000_000 + b"\nseed = 1\n",
}

GRID = "'grid': 'XXPXX\\nO 12O\\nXDXSX'"
PLAYER = "{'position': (%s), 'orientation': (%s), 'held_object': %s}"
COOK = ("2, 1", "0, -1", "None")
ONION = "{'name': 'onion'}, "
ORDERS = "'start_all_orders': [{'ingredients': ['onion']}]"

LAYOUTS = {  # contents of layout files
    "ragged": b"XXPXX\nO 12O\nXXX\n",
    "picture": b"\x89PNG\r\n\x1a\n" + b"\x00" * 500,
    "too large": b"X" * 1_000_000,
    "no dictionary": b"{1, 2, 3}",
    "deep list": b"{'grid': " + b"[" * 5_000 + b"]" * 5_000 + b"}",
    "endless int": b"{'grid': 1" + b"0" * 10_000 + b"}",
}
ENTRIES = {  # what such a dictionary has beside its grid
    "infinite value": "'delivery_reward': 1e999",
    "half a cook time": "'cook_time': 2.5",
    "too many values": f"{ORDERS}, 'recipe_values': [1, 2]",
    "orders of numbers": "'start_all_orders': [1, 2]",
    "bonus that is no order": f"{ORDERS}, 'start_bonus_orders': [{{'ingredients': ['tomato']}}]",
}
PLAYERS = {  # where cooks start, what they face and what they hold
    "no cooks": [],
    "cook in a counter": [("0, 0", "0, 1", "None")],
    "cook off the grid": [("9, 9", "0, 1", "None")],
    "two cooks in a cell": [COOK, COOK],
    "cook that faces nowhere": [("1, 1", "0, 0", "None")],
}
OBJECTS = {  # names and positions of objects at the start, and more about them
    "unknown object": [("'carrot'", "0, 0", "")],
    "empty soup": [("'soup'", "0, 0", "'_ingredients': []")],
    "half a time": [("'soup'", "2, 0", f"'_cooking_tick': 2.5, '_ingredients': [{ONION}]")],
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
