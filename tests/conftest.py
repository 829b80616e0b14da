import gc
import os
import signal
import subprocess
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

# Most of the time is compiling: here it is done quickly, and not twice. Both can be set otherwise
# from outside. It is said before jax is imported, and to the processes that tests start.
QUICKLY = "--xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1"
NO_EMITTERS = " --xla_cpu_use_fusion_emitters=false"
if version("jaxlib").startswith("0.10."):  # later ones do not know it, and end the process
    QUICKLY += NO_EMITTERS
os.environ.setdefault("XLA_FLAGS", QUICKLY)
CACHES = Path(__file__).parents[1] / ".pytest_cache"
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(CACHES / "eqgrid" / "compiled"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")
os.environ.setdefault("JAX_COMPILATION_CACHE_MAX_SIZE", str(2**30))

import hypothesis  # noqa: E402
import jax  # noqa: E402
import pytest  # noqa: E402

# A busy machine may hold up an example for longer than the default deadline, 0.2 seconds.
hypothesis.settings.register_profile("patient", deadline=None)
hypothesis.settings.load_profile("patient")
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
if "xla_force_host_platform_device_count" not in os.environ["XLA_FLAGS"]:
    jax.config.update("jax_num_cpu_devices", 1)  # also for commands that would use all cores


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """A test that needs XLA's fusion emitters is run in a process that compiles with them."""
    flags = os.environ["XLA_FLAGS"]
    if pyfuncitem.get_closest_marker("to_the_bit") is None or NO_EMITTERS not in flags:
        return None
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-m", "", pyfuncitem.nodeid]
    env = os.environ | {"XLA_FLAGS": flags.replace(NO_EMITTERS, ""), "PYTEST_ADDOPTS": ""}
    folder = pyfuncitem.config.rootpath
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout
    return True


def pytest_collection_finish():
    gc.freeze()  # what was imported stays until the end, so the collector need not look at it


LEFT_OUT = {"robustness": 0, "golden": 0, "slow": 0}
"""How many tests with each of these markers were not run."""


def pytest_deselected(items):
    for item in items:
        for name in LEFT_OUT:
            if item.get_closest_marker(name) is not None:
                LEFT_OUT[name] += 1
                break


def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = LEFT_OUT


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    LEFT_OUT.update(
        getattr(node, "workeroutput", {}).get("left_out", {})
    )  # each leaves out the same


def pytest_terminal_summary(terminalreporter):
    """Says what the default selection leaves out."""
    said = [f"{count} {name} (pytest -m {name})" for name, count in LEFT_OUT.items() if count]
    said += [] if find_spec("jaxmarl") else ["parity (needs the [parity] extra)"]
    if "not slow" in terminalreporter.config.option.markexpr:
        terminalreporter.write_line(f"left out: {', '.join(said)}")


@pytest.fixture
def key():
    return jax.random.key(0)


@pytest.fixture(scope="session")
def own_caches():
    """The environment of processes that use no caches of whoever runs the tests."""
    elsewhere = ("JAX_COMPILATION_CACHE_DIR", "JAX_ENABLE_COMPILATION_CACHE")
    kept = {name: value for name, value in os.environ.items() if name not in elsewhere}
    return kept | {"XDG_CACHE_HOME": str(CACHES)}


@pytest.fixture(scope="session")
def as_people_do(own_caches):
    """The environment of processes that also compile as people's programs do: what is compiled
    quickly is slow, and convolutions are a hundred times slower.
    """
    return {name: value for name, value in own_caches.items() if name != "XLA_FLAGS"}


@pytest.fixture
def hears_ctrl_c():
    """A shell's background jobs, and so perhaps these tests, ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


MAPS = Path("/proc/self/maps")


@pytest.fixture(autouse=True, scope="module")
def few_programs():
    """Thousands of compiled programs use up memory, and the memory maps that a process may have,
    65,530 on Linux: 3,000 maps are about 3 GiB. They are forgotten at the end of a module.
    """
    yield
    if not MAPS.exists() or MAPS.read_bytes().count(b"\n") > 3_000:
        jax.clear_caches()
