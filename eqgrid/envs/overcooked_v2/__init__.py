"""OvercookedV2: several ingredients, orders, and partial observability."""

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
from ._kinds import kitchen_kinds as kitchen_kinds
from ._layouts import (
    KITCHENS as KITCHENS,
    RECIPES as RECIPES,
    load_layout as load_layout,
    parse_kitchen as parse_kitchen,
)
from ._observations import (
    PermutedFeatures as PermutedFeatures,
    PermutedPlanes as PermutedPlanes,
    recipe_features as recipe_features,
    recipe_planes as recipe_planes,
)
from ._overcooked_v2 import (
    ACTIONS as ACTIONS,
    BUTTON_COST as BUTTON_COST,
    DELIVERY_REWARD as DELIVERY_REWARD,
    REFERENCE_SHAPING as REFERENCE_SHAPING,
    OvercookedV2 as OvercookedV2,
)
from ._rules import (
    EVENT_NAMES as EVENT_NAMES,
    AddIngredient as AddIngredient,
    Deliver as Deliver,
    DrawRecipe as DrawRecipe,
    FillPlate as FillPlate,
    KitchenEvents as KitchenEvents,
    Menu as Menu,
    Order as Order,
    PickUp as PickUp,
    PressButton as PressButton,
    PutDown as PutDown,
    Recipe as Recipe,
    RunClocks as RunClocks,
    StartByHand as StartByHand,
    StartFull as StartFull,
    Take as Take,
    TakeOrder as TakeOrder,
    all_recipes as all_recipes,
    place_order as place_order,
)
from ._starts import (
    PermuteIngredients as PermuteIngredients,
    RandomKitchen as RandomKitchen,
    RandomPlaces as RandomPlaces,
    StartFrom as StartFrom,
    find_rooms as find_rooms,
)
