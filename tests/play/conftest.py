import pytest
from studies import OPEN

from eqgrid_lab import Kitchen
from eqgrid_play.games import Menu, _session
from eqgrid_play.study import _study_runner


@pytest.fixture(scope="module")
def menu():
    return Menu(Kitchen(layout="ring", horizon=8))


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """Pages of tests send no pings, and a busy machine may compile a game for many seconds."""
    for module in (_session, _study_runner):
        monkeypatch.setattr(module, "_SILENT", 600.0)


@pytest.fixture(autouse=True)
def closed():
    yield
    while OPEN:
        OPEN.pop().close()
