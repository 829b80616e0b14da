"""Teaching networks the plans of kitchens, and searching for better actions than a policy's."""

from ._distil import (
    Distillation as Distillation,
    Judged as Judged,
    Played as Played,
    Teacher as Teacher,
    follows as follows,
    judge as judge,
    label as label,
    play_from as play_from,
    recite as recite,
    repeat as repeat,
    sharpened as sharpened,
    write_taught as write_taught,
)
from ._search import Search as Search
