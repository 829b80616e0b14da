"""The setting `--network`: the name of a network, or a class of the user and its settings."""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, TypeAlias, TypeVar

import tyro
from jaxtyping import PRNGKeyArray

from agents import AbstractNetwork
from eqgrid.errors import did_you_mean

from ..base import (
    Setting,
    Table,
    UsageError,
    check_storable,
    dataclass_of,
    import_named,
    is_own,
    settings_of,
    with_note,
)
from ._policy_settings import PolicySettings, default_settings

NETWORKS = ("mlp", "cnn", "gru", "cnn-gru")
"""The networks of `ippo.py` and `mappo.py`."""
_GIVEN = ("in_shape", "out_size", "final_scale", "key")
"""The arguments with which `actor_critic` calls a network."""


@tyro.conf.configure(tyro.conf.arg(name="network"))
@dataclasses.dataclass(frozen=True)
class OwnNetwork:
    """Hyperparameters of a network of the user. `own_network` adds a field for each of them."""

    _name: ClassVar[str] = ""  # as MODULE:NAME
    _network: ClassVar[Any] = None  # the class, an `AbstractNetwork`
    _settings: ClassVar[tuple[Setting, ...]] = ()

    @property
    def parts(self) -> dict[str, Callable[..., AbstractNetwork]]:
        """The network by the name of its class, for `load_policy`; empty if there is none."""
        return {} if self._network is None else {self._network.__name__: self.build}

    def build(
        self,
        in_shape: object,
        out_size: int,
        *,
        final_scale: float,
        key: PRNGKeyArray,
        **others: object,
    ) -> AbstractNetwork:
        """Builds the network, as `actor_critic` and `load_policy` do.

        **Arguments:**

        - `in_shape`, `out_size`, `final_scale`, `key`: as in `actor_critic`.
        - `others`: hyperparameters that replace those of the settings.

        **Raises:** the errors of its constructor.
        """
        assert self._network is not None
        values = {setting.name: getattr(self, setting.name) for setting in self._settings}
        with with_note(f"The network {self._name} cannot be built."):
            return self._network(
                in_shape, out_size, final_scale=final_scale, key=key, **{**values, **others}
            )


NetworkName: TypeAlias = Annotated[str, tyro.conf.arg(metavar="|".join((*NETWORKS, "MODULE:NAME")))]
"""The network of a script: one of `NETWORKS`, or a class of the user."""


def own_network(name: str) -> OwnNetwork:
    """Imports a network of the user, and returns its default hyperparameters.

    Each parameter of its constructor becomes a setting, as `settings_of` describes.

    **Arguments:**

    - `name`: the class, as `MODULE:NAME`.

    **Raises:** `UsageError` when the class cannot be imported, or is not a class of networks.
    """
    network: object = import_named(name, "--network")
    if not isinstance(network, type) or not issubclass(network, AbstractNetwork):
        raise UsageError(f"--network {name} must be a class that is an agents.AbstractNetwork.")
    return _class_of(name, network)()


@functools.lru_cache(maxsize=64)
def _class_of(name: str, network: type[AbstractNetwork]) -> type[OwnNetwork]:
    """Makes the subclass of `OwnNetwork` with the hyperparameters of a network."""
    settings = settings_of(network, name, given=_GIVEN, taken=dir(OwnNetwork))
    parameters = inspect.signature(network).parameters.values()
    if not any(x.kind is x.VAR_KEYWORD for x in parameters):
        missing = [given for given in _GIVEN if given not in {x.name for x in parameters}]
        if missing:
            raise UsageError(
                f"--network {name} is called as {network.__name__}(in_shape, out_size, "
                f"final_scale=..., key=...), but takes no {missing[0]}: add this parameter."
            )
    return dataclass_of(
        network.__name__,
        settings,
        OwnNetwork,
        __doc__=f"Hyperparameters of {name}.",
        _name=name,
        _network=network,
        _settings=tuple(settings),
    )


E = TypeVar("E", bound=PolicySettings)


def with_network(config: E, name: str | None) -> E:
    """Replaces the network in the settings of a run. It has its default hyperparameters.

    **Arguments:**

    - `config`: the settings, which are returned unchanged if their script has no
        `network_settings`.
    - `name`: the network; `None` to change nothing. A class of the user is imported.

    **Raises:** `UsageError` as in `own_network`.
    """
    if name is None or not hasattr(config, "network_settings"):
        return config
    own = own_network(name) if is_own(name) else OwnNetwork()
    changes: Table = {"network": name, "network_settings": own}
    return dataclasses.replace(config, **changes)


def without_unused(config: E) -> E:
    """Removes the hyperparameters of a class of the user from settings with another network."""
    name = getattr(config, "network", None)
    return config if name is None or is_own(name) else with_network(config, name)


def check_network(config: PolicySettings) -> None:
    """Checks the network of a run, if its script has `network_settings`.

    **Raises:** `UsageError` when there is no such network, or a setting has no effect on it.
    """
    own = getattr(config, "network_settings", None)
    if own is None:
        return
    given: Any = config
    if not is_own(given.network) and given.network not in NETWORKS:
        raise UsageError(
            f"--network {given.network!r:.60} is not a "
            f"network{did_you_mean(given.network, NETWORKS)} Available networks: "
            f"{', '.join(NETWORKS)}, and MODULE:NAME for a class of your own."
        )
    if not is_own(given.network):
        return
    if own._name != given.network:
        raise UsageError(
            f"The network {given.network:.200} is imported only if you name it on the command "
            f"line: add --network {given.network:.200}."
        )
    check_storable(own, own._settings, "--network.")
    plain: Any = default_settings(type(config), config.env)
    for name in ("width", "precision"):
        if getattr(given, name) != getattr(plain, name):
            instead = f", and give --network.{name}" if hasattr(own, name) else ""
            raise UsageError(
                f"--{name} applies only to eqgrid's own networks: leave it out with --network "
                f"{given.network}{instead}."
            )
