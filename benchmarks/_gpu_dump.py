"""Reads what XLA writes about a program for a GPU: its loops, launches and their costs."""

import dataclasses
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

from _gpus import Gpu

_CONTAINERS = {"kCommandBuffer", "kConditional", "kDynamicSliceFusion", "kSequential", "kWhile"}
_VIEWS = {"bitcast", "reshape", "get-tuple-element"}
_CUTS = {"slice", "dynamic-slice", "gather"}
_IN_PLACE = {"dynamic-update-slice": 1, "scatter": 2}  # the number of the operand that is written


@dataclasses.dataclass
class Instruction:
    """An instruction of a compiled program, with the bytes of its result."""

    opcode: str
    size: int
    operands: list[str]
    attributes: str
    is_root: bool

    def attribute(self, pattern: str) -> str | None:
        """The first group of a pattern in the attributes of the instruction."""
        found = re.search(pattern, self.attributes)
        return found[1] if found else None


Computation: TypeAlias = dict[str, Instruction]


@dataclasses.dataclass
class Thunk:
    """A launch, or a loop, condition or CUDA graph that contains launches.

    - `kind`, `name`: the kind, and the name of the kernel.
    - `threads`: the number of blocks, and of threads in each.
    - `branch`: the part of a loop or of a condition in which it is.
    """

    number: int
    kind: str
    name: str
    threads: tuple[int, int]
    branch: str
    children: list["Thunk"] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Launch:
    """The cost of one kernel or copy, by the model of `Program`."""

    name: str
    seconds: float
    num_bytes: int
    instructions: int


@dataclasses.dataclass
class Loop:
    """One iteration of a loop, or all that a program computes outside of loops.

    - `name`: the function that contains the loop.
    - `times`: the number of iterations; `None` if the program computes it.
    - `nodes`: kernels and copies in one iteration, without inner loops and without the longer
        branches of conditions, whose nodes are `longer_nodes`.
    - `graphs`, `outside`: CUDA graphs in one iteration, and nodes outside of them.
    - `conditions`, `waits`: conditions in one iteration, and how often the host waits for the GPU.
    - `num_bytes`, `seconds`: memory traffic and time of the nodes, by the model.
    """

    name: str
    times: int | None
    nodes: int = 0
    longer_nodes: int = 0
    graphs: int = 0
    outside: int = 0
    conditions: int = 0
    waits: int = 0
    num_bytes: int = 0
    seconds: float = 0.0
    loops: list["Loop"] = dataclasses.field(default_factory=list)
    launches: list[Launch] = dataclasses.field(default_factory=list)

    def total_seconds(self) -> float:
        """The time of all iterations, with inner loops; of one if their number is computed."""
        return (self.times or 1) * (self.seconds + sum(x.total_seconds() for x in self.loops))


