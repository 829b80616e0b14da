"""A wheel holds the scripts of `experiments/`, their settings and policies as data of `agents`."""

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SCRIPTS = (
    *("ippo.py", "mappo.py", "e3t.py", "upd.py", "body.py", "bc.py", "sweep.py"),
    *("curriculum.py", "single_file_ppo.py", "layouts.py"),
)
DATA = ("configs", "policies", "people", "studies", "heldout/kitchens.toml")
DATA += ("heldout/people.toml", "heldout/people.best-responses.json")
DATA += ("heldout/kitchens.best-responses.json", "heldout/policies")


class PagesHook(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":  # which reads them where they are
            return
        for name in (*SCRIPTS, *DATA):
            build_data["force_include"][f"experiments/{name}"] = f"agents/shipped/{name}"
