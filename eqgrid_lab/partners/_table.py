"""The table of partners, and their names on command lines and in files.

A name is an entry of `PARTNERS`, such as `greedy` or `program:python bot.py`; a policy file, the
folder of a run or `shipped:NAME`; or `MODULE:NAME`, a function or class of the user that makes a
partner for a world. It may end with changes, as in `greedy+noise=0.2+delay=3`.
"""

import contextlib
import dataclasses
import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import final

from agents import find_policies, load_trajectories
from agents.files import BUNDLED, shipped
from eqgrid import (
    AbstractPartner,
    ConstantPartner,
    DelayedPartner,
    NoisyPartner,
    RandomPartner,
    RecordedPartner,
)
from eqgrid.envs.overcooked import CookRole, ScriptedCook

from ..base import Table, UsageError, as_usage_error, import_named, is_own, reason
from ..worlds import check_same_game, kitchen_layout
from ._place import Place
from ._program import Program, ProgramPartner
from ._saved import Parts, SavedPolicy, policies_of, read_saved

_NAME = re.compile(r"(.*?)((?:\+(?:delay=\d+|(?:noise|seconds)=\d+(?:\.\d+)?))*)", re.DOTALL)
_CHANGE = re.compile(r"\+(\w+)=([\d.]+)")
_MODELS = {"clones": "clone", "proxies": "proxy"}
"""The names of the bundled models of people, and the beginnings of their file names."""


@final
@dataclasses.dataclass(frozen=True)
class Kind:
    """An entry of the table of partners.

    **Arguments:**

    - `build`: builds a partner for a world, from the text after the colon in its name. A policy is
        returned as a `SavedPolicy`.
    - `words`: the partner in the words of people.
    - `argument`: what follows the colon in its name; empty for a partner without an argument.
    - `runs_code`: whether the argument is code that is run.
    """

    build: Callable[[Place, str], AbstractPartner | SavedPolicy]
    words: str
    argument: str = ""
    runs_code: bool = False


def _cook(role: CookRole) -> Callable[[Place, str], ScriptedCook]:
    def build(place: Place, argument: str) -> ScriptedCook:
        kitchen = kitchen_layout(place.world)
        if kitchen is None:
            raise UsageError("It is for one kitchen of the world overcooked.")
        return ScriptedCook(kitchen, role)

    return build


def _bundled(file: str) -> Callable[[Place, str], SavedPolicy]:
    def build(place: Place, argument: str) -> SavedPolicy:
        path = shipped(file.format(layout=place.settings.title))
        if not path.is_file():
            raise UsageError("eqgrid has none for this layout.")
        return read_saved(path)

    return build


def _recorded(place: Place, file: str) -> RecordedPartner:
    """The first episode of a `.npz` file, as `eqgrid evaluate --trajectories` writes it."""
    try:
        episodes = load_trajectories(Path(file), place.env)
    except OSError as error:
        raise UsageError(f"{file!r}: {reason(error)}.") from error
    return RecordedPartner(episodes.action[: int(episodes.length[0])], then=place.idle)


def _program(*, text: bool) -> Callable[[Place, str], ProgramPartner]:
    def build(place: Place, command: str) -> ProgramPartner:
        return ProgramPartner(Program(command), place.env, text=text)

    return build


PARTNERS = {
    "agent": Kind(_bundled("policies/{layout}.safetensors"), "a trained agent"),
    "clone": Kind(
        lambda place, _: read_saved(_median_clone(place.settings.title)), "a model of people"
    ),
    "plan": Kind(_bundled("policies/plan-{layout}.safetensors"), "an optimal plan"),
    "greedy": Kind(_cook("greedy"), "a program for all tasks"),
    "onion": Kind(_cook("onion"), "a program for onions"),
    "dish": Kind(_cook("dish"), "a program for dishes"),
    "random": Kind(lambda place, _: RandomPartner(place.env.action_space), "a random agent"),
    "stay": Kind(lambda place, _: ConstantPartner(place.idle), "an agent that never moves"),
    "recording": Kind(_recorded, "a recorded game", "FILE.npz"),
    "program": Kind(_program(text=False), "a program", "COMMAND", runs_code=True),
    "text-program": Kind(_program(text=True), "a program", "COMMAND", runs_code=True),
}
"""All kinds of partners. The menu of `eqgrid play` offers those without an argument."""


