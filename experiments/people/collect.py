"""Collects the bundled models of people from runs of `bc.py`, and writes their card.

python experiments/people/collect.py runs/people

The folder contains a run of five seeds for each kitchen and each half of the games. For example,
`bc.py --env.layout ring --split train --num-seeds 5 --out runs/people/ring-train` writes one run.
All seeds are kept. The default model of each kitchen is the model with the median return.
"""

import json
import shutil
import sys
from pathlib import Path

from eqgrid_lab.base import Table
from eqgrid_lab.show import median_seed

from agents.files import checksum
from eqgrid.envs.overcooked import KITCHENS

HERE = Path(__file__).parent
KINDS = {"clone": "train", "proxy": "test"}
CARD = """# Models of people in Overcooked

Policies that imitate people: five clones and five proxies for each of five kitchens. Clones learned
from the games of one half of the people, and proxies from the games of the other half. Train with
clones and evaluate with proxies, so that the evaluation uses people from outside of the training.

**Data.** Carroll et al. recorded the games for "On the Utility of Learning about Humans for
Human-AI Coordination" (NeurIPS 2019). Two people play for 180 seconds. The two halves are the
published ones. The games come from the source distribution of overcooked-ai 1.1.0 (MIT licence);
eqgrid contains no games. The page of the data asks users to contact the Center for Human-Compatible
AI about rights to the data.

**Protocol.** As in 2019: behaviour cloning of the reference's 96 features, an MLP with two hidden
layers of 64 units, Adam with a learning rate of 0.001, batches of 64 steps and 100 epochs. The
model of the last epoch is kept. Both seats share one network. Models sample their actions. A model
that stayed in one place for 3 steps takes another action (`StuckRule`). There are two differences
from 2019. The held-out data are whole games of other people instead of single steps. All seeds are
kept, and the default of each kitchen is the seed with the median return with itself; in 2019, two
models were chosen by hand.

**Files.** `models.json` has the SHA-256 of every file and the default seeds. Proxies are never
replaced. `python experiments/bc.py --env.layout ring --split test --num-seeds 5` trains the proxies
of a kitchen again in less than a minute.

**Limitations.** In most kitchens, a model predicts the next action of a person hardly more often
than the most frequent action, which is to stay. Its probabilities are better (see the
cross-entropy). Models have no memory, and get stuck where people do not.

Returns are means over {episodes} games of 400 steps with itself, with a reward of 20 for each soup.
Accuracy and cross-entropy (in nats) are measured on the held-out games.
"""


def collect(runs: Path) -> Table:
    """Copies the policies of all runs next to this script, and describes them."""
    found: Table = {}
    for kitchen in KITCHENS:
        (HERE / kitchen).mkdir(exist_ok=True)
        found[kitchen] = {}
        for kind, split in KINDS.items():
            run = runs / f"{kitchen}-{split}"
            about = json.loads((run / "result.json").read_text())
            results, models = about["runs"], []
            for result in results:
                source = run / f"policy-{result['seed']}.safetensors"
                target = HERE / kitchen / f"{kind}-{result['seed']}.safetensors"
                shutil.copyfile(source, target)
                models.append(
                    {
                        "seed": result["seed"],
                        "return": round(result["eval_return_mean"], 1),
                        "accuracy": round(result["accuracy"], 4),
                        "cross_entropy": round(result["cross_entropy"], 4),
                        "episodes": about["eval_episodes"],
                        "file": target.name,
                        "sha256": checksum(target),
                    }
                )
            found[kitchen][kind] = {
                "default": models[median_seed(results)]["file"],
                "people_return": round(about["people_return_mean"], 1),
                "most_frequent_action": about["most_frequent_action"],
                "models": models,
            }
    return found


def card(found: Table) -> str:
    """The text of the card, with a table of all models."""
    episodes = found["cramped"]["clone"]["models"][0]["episodes"]
    lines = [
        CARD.format(episodes=episodes),
        "| kitchen | model | return of people | return of seeds 0 to 4 | default |"
        " accuracy (most frequent action) | cross-entropy (frequencies) |",
        "|---|---|---|---|---|---|---|",
    ]
    for kitchen, kinds in found.items():
        for kind, about in kinds.items():
            models, frequent = about["models"], about["most_frequent_action"]
            returns = ", ".join(f"{x['return']:.0f}" for x in models)
            accuracy = sum(x["accuracy"] for x in models) / len(models)
            entropy = sum(x["cross_entropy"] for x in models) / len(models)
            lines.append(
                f"| `{kitchen}` | {kind} | {about['people_return']:.0f} | {returns} | "
                f"`{about['default']}` | {accuracy:.1%} ({frequent['accuracy']:.1%}) | "
                f"{entropy:.2f} ({frequent['cross_entropy']:.2f}) |"
            )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    models = collect(Path(sys.argv[1]))
    (HERE / "models.json").write_text(json.dumps(models, indent=2) + "\n")
    (HERE / "README.md").write_text(card(models))