class Program:
    """A compiled program.

    The time of a node is the largest of three: the latency of a node in a CUDA graph, the time of
    its memory traffic, and the time of the instructions on its longest path. Loops inside a kernel
    count once, and matrix products only by their bytes. All times are predictions.

    **Arguments:**

    - `folder`: the folder to which XLA wrote the files of one program.
    - `gpu`: the GPU for which the program was compiled.
    """

    def __init__(self, folder: Path, gpu: Gpu):
        self.gpu = gpu
        (hlo,) = folder.glob("*gpu_after_optimizations.txt")
        text = hlo.read_text(encoding="utf-8")
        self.computations = dict(_read_computations(text))
        self.instructions = {
            name: x for inside in self.computations.values() for name, x in inside.items()
        }
        self.functions = _read_functions(text)
        (metadata,) = folder.glob("*thunk_metadata.txt")
        pairs = r'profile_annotation: "([^"]*)"\s+thunk_id: (\d+)'
        found = re.findall(pairs, metadata.read_text(encoding="utf-8"))
        self.names = {int(number): name for name, number in found}
        kernels = (x.read_text(encoding="utf-8") for x in folder.glob("*.ptx"))
        self.lengths = dict(x for kernel in kernels for x in _read_kernels(kernel))
        # The second of two files, which XLA writes only for programs with CUDA graphs, is the last.
        *_, sequence = sorted(folder.glob("*thunk_sequence*.txt"), key=lambda x: len(x.name))
        self.thunks = _read_thunks(sequence.read_text(encoding="utf-8"))

    def read(self) -> Loop:
        """**Returns:** the whole program, with its loops."""
        whole = Loop("program", 1)
        self._add(self.thunks, whole, in_graph=False)
        return whole

    def _add(self, thunks: list[Thunk], loop: Loop, in_graph: bool) -> None:
        for thunk in thunks:
            if thunk.kind == "kCommandBuffer":
                loop.graphs += 1
                self._add(thunk.children, loop, in_graph=True)
            elif thunk.kind == "kWhile":
                self._add_loop(thunk, loop, in_graph)
            elif thunk.kind == "kConditional":
                self._add_condition(thunk, loop, in_graph)
            elif thunk.kind in _CONTAINERS:
                self._add(thunk.children, loop, in_graph)
            else:
                self._add_launch(thunk, loop, in_graph)

    def _add_loop(self, thunk: Thunk, outer: Loop, in_graph: bool) -> None:
        loop = self.instructions[self.names[thunk.number]]
        times = loop.attribute(r'"known_trip_count":\{"n":"(\d+)"')
        frame = loop.attribute(r"stack_frame_id=(\d+)")
        inner = Loop(self.functions.get(int(frame or 0), "loop"), int(times) if times else None)
        self._add([x for x in thunk.children if x.branch == "body"], inner, in_graph)
        if not times:  # the host reads the condition before every iteration
            self._add([x for x in thunk.children if x.branch != "body"], inner, in_graph)
            inner.waits += not in_graph
        outer.loops.append(inner)

    def _add_condition(self, thunk: Thunk, outer: Loop, in_graph: bool) -> None:
        branches = []
        for name in dict.fromkeys(x.branch for x in thunk.children):
            branch = Loop(name, 1)
            self._add([x for x in thunk.children if x.branch == name], branch, in_graph)
            branches.append(branch)
        branches.sort(key=lambda x: x.nodes)
        shortest, longest = branches[0], branches[-1]
        for field in ("nodes", "graphs", "outside", "conditions", "waits", "num_bytes", "seconds"):
            setattr(outer, field, getattr(outer, field) + getattr(shortest, field))
        outer.launches += shortest.launches
        outer.loops += longest.loops
        outer.longer_nodes += longest.nodes + longest.longer_nodes - shortest.nodes
        outer.conditions += 1
        outer.waits += not in_graph

    def _add_launch(self, thunk: Thunk, loop: Loop, in_graph: bool) -> None:
        loop.nodes += 1
        loop.outside += not in_graph
        loop.waits += "Host" in thunk.kind or "field" in thunk.kind  # copies to and from the host
        instruction = self.instructions.get(self.names.get(thunk.number, ""))
        num_bytes = self.traffic(instruction) if instruction else 0
        blocks, threads = thunk.threads
        instructions = self.lengths.get(thunk.name, 0) * blocks * math.ceil(threads / 32)
        name = self.names.get(thunk.number, thunk.name)
        seconds = self.gpu.seconds(num_bytes, instructions)
        loop.launches.append(Launch(name, seconds, num_bytes, instructions))
        loop.num_bytes += num_bytes
        loop.seconds += seconds

    def traffic(self, instruction: Instruction) -> int:
        """The bytes that an instruction reads and writes. What is cut out of an array, or written
        into a part of it, counts instead of the array.
        """
        inside = self.computations.get(instruction.attribute(r"calls=%([\w.-]+)") or "")
        if instruction.opcode != "fusion" or inside is None:
            if (written := _IN_PLACE.get(instruction.opcode)) is not None:
                return 2 * self.instructions[instruction.operands[written]].size
            operands = sum(self.instructions[x].size for x in instruction.operands)
            return operands + instruction.size
        parameters = [name for name, x in inside.items() if x.opcode == "parameter"]
        (root,) = (x for x in inside.values() if x.is_root)
        return sum(_read_bytes(inside, x) for x in parameters) + _written_bytes(inside, root)


def _read_bytes(inside: Computation, name: str) -> int:
    """The bytes of a value that its users read."""
    size, total = inside[name].size, 0
    for user_name, user in inside.items():
        if name not in user.operands:
            continue
        first = user.operands[0] == name
        if user.opcode in _VIEWS:
            total += _read_bytes(inside, user_name)
        elif user.opcode in _CUTS and first:
            total += user.size
        elif not (user.opcode in _IN_PLACE and first):
            return size
    return min(total, size)


def _written_bytes(inside: Computation, root: Instruction) -> int:
    if root.opcode == "tuple":
        return sum(_written_bytes(inside, inside[x]) for x in root.operands)
    if root.opcode in _VIEWS:
        return _written_bytes(inside, inside[root.operands[0]])
    if root.opcode in _IN_PLACE:
        size = inside[root.operands[_IN_PLACE[root.opcode]]].size
        return 2 * size if root.opcode == "scatter" else size  # cells are read before
    return root.size


