"""Worlds to export in tests, and the runtime for browsers, where there is one."""

import os
from pathlib import Path

import pytest
from playing import menu_of

from eqgrid_play.static._world import PageWorld

ROOT = Path(__file__).parents[2]
POLICIES = ROOT / "experiments" / "policies"
RUNTIME = os.environ.get("EQGRID_ONNXRUNTIME_WEB")
NO_RUNTIME = (
    "needs ONNX Runtime for browsers: npm install onnxruntime-web in a folder of its own, and set "
    "EQGRID_ONNXRUNTIME_WEB to node_modules/onnxruntime-web/dist from there"
)


@pytest.fixture(scope="module")
def runtime():
    """The folder of the runtime; without one, the test is skipped."""
    if RUNTIME is None:
        pytest.skip(NO_RUNTIME)
    return RUNTIME


def page_world(env, partner: str) -> PageWorld:
    """A world with the first partner whose name has a text in it."""
    menu = menu_of(env)
    place = menu.place(menu.layouts[0])
    offers = menu.offers(menu.layouts[0]).values()
    return PageWorld(place, next(x.partner for x in offers if partner in x.name), place.env)
