"""Every layout of the installed reference, against our own text of it."""

from pathlib import Path

import pytest
from kitchen_checks import assert_equal

from eqgrid.envs.overcooked import load_layout, parse_reference, reference_layouts

pytestmark = pytest.mark.parity
overcooked_ai_py = pytest.importorskip("overcooked_ai_py")
FOLDER = Path(overcooked_ai_py.__file__).parent / "data" / "layouts"
FILES = sorted(FOLDER.glob("*.layout"))


def test_there_are_as_many():
    assert {path.stem for path in FILES} == set(reference_layouts())
    assert len(FILES) >= 45


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_it_is_the_same(path):
    assert_equal(load_layout(path.stem), parse_reference(path.read_text(encoding="utf-8")))
