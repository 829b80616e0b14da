"""Networks of the user's own modules on the command line, such as `--network net:Transformer`."""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, TypeAlias

import tyro

from agents import AbstractNetwork

from ..base import Setting, UsageError, import_named, said, settings_of

NETWORKS = ("mlp", "cnn", "gru", "cnn-gru")
"""The networks of `ippo.py` and `mappo.py`."""
_GIVEN = ("in_shape", "out_size", "final_scale", "key")
"""The arguments with which `actor_critic` calls a network."""


@tyro.conf.configure(tyro.conf.arg(name="network"))
@dataclasses.dataclass(frozen=True)
class OwnNetwork:
    """Hyperparameters of a network of the user. `own_network` adds a field for each of them."""

    _name: ClassVar[str] = ""
    _network: ClassVar[Any] = None  # the class, an `AbstractNetwork`
    _settings: ClassVar[tuple[Setting, ...]] = ()

    @property
    def parts(self) -> dict[str, Callable[..., AbstractNetwork]]:
        """The network by the name of its class, for `load_policy`; empty without one."""
        return {} if self._network is None else {self._network.__name__: self.build}

    def build(
        self, in_shape: Any, out_size: int, *, final_scale: float, key: Any, **others: Any
    ) -> AbstractNetwork:
        """Builds the network, as `actor_critic` and `load_policy` do.

        **Arguments:**

        - `in_shape`, `out_size`, `final_scale`, `key`: as in `actor_critic`.
        - `others`: hyperparameters that replace those of the settings.

        **Raises:** `ValueError` when its constructor raises any error.
        """
        assert self._network is not None
        own = {setting.name: getattr(self, setting.name) for setting in self._settings}
        try:
            return self._network(
                in_shape, out_size, final_scale=final_scale, key=key, **{**own, **others}
            )
        except Exception as error:  # it is code of the user
            name = self._network.__name__
            raise ValueError(f"The network {name} cannot be built: {said(error)}") from error


NetworkName: TypeAlias = Annotated[str, tyro.conf.arg(metavar="|".join((*NETWORKS, "MODULE:NAME")))]
"""The network of a page: one of `NETWORKS`, or a class of the user."""


def own_network(name: str) -> OwnNetwork:
    """The default hyperparameters of a network of the user. Its module is imported.

    A setting is made of each parameter of its constructor, as `settings_of` describes.

    **Arguments:**

    - `name`: its class, as `MODULE:NAME`.

    **Raises:** `UsageError` when it cannot be imported, or is no class of networks.
    """
    network: Any = import_named(name, "--network")
    if not isinstance(network, type) or not issubclass(network, AbstractNetwork):
        raise UsageError(f"--network {name} must be a class that is an agents.AbstractNetwork.")
    return _class_of(name, network)()


@functools.lru_cache(maxsize=64)
def _class_of(name: str, network: type[AbstractNetwork]) -> Any:
    """The subclass of `OwnNetwork` with the hyperparameters of a network."""
    settings = settings_of(network, name, given=_GIVEN, taken=dir(OwnNetwork))
    parameters = inspect.signature(network).parameters.values()
    if not any(x.kind is x.VAR_KEYWORD for x in parameters):
        missing = [given for given in _GIVEN if given not in {x.name for x in parameters}]
        if missing:
            raise UsageError(
                f"--network {name} is called as {network.__name__}(in_shape, out_size, "
                f"final_scale=..., key=...), but takes no {missing[0]}: add this parameter."
            )
    return dataclasses.make_dataclass(
        network.__name__,
        [(x.name, x.hint, dataclasses.field(default=x.default)) for x in settings],
        bases=(OwnNetwork,),
        namespace={
            "__doc__": f"Hyperparameters of {name}.",
            "_name": name,
            "_network": network,
            "_settings": tuple(settings),
        },
        frozen=True,
    )
