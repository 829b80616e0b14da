"""Shared by all parts of the program: errors, processes, file names, and imports of user code."""

from ._command import (
    NOTHING_LEARNED as NOTHING_LEARNED,
    Process as Process,
    exit_code_of as exit_code_of,
    keep_compiled_programs as keep_compiled_programs,
    run_command as run_command,
    run_process as run_process,
    use_cores_as_devices as use_cores_as_devices,
)
from ._errors import (
    Failures as Failures,
    RunError as RunError,
    Stopped as Stopped,
    UsageError as UsageError,
    as_usage_error as as_usage_error,
    print_error as print_error,
    reason as reason,
    warn as warn,
    with_note as with_note,
)
from ._named import (
    DIFFERENT as DIFFERENT,
    Hint as Hint,
    NotNamed as NotNamed,
    Setting as Setting,
    Table as Table,
    by_module as by_module,
    check_storable as check_storable,
    dataclass_of as dataclass_of,
    file_named as file_named,
    folder_first as folder_first,
    import_named as import_named,
    is_own as is_own,
    on_command_line as on_command_line,
    settings_of as settings_of,
    without_none as without_none,
)
from ._run_files import (
    PARTNERS as PARTNERS,
    RESULTS as RESULTS,
    SETTINGS_FILE as SETTINGS_FILE,
    VIDEO_FILE as VIDEO_FILE,
    WANDB_ID as WANDB_ID,
    has_checkpoint as has_checkpoint,
    is_complete as is_complete,
    read_metadata as read_metadata,
    seed_folders as seed_folders,
)
