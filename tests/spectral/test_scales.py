"""Constants of scaled data are those of the data, scaled, as far as numbers reach; beyond, they are refused with a remedy."""

import numpy as np
import pytest
import scipy.sparse as sp

import reshuffle as rs
from reshuffle.theory.formulas import root_of_product

RNG = np.random.default_rng(0)
SHAPES = {"many rows": (30, 4), "few rows": (8, 90)}
# By which power of the scale each number grows; those that are not here do not.
POWERS = {
    **dict.fromkeys(("L", "lhat_mean", "lhat_std", "lhat_min", "lhat_max", "ltil_mean", "ltil_max", "predicted_lhat"), 2),
    **dict.fromkeys(("ghat_mean", "ghat_std", "ghat_min", "ghat_max", "gtil_mean", "gtil_max", "gbar", "predicted_ghat"), 2),
    "full_gradient_constant": 2,
    "step_size_limit": -2,
    "safe_step_size_limit": -2,
    "G": 1,
    "step_size_factor": -1,
}


def assert_scaled(found, base, c):
    assert found.keys() == base.keys()
    for name, value in base.items():
        if not isinstance(value, float) or name in ("seconds", "residual_max", "alpha"):
            continue
        power = POWERS.get(name, 0)
        expected = value * c if power == 1 else value / c if power == -1 else value * c ** (power / 2) * c ** (power / 2)
        slack = 1e-13 * expected / max(value / base.get("lhat_mean", base.get("ghat_mean")), 1e-12) if "std" in name else 0.0
        assert found[name] == pytest.approx(expected, rel=1e-9, abs=slack), name


@pytest.mark.parametrize("loss", ["unit", "logistic", "hinge"])
@pytest.mark.parametrize("kind", [np.array, sp.csr_array])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("c", [1e-150, 1e-100, 1e-40, 1e40, 1e80, 1e150])
def test_constants_of_scaled_data_are_those_of_the_data_scaled(shape, kind, loss, c):
    rng = np.random.default_rng(1)
    X = rng.standard_normal(SHAPES[shape]) * (rng.random(SHAPES[shape]) < 0.7)
    y = np.where(rng.random(len(X)) < 0.5, 1, -1)
    for options in ({"batch_size": 3, "permutations": 3}, {"order": "ig"}, {"failure_probability": 0.1, "permutations": 1}):
        found, base = (rs.constants(rs.Problem(kind(A), y, loss=loss), **options).to_dict() for A in (c * X, X))
        assert_scaled(found, base, c)


def test_weights_and_an_intercept_scale_as_well():
    X, w = RNG.standard_normal((20, 3)), RNG.random(20) + 0.1
    base = rs.constants(rs.Problem(X, loss="unit", sample_weight=w), permutations=3).to_dict()
    for c in (1e-140, 1e140):
        heavy = rs.Problem(X, loss="unit", sample_weight=c * (c * w))
        assert_scaled(rs.constants(heavy, permutations=3).to_dict(), base, c)
    ones = rs.Problem(X, loss="unit", fit_intercept=True)
    explicit = rs.Problem(np.column_stack([X, np.ones(20)]), loss="unit")
    base = rs.constants(explicit, permutations=3).to_dict()
    for c in (1e-140, 1e140):
        weighted = ones.replace(sample_weight=np.full(20, c * c))
        assert_scaled(rs.constants(weighted, permutations=3).to_dict() | {"d": 4, "nnz": 80}, base, c)
    far = rs.constants(rs.Problem(1e-120 * X, loss="unit", fit_intercept=True), permutations=3)
    assert far.L == 1.0  # the ones alone
    np.testing.assert_allclose(far.hat, rs.constants(np.ones((20, 1)), permutations=3).hat, rtol=1e-3)


@pytest.mark.parametrize("c", [1e-170, 1e170, 1e300])
def test_what_no_number_holds_is_refused_with_a_remedy(c):
    with pytest.raises(ValueError, match=r"no number holds the squares of its rows; multiply X by a constant c such as"):
        rs.constants(c * np.ones((3, 2)))


def test_data_of_zeros_has_constants_of_zero():
    assert rs.constants(np.zeros((3, 2))).L == 0.0


def test_the_root_of_a_product_is_exact_where_the_product_is():
    for a, b in RNG.lognormal(0, 50, (200, 2)):
        assert root_of_product(a, b) == np.sqrt(a * b)
    assert root_of_product(4e300, 1e300) == pytest.approx(2e300, rel=1e-15)
    assert root_of_product(4e-300, 1e-320) == pytest.approx(2e-310, rel=1e-3)  # of a number that has lost its digits
    assert root_of_product(0.0, 1e300) == 0.0
