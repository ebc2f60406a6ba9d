"""What each loss says of itself, checked against the definition by finite differences."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from reshuffle import losses
from reshuffle.losses import LOSSES, get_loss
from reshuffle.losses.base import _substitute, compiled


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


GRID = np.concatenate([np.linspace(-6, 6, 401), [-1e6, -1e3, 1e3, 1e6]])


@pytest.mark.parametrize("name", DEFINITIONS)
@pytest.mark.parametrize("y", [-1.0, 1.0])
def test_values_are_those_of_the_definition_and_stay_finite(name, y):
    loss = get_loss(name)
    values = np.array([loss.value(z, y, loss.parameter) for z in GRID])
    np.testing.assert_allclose(values, DEFINITIONS[name](GRID, y), rtol=1e-12, atol=1e-12)
    slopes = np.array([loss.derivative(z, y, loss.parameter) for z in GRID])
    assert np.isfinite(values).all()
    assert np.isfinite(slopes).all()


@pytest.mark.parametrize("name", DEFINITIONS)
@pytest.mark.parametrize("y", [-1.0, 1.0])
def test_the_derivative_is_a_subgradient_everywhere(name, y):
    loss = get_loss(name)
    y = y if loss.task == "classification" else 0.25 * y
    z = np.linspace(-6, 6, 241)
    values = np.array([loss.value(t, y, loss.parameter) for t in z])
    slopes = np.array([loss.derivative(t, y, loss.parameter) for t in z])
    assert (values[None, :] >= values[:, None] + slopes[:, None] * (z[None, :] - z[:, None]) - 1e-12).all()


@pytest.mark.parametrize("name", DEFINITIONS)
@pytest.mark.parametrize("y", [-1.0, 1.0])
def test_the_conjugate_is_the_supremum_and_is_finite_just_in_its_domain(name, y):
    loss = get_loss(name)
    z = np.linspace(-60, 60, 240001)
    values = DEFINITIONS[name](z, y)
    low, high = loss.dual_domain
    if loss.task == "classification" and y < 0:
        low, high = -high, -low
    for u in np.linspace(max(low, -3.0), min(high, 3.0), 13):
        assert loss.conjugate(u, y, loss.parameter) == pytest.approx(np.max(u * z - values), abs=2e-6)
    for u in (low - 0.05, high + 0.05):
        if np.isfinite(u):  # beyond the domain the supremum grows with the grid: by 0.05 for each step outwards
            near = np.abs(z) <= 30
            assert np.max(u * z - values) >= np.max((u * z - values)[near]) + 1.4


@pytest.mark.parametrize("name", DEFINITIONS)
@pytest.mark.parametrize("y", [-1.0, 1.0])
def test_the_dual_map_meets_fenchels_inequality_with_equality(name, y):
    loss = get_loss(name)
    for z in np.linspace(-5, 5, 101):
        u = loss.derivative(z, y, loss.parameter)
        assert loss.value(z, y, loss.parameter) + loss.conjugate(u, y, loss.parameter) == pytest.approx(u * z, abs=1e-12)


def test_a_loss_that_lacks_a_function_says_which():
    @dataclass(frozen=True)
    class Half(losses.Loss):
        name: ClassVar[str] = "half"
        task: ClassVar[losses.base.Task] = "regression"

    with pytest.raises(TypeError, match="the loss 'half' must implement value"):
        compiled(Half(), "value")


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


@pytest.mark.parametrize("name", DEFINITIONS)
@pytest.mark.parametrize("y", [-1.0, 1.0])
def test_the_prox_is_the_least_point_with_and_without_the_formula(name, y):
    loss, f = get_loss(name), DEFINITIONS[name]
    prox, search = compiled(loss, "prox"), _substitute("prox", compiled(loss, "derivative"))
    for step in (1e-6, 0.3, 1.0, 40.0, 1e7):
        for p in (-50.0, -1.3, 0.0, 0.4, 1.0, 7.0):
            z = p
            for _ in range(5):  # a search that begins near the answer ends nearer, as passes go on from where they are
                z = prox(p, y, step, loss.parameter, z)
            near = z + np.array([-1e-2, -1e-4, 1e-4, 1e-2]) * (1.0 + abs(z))
            values = step * f(near, y) + (near - p) ** 2 / 2
            least = step * f(z, y) + (z - p) ** 2 / 2
            assert least <= values.min() + 1e-9 * abs(least)
            assert search(p, y, step, loss.parameter, p) == pytest.approx(z, rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("name", [name for name in DEFINITIONS if get_loss(name).smoothness is not None])
@pytest.mark.parametrize("y", [-1.0, 1.0])
def test_the_curvature_is_the_slope_of_the_derivative_with_and_without_the_formula(name, y):
    loss = get_loss(name)
    curvature, slope = compiled(loss, "curvature"), _substitute("curvature", compiled(loss, "derivative"))
    for z in (-30.0, -2.03, -0.4, 0.11, 0.73, 2.9, 30.0):
        expected = (loss.derivative(z + 1e-6, y, loss.parameter) - loss.derivative(z - 1e-6, y, loss.parameter)) / 2e-6
        assert curvature(z, y, loss.parameter) == pytest.approx(expected, abs=1e-6)
        assert slope(z, y, loss.parameter) == pytest.approx(expected, abs=1e-6)
