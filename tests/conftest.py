import os
import tempfile

import jax
import pytest

# What is started here neither fills nor finds the caches of whoever runs the tests.
os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="eqgrid-tests-")
for name in ("JAX_COMPILATION_CACHE_DIR", "JAX_ENABLE_COMPILATION_CACHE"):
    os.environ.pop(name, None)

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture
def key():
    return jax.random.key(0)


@pytest.fixture(autouse=True, scope="module")
def few_programs():
    """Thousands of compiled programs use up the memory maps that a process may have, and XLA then
    crashes: so what a module compiled is forgotten at its end.
    """
    yield
    jax.clear_caches()
