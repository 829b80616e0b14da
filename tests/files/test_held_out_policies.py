"""The held-out policies that come with eqgrid."""

import json

from agents import read_policy
from agents.files import shipped
from eqgrid.envs.overcooked import KITCHENS
from eqgrid_lab.commands import HELD_OUT, read_held_out
from eqgrid_lab.partners import is_policy

POLICIES = json.loads(shipped("heldout/policies/policies.json").read_text())


def test_there_is_every_held_out_policy_in_every_kitchen_and_none_is_replaced():
    named = {x.name for x in read_held_out(HELD_OUT)[0] if is_policy(x.partner)}
    assert list(POLICIES) == list(KITCHENS)
    for kitchen, policies in POLICIES.items():
        folder = shipped(f"heldout/policies/{kitchen}")
        assert {path.stem for path in folder.iterdir()} == set(policies) == named
        for name, about in policies.items():
            file = read_policy(folder / f"{name}.safetensors")
            assert file.sha256 == about["sha256"]
            assert file.metadata["algorithm"] == name.split("-")[0]
            assert file.world.arguments["layout"] == kitchen
            assert file.metadata["seed"] == about["seed"] >= 1001
