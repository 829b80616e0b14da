import os
import signal

import jax
import pytest

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture
def key():
    return jax.random.key(0)


@pytest.fixture(scope="session")
def own_caches(tmp_path_factory):
    """The environment of processes that use no caches of whoever runs the tests."""
    elsewhere = ("JAX_COMPILATION_CACHE_DIR", "JAX_ENABLE_COMPILATION_CACHE")
    kept = {name: value for name, value in os.environ.items() if name not in elsewhere}
    return kept | {"XDG_CACHE_HOME": str(tmp_path_factory.mktemp("caches"))}


@pytest.fixture
def hears_ctrl_c():
    """A shell's background jobs, and so perhaps these tests, are started deaf to it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True, scope="module")
def few_programs():
    """Thousands of compiled programs use up the memory maps that a process may have, and XLA then
    crashes: so what a module compiled is forgotten at its end.
    """
    yield
    jax.clear_caches()
