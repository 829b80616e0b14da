"""Choosing the network of a run by its name, and checking that choice."""

import dataclasses
from typing import Any, TypeVar

from eqgrid.grid import did_you_mean

from ..base import UsageError, check_storable, is_own
from ._own_network import NETWORKS, OwnNetwork, own_network
from ._policy_settings import PolicySettings, default_settings

E = TypeVar("E", bound=PolicySettings)


def with_network(config: E, name: str | None) -> E:
    """The settings of a run with another network, which has its default hyperparameters.

    **Arguments:**

    - `config`: the settings, which are returned unchanged if their page has no `network_settings`.
    - `name`: the network; `None` for that of the settings. The module of a class of the user is
        imported.

    **Raises:** `UsageError` as in `own_network`.
    """
    if name is None or not hasattr(config, "network_settings"):
        return config
    own = own_network(name) if is_own(name) else OwnNetwork()
    changes: dict[str, Any] = {"network": name, "network_settings": own}
    return dataclasses.replace(config, **changes)


def without_unused(config: E) -> E:
    """The settings of a run without hyperparameters of a network that it does not have."""
    name = getattr(config, "network", None)
    return config if name is None or is_own(name) else with_network(config, name)


def check_network(config: PolicySettings) -> None:
    """Checks the network of a run, if its page has `network_settings`.

    **Raises:** `UsageError` when there is no such network, or a setting has no effect on it.
    """
    own = getattr(config, "network_settings", None)
    if own is None:
        return
    given: Any = config
    if not is_own(given.network) and given.network not in NETWORKS:
        raise UsageError(
            f"--network {given.network!r:.60} is no network{did_you_mean(given.network, NETWORKS)} "
            f"Known are {', '.join(NETWORKS)}, and MODULE:NAME for a class of your own."
        )
    if not is_own(given.network):
        return
    if own._name != given.network:
        raise UsageError(
            f"The network {given.network:.200} is imported only if the command names it, too: add "
            f"--network {given.network:.200}."
        )
    check_storable(own, own._settings, "--network.")
    plain: Any = default_settings(type(config), config.env)
    for name in ("width", "precision"):
        if getattr(given, name) != getattr(plain, name):
            instead = f", and give --network.{name}" if hasattr(own, name) else ""
            raise UsageError(
                f"--{name} is for the networks of eqgrid: leave it out with --network "
                f"{given.network}{instead}."
            )