@final
@dataclasses.dataclass(frozen=True, eq=False)
class NamedPartner:
    """A partner that was built from its name.

    **Arguments:**

    - `name`: the name.
    - `words`: the partner in the words of people.
    - `partner`: the partner.
    - `saved`: the policy, if it is one.
    - `identity`: the same text for the same partner: its name, or the checksum of its policy.
    """

    name: str
    words: str
    partner: AbstractPartner
    saved: SavedPolicy | None
    identity: str


@final
class Partners:
    """Builds partners from their names. Each file is read once.

    ```python
    from eqgrid_lab import Partners, Place, world_settings

    place = Place.of(world_settings("overcooked", layout="ring"))
    partner = Partners().build("greedy+noise=0.2", place).partner
    ```
    """

    def __init__(
        self,
        parts: Parts | None = None,
        own_world: str | None = None,
        layout: str | None = None,
        *,
        imports: bool = True,
    ):
        """**Arguments:**

        - `parts`: your own parts of policies, as in `agents.load_policy`.
        - `own_world`: your own world that the command line names, if any.
        - `layout`: the layout to play in; by default, that in which a policy was trained.
        - `imports`: whether names may be `MODULE:NAME` or programs; `False` for names in a file,
            which may come from someone else.
        """
        self.parts, self._own_world = parts, own_world
        self._layout, self._imports = layout, imports
        self._read: dict[str, SavedPolicy] = {}
        self._found: dict[tuple[str, Place], tuple[str, AbstractPartner | SavedPolicy]] = {}

    def read(self, name: str) -> SavedPolicy:
        """Reads a policy.

        **Arguments:**

        - `name`: the name; changes are ignored.

        **Raises:** as `read_saved`.
        """
        base, _ = _split(name)
        if base not in self._read:
            self._read[base] = read_saved(
                base, self._layout, parts=self.parts, own_world=self._own_world
            )
        return self._read[base]

    def build(self, name: str, place: Place, *, greedy: bool = False) -> NamedPartner:
        """Builds a partner for a world.

        **Arguments:**

        - `name`: the name.
        - `place`: the world.
        - `greedy`: whether a policy takes the most probable actions instead of sampling them.

        **Raises:** `UsageError` when there is no such partner, or it cannot act in the world, and
        `CheckpointError` when it is a policy whose file is missing or damaged.
        """
        base, changes = _split(name)
        where = f"The partner {name!r:.200} cannot play here: "
        with as_usage_error(where, (UsageError, ValueError)):
            if (base, place) not in self._found:
                self._found[base, place] = self._find(base, place)
            words, found = self._found[base, place]
            saved = found if isinstance(found, SavedPolicy) else None
            if isinstance(found, SavedPolicy):
                check_same_game("it", found.env, "this game", place.settings)
                found = found.partner(place, greedy=greedy)
            for change, number in _CHANGE.findall(changes):
                if change == "noise":
                    found = NoisyPartner(found, float(number), place.env.action_space)
                elif change == "delay":
                    found = DelayedPartner(found, int(number), place.idle)
                elif isinstance(found, ProgramPartner):
                    found.program.seconds = float(number)
                else:
                    raise UsageError("Only programs have +seconds, the time for each answer.")
        identity = name if saved is None else saved.file.sha256 + changes
        return NamedPartner(name, words, found, saved, identity)

    def _find(self, base: str, place: Place) -> tuple[str, AbstractPartner | SavedPolicy]:
        name, _, argument = base.partition(":")
        kind = PARTNERS.get(name)
        runs_code = _is_own(base) if kind is None else kind.runs_code
        if runs_code and not self._imports:
            raise UsageError("code that is run must be named on the command line.")
        if kind is not None:
            if bool(argument) != bool(kind.argument):
                raise UsageError(f"its name is {name}{':' * bool(kind.argument)}{kind.argument}.")
            return kind.words, kind.build(place, argument)
        if _is_own(base):
            make = import_named(base)
            return getattr(make, "__name__", base), make(place.env)
        saved = self.read(base)
        return saved.name, saved

    def record(self, folder: Path) -> None:
        """Writes the messages of programs from now on into files of a folder.

        **Raises:** `OSError` when a file cannot be written.
        """
        for number, program in enumerate(self._programs(), start=1):
            program.record(folder / f"transcript-{number}.jsonl")

    def finish(self) -> None:
        """Ends the programs, and prints how often they had no answer.

        **Raises:** `RunError` when one has ended or has not answered.
        """
        for program in (programs := self._programs()):
            program.close()
            print(program.summary)
        for program in programs:
            program.check()

    def _programs(self) -> list[Program]:
        found = (partner for _, partner in self._found.values())
        return [x.program for x in found if isinstance(x, ProgramPartner)]

    def menu(self, place: Place) -> Iterator[NamedPartner]:
        """The partners without arguments that can act in a world."""
        for name in (name for name, kind in PARTNERS.items() if not kind.argument):
            with contextlib.suppress(UsageError, ValueError, OSError):
                yield self.build(name, place)


