from .._checks import (
    as_number as as_number,
    as_probability as as_probability,
    check_whole as check_whole,
    is_finite as is_finite,
    is_known as is_known,
)
from ._actions import (
    MOVES as MOVES,
    Action as Action,
    Actions as Actions,
    Forward as Forward,
    Move as Move,
    Rotate as Rotate,
    Say as Say,
    Stay as Stay,
    Strafe as Strafe,
    Use as Use,
    by_choice as by_choice,
)
from ._away import ComeBack as ComeBack, send_away as send_away
from ._cells import (
    bare_floor as bare_floor,
    check_room as check_room,
    draw_cells as draw_cells,
    free_cells as free_cells,
    is_free as is_free,
    occupied_cells as occupied_cells,
)
from ._grid_world import GridWorld as GridWorld, InfoEntry as InfoEntry
from ._interact import (
    AbstractInteraction as AbstractInteraction,
    Interact as Interact,
    Outcome as Outcome,
    Turn as Turn,
)
from ._kinds import (
    AGENT_CHARACTERS as AGENT_CHARACTERS,
    NOTHING as NOTHING,
    Kind as Kind,
    KindError as KindError,
    Kinds as Kinds,
    Overlay as Overlay,
)
from ._masks import AbstractActionMask as AbstractActionMask, OwnActions as OwnActions
from ._motion import (
    AbstractCollision as AbstractCollision,
    Go as Go,
    JointCollision as JointCollision,
    LocalCollision as LocalCollision,
)
from ._rewards import (
    AbstractEnding as AbstractEnding,
    AbstractEvents as AbstractEvents,
    AbstractReward as AbstractReward,
    RuleEvents as RuleEvents,
    WeightedEventReward as WeightedEventReward,
)
from ._speech import Speak as Speak
from ._starts import (
    AbstractStart as AbstractStart,
    RandomDirections as RandomDirections,
    RandomPositions as RandomPositions,
    WithProbability as WithProbability,
    apply_starts as apply_starts,
)
from ._step import AbstractPhase as AbstractPhase, Step as Step
from ._tick import AbstractTick as AbstractTick, Spot as Spot, Tick as Tick
from ._world import (
    IDLE as IDLE,
    Bodies as Bodies,
    Cell as Cell,
    Direction as Direction,
    World as World,
    cells_at as cells_at,
    direction_delta as direction_delta,
    get_cell as get_cell,
    poses as poses,
    set_cell as set_cell,
)
from .drawing._codes import LookCodes as LookCodes, look_codes as look_codes
from .drawing._film import Film as Film
from .drawing._looks import (
    AgentLook as AgentLook,
    Look as Look,
    agent_colours as agent_colours,
    top_of as top_of,
)
from .drawing._pen import Colour as Colour, Number as Number, Pen as Pen, Point as Point
from .drawing._render import (
    bare_looks as bare_looks,
    draw_look as draw_look,
    draw_over_look as draw_over_look,
    film as film,
    look_png as look_png,
    looks as looks,
    render as render,
    render_episode as render_episode,
)
from .layouts._layout import (
    Layout as Layout,
    check_named as check_named,
    choose_text as choose_text,
    did_you_mean as did_you_mean,
    empty_world as empty_world,
)
from .layouts._mazes import draw_maze as draw_maze
from .layouts._random_layouts import (
    AbstractGenerator as AbstractGenerator,
    AbstractLayouts as AbstractLayouts,
    LayoutPool as LayoutPool,
    PlacedWorld as PlacedWorld,
    RandomLayouts as RandomLayouts,
    SplitLayouts as SplitLayouts,
    check_generator as check_generator,
    check_ranges as check_ranges,
    draw_layouts as draw_layouts,
    stack_layouts as stack_layouts,
)
from .layouts._search import count_next_to as count_next_to, next_to as next_to, reach as reach
from .layouts._texts import LayoutError as LayoutError
from .observations._egocentric import Egocentric as Egocentric, visible_cells as visible_cells
from .observations._features import (
    AbstractFeature as AbstractFeature,
    Around as Around,
    FacedAgent as FacedAgent,
    FacedObject as FacedObject,
    FacedTile as FacedTile,
    Features as Features,
    Heard as Heard,
    NearestObjects as NearestObjects,
    NearestTiles as NearestTiles,
    Others as Others,
    OwnAway as OwnAway,
    OwnDirection as OwnDirection,
    OwnHeld as OwnHeld,
    OwnPosition as OwnPosition,
    one_hot as one_hot,
    prefixed as prefixed,
)
from .observations._observation import (
    AbstractObservation as AbstractObservation,
    choose_observation as choose_observation,
)
from .observations._per_agent import PerAgent as PerAgent
from .observations._planes import (
    Column as Column,
    Layer as Layer,
    Planes as Planes,
    Views as Views,
    faces as faces,
    other_cell as other_cell,
    own_cell as own_cell,
    plane_names as plane_names,
    tile_cell as tile_cell,
)
from .observations._sight import (
    DISTANCE_UNIT as DISTANCE_UNIT,
    Sight as Sight,
    in_cells as in_cells,
)
from .observations._state_planes import (
    STEPS_UNIT as STEPS_UNIT,
    StatePlanes as StatePlanes,
    WithState as WithState,
)
