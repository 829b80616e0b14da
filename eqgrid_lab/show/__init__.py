"""The output of runs: progress, tables, plots, videos, loggers, and statistics of returns."""

from ._figure import (
    add_legend as add_legend,
    drawing as drawing,
    draws_figure as draws_figure,
    label_thousands as label_thousands,
    new_figure as new_figure,
    plain_axes as plain_axes,
    shortened as shortened,
    width_of as width_of,
    write_figure as write_figure,
    write_title as write_title,
)
from ._loggers import (
    Csv as Csv,
    LoggerName as LoggerName,
    open_loggers as open_loggers,
)
from ._report import (
    draw_curves as draw_curves,
    how_to_continue as how_to_continue,
    median_seed as median_seed,
    print_result as print_result,
    reached as reached,
    what_is_kept as what_is_kept,
)
from ._returns import (
    agents_text as agents_text,
    align_curves as align_curves,
    bootstrap_crossplay as bootstrap_crossplay,
    bootstrap_interval as bootstrap_interval,
    caption as caption,
    interquartile_mean as interquartile_mean,
    interval_of_mean as interval_of_mean,
    is_constant_sum as is_constant_sum,
    mean_returns as mean_returns,
    mean_with_interval as mean_with_interval,
    return_text as return_text,
    return_texts as return_texts,
    returns_of_agents as returns_of_agents,
    with_deviation as with_deviation,
    with_interval as with_interval,
)
from ._table import (
    csv_text as csv_text,
    open_console as open_console,
    path_text as path_text,
    print_paths as print_paths,
    print_table as print_table,
    progress as progress,
)
from ._video import (
    compile_video as compile_video,
    record as record,
    running_return as running_return,
    video_episode as video_episode,
    with_last as with_last,
)
