"""The held-out policies that come with eqgrid."""

import json

from agents import checksum, read_metadata
from agents.files import shipped
from eqgrid.envs.overcooked import KITCHENS
from eqgrid_lab.commands import HELD_OUT, read_held_out

POLICIES = json.loads(shipped("heldout/policies/policies.json").read_text())


def test_there_is_every_held_out_policy_in_every_kitchen_and_none_is_replaced():
    named = {x.name for x in read_held_out(HELD_OUT)[0] if x.kind == "policy"}
    assert list(POLICIES) == list(KITCHENS)
    for kitchen, policies in POLICIES.items():
        folder = shipped(f"heldout/policies/{kitchen}")
        assert {path.stem for path in folder.iterdir()} == set(policies) == named
        for name, about in policies.items():
            file = folder / f"{name}.safetensors"
            assert checksum(file) == about["sha256"]
            run = read_metadata(file)["run"]
            assert (run["algorithm"], run["env"]["layout"]) == (name.split("-")[0], kitchen)
            assert run["seed"] == about["seed"] >= 1001
