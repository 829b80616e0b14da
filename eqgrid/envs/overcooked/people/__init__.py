"""Recorded games of people."""

from ._games import HumanGame as HumanGame, human_games as human_games
