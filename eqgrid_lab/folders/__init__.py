"""The folders of runs and of results, and the tables in them."""

from ._folder import (
    folder_name as folder_name,
    locked as locked,
    open_folder as open_folder,
    short_name as short_name,
    writing_into as writing_into,
)
from ._results import (
    MAX_RESULT_BYTES as MAX_RESULT_BYTES,
    csv_bytes as csv_bytes,
    open_results as open_results,
    read_csv as read_csv,
    reading as reading,
    shown_path as shown_path,
    write_csv as write_csv,
    write_json as write_json,
)
