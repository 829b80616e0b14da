"""What eqgrid computes and writes is what the record in this folder has."""

import golden
import pytest


@pytest.mark.parametrize(
    "name",
    [
        "flags",
        *(pytest.param(x, marks=pytest.mark.slow) for x in golden.FAST if x != "flags"),
        *(pytest.param(x, marks=[pytest.mark.slow, pytest.mark.golden]) for x in golden.TRAININGS),
    ],
)
def test_a_section_is_the_same(name):
    try:
        found = golden.changes(name)
    except golden.Missing as missing:
        pytest.skip(str(missing))
    assert not found
