"""Returns are printed with as many digits as their scale needs."""

import numpy as np
import pytest

from eqgrid_lab.show import (
    caption,
    return_text,
    return_texts,
    with_deviation,
    with_interval,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.9637, "0.964"),
        (0.0, "0.000"),
        (-0.0, "0.000"),
        (-0.0004, "0.000"),
        (-0.0006, "-0.001"),
        (4.567, "4.57"),
        (-0.25, "-0.250"),
        (213.44, "213.4"),
        (-1234.56, "-1234.6"),
        (np.float32(0.5), "0.500"),
        (float("nan"), "nan"),
    ],
)
def test_a_return_has_about_four_digits(value, text):
    assert return_text(value) == text


def test_returns_next_to_each_other_have_equally_many_decimal_places():
    assert return_texts((213.44, -0.04, 0.5)) == ["213.4", "0.0", "0.5"]
    assert with_deviation(0.9637, 0.0123) == "0.964 ± 0.012"
    assert with_deviation(212.0, 3.25) == "212.0 ± 3.2"
    assert with_interval(0.9637, 0.95, 0.98) == ("0.964", "0.950 to 0.980")


@pytest.mark.parametrize(
    ("score", "text"), [(120.0, "120"), (1.43875, "1.44"), (-0.001, "0"), (1234.5, "1234.5")]
)
def test_a_score_on_a_picture_has_no_needless_digits(score, text):
    assert caption(score) == f"score {text}"
