from ._contents import (
    FIRST_INGREDIENT as FIRST_INGREDIENT,
    INGREDIENTS as INGREDIENTS,
    MAX_INGREDIENTS as MAX_INGREDIENTS,
    PLATE as PLATE,
    Contents as Contents,
    Tile as Tile,
    contents as contents,
    contents_of as contents_of,
)
from ._events import EVENT_NAMES as EVENT_NAMES, KitchenEvents as KitchenEvents
from ._features import PermutedFeatures as PermutedFeatures, recipe_features as recipe_features
from ._interactions import (
    AddIngredient as AddIngredient,
    Deliver as Deliver,
    FillPlate as FillPlate,
    PickUp as PickUp,
    PressButton as PressButton,
    PutDown as PutDown,
    StartByHand as StartByHand,
    StartFull as StartFull,
    Take as Take,
)
from ._kinds import kitchen_kinds as kitchen_kinds
from ._layouts import (
    KITCHENS as KITCHENS,
    RECIPES as RECIPES,
    load_layout as load_layout,
    parse_kitchen as parse_kitchen,
)
from ._orders import (
    DrawRecipe as DrawRecipe,
    Menu as Menu,
    Order as Order,
    Recipe as Recipe,
    TakeOrder as TakeOrder,
    all_recipes as all_recipes,
    place_order as place_order,
)
from ._overcooked_v2 import (
    ACTIONS as ACTIONS,
    BUTTON_COST as BUTTON_COST,
    DELIVERY_REWARD as DELIVERY_REWARD,
    REFERENCE_SHAPING as REFERENCE_SHAPING,
    OvercookedV2 as OvercookedV2,
)
from ._planes import PermutedPlanes as PermutedPlanes, recipe_planes as recipe_planes
from ._starts import (
    PermuteIngredients as PermuteIngredients,
    RandomKitchen as RandomKitchen,
    RandomPlaces as RandomPlaces,
    StartFrom as StartFrom,
    find_rooms as find_rooms,
)
from ._ticks import RunClocks as RunClocks
