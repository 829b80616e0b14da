"""Recorded games of people."""

from ._games import (
    HumanGame as HumanGame,
    games_from_table as games_from_table,
    human_games as human_games,
    read_games as read_games,
    trajectories_from_games as trajectories_from_games,
)
