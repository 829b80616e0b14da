"""Networks of a user's own modules on the command line, and what must not import them."""

import functools
import sys
from pathlib import Path

import equinox as eqx
import jax
import pytest
from command_lines import call, call_and_hear, check_refusal, hear, parse
from own_modules import in_folder_of

from agents import read_metadata
from eqgrid_lab.base import UsageError
from eqgrid_lab.commands import crossplay_command, evaluate_command
from eqgrid_lab.settings import at_home, dump, own_flags

MODULE = '''
import pathlib

import equinox as eqx
import jax
import jax.numpy as jnp

from agents import MLP, AbstractNetwork

pathlib.Path("imported").touch()


class Echo(AbstractNetwork):
    """Remembers a sum of what it sees.

    **Arguments:**

    - `decay`: how fast it forgets.
    """

    inner: MLP

    decay: float = eqx.field(static=True)

    def __init__(self, in_shape, out_size, *, decay: float = 0.5, units: int = 6, final_scale, key):
        sizes = (2 * in_shape[0],), out_size
        self.inner = MLP(*sizes, width=units, final_scale=final_scale, key=key)
        self.decay = decay

    def initial_carry(self):
        return jnp.zeros(self.inner.layers[0].weight.shape[-1] // 2)

    def __call__(self, x, carry):
        carry = self.decay * carry + x
        return self.inner(jnp.concatenate([x, carry]), None)[0], carry


class Wide(Echo):
    def __init__(self, in_shape, out_size, *, width: int = 6, final_scale, key):
        super().__init__(in_shape, out_size, units=width, final_scale=final_scale, key=key)


class Broken(Echo):
    def __init__(self, in_shape, out_size, *, final_scale, key):
        raise KeyError("a wire")


class Deaf(Echo):
    def __init__(self, in_shape, out_size, *, key):
        pass


class Taken(Echo):
    def __init__(self, in_shape, out_size, *, build: int = 3, final_scale, key):
        pass


def function(in_shape, out_size, *, final_scale, key):
    return MLP(in_shape, out_size, final_scale=final_scale, key=key)
'''
SMALL = ("--env.name", "goals", "--env.horizon", "8", "--num-envs", "4", "--total-steps", "64")
SMALL += ("--ppo.rollout-length", "8", "--ppo.num-epochs", "1", "--ppo.num-minibatches", "2")
SMALL += ("--eval-every", "32", "--eval-episodes", "2", "--final-episodes", "2")
ECHO = ("--network", "toy_net:Echo")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder with a module, which nothing has imported."""
    with in_folder_of(tmp_path, monkeypatch, toy_net=MODULE):
        yield tmp_path


@pytest.mark.parametrize("algorithm", ["ippo", "mappo"])
def test_hyperparameters_are_flags_of_the_network(algorithm, capsys):
    config = parse(
        *SMALL, *ECHO, "--network.decay", "0.25", "--network.units", "5", algorithm=algorithm
    )
    assert (config.network_settings.decay, config.network_settings.units) == (0.25, 5)
    policy = eqx.filter_eval_shape(config.policy, config.train_env(), jax.random.key(0))
    network = policy.actor.network
    assert (type(network).__name__, network.decay) == ("Echo", 0.25)
    assert network.inner.layers[0].weight.shape[0] == 5
    assert policy.recurrent
    with pytest.raises(SystemExit):
        parse(*ECHO, "--help")
    assert "How fast it forgets. (default: 0.5)" in " ".join(capsys.readouterr().out.split())


def test_a_settings_file_brings_them_back_if_the_network_is_named():
    config = parse(*SMALL, *ECHO, "--network.units", "5")
    Path("settings.toml").write_text(dump(config))
    again = parse(*ECHO, "--config", "settings.toml")
    assert (again.network, again.network_settings) == (config.network, config.network_settings)
    other = parse("--config", "settings.toml", "--network", "mlp")
    assert other.network == "mlp"
    assert "network_settings" not in dump(other)
    assert own_flags(config) == " --network toy_net:Echo"
    assert "network_settings" not in dump(parse(*SMALL))


BAD = {
    ("--network", "toy_net:function"): "must be a class that is an agents.AbstractNetwork",
    ("--network", "toy_net:Deaf"): "but takes no final_scale: add this parameter",
    ("--network", "toy_net:Taken"): "The parameter 'build' of toy_net:Taken cannot be a flag",
    (*ECHO, "--network.units", "99999999999"): r"--network\.units must be .* 2147483647",
    ("--network", "toy_net:Wide", "--width", "8"): r"leave it .*, and give --network\.width",
    (*ECHO, "--precision", "bfloat16"): "--precision applies only to eqgrid's own networks",
    (
        "--network",
        "transformer",
    ): r"--network 'transformer' is not a network\. Available networks: mlp, cnn",
}


@pytest.mark.parametrize("args", BAD)
def test_what_is_wrong_is_said_in_one_sentence(args):
    with pytest.raises(UsageError, match=BAD[args]):
        parse(*args)


SETTINGS = 'network = "toy_net:Echo"\n'


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--config", "settings.toml"), "which eqgrid imports only if you name"),
        (("--out", ".", "--resume"), "add --network toy_net:Echo"),
        (("--config", "partners.toml"), "add --partners.networks toy_net:Echo"),
        (("--sweep", "sweep.toml"), "The network toy_net:Echo is imported only if you name it"),
        (("--sweep", "partners_sweep.toml"), "allowed only on the command line"),
    ],
)
def test_files_alone_import_nothing(args, says, capsys):
    Path("settings.toml").write_text(SETTINGS)
    Path("config.toml").write_text(SETTINGS)
    Path("partners.toml").write_text('[partners]\nnetworks = ["toy_net:Echo"]\n')
    Path("sweep.toml").write_text('[space]\nnetwork = ["mlp", "toy_net:Echo"]\n')
    Path("partners_sweep.toml").write_text('[space]\n"partners.networks" = [["toy_net:Echo"]]\n')
    check_refusal(call_and_hear(capsys, *args), says, codes=(2,))
    assert not Path("imported").exists()


def test_a_network_that_cannot_be_built_has_its_traceback(folder):
    with pytest.raises(KeyError, match="a wire") as error:
        call(*SMALL, "--network", "toy_net:Broken")
    assert "The network toy_net:Broken cannot be built." in error.value.__notes__
    assert any(Path(x.path).parent == folder for x in error.traceback)


def test_networks_may_be_named_by_their_file(folder):
    config = parse(*SMALL, "--network", f"{folder}/toy_net.py:Echo")
    assert config.network == "toy_net:Echo"
    flags = ("--partners.networks", f"{folder}/toy_net.py:Echo", "./toy_net.py:Wide")
    assert at_home(flags) == ["--partners.networks", "toy_net:Echo", "toy_net:Wide"]


@pytest.mark.slow
def test_it_trains_resumes_and_is_judged(capsys):
    flags = (*ECHO, "--network.units", "5", "--network.decay", "0.25")
    assert call(*SMALL, *flags, "--out", "a") == 0
    assert call("--out", "a", "--resume", *ECHO, "--total-steps", "96") == 0
    heard = call_and_hear(capsys, "--out", "a", "--resume", "--total-steps", "128")
    check_refusal(heard, "add --network toy_net:Echo")
    partners = ("--partners.share", "1", "--partners.policies", "a", "--out", "b")
    heard = call_and_hear(capsys, *SMALL, *partners)
    check_refusal(heard, "add --partners.networks toy_net:Echo")
    assert call(*SMALL, *partners, "--partners.networks", "toy_net:Echo") == 0
    heard = call_and_hear(capsys, "--out", "b", "--resume", "--total-steps", "96")
    check_refusal(heard, "add --partners.networks toy_net:Echo")
    judge = functools.partial(hear, capsys)
    Path("imported").unlink()
    sys.modules.pop("toy_net")
    check_refusal(judge(evaluate_command, "a", "--no-video"), "add --network toy_net:Echo")
    assert not Path("imported").exists()
    assert judge(evaluate_command, "a", "--no-video", "--episodes", "2", *ECHO)[0] == 0
    both = ("a", "b", *ECHO, "--network", "toy_net:Wide", "--episodes", "2")
    assert judge(crossplay_command, *both)[0] == 0
    assert read_metadata("a/policy.safetensors")["run"]["network_settings"]["units"] == 5


@pytest.mark.slow
def test_a_sweep_varies_its_hyperparameters():
    text = '[space]\nnetwork = ["mlp", "toy_net:Echo"]\n"network_settings.units" = [3]\n'
    Path("sweep.toml").write_text(text)
    assert call(*SMALL, *ECHO, "--sweep", "sweep.toml", "--out", "w") == 0
    for point, expected in enumerate([("mlp", None), ("toy_net:Echo", 3)]):
        settings = read_metadata(f"w/point-{point:04}/policy.safetensors")["run"]
        found = (settings["network"], settings.get("network_settings", {}).get("units"))
        assert found == expected
