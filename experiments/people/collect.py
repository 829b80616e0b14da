"""Collects the bundled models of people from runs of `bc.py`, and writes their card.

python experiments/people/collect.py runs/people

The folder has a run of five seeds for each kitchen and half of the games, such as `ring-train`:
`bc.py --env.layout ring --split train --num-seeds 5 --out runs/people/ring-train`. All seeds are
kept. The default of each kitchen is the one with the median return: no other rule chooses it.
"""

import json
import shutil
import sys
from pathlib import Path

from agents import checksum
from eqgrid.envs.overcooked import KITCHENS
from eqgrid_lab.base import Table
from eqgrid_lab.show import median_seed

HERE = Path(__file__).parent
KINDS = {"clone": "train", "proxy": "test"}
CARD = """# Models of people in Overcooked

Policies that imitate people: five clones and five proxies for each of five kitchens. Clones learned
from the games of one half of the people, proxies from those of the other half. Train with clones,
and judge with proxies, so that agents are judged with people they have never met.

**Data.** The games that Carroll et al. recorded for "On the Utility of Learning about Humans for
Human-AI Coordination" (NeurIPS 2019): two people, 180 seconds, the halves as published. They are
read from the source distribution of overcooked-ai 1.1.0 (MIT licence), and no game is part of
eqgrid. The page of the data asks users to contact the Center for Human-Compatible AI about rights
to the data.

**Protocol.** That of 2019: behaviour cloning of the reference's 96 features, an MLP with two
hidden layers of 64 units, Adam with a learning rate of 0.001, batches of 64 steps and 100 epochs.
The last epoch is kept. Both seats share one network. Actions are drawn, and a model that stayed in
one place for 3 steps takes another action (`StuckRule`). Different from 2019: whole games are held
out, by people, rather than single steps; all seeds are here, and the default of each kitchen is
the seed with the median return with itself, where in 2019 two models were chosen by hand.

**Files.** `models.json` has the SHA-256 of every file and the default seeds. Proxies are never
replaced. `python experiments/bc.py --env.layout ring --split test --num-seeds 5` trains those of a
kitchen again, in less than a minute.

**Weak points.** In most kitchens a model names the action of a person in the next step hardly more
often than the most frequent action, which is to stay, does; its probabilities are better (see the
cross-entropy). Models remember nothing, and get stuck where people do not.

Returns are of {episodes} games of 400 steps with itself, where a soup pays 20; accuracy and
cross-entropy (in nats) are those on the held-out games.
"""


def collect(runs: Path) -> Table:
    """Copies the policies of all runs, and describes them."""
    found: Table = {}
    for kitchen in KITCHENS:
        (HERE / kitchen).mkdir(exist_ok=True)
        found[kitchen] = {}
        for kind, split in KINDS.items():
            run = runs / f"{kitchen}-{split}"
            result = json.loads((run / "result.json").read_text())["runs"]
            models = []
            for one in result:
                source = run / f"seed-{one['seed']}" / "policy.safetensors"
                target = HERE / kitchen / f"{kind}-{one['seed']}.safetensors"
                shutil.copyfile(source, target)
                kept = one[one["kept"]]
                models.append(
                    {
                        "seed": one["seed"],
                        "return": round(kept["return_mean"], 1),
                        "accuracy": round(kept["accuracy"], 4),
                        "cross_entropy": round(kept["cross_entropy"], 4),
                        "episodes": one["eval_episodes"],
                        "file": target.name,
                        "sha256": checksum(target),
                    }
                )
            found[kitchen][kind] = {
                "default": models[median_seed(result)]["file"],
                "people_return": round(result[0]["people_return_mean"], 1),
                "most_frequent_action": result[0]["most_frequent_action"],
                "models": models,
            }
    return found


def card(found: Table) -> str:
    """The text of the card, with a table of all models."""
    episodes = found["cramped"]["clone"]["models"][0]["episodes"]
    lines = [CARD.format(episodes=episodes)]
    lines += ["| kitchen | model | people earn | return of seeds 0 to 4 | default |"]
    lines[-1] += " accuracy (most frequent action) | cross-entropy (frequencies) |"
    lines += ["|---|---|---|---|---|---|---|"]
    for kitchen, kinds in found.items():
        for kind, own in kinds.items():
            models, frequent = own["models"], own["most_frequent_action"]
            returns = ", ".join(f"{x['return']:.0f}" for x in models)
            accuracy = sum(x["accuracy"] for x in models) / len(models)
            entropy = sum(x["cross_entropy"] for x in models) / len(models)
            lines.append(
                f"| `{kitchen}` | {kind} | {own['people_return']:.0f} | {returns} | "
                f"`{own['default']}` | {accuracy:.1%} ({frequent['accuracy']:.1%}) | "
                f"{entropy:.2f} ({frequent['cross_entropy']:.2f}) |"
            )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    models = collect(Path(sys.argv[1]))
    (HERE / "models.json").write_text(json.dumps(models, indent=2) + "\n")
    (HERE / "README.md").write_text(card(models))
