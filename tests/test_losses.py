"""What each loss says of itself, checked against the definition by finite differences."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from reshuffle import losses
from reshuffle.losses import LOSSES, get_loss, loops
from reshuffle.losses.base import _as_c_function, _substitute, compiled, compiled_over
from reshuffle.losses.elementary import exp_below, log1p_share, log_share
from tests.oracle import called


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


def without_formula(loss, function):
    return _as_c_function(_substitute(function, _as_c_function(loss.derivative, True)), False).ctypes


@pytest.mark.parametrize("name", DEFINITIONS)
@pytest.mark.parametrize("y", [-1.0, 1.0])
def test_the_prox_is_the_least_point_with_and_without_the_formula(name, y):
    loss, f = get_loss(name), DEFINITIONS[name]
    prox, search = called(compiled(loss, "prox"), 5), without_formula(loss, "prox")
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
    curvature, slope = called(compiled(loss, "curvature")), without_formula(loss, "curvature")
    for z in (-30.0, -2.03, -0.4, 0.11, 0.73, 2.9, 30.0):
        expected = (loss.derivative(z + 1e-6, y, loss.parameter) - loss.derivative(z - 1e-6, y, loss.parameter)) / 2e-6
        assert curvature(z, y, loss.parameter) == pytest.approx(expected, abs=1e-6)
        assert slope(z, y, loss.parameter) == pytest.approx(expected, abs=1e-6)


# --- loops over vectors


@pytest.mark.parametrize("name", DEFINITIONS)
def test_vectors_get_what_single_samples_get(name):
    loss, rng = get_loss(name), np.random.default_rng(0)
    for size in (0, 1, 255, 256, 257, 1000):
        z, y = 3.0 * rng.standard_normal(2 * size)[::2], np.where(rng.random(size) < 0.5, -1.0, 1.0)  # every other number
        y.setflags(write=False)  # as labels that are mapped from a file
        for function in ("value", "derivative", "conjugate") + (("curvature",) if loss.smoothness is not None else ()):
            low, high = np.clip(loss.dual_domain, -3.0, 3.0)
            inside = np.clip(z, low, high) * (y if loss.task == "classification" else 1.0)
            given, found = inside if function == "conjugate" else z, np.full(size, np.nan)
            loops.apply_loss(compiled_over(loss, function), given, y, loss.parameter, found)
            expected = [getattr(loss, function)(a, b, loss.parameter) for a, b in zip(given, y, strict=True)]
            np.testing.assert_allclose(found, expected, rtol=1e-14, atol=1e-15)


def test_a_loss_of_ones_own_has_loops_too():
    class Cube(losses.Loss):
        name = "cube"
        task = "regression"

        @staticmethod
        def value(z, y, parameter):
            return abs(z - y) ** 3 / 3.0

        @staticmethod
        def derivative(z, y, parameter):
            if z > y:
                return (z - y) ** 2
            return -((z - y) ** 2)

    z, y, found = np.linspace(-2.0, 2.0, 9), np.full(9, 0.5), np.empty(9)
    for function, expected in (("value", abs(z - y) ** 3 / 3), ("derivative", abs(z - y) * (z - y)), ("curvature", 2 * abs(z - y))):
        loops.apply_loss(compiled_over(Cube(), function), z, y, 0.0, found)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-4 if function == "curvature" else 0.0)


class Series(losses.Loss):
    """exp and log as they are compiled, in the place of functions of a loss."""

    name = "series"
    task = "regression"

    @staticmethod
    def value(z, y, parameter):
        return exp_below(z)

    @staticmethod
    def derivative(z, y, parameter):
        return log1p_share(z)

    @staticmethod
    def conjugate(u, y, parameter):
        return log_share(u)


def test_series_are_right_to_two_units_in_the_last_place():
    rng = np.random.default_rng(0)
    shares = np.concatenate([rng.random(10_000), np.logspace(-299, 0, 5_000), 1.0 - np.logspace(-16, 0, 5_000)[:-1], [1.0]])
    small = np.concatenate([[0.0], np.logspace(-320, 0, 5_000)])
    exact = np.longdouble
    for function, at, right in (
        ("value", np.concatenate([700.0 * shares, small]), lambda x: np.exp(-exact(x))),
        ("derivative", np.concatenate([shares, small]), lambda x: np.log1p(exact(x))),
        ("conjugate", shares, lambda x: np.log(exact(x))),
    ):
        found, expected = np.empty(at.size), right(at)
        loops.apply_loss(compiled_over(Series(), function), at, at, 0.0, found)
        assert (abs(found - expected) <= 2.0 * np.spacing(abs(expected).astype(np.float64))).all(), function
        mine = [getattr(Series, function)(x, 0.0, 0.0) for x in at[::97]]
        np.testing.assert_allclose(found[::97], mine, rtol=1e-15, atol=1e-320)


def test_series_end_where_numbers_do():
    found, ends = np.empty(4), np.array([np.nan, np.inf, 1e308, 708.0])
    loops.apply_loss(compiled_over(Series(), "value"), ends, ends, 0.0, found)
    np.testing.assert_allclose(found, [np.nan] + [np.exp(-708.0)] * 3, rtol=1e-15)
    loss, z = get_loss("logistic"), np.array([np.nan, np.inf, -np.inf, 1e308, -1e308, 0.0])
    values, slopes = np.empty(6), np.empty(6)
    for function, out in (("value", values), ("derivative", slopes)):
        loops.apply_loss(compiled_over(loss, function), z, np.ones(6), 0.0, out)
    np.testing.assert_allclose(values, [np.nan, 0.0, np.inf, 0.0, 1e308, np.log(2.0)], atol=1e-307)
    np.testing.assert_allclose(slopes, [np.nan, 0.0, -1.0, 0.0, -1.0, -0.5], atol=1e-307)
    u, entropy = np.array([0.0, -1.0, np.nan]), np.empty(3)
    loops.apply_loss(compiled_over(loss, "conjugate"), u, np.ones(3), 0.0, entropy)
    np.testing.assert_array_equal(entropy[:2], 0.0)
