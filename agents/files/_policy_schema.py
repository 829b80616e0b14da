"""The schema of the description in a policy file: names and numbers within bounds."""

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct, field

from ..policies import Activation, Precision

TeamName: TypeAlias = Literal["SharedParameters", "IndependentParameters"]
FloatName: TypeAlias = Literal["float32", "float16", "bfloat16"]
DtypeName: TypeAlias = (
    FloatName | Literal["bool", "int8", "int16", "int32", "uint8", "uint16", "uint32"]
)

_Width: TypeAlias = Annotated[int, Meta(ge=1, le=2**20)]
_Depth: TypeAlias = Annotated[int, Meta(ge=0, le=100)]
_Shape: TypeAlias = Annotated[list[Annotated[int, Meta(ge=0, le=2**20)]], Meta(max_length=8)]
_Name: TypeAlias = Annotated[str, Meta(max_length=200)]
_Number: TypeAlias = int | float | bool | _Name | None
Names: TypeAlias = Annotated[list[_Name], Meta(max_length=100)]
Arguments: TypeAlias = Annotated[
    dict[_Name, _Number | Annotated[list[_Number], Meta(max_length=100)]], Meta(max_length=100)
]


class _Table(Struct, forbid_unknown_fields=True):
    """An object of the description, without unknown fields."""


class _Network(_Table, tag_field="network", kw_only=True):
    """A network. An actor or a critic also has a `team`: shared or independent parameters."""

    team: TeamName | None = None


class MLPTable(_Network, tag="MLP"):
    width: _Width
    depth: _Depth
    activation: Activation
    precision: Precision


class CNNTable(MLPTable, tag="CNN"):
    features: _Width


class CustomTable(_Network, tag="custom"):
    """A network class that is not part of eqgrid, the hyperparameters of its constructor, and the
    names of those that a file cannot hold.
    """

    name: _Name
    arguments: Arguments = field(default_factory=dict)
    not_stored: Names = field(default_factory=list)


class GRUTable(_Network, tag="GRU"):
    width: _Width
    encoder: MLPTable | CNNTable | CustomTable


class PredictingGRUTable(GRUTable, tag="PredictingGRU"):
    """A `GRU` that predicts its partner; the arguments are the same."""


NetworkTable: TypeAlias = MLPTable | CNNTable | GRUTable | PredictingGRUTable | CustomTable


class DiscreteTable(_Table, tag_field="kind", tag="discrete"):
    n: _Width


class BoxTable(_Table, tag_field="kind", tag="box"):
    """A `Box`, whose bounds are nested lists of numbers of the given shape."""

    shape: _Shape
    dtype: FloatName
    low: Any
    high: Any


class MultiDiscreteTable(_Table, tag_field="kind", tag="multi_discrete"):
    ns: Annotated[list[_Width], Meta(min_length=1, max_length=1000)]


SpaceTable: TypeAlias = DiscreteTable | MultiDiscreteTable | BoxTable


class PartTable(_Table):
    """A critic input or an action head, as in `CustomTable`."""

    name: _Name
    arguments: Arguments = field(default_factory=dict)
    not_stored: Names = field(default_factory=list)


class WithStateTable(_Table):
    local: "ObservationTable"
    state: "ObservationTable"


class MaskedTable(_Table):
    observation: "ObservationTable"
    action_mask: "ObservationTable"


class ObservationTable(_Table, omit_defaults=True):
    """The observation of one agent: an array (`shape` and `dtype`), or one of four containers."""

    shape: _Shape | None = None
    dtype: DtypeName | None = None
    local_and_state: WithStateTable | None = None
    masked: MaskedTable | None = None
    named: Annotated[dict[_Name, "ObservationTable"], Meta(min_length=1)] | None = field(
        name="dict", default=None
    )
    numbered: Annotated[list["ObservationTable"], Meta(min_length=1)] | None = field(
        name="tuple", default=None
    )

    def __post_init__(self) -> None:
        given = {name for name in self.__struct_fields__ if getattr(self, name) is not None}
        if given != {"shape", "dtype"} and (len(given) != 1 or given & {"shape", "dtype"}):
            raise ValueError("Expected a shape and a dtype, or one table of another kind")


class NormalizationTable(_Table):
    """The prefix of the names of the moments, and the settings of `NormalizeObservation`."""

    moments: str
    epsilon: Annotated[float, Meta(ge=1.2e-38, le=1e30)]
    clip: Annotated[float, Meta(gt=0, le=1e30)] | None = None


class PolicyTable(_Table, kw_only=True):
    """The whole description. `parameters` is the prefix of the names of the arrays of actor and
    critic.
    """

    format: Literal["eqgrid policy 1"]
    num_agents: Annotated[int, Meta(ge=1, le=1000)]
    observation: ObservationTable
    action_space: SpaceTable
    actor: NetworkTable
    critic: NetworkTable
    critic_input: PartTable
    head: PartTable
    parameters: str
    normalization: NormalizationTable | None = None
    versions: Annotated[dict[_Name, _Name], Meta(max_length=20)]

    def __post_init__(self) -> None:
        if self.actor.team is None or self.critic.team is None:
            raise ValueError("Object missing required field `team` of actor or critic")
