import os
import signal
from importlib.metadata import version
from pathlib import Path

# Most of the time is compiling: here it is done quickly, and not twice. Both can be set otherwise
# from outside. It is said before jax is imported, and to the processes that tests start.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
CACHES = Path(__file__).parents[1] / ".pytest_cache"
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(CACHES / "eqgrid" / "compiled"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")
os.environ.setdefault("JAX_COMPILATION_CACHE_MAX_SIZE", str(2**30))

import jax  # noqa: E402
import pytest  # noqa: E402

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture
def key():
    return jax.random.key(0)


@pytest.fixture(scope="session")
def own_caches():
    """The environment of processes that use no caches of whoever runs the tests, and compile as
    quickly as can be. Different programs then round differently, also where they should not.
    """
    elsewhere = ("JAX_COMPILATION_CACHE_DIR", "JAX_ENABLE_COMPILATION_CACHE")
    kept = {name: value for name, value in os.environ.items() if name not in elsewhere}
    if version("jaxlib").startswith("0.10."):  # later ones do not know it, and end the process
        kept["XLA_FLAGS"] += " --xla_cpu_use_fusion_emitters=false"
    return kept | {"XDG_CACHE_HOME": str(CACHES)}


@pytest.fixture(scope="session")
def as_people_do(own_caches):
    """The environment of processes that also compile as people's programs do: what is compiled
    quickly is slow, and convolutions are a hundred times slower.
    """
    return {name: value for name, value in own_caches.items() if name != "XLA_FLAGS"}


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
