"""What a batch of rows makes of a Newton step: its preconditioner, what that may cost, and when a step is solved."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

import reshuffle as rs
from reshuffle.solver.certified import tuning
from reshuffle.solver.certified.batch import Batch, Losses
from tests.solver.certified.test_solve import problem


def until(enough):
    """As conjugate gradients ask it, of somebody who knows only whether it is enough."""
    return lambda step: 0.0 if enough(step) else np.inf


def test_products_of_a_step_count_by_the_share_of_rows_that_bend():
    p = problem("logistic", n=300)
    batch = Batch(p, None, Losses(p, None), p.n)
    curvatures = np.where(np.arange(300) < 75, 0.2, 0.0)
    batch.direction(np.ones(p.dimension), curvatures, until(lambda step: False))
    assert batch.products == pytest.approx(0.25 * batch._spent)
    assert batch._spent > 1


def test_a_hessian_is_priced_by_products_with_the_rows_that_bend():
    """Of so few entries a factorisation is all of the price, and a product half an overhead."""
    rng = np.random.default_rng(0)
    p = rs.Problem(rng.standard_normal((1000, 600)), np.arange(1000) % 2, alpha=1e-3)
    batch, curvatures = Batch(p, None, Losses(p, None), 400), np.zeros(1000)
    curvatures[:50] = 1.0
    factor, overhead = 600**3 / (3 * p.rows.blas_speed()), tuning.PRODUCT_OVERHEAD
    forming = p.rows.hessian_cost() * 50 * 600
    few, all_ = 0.5 * (forming + factor) / (50 * 600 + overhead), 0.5 * (forming * 8 + factor) / (1000 * 600 + overhead)
    assert batch._price_of(curvatures, 400) == pytest.approx(few)
    assert batch._price_of(np.ones(1000), 400) == pytest.approx(all_)
    assert batch._worth(np.ones(1000)) == pytest.approx(tuning.REFINE_AFTER * all_)


@pytest.mark.parametrize("price", [1.0, 40.0])
def test_a_hessian_is_kept_for_as_many_iterations_as_another_takes(price):
    """Of rows that bend differently by then, so that it is of little use; for three at least."""
    rng = np.random.default_rng(0)
    p = rs.Problem(rng.standard_normal((400, 100)) * np.logspace(0, -3, 100), np.arange(400) % 2, alpha=1e-8)
    batch = Batch(p, None, Losses(p, None), p.n)
    batch._price_of = lambda curvatures, limit: price
    formed, iterations = [], itertools.count()
    plain = batch.preconditioner
    batch.preconditioner = lambda curvatures: formed.append(next(iterations)) or plain(curvatures)
    tight = until(lambda step: next(iterations) and step.share < 1e-18)
    batch.direction(rng.standard_normal(100), rng.random(400) ** 8, tight)
    assert len(formed) == 1
    before = next(iterations)
    batch.direction(rng.standard_normal(100), rng.random(400) ** 8, tight)
    assert len(formed) == 2
    assert formed[1] - before - 1 == max(price, tuning.KEEP_WITHIN)


def hessians(p, monkeypatch, batches=1):
    """The kinds that a step asks for: rough, where another did not have to be exact before."""
    kinds, batch, before, plain = [], None, None, type(p.rows)
    for name in ("rough_hessian", "hessian"):
        form = getattr(plain, name)
        monkeypatch.setattr(plain, name, lambda rows, *a, name=name, form=form: kinds.append(name) or form(rows, *a))
    for _ in range(batches):
        batch, before = Batch(p, None, Losses(p, None), p.n), batch
        if before is not None:
            batch.go_on_from(before)
        batch.factored = True
        made = batch.direction(np.ones(p.dimension), np.ones(p.n), until(lambda step: step.share < 1e-16)).made
    return kinds, made


@pytest.mark.parametrize("offset", [0.0, 1e5])
def test_a_hessian_is_rough_until_its_pivots_have_lost_too_many_digits(offset, monkeypatch):
    rng = np.random.default_rng(0)
    p = rs.Problem(rng.standard_normal((3000, 20)) + offset, np.arange(3000) % 2, alpha=1e-3)
    kinds, made = hessians(p, monkeypatch, batches=2)
    assert kinds == (["rough_hessian", "hessian", "hessian"] if offset else ["rough_hessian"] * 2)
    assert made <= 4


@pytest.mark.parametrize(("after", "double"), [(1e3, False), (1e-3, True)])
def test_a_dear_hessian_is_blurred_where_its_pivots_have_lost_too_many_digits(after, double, monkeypatch):
    """And formed in double precision once iterations have taken long with what is left of it."""
    rng = np.random.default_rng(0)
    p = rs.Problem(rng.standard_normal((3000, 20)) * np.logspace(0, -2, 20) + 1e2, np.arange(3000) % 2, alpha=1e-3)
    monkeypatch.setattr(tuning, "RENEW_WITHIN", 0.0)
    monkeypatch.setattr(tuning, "REFINE_AFTER", after)
    kinds, made = hessians(p, monkeypatch, batches=2)
    assert kinds == ["rough_hessian"] * 2 + ["hessian"] * double
    assert made <= (5 if double else 60)


def test_a_hessian_that_single_precision_does_not_make_faster_is_formed_once(monkeypatch):
    rng = np.random.default_rng(0)
    p = rs.Problem(sp.csr_array(rng.standard_normal((3000, 20)) + 1e5), np.arange(3000) % 2, alpha=1e-3)
    assert hessians(p, monkeypatch)[0] == ["hessian"]


@pytest.mark.parametrize("size", [1e-30, 1e30])
def test_what_single_precision_cannot_hold_is_formed_in_double(size, monkeypatch):
    rng = np.random.default_rng(0)
    p = rs.Problem(size * rng.standard_normal((3000, 20)), np.arange(3000) % 2, alpha=1e-3)
    kinds, _ = hessians(p, monkeypatch)
    assert kinds == (["rough_hessian", "hessian"] if size > 1.0 else ["rough_hessian"])  # alpha alone outweighs the smaller one


@pytest.mark.parametrize("size", [np.inf, np.nan, 1e300])
def test_a_hessian_that_overflows_says_nothing(size):
    """And is not tried for ever with a larger ridge."""
    p = problem("logistic", intercept=False)
    batch, r = Batch(p, None, Losses(p, None), p.n), np.arange(1.0, p.d + 1.0)
    found = batch._inverse(size * np.ones((p.d, p.d)))(r)
    assert np.isfinite(found).all()
    if not size < np.inf:
        np.testing.assert_array_equal(found, r)


def far_off(alpha=1e-8):
    """A point and a direction in which the models of most rows see hardly any curvature, so that steps are far too long."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 40)) * np.logspace(0, -1, 40)
    p = rs.Problem(X, np.where(X @ np.ones(40) > 0, 1.0, -1.0), alpha=alpha)
    batch = Batch(p, None, Losses(p, None), p.n)
    batch.factored = False
    here = batch.at(np.full(40, -8.0))
    slopes, curvatures = batch.losses.models(here.z, False)
    return batch, here, batch.gradient(slopes, here.x), curvatures


