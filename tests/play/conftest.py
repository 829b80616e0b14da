import pytest
from studies import OPEN

from agents.play._menu import Menu
from agents.runs.settings._page import page
from agents.runs.settings._policy_settings import default_settings
from agents.runs.worlds._worlds import Kitchen


@pytest.fixture(scope="module")
def menu():
    return Menu(default_settings(page("ippo"), Kitchen(layout="ring", horizon=8)))


@pytest.fixture(autouse=True)
def closed():
    yield
    while OPEN:
        OPEN.pop().close()
