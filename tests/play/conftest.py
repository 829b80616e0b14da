import pytest
from studies import OPEN

from eqgrid_lab import Kitchen
from eqgrid_lab.play import Menu
from eqgrid_lab.settings import default_settings, shipped_script


@pytest.fixture(scope="module")
def menu():
    return Menu(default_settings(shipped_script("ippo"), Kitchen(layout="ring", horizon=8)))


@pytest.fixture(autouse=True)
def closed():
    yield
    while OPEN:
        OPEN.pop().close()
