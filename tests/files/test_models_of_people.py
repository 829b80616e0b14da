"""The models of people that come with eqgrid: their files, their defaults, and how they play."""

import hashlib
import json

import jax
import numpy as np
import pytest

from agents import read_policy
from agents.files import checksum, shipped
from eqgrid.envs.overcooked import KITCHENS
from eqgrid_lab.commands import play_all
from eqgrid_lab.partners import read_saved
from eqgrid_lab.show import median_seed

MODELS = json.loads(shipped("people/models.json").read_text())
PROXIES = "f4b3566672d3ad04352da1edc2669062f0702ce53fad7ed1398e5da3632eecdd"


def models(kitchen, kind):
    return MODELS[kitchen][kind]["models"]


def test_there_are_five_clones_and_five_proxies_of_every_kitchen():
    assert list(MODELS) == list(KITCHENS)
    for kitchen in MODELS:
        files = {path.name for path in shipped(f"people/{kitchen}").iterdir()}
        named = {f"{kind}-{seed}.safetensors" for kind in ("clone", "proxy") for seed in range(5)}
        assert files == named
        assert {x["file"] for kind in ("clone", "proxy") for x in models(kitchen, kind)} == named


@pytest.mark.parametrize("kitchen", list(KITCHENS))
def test_the_files_are_those_that_were_published(kitchen):
    for kind in ("clone", "proxy"):
        for model in models(kitchen, kind):
            assert checksum(shipped(f"people/{kitchen}/{model['file']}")) == model["sha256"]


def test_proxies_are_never_replaced():
    """Agents were trained for people after these files had been made."""
    digests = [x["sha256"] for kitchen in MODELS for x in models(kitchen, "proxy")]
    assert hashlib.sha256("".join(digests).encode()).hexdigest() == PROXIES


@pytest.mark.parametrize("kitchen", list(KITCHENS))
def test_the_default_is_the_model_with_the_median_return(kitchen):
    for kind in ("clone", "proxy"):
        results = [
            read_policy(shipped(f"people/{kitchen}/{x['file']}")).metadata
            for x in models(kitchen, kind)
        ]
        chosen = models(kitchen, kind)[median_seed(results)]["file"]
        assert MODELS[kitchen][kind]["default"] == chosen
        split = {"clone": "train", "proxy": "test"}[kind]
        assert {x["model_of_people"]["split"] for x in results} == {split}


@pytest.mark.slow
@pytest.mark.parametrize("kitchen", list(KITCHENS))
def test_they_earn_what_their_card_says(kitchen):
    """The mean over the ten models is that of the card, up to chance."""
    found = [x for kind in ("clone", "proxy") for x in models(kitchen, kind)]
    saved = [read_saved(shipped(f"people/{kitchen}/{x['file']}")) for x in found]
    place = saved[0].place()
    partners = [x.partner(place) for x in saved]
    returns = [*play_all(place.env, partners, jax.random.split(jax.random.key(7), 16))]
    own = np.stack([returns[i][i] for i in range(len(partners))])
    error = own.std(axis=1).mean() / np.sqrt(own.size) + own.std(axis=1).mean() / np.sqrt(1280)
    assert own.mean() == pytest.approx(np.mean([x["return"] for x in found]), abs=4 * error)
