"""The worlds that the command lines offer, and their settings."""

from ._choose import (
    is_of_user as is_of_user,
    named_world as named_world,
    settings_from as settings_from,
    world_of_policy as world_of_policy,
    world_settings as world_settings,
    written_out as written_out,
)
from ._foreign import LIBRARIES as LIBRARIES
from ._kitchens import (
    Kitchen as Kitchen,
    kitchen_layout as kitchen_layout,
    recorded_games as recorded_games,
)
from ._table import GENERATED as GENERATED, WORLDS as WORLDS, World as World
from ._world_settings import (
    Share as Share,
    WorldSettings as WorldSettings,
    check_same_game as check_same_game,
    check_same_world as check_same_world,
    columns_of as columns_of,
)