def _read_computations(text: str) -> Iterator[tuple[str, Computation]]:
    """The computations of a program in XLA's text format, by name."""
    for header, body in re.findall(r"^(\S[^\n]*) \{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL):
        found = re.match(r"(?:ENTRY )?%([\w.-]+)", header)
        lines = (re.match(r"\s+(ROOT )?%([\w.-]+) = (.*)", x) for x in body.splitlines())
        inside = {x[2]: _instruction(x[3], bool(x[1])) for x in lines if x}
        if found:
            yield found[1], inside


def _instruction(text: str, is_root: bool) -> Instruction:
    shape, rest = _first_group(text) if text.startswith("(") else text.split(" ", 1)
    opcode, rest = rest.strip().split("(", 1)
    operands, attributes = _first_group("(" + rest)
    names = re.findall(r"%([\w.-]+)", operands)
    return Instruction(opcode, _size(shape), names, attributes, is_root)


def _first_group(text: str) -> tuple[str, str]:
    """Splits a text after the parenthesis that closes the first one."""
    depth = 0
    for i, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return text[: i + 1], text[i + 1 :]
    return text, ""


def _size(shape: str) -> int:
    """The bytes of an array, or of all arrays of a tuple."""
    arrays = re.findall(r"([a-z]+)(\d*)\w*\[([\d,]*)\]", shape)
    return sum(
        max(1, int(bits or 8) // 8) * math.prod(int(x) for x in axes.split(",") if x)
        for _, bits, axes in arrays
    )


def _read_functions(text: str) -> dict[int, str]:
    """The name of the function in which each stack frame is."""
    tables = {
        name: dict(re.findall(r"^(\d+) (.*)$", body, re.MULTILINE))
        for name, body in re.findall(r"^(\w+)\n((?:\d+ .*\n)+)", text, re.MULTILINE)
    }
    locations = {
        number: re.search(r"function_name_id=(\d+)", x)
        for number, x in tables.get("FileLocations", {}).items()
    }
    functions = {}
    for frame, x in tables.get("StackFrames", {}).items():
        place = re.search(r"file_location_id=(\d+)", x)
        location = locations.get(place[1]) if place else None
        if location:
            functions[int(frame)] = tables["FunctionNames"][location[1]].strip('"')
    return functions


def _read_kernels(text: str) -> Iterator[tuple[str, int]]:
    """The name of each kernel in a file of PTX, and the instructions on its longest path."""
    for name, body in re.findall(r"\.entry (\w+)\(.*?\{(.*?)^\}", text, re.MULTILINE | re.DOTALL):
        yield name, _longest_path(body)


def _longest_path(body: str) -> int:
    """The number of instructions on the longest path through a kernel without going backwards. A
    concatenation has a path for each part, of which a thread takes one.
    """
    from_label: dict[str, int] = {}
    length = 0  # of the path from the current line, which is read from the last one on
    for line in reversed(body.splitlines()):
        if label := re.match(r"(\$\w+):", line):
            from_label[label[1]] = length
        elif jump := re.match(r"\t(@\S+ )?\s*bra(?:\.uni)?\s*(\$\w+);", line):
            there = from_label.get(jump[2], 0)
            length = 1 + (max(length, there) if jump[1] else there)
        elif re.match(r"\t(@\S+ )?ret;", line):
            length = 1
        elif re.match(r"\t(?![.{}/])\S", line):
            length += 1
    return length


def _read_thunks(text: str) -> list[Thunk]:
    """The launches of a program, as a tree."""
    top = Thunk(-1, "", "", (0, 0), "")
    # The thunks around the current line and the names of their parts, with their indentations.
    opened: list[tuple[int, Thunk | str]] = [(-1, top)]
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip())
        if line.startswith("condition:"):  # XLA does not indent this name
            indent = opened[-1][0] + 1
        while opened[-1][0] >= indent:
            opened.pop()
        if part := re.match(r"\s*(\w+):\s*$", line):
            opened.append((indent, part[1]))
        elif thunk := re.match(r"\s*(\d+): (\w+)\s+\[.*?\]\s*(\S*)(.*)", line):
            parent = next(x for _, x in reversed(opened) if isinstance(x, Thunk))
            branch = opened[-1][1] if isinstance(opened[-1][1], str) else ""
            sizes = re.findall(r"\[(\d+), (\d+), (\d+)\]", thunk[4])
            blocks, threads = [math.prod(map(int, x)) for x in sizes] or (0, 0)
            child = Thunk(int(thunk[1]), thunk[2], thunk[3], (blocks, threads), branch)
            parent.children.append(child)
            opened.append((indent, child))
    return top.children


def as_rows(loop: Loop, path: str = "") -> Iterator[dict[str, Any]]:
    """A loop and all loops inside it, from the outside to the inside.

    **Returns:** a row for each: its fields as in `Loop`, where `loop` has the names of the loops
    around it, and `inner_loops` is their number; `total_seconds` includes all iterations, and
    `kernels` are the five slowest launches.
    """
    name = f"{path} > {loop.name}" if path else loop.name
    row = dataclasses.asdict(loop)
    launches = sorted(loop.launches, key=lambda x: x.seconds, reverse=True)
    inside = {"inner_loops": len(loop.loops), "total_seconds": loop.total_seconds()}
    kernels = {"kernels": [dataclasses.asdict(x) for x in launches[:5]]}
    left = {"name", "loops", "launches"}
    yield {"loop": name} | {x: row[x] for x in row if x not in left} | inside | kernels
    for inner in loop.loops:
        yield from as_rows(inner, name)
