"""A program that walks to its flag, and misbehaves as its argument says."""

import json
import os
import sys
import time

NONSENSE = (
    "thinking ...",
    "{",
    "[" * 100_000,
    "\udcff",
    '"north"',
    "{}",
    '{"action": null}',
    '{"action": "fly"}',
    '{"action": 0}',
    '{"action": ["north", "north"]}',
    '{"action": {"north": 1}}',
)


def walk(seen):
    """The rule of `Walker` in the tests."""
    row, col = seen["flag_row"], seen["flag_col"]
    if row:
        return "south" if row > 0 else "north"
    if col:
        return "east" if col > 0 else "west"
    return "stay"


def answer(request):
    return {x: request[x] for x in ("game", "step")} | {"action": walk(request["observation"])}


def say(what):
    text = what if isinstance(what, str) else json.dumps(what)
    sys.stdout.buffer.write(text.encode(errors="surrogateescape") + b"\n")
    sys.stdout.buffer.flush()


def main(behaviour="", after="0"):
    if behaviour == "reversed":  # all requests of a step, the last one first
        while lines := os.read(0, 2**20).splitlines():
            for line in reversed(lines):
                say(answer(json.loads(line)))
        return
    for number, line in enumerate(sys.stdin):
        request = json.loads(line)
        strikes = number == int(after)
        if behaviour == "nonsense":
            say(NONSENSE[number % len(NONSENSE)])
            continue
        if behaviour == "dies" and strikes:
            print("a warning\nValueError: no more ideas\n", file=sys.stderr)
            sys.exit(3)
        if behaviour == "hangs" and number >= int(after):
            time.sleep(60)
        if behaviour.endswith("late") and strikes:
            time.sleep(1)
        whole = answer(request)
        say({"action": whole["action"]} if behaviour.startswith("bare") else whole)


if __name__ == "__main__":
    main(*sys.argv[1:])
