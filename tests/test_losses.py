"""What each loss says of itself, checked against the definition by finite differences."""

import numpy as np
import pytest

from reshuffle import losses
from reshuffle.losses import LOSSES, get_loss


def smoothed_hinge(margin, gamma):
    return np.where(margin >= 1, 0.0, np.where(margin <= 1 - gamma, 1 - margin - gamma / 2, (1 - margin) ** 2 / (2 * gamma)))


# name: the definition as NumPy, of a prediction z and a label y
DEFINITIONS = {
    "squared": lambda z, y: (z - y) ** 2 / 2,
    "logistic": lambda z, y: np.logaddexp(0.0, -y * z),
    "smoothed_hinge:0.5": lambda z, y: smoothed_hinge(y * z, 0.5),
    "smoothed_hinge:2": lambda z, y: smoothed_hinge(y * z, 2.0),
    "squared_hinge": lambda z, y: np.maximum(0.0, 1 - y * z) ** 2,
    "huber:0.7": lambda z, y: np.where(abs(z - y) <= 0.7, (z - y) ** 2 / 2, 0.7 * (abs(z - y) - 0.35)),
    "hinge": lambda z, y: np.maximum(0.0, 1 - y * z),
    "absolute": lambda z, y: abs(z - y),
    "epsilon_insensitive:0.3": lambda z, y: np.maximum(0.0, abs(z - y) - 0.3),
    "quantile:0.2": lambda z, y: np.where(y >= z, 0.2 * (y - z), 0.8 * (z - y)),
}


def test_every_loss_is_covered():
    assert {name.partition(":")[0] for name in DEFINITIONS} == set(LOSSES) - {"unit"}


@pytest.mark.parametrize("name", DEFINITIONS)
def test_smoothness_and_lipschitz_constants_are_the_smallest_that_hold(name):
    loss, f, h = get_loss(name), DEFINITIONS[name], 1e-3
    z = np.arange(-20.0, 20.0, h)
    for y in (-1.0, 1.0):
        slope = np.diff(f(z, y)) / h
        curvature = np.diff(slope) / h
        if loss.smoothness is None:
            assert curvature.max() > 100  # a kink
        else:
            assert curvature.max() == pytest.approx(loss.smoothness, rel=1e-3)
        if loss.lipschitz is None:
            assert abs(slope).max() > 10
        else:
            assert abs(slope).max() == pytest.approx(loss.lipschitz, rel=1e-3)


def test_losses_are_read_from_text():
    assert get_loss("huber:0.5") == losses.Huber(delta=0.5)
    assert get_loss("squared-hinge") == losses.SquaredHinge()
    assert get_loss(losses.Quantile(0.3)) == losses.Quantile(q=0.3)
    assert str(get_loss("quantile:0.25")) == "quantile:0.25"
    for name in DEFINITIONS:
        assert get_loss(str(get_loss(name))) == get_loss(name)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("hinges", "loss='hinges' is not known; use one of unit, squared"),
        ("hinge:2", "hinge has no parameter"),
        ("huber:big", "'big' is not a number"),
        ("huber:-1", "delta=-1.0 does not fit the huber loss; use a positive number"),
        ("smoothed_hinge:0", "gamma=0.0"),
        ("quantile:1", "q=1.0"),
        ("epsilon_insensitive:nan", "epsilon=nan"),
    ],
)
def test_what_is_not_a_loss_is_refused(text, complaint):
    with pytest.raises(ValueError, match=r"does not fit|not known|no parameter|not a number") as error:
        get_loss(text)
    assert complaint in str(error.value)
