import jax
import pytest

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
