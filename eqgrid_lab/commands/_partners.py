"""The command `eqgrid partners`: plays policies with held-out partners, and writes returns."""

import dataclasses
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import jax
import numpy as np
import tyro
from jaxtyping import Float
from msgspec import Meta
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from ..base import Table, UsageError, keep_compiled_programs, run_command
from ..folders import open_results, short_name, write_csv, write_json
from ..partners import NamedPartner, Partners, is_policy
from ..settings import read_flags
from ..show import (
    bootstrap_interval,
    interquartile_mean,
    print_paths,
    print_table,
    return_text,
    with_interval,
)
from ._best_responses import BestResponses
from ._heldout import HELD_OUT, PEOPLE, build_held_out, known_before, read_held_out
from ._policies import (
    Game,
    PolicyFlags,
    different_names,
    play_with,
    score_rows,
)

COMMAND = "eqgrid partners"


@dataclasses.dataclass(frozen=True)
class Config(PolicyFlags):
    """Plays trained policies with held-out partners, in every seat, and writes their returns. The
    folder of a run with many seeds is read as all of its seeds.
    """

    partners: Annotated[Path, tyro.conf.arg(metavar="FILE|people")] = HELD_OUT
    """File that describes the partners, or `people` for the human proxies of the kitchen."""
    layout: str | None = None
    """Layout to play in; by default, the layout of training."""
    allow_trained_with: bool = False
    """Also play with held-out partners with which a policy was trained."""
    scripts_only: bool = False
    """Leave out the partners that are trained policies."""
    episodes: Annotated[int, Meta(ge=2, le=2**14)] = 64
    """Episodes with every partner, in each seat."""
    greedy: bool = False
    """Take the most probable actions instead of sampling them."""


def partners_command() -> None:
    """Runs the command line, and ends the process."""
    run_command(run, "nothing was written")


def run(args: Sequence[str]) -> None:
    """Runs the command with these arguments.

    **Raises:** the errors that `run_command` prints as one sentence.
    """
    config = read_flags(Config(), args, COMMAND)
    if str(config.partners) == "people" and not config.partners.exists():
        config = dataclasses.replace(config, partners=PEOPLE)
    held_out, seed = read_held_out(config.partners)
    held_out = [x for x in held_out if not (config.scripts_only and is_policy(x.partner))]
    if not held_out:
        raise UsageError("All partners are policies, so none is left: omit --scripts-only.")
    game = Game.open(config, config.layout, all_seeds=True)
    place, env = game.place, game.place.env
    title = short_name(place.settings.title)
    builder = Partners(game.partners.parts, config.env_name, imports=False)
    partners = build_held_out(held_out, config.partners, place, builder)
    saved = [game.partners.read(name) for name in game.names if is_policy(name)]
    known = known_before(saved, partners)
    _check_unknown(known, config.allow_trained_with)
    best = BestResponses(config.partners, place)
    with open_results(f"partners-{title}", config.out) as (folder, console):
        console.print(
            f"{len(partners)} held-out partners in [bold]{escape(title)}[/], "
            f"{config.episodes} episodes with each in every seat",
            highlight=False,
        )
        keep_compiled_programs()
        game.partners.record(folder)
        keys = jax.random.split(jax.random.key(seed), config.episodes)
        players = game.team(range(len(game.names)), greedy=config.greedy)
        others = [x.partner for x in partners]
        returns = np.stack([play_with(env, [player, *others], keys) for player in players])
        scores = returns.mean(axis=(0, 3))
        result = {
            "command": f"{COMMAND} {shlex.join(args)}",
            "world": place.settings.name,
            "layout": place.settings.title,
            "policies": game.names,
            "partners_file": str(config.partners),
            "actions": "greedy" if config.greedy else "drawn",
            "episodes": config.episodes,
            "seed": seed,
            "trained_with": known,
            **summary(partners, scores, best),
        }
        _print_table(console, scores, result)
        names = different_names(game.shown)
        seats = {"partner": [x.name for x in held_out], "seat": range(env.num_agents)}
        write_csv(folder / "partners.csv", score_rows(returns, policy=names, **seats))
        write_json(folder / "partners.json", result)
        print_paths(console, [folder / "partners.json", folder / "partners.csv"])
        game.partners.finish()


