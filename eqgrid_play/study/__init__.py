"""Studies with people: consent, games, questions, and the data of them."""

from ._export import export as export, forget as forget, outcomes as outcomes, report as report
from ._people import (
    DATA as DATA,
    DICTIONARY as DICTIONARY,
    People as People,
    Person as Person,
    open_people as open_people,
    open_study as open_study,
    people_in as people_in,
)
from ._plan import (
    Plan as Plan,
    check_plan as check_plan,
    plan_partners as plan_partners,
    read_plan as read_plan,
)
from ._recorded import RECORDED as RECORDED, recorded_tables as recorded_tables
from ._stages import AbstractStage as AbstractStage, Question as Question
from ._study_runner import StudyRunner as StudyRunner, WaitingRoom as WaitingRoom
from ._trial import try_plan as try_plan