def marks_of(names: Sequence[str], builder: Partners) -> list[Table]:
    """The name, the checksum and the `run` of each policy among some partners, which identify them.

    **Raises:** as `Partners.read`.
    """
    found = (builder.read(name).file for name in names if is_policy(name))
    return [
        {
            "name": "/".join(file.path.parts[-2:]),
            "sha256": file.sha256,
            "run": file.metadata.get("run"),
        }
        for file in found
    ]


def is_policy(name: str) -> bool:
    """Whether a name is a policy file, the folder of a run, or `shipped:NAME`."""
    base, _ = _split(name)
    return base.partition(":")[0] not in {*PARTNERS, *_MODELS} and not _is_own(base)


def changes_of(name: str) -> str:
    """The changes at the end of a name, such as `+noise=0.2`; empty if there are none."""
    return _split(name)[1]


def expanded(names: Sequence[str], layout: str) -> list[str]:
    """The names of single partners: a run is replaced by the policies of all of its seeds, and
    `clones` and `proxies` by the models of people for a kitchen.

    **Raises:** `CheckpointError` when a folder has no policy, and `UsageError` when there are no
    models of people for the layout.
    """
    found: list[str] = []
    for name in names:
        base, changes = _split(name)
        single = [base]
        if base in _MODELS:
            single = [str(file) for file in models_of_people(base, layout)]
        elif is_policy(base):
            single = policies_of(base)
        found += [one + changes for one in single]
    return found


def absolute(names: Sequence[str]) -> tuple[str, ...]:
    """The names with the absolute paths of policies, of all seeds of a run, so that they name the
    same partners in every folder and after a change of a run.

    **Raises:** `CheckpointError` when a folder has no policy.
    """
    found: list[str] = []
    for name in names:
        base, _ = _split(name)
        if _is_path(base):
            files = (str(Path(x).resolve()) for x in find_policies(base))
            found += [file + name[len(base) :] for file in files]
        else:
            found.append(name)
    return tuple(found)


def in_folder(name: str, folder: Path) -> str:
    """The name of a partner in a file of this folder: the path of a policy is relative to it."""
    return str(folder / name) if _is_path(name) else name


def _split(name: str) -> tuple[str, str]:
    """A name without its changes, and the changes."""
    found = _NAME.fullmatch(name)
    assert found is not None
    return found[1], found[2]


def _is_path(name: str) -> bool:
    return is_policy(name) and not name.startswith(BUNDLED)


def _is_own(base: str) -> bool:
    return not base.startswith(BUNDLED) and is_own(base)


def models_of_people(name: str, layout: str) -> list[Path]:
    """The files of the bundled models of people for one kitchen, one for each seed.

    ```python
    from agents import PolicyPartner, load_policy
    from eqgrid_lab.partners import models_of_people

    people = [PolicyPartner(load_policy(file)) for file in models_of_people("proxies", "ring")]
    ```

    **Arguments:**

    - `name`: `"clones"`, from one half of the people, or `"proxies"`, from the other half.
    - `layout`: the kitchen.

    **Raises:** `UsageError` when there are none for this layout.
    """
    kitchens = sorted(path.name for path in shipped("people").iterdir() if path.is_dir())
    if layout not in kitchens:
        raise UsageError(
            f"There are no human {name} for the layout {layout!r:.60}: choose one of "
            f"{', '.join(kitchens)}."
        )
    return sorted(shipped(f"people/{layout}").glob(f"{_MODELS[name]}-*.safetensors"))


def _median_clone(layout: str) -> Path:
    """The file of the model of people with the median return in a kitchen.

    **Raises:** as `models_of_people`.
    """
    folder = models_of_people("clones", layout)[0].parent
    models = json.loads(shipped("people/models.json").read_text(encoding="utf-8"))
    return folder / models[layout]["clone"]["default"]