def _check_unknown(known: Mapping[str, Sequence[str]], allowed: bool) -> None:
    """**Raises:** `UsageError` when a policy was trained with a partner, unless it is allowed."""
    if known and not allowed:
        name, partners = next(iter(known.items()))
        raise UsageError(
            f"{name!r} was trained with the held-out partner {partners[0]!r}, or is this partner, "
            "so its result would be too high: choose other --partners, or add "
            "--allow-trained-with."
        )


def summary(
    partners: Sequence[NamedPartner],
    scores: Float[np.ndarray, "partners seats"],
    best: BestResponses,
) -> Table:
    """The returns with all partners, compared with the returns of best responses.

    - The return with a partner is the mean over the seats.
    - The proximity is the sum of the returns over the seats, divided by the same sum for the best
      response to the partner. It is `None` if the best response is unknown or this sum is not
      positive.
    - The regret is the best response's return minus the policies' return, averaged over the seats.
      It is `None` if the best response is unknown.

    **Arguments:**

    - `partners`: the partners.
    - `scores`: the mean return with each partner in every seat, over runs and episodes.
    - `best`: the returns of best responses.

    **Returns:** the return, proximity and regret for each partner; the interquartile means of
    returns and proximities over the partners, with 95 % intervals; and the names of the partners
    whose best responses are exact.
    """
    shares: dict[str, float | None] = {}
    regrets: dict[str, float | None] = {}
    for partner, own in zip(partners, scores, strict=True):
        known = best.returns(partner)
        total = sum(known or ())
        shares[partner.name] = float(own.sum() / total) if total > 0 else None
        regrets[partner.name] = None if known is None else float((known - own).mean())
    known_shares = np.asarray([share for share in shares.values() if share is not None])
    return {
        **_iqm_with_interval("return", scores.mean(axis=1)),
        **_iqm_with_interval("proximity", known_shares),
        "returns": {x.name: float(own.mean()) for x, own in zip(partners, scores, strict=True)},
        "proximities": shares,
        "regrets": regrets,
        "exact": [partner.name for partner in partners if best.is_exact(partner)],
    }


def _iqm_with_interval(name: str, scores: Float[np.ndarray, " partners"]) -> Table:
    """The interquartile mean and its 95 % interval, as entries with these names."""
    if len(scores) == 0:
        return {f"{name}_iqm": None, f"{name}_interval": None}
    low, high = (float(end) for end in bootstrap_interval(scores))
    return {f"{name}_iqm": float(interquartile_mean(scores)), f"{name}_interval": [low, high]}


def _print_table(
    console: Console, scores: Float[np.ndarray, "partners seats"], result: Table
) -> None:
    rows, all_scores = [], scores.ravel().tolist()
    for (name, share), own in zip(result["proximities"].items(), scores, strict=True):
        regret, source = result["regrets"][name], "exact" if name in result["exact"] else "trained"
        rows.append(
            [
                Text(name),
                *(return_text(mean, all_scores) for mean in own),
                "not known" if share is None else f"{share:.2f}",
                "" if regret is None else return_text(regret, all_scores),
                "" if regret is None else source,
            ]
        )
    seats = [f"return in seat {seat}" for seat in range(scores.shape[1])]
    titles = ("partner", *seats, "of best response", "regret", "best response")
    print_table(console, titles, rows)
    for name in ("return", "proximity"):
        if result[f"{name}_iqm"] is not None:
            mean, interval = with_interval(result[f"{name}_iqm"], *result[f"{name}_interval"])
            console.print(
                f"{name}: interquartile mean over partners [bold]{mean}[/] (95 % interval "
                f"{interval})",
                highlight=False,
            )