def test_conjugate_gradients_end_where_f_does_not_fall_as_the_models_say():
    batch, here, gradient, curvatures = far_off()
    batch._worth = lambda curvatures: np.inf
    iterations = []

    def enough(step):
        iterations.append(step.s.copy())
        return step.share < 1e-10

    batch.direction(gradient, curvatures, until(enough))
    whole = len(iterations)
    iterations.clear()
    step = batch.direction(gradient, curvatures, until(enough), here)
    s, along = step.s, step.along
    assert len(iterations) == tuning.CG_LOOK < whole
    np.testing.assert_allclose(along, batch.margins(s), rtol=1e-9)
    assert batch.at(here.x + s).f > here.f + 0.5 * tuning.CG_HOLDS * (gradient @ s)


def test_iterations_of_all_steps_count_together_towards_a_hessian():
    batch, _, gradient, curvatures = far_off()
    batch._worth = lambda curvatures: 12.0

    def after(steps):
        batch.factored, batch._spent = False, 0
        for _ in range(steps):
            counted = itertools.count(1)
            batch.direction(gradient, curvatures, until(lambda step, made=counted: next(made) == 5))
        return batch.factored

    assert not after(2)
    assert after(3)
    assert batch._spent == 3  # counted from the Hessian on


@pytest.mark.parametrize(("spent", "to_go", "after"), [(12, 3.0, 6), (12, 7.0, 2), (12, np.inf, 2), (22, 3.0, 2), (24, 3.0, 0)])
def test_a_hessian_waits_where_a_step_will_soon_be_solved(spent, to_go, after):
    """Worth twelve iterations, it takes six: fewer do not pay for it, and a step has to tell how many there are. Steps that always
    are as good as solved do not go on like that for ever.
    """
    batch, _, gradient, curvatures = far_off()
    batch._worth, batch._spent = lambda curvatures: 12.0, spent
    factored = []
    batch.direction(gradient, curvatures, lambda step: factored.append(batch.factored) or (to_go if len(factored) < 6 else 0.0))
    assert factored == [False] * after + [True] * (6 - after)
    assert tuning.CG_TELLS == 2


