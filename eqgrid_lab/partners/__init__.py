"""Partners: trained policies, scripts, recordings and models of people, by their names."""

from ._place import Place as Place
from ._program import Program as Program, ProgramPartner as ProgramPartner
from ._saved import (
    Parts as Parts,
    SavedPolicy as SavedPolicy,
    load_parts as load_parts,
    parts_in as parts_in,
    policies_of as policies_of,
    read_saved as read_saved,
    run_mark as run_mark,
)
from ._table import (
    PARTNERS as PARTNERS,
    NamedPartner as NamedPartner,
    Partners as Partners,
    absolute as absolute,
    changes_of as changes_of,
    expanded as expanded,
    in_folder as in_folder,
    is_policy as is_policy,
    marks_of as marks_of,
    models_of_people as models_of_people,
)
