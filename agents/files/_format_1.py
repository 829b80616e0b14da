"""Reads the descriptions of policies in format 1, which eqgrid wrote before its first release."""

from typing import Any

from ._description import CLASSES, FORMAT, NOT_STORED

FORMAT_1 = "eqgrid policy 1"


def upgrade(old: dict[str, Any]) -> dict[str, Any]:
    """Rewrites a description of format 1 in format 2. The description may be damaged.

    **Raises:** `ValueError` with a clause when it has another structure.
    """
    try:
        space = old["action_space"]
        normalization = dict(old["normalization"] or {"moments": ""})
        return {
            **{name: old[name] for name in ("num_agents", "parameters", "versions")},
            "format": FORMAT,
            "observation": _observation(old["observation"]),
            "action_space": {_SPACES[space["kind"]]: _without(space, "kind", "dtype")},
            **{name: _team(old[name]) for name in ("actor", "critic")},
            **{name: _part(old[name], may_be_own=True) for name in ("critic_input", "head")},
            "moments": normalization.pop("moments"),
            "normalization": normalization or None,
        }
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise ValueError("its description in format 1 is damaged") from error


_SPACES = {
    "discrete": "eqgrid.Discrete",
    "multi_discrete": "eqgrid.MultiDiscrete",
    "box": "eqgrid.Box",
}
_CONTAINERS = {"masked": "eqgrid.Masked", "local_and_state": "eqgrid.ObservationAndState"}


def _without(table: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in table.items() if name not in names}


def _observation(table: dict[str, Any]) -> Any:
    if "shape" in table:
        return {"array": table}
    ((kind, parts),) = table.items()
    if kind == "tuple":
        return [_observation(part) for part in parts]
    return {_CONTAINERS.get(kind, kind): {name: _observation(x) for name, x in parts.items()}}


def _team(table: dict[str, Any]) -> dict[str, Any]:
    return {f"agents.{table['team']}": {"network": _network(_without(table, "team"))}}


def _network(table: dict[str, Any]) -> dict[str, Any]:
    if table["network"] == "custom":
        return _part(table, may_be_own=False)
    encoder = {"encoder": _network(table["encoder"])} if "encoder" in table else {}
    return {f"agents.{table['network']}": {**_without(table, "network"), **encoder}}


def _part(table: dict[str, Any], *, may_be_own: bool) -> dict[str, Any]:
    """Rewrites a critic input, a head or a custom network. With `may_be_own`, it is eqgrid's class
    if eqgrid has a class with its name.
    """
    name = f"agents.{table['name']}"
    missing = dict.fromkeys(table.get("not_stored", ()), NOT_STORED)
    arguments = {**table.get("arguments", {}), **missing}
    return {name if may_be_own and name in CLASSES else table["name"]: arguments}
