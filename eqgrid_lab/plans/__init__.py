"""Teaching networks the plans of kitchens, and searching for better actions than a policy's."""

from ._distil import (
    Comparison as Comparison,
    Distillation as Distillation,
    Played as Played,
    Teacher as Teacher,
    compare_with_plan as compare_with_plan,
    plan_actions as plan_actions,
    plan_teacher as plan_teacher,
    play_from as play_from,
    play_teacher as play_teacher,
    repeat as repeat,
    sharpened as sharpened,
    write_taught as write_taught,
)
from ._search import Search as Search
