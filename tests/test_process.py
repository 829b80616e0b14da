"""How the process of a command line begins."""

import gc

import pytest

from experiments._process import importing


@pytest.fixture
def thawed():
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("thawed")
def test_what_imports_make_is_not_looked_at_again():
    with importing():
        assert not gc.isenabled()
        made: list[object] = []
        made.append(made)
    assert gc.isenabled()
    assert not any(x is made for x in gc.get_objects())
    later: list[object] = [made]
    assert any(x is later for x in gc.get_objects())


@pytest.mark.usefixtures("thawed")
def test_an_import_that_fails_leaves_the_collector_at_work():
    with pytest.raises(ModuleNotFoundError), importing():
        raise ModuleNotFoundError
    assert gc.isenabled()