def test_a_hessian_is_kept_where_a_step_will_soon_be_solved():
    batch, _, gradient, curvatures = far_off()
    batch.factored, formed, plain = True, [], batch.preconditioner
    batch.preconditioner = lambda curvatures: formed.append(1) or plain(curvatures)
    batch._price_of = lambda curvatures, limit: 4.0
    for to_go, most in ((np.inf, 1), (3.0, 1), (np.inf, 2)):
        made = itertools.count(1)
        other = curvatures * np.random.default_rng(0).uniform(0.1, 10.0, curvatures.size)
        batch.direction(gradient, other, lambda step, to_go=to_go, made=made: to_go if next(made) < 7 else 0.0)
        assert len(formed) == most


def test_a_step_that_takes_long_with_the_diagonal_goes_on_with_a_hessian():
    """More features than are factorised at once, along directions that no diagonal sees."""
    rng = np.random.default_rng(0)
    n, d = 1500, 520
    X = rng.standard_normal((n, d)) @ (rng.standard_normal((d, d)) * np.logspace(0, -3, d))
    y = np.where(X[:, 0] + 0.3 * np.abs(X[:, 0]).mean() * rng.standard_normal(n) > 0, 1.0, -1.0)
    p = rs.Problem(X, y, alpha=1e-6)
    curvatures, gradient = rng.random(n), rng.standard_normal(d)
    batch = Batch(p, None, Losses(p, None), p.n)
    assert not batch.factored
    worth = batch._worth(curvatures)
    products = []
    plain = batch.product
    batch.product = lambda c, v: products.append(1) or plain(c, v)
    step = batch.direction(gradient, curvatures, until(lambda step: step.share < 1e-16))
    s, along = step.s, step.along
    assert batch.factored
    assert worth <= len(products) <= worth + 10  # the factor of all rows leaves next to nothing to do
    H = X.T @ (curvatures[:, None] * X) / n + 1e-6 * np.eye(d)
    np.testing.assert_allclose(H @ s, -gradient, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(along, X @ s, rtol=1e-6, atol=1e-6 * np.abs(along).max())


def test_a_step_that_takes_long_with_the_hessian_of_a_sample_goes_on_with_that_of_more_rows():
    rng = np.random.default_rng(0)
    n, d = 4000, 60
    X = rng.standard_normal((n, d)) * np.logspace(0, -2, d) * (rng.pareto(1.0, (n, 1)) + 0.1)  # of rows that no sample stands for
    p = rs.Problem(X, np.where(X[:, 0] > 0, 1.0, -1.0), alpha=1e-9)
    curvatures, gradient = rng.random(n), rng.standard_normal(d)
    batch = Batch(p, None, Losses(p, None), d)
    batch.direction(gradient, curvatures, until(lambda step: step.share < 1e-16))
    assert batch.factored
    assert d < batch.limit <= 2 * n
    before = batch.limit
    batch.forget()
    batch.direction(gradient, curvatures, until(lambda step: step.share < 0.5))  # soon done
    assert batch.limit == before


def test_a_step_that_was_too_long_is_as_long_as_it_should_be_the_next_time():
    """Where all directions bend alike, exactly so; and full steps take the damping away."""
    n = 12
    p = rs.Problem(np.eye(n), np.ones(n), loss="squared", alpha=0.05)
    batch = Batch(p, None, Losses(p, None), n)
    gradient, curvatures = np.arange(1.0, n + 1.0), np.ones(n)
    s = batch.direction(gradient, curvatures, until(lambda step: step.share < 1e-20)).s
    np.testing.assert_allclose(s, -gradient / (1.0 / n + 0.05))
    batch.damp(0.25, float(gradient @ s), s)
    shorter = batch.direction(gradient, curvatures, until(lambda step: step.share < 1e-20)).s
    np.testing.assert_allclose(shorter, 0.25 * s)
    for _ in range(10):
        batch.damp(1.0, float(gradient @ s), s)
    assert batch.damping == 0.0


@pytest.mark.parametrize("intercept", [False, True])
def test_damping_is_the_same_whatever_units_features_are_in(intercept):
    rng = np.random.default_rng(0)
    units = 2.0 ** rng.integers(-8, 8, 6)
    X, y, steps = rng.standard_normal((50, 6)), np.arange(50) % 2, []
    for data in (X, X * units):
        p = rs.Problem(data, y, alpha=1e-14, fit_intercept=intercept)
        batch = Batch(p, None, Losses(p, None), p.n)
        slopes, curvatures = batch.losses.models(np.linspace(-1.0, 1.0, 50), False)
        gradient = batch.gradient(slopes, np.zeros(p.dimension))
        for length in (0.25, 1.0):
            s = batch.direction(gradient, curvatures, until(lambda step: step.share < 1e-24)).s
            batch.damp(length, float(gradient @ s), s)
        steps.append(batch.direction(gradient, curvatures, until(lambda step: step.share < 1e-24)).s)
        assert batch.damping > 0.0
    steps[1][:6] *= units
    np.testing.assert_allclose(steps[0], steps[1], rtol=1e-6)


def test_a_feature_that_is_hardly_ever_used_is_damped_as_others_are():
    X = np.random.default_rng(0).standard_normal((400, 3))
    X[:, 2] = 0.0
    X[7, 2] = abs(X[:, :2]).max()
    batch = Batch(p := rs.Problem(X, np.arange(400) % 2, alpha=1e-3), None, Losses(p, None), p.n)
    batch.damp(0.5, -1.0, np.ones(3))
    largest = abs(X).max(axis=0) ** 2
    np.testing.assert_allclose(batch.ridge - 1e-3, largest / largest.sum())  # the excess is one, and so is the slope
    assert batch.ridge[2] > 0.9 * (batch.ridge - 1e-3).max()


@pytest.mark.parametrize(("near", "left"), [(0.9e-3, 0.25), (1.1e-3, 0.0)])
def test_damping_ends_where_steps_gain_less_than_is_asked_for(near, left):
    p = problem("logistic", alpha=0.01)
    batch = Batch(p, None, Losses(p, None), p.n)
    batch.damp(0.5, -1.0, np.ones(p.dimension))
    before = batch.ridge - batch.alpha
    assert (before > 0.0).all()
    batch.damp(1.0, -1e-3, np.ones(p.dimension), near)
    np.testing.assert_allclose(batch.ridge - batch.alpha, left * before, rtol=1e-9)


@pytest.mark.parametrize("name", ["logistic", "squared_hinge", "huber"])
def test_the_row_that_is_farthest_off(name):
    p = problem(name)
    y, z = p.labels, 9.0 * np.random.default_rng(0).standard_normal(p.n)
    z[3] = 100.0 * y[3]  # of a class, on the right side
    off = 1.0 - y * z if p.loss.task == "classification" else abs(z - y)
    assert Losses(p, None).farthest(z) == pytest.approx(off.max())
    rows = np.array([1, 3, 8])
    assert Losses(p, rows).farthest(z[rows]) == pytest.approx(off[rows].max())


@pytest.mark.parametrize(("n", "d", "kind"), [(4000, 60, "dense"), (4000, 400, "dense"), (4000, 60, "sparse")])
def test_steps_start_from_a_hessian_that_takes_as_long_as_few_products(n, d, kind):
    p = problem("logistic", n=n, d=d, kind=kind)
    batch = Batch(p, None, Losses(p, None), p.n)
    assert batch.price == batch._price_of(np.ones(n), p.n)
    assert batch.factored == (batch.price <= tuning.VERY_FEW_PRODUCTS) == (d == 60)


def test_prices_count_only_where_rows_lie_in_memory():
    """From a disk or a worker a product takes longer than what it computes, and a Hessian hardly longer than that."""

    class Elsewhere(type(problem("logistic").rows)):
        elsewhere = True

    p = problem("logistic", n=4000, d=400)
    p = p.replace(X=Elsewhere(p.rows.matrix))
    batch = Batch(p, None, Losses(p, None), p.n)
    assert batch.price == 0.0
    assert batch.factored


@pytest.mark.parametrize(("spent", "factored"), [(0.9, False), (1.1, True)])
def test_a_batch_starts_from_a_hessian_where_the_last_one_took_as_long_without(spent, factored, monkeypatch):
    p = problem("logistic", n=4000, d=60)
    before, batch = (Batch(p, rows, Losses(p, rows), p.n) for rows in (np.arange(1000), None))
    for each in (before, batch):
        each.factored = False
    before._spent = spent * batch.price
    batch.go_on_from(before)
    assert batch.factored == factored
    before.factored, batch.factored = True, False
    batch.go_on_from(before)
    assert batch.factored
    monkeypatch.setattr(tuning, "FEW_PRODUCTS", 0.9 * batch.price)  # too dear, whatever was spent
    dear = Batch(p, None, Losses(p, None), p.n)
    dear.factored = False
    dear.go_on_from(before)
    assert not dear.factored


def tilted(n=300, d=80, seed=0):
    """A batch along directions that no diagonal sees, with curvatures, a gradient, and the Hessian."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) @ (rng.standard_normal((d, d)) * np.logspace(0, -2, d))
    p = rs.Problem(X, np.where(X[:, 0] > 0, 1.0, -1.0), alpha=1e-4)
    batch, curvatures = Batch(p, None, Losses(p, None), p.n), 0.2 + rng.random(n)
    batch.factored, batch._worth, batch._most = False, lambda curvatures: np.inf, 200
    return batch, curvatures, rng.standard_normal(d), X.T @ (curvatures[:, None] * X) / n + 1e-4 * np.eye(d)


def iterations(batch, curvatures, gradient, share=1e-6):
    """Until the step is off by no more than this in the norm of the Hessian, whatever that is preconditioned by."""
    *_, H = tilted()
    exact = -np.linalg.solve(H, gradient)
    before = batch.products
    batch.direction(gradient, curvatures, until(lambda step: (step.s - exact) @ H @ (step.s - exact) <= share * exact @ H @ exact))
    return batch.products - before


def test_a_step_begins_with_what_the_one_before_has_found_out():
    """The same step anew takes next to nothing but what rounding has undone, and another right-hand side fewer iterations."""
    batch, curvatures, gradient, _ = tilted()
    first = iterations(batch, curvatures, gradient)
    assert iterations(batch, curvatures, gradient) < 0.3 * first
    batch._before = type(batch._before)(0)
    batch._most = 0
    other = np.random.default_rng(1).standard_normal(gradient.size)
    alone = iterations(batch, curvatures, other)
    assert iterations(batch, curvatures, gradient) == first  # nothing was kept
    batch._most = 200
    iterations(batch, curvatures, gradient)
    assert iterations(batch, curvatures, other) < 0.6 * alone


def test_what_a_batch_found_out_goes_with_the_next():
    batch, curvatures, gradient, _ = tilted()
    first = iterations(batch, curvatures, gradient)
    following = tilted()[0]
    following.go_on_from(batch)
    assert iterations(following, curvatures, gradient) < 0.3 * first


def test_a_new_hessian_is_not_corrected_and_one_that_is_kept_is():
    batch, curvatures, gradient, _ = tilted()
    iterations(batch, curvatures, gradient)
    batch.factored, batch._rough = True, False
    assert iterations(batch, curvatures, gradient, 1e-12) == 1  # the Hessian of all rows is exact
    other = curvatures * np.random.default_rng(2).uniform(0.3, 3.0, curvatures.size)
    X = batch.problem.rows.matrix
    H = X.T @ (other[:, None] * X) / len(X) + 1e-4 * np.eye(gradient.size)
    exact, made = -np.linalg.solve(H, gradient), []
    for _ in range(2):
        batch._price_of = lambda curvatures, limit: 1000.0  # no other is formed
        before = batch.products
        batch.direction(gradient, other, until(lambda step: (step.s - exact) @ H @ (step.s - exact) <= 1e-6 * exact @ H @ exact))
        made.append(batch.products - before)
    assert made[1] < 0.3 * made[0]


def test_directions_take_a_tenth_of_a_product_at_most_to_correct_with():
    p = problem("logistic", n=4000, d=60, kind="sparse")
    assert Batch(p, None, Losses(p, None), p.n)._most == int(0.1 * p.rows.entries / p.dimension)
    rows = np.arange(1000)
    assert Batch(p, rows, Losses(p, rows), p.n)._most == int(0.025 * p.rows.entries / p.dimension)


@pytest.mark.parametrize("name", ["logistic", "smoothed_hinge", "huber"])
def test_steep_models_lie_above_losses_on_the_wrong_side(name):
    """A parabola with the slope of the loss at its margin, least at the label, or as bent as the loss can be."""
    p = problem(name, n=400, alpha=0.1, weighted=True)
    losses, z = Losses(p, None), 20.0 * np.random.default_rng(0).standard_normal(400)
    slopes, curvatures = losses.models(z, True)
    plain = losses.models(z, False)
    np.testing.assert_array_equal(slopes, plain[0])
    w, y = p.sample_weight, p.labels
    steepest = np.minimum(np.maximum(abs(plain[0]) / abs(z - y), plain[1]), w * p.loss.smoothness)
    np.testing.assert_allclose(curvatures, steepest, rtol=1e-12)
    assert (curvatures > 2.0 * plain[1]).mean() > 0.2
    wrong = (z * y < 0.0) if p.loss.task == "classification" else np.full(400, True)
    for share in (0.1, 0.5, 1.0, 1.5):  # of the way to the label
        move = np.where(wrong, share * (y - z), 0.0)
        above = slopes * move + 0.5 * curvatures * move**2
        rise = np.array([losses.total(z, move * one, 1.0) - losses.total(z, z, 0.0) for one in np.eye(400)])
        assert (rise <= above + 1e-9 * abs(above).max()).all()


def test_steep_models_are_no_steeper_where_losses_bend_all_the_same():
    z = 5.0 * np.random.default_rng(0).standard_normal(60)
    assert Losses(problem("logistic"), None).steepen(z)
    for name in ("squared", "squared_hinge"):
        assert not Losses(problem(name), None).steepen(z)
    assert not Losses(problem("logistic"), None).steepen(np.zeros(60))  # where the logistic loss bends as it can at most
