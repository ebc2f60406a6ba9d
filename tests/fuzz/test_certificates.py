"""No certificate is below the true gap, at the level of rounding neither. `benchmarks/fuzz.py` tries it by the thousand."""

import numpy as np
import pytest

from reshuffle.losses import get_loss
from tests.fuzz.certificates import LOSSES, REAL, trial, values

extended = pytest.mark.skipif(np.finfo(REAL).eps > 1e-18, reason="long double is no longer than double here")


@pytest.mark.parametrize("name", LOSSES)
def test_the_definitions_in_extended_precision_are_those_of_the_losses(name):
    loss, rng = get_loss(name), np.random.default_rng(0)
    z, y = 3.0 * rng.standard_normal(200), np.where(rng.random(200) < 0.5, 1.0, -1.0)
    own = [loss.value(a, b, loss.parameter) for a, b in zip(z, y, strict=True)]
    np.testing.assert_allclose(values(loss, z.astype(REAL), y.astype(REAL)).astype(float), own, rtol=1e-14, atol=1e-15)


@extended
@pytest.mark.parametrize("seed", range(150))
def test_a_certificate_is_never_below_the_true_gap(seed):
    count, words = trial(np.random.default_rng(seed))
    assert count >= 2
    assert words is None
