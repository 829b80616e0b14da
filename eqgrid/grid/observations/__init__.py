"""What agents observe: planes, features, and egocentric views."""

from ._egocentric import Egocentric as Egocentric, visible_cells as visible_cells
from ._features import (
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
from ._observation import (
    AbstractObservation as AbstractObservation,
    PerAgent as PerAgent,
    choose_observation as choose_observation,
)
from ._planes import (
    STEPS_UNIT as STEPS_UNIT,
    Column as Column,
    Layer as Layer,
    Planes as Planes,
    StatePlanes as StatePlanes,
    Views as Views,
    WithState as WithState,
    faces as faces,
    lying_cell as lying_cell,
    other_cell as other_cell,
    own_cell as own_cell,
    plane_names as plane_names,
    tile_cell as tile_cell,
)
from ._sight import DISTANCE_UNIT as DISTANCE_UNIT, Sight as Sight, in_cells as in_cells
