import pytest
from playing import menu_of
from studies import OPEN

from eqgrid_lab import Kitchen


@pytest.fixture(scope="module")
def menu():
    return menu_of(Kitchen(layout="ring", horizon=8))


@pytest.fixture(autouse=True)
def closed():
    yield
    while OPEN:
        OPEN.pop().close()
