"""The engine of grid worlds: kinds of cells, actions, motion, the phases of a step, and views."""

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
from ._layout import (
    Layout as Layout,
    check_named as check_named,
    choose_text as choose_text,
    did_you_mean as did_you_mean,
    empty_world as empty_world,
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
from ._texts import LayoutError as LayoutError
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
from .drawing import (
    AgentLook as AgentLook,
    Colour as Colour,
    Film as Film,
    Look as Look,
    LookCodes as LookCodes,
    Number as Number,
    Pen as Pen,
    Point as Point,
    agent_colours as agent_colours,
    bare_looks as bare_looks,
    draw_look as draw_look,
    draw_over_look as draw_over_look,
    film as film,
    look_codes as look_codes,
    look_png as look_png,
    looks as looks,
    render as render,
    render_episode as render_episode,
    top_of as top_of,
)
from .layouts import (
    AbstractGenerator as AbstractGenerator,
    AbstractLayouts as AbstractLayouts,
    LayoutPool as LayoutPool,
    PlacedWorld as PlacedWorld,
    RandomLayouts as RandomLayouts,
    SplitLayouts as SplitLayouts,
    check_generator as check_generator,
    check_ranges as check_ranges,
    count_next_to as count_next_to,
    draw_layouts as draw_layouts,
    draw_maze as draw_maze,
    next_to as next_to,
    reach as reach,
    stack_layouts as stack_layouts,
)
from .observations import (
    DISTANCE_UNIT as DISTANCE_UNIT,
    STEPS_UNIT as STEPS_UNIT,
    AbstractFeature as AbstractFeature,
    AbstractObservation as AbstractObservation,
    Around as Around,
    Column as Column,
    Egocentric as Egocentric,
    FacedAgent as FacedAgent,
    FacedObject as FacedObject,
    FacedTile as FacedTile,
    Features as Features,
    Heard as Heard,
    Layer as Layer,
    NearestObjects as NearestObjects,
    NearestTiles as NearestTiles,
    Others as Others,
    OwnAway as OwnAway,
    OwnDirection as OwnDirection,
    OwnHeld as OwnHeld,
    OwnPosition as OwnPosition,
    PerAgent as PerAgent,
    Planes as Planes,
    Sight as Sight,
    StatePlanes as StatePlanes,
    Views as Views,
    WithState as WithState,
    choose_observation as choose_observation,
    faces as faces,
    in_cells as in_cells,
    one_hot as one_hot,
    other_cell as other_cell,
    own_cell as own_cell,
    plane_names as plane_names,
    prefixed as prefixed,
    tile_cell as tile_cell,
    visible_cells as visible_cells,
)
