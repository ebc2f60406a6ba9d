"""The race: its runs are those of `minimize`, its winner is the best that brute force finds, and nothing but the seed decides."""

from itertools import pairwise

import numpy as np
import pytest

import reshuffle as rs
from reshuffle import theory
from reshuffle.solver import race as module
from reshuffle.solver.race import EPOCHS, Entrant, Race, Training, batch_grid, looks_of, race


def make(n=90, d=4, loss="logistic", noise=1.0, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * np.logspace(0, -1, d)
    z = X @ rng.standard_normal(d) + noise * rng.standard_normal(n)
    return rs.Problem(X, z if loss == "squared" else np.where(z > 0, 1.0, -1.0), loss=loss, alpha=1e-2, fit_intercept=True)


@pytest.fixture(scope="module", params=["logistic", "squared"])
def raced(request):
    problem = make(loss=request.param)
    minimum = theory.measure(problem).f
    start = problem.objective(np.zeros(problem.dimension))
    target = 1e-2 * (start - minimum)
    return problem, minimum, target, race(problem, minimum, target, sizes=batch_grid(problem.n), seed=5)


def mean_gap(problem, minimum, entrant, epochs, seeds):
    """By runs from the start, which the first test shows to be those of `minimize`."""
    gaps = []
    for seed in seeds:
        run = Training(problem, *entrant.lane, entrant.step, seed)
        run.go_on(looks_of(epochs))
        gaps += [run.values.get(k, np.inf) - minimum for k in looks_of(epochs)]
    return np.mean(gaps)


def test_rungs_grow_by_at_most_a_factor_of_two_and_are_looked_at_to_their_end():
    assert all(after <= 2 * before for before, after in pairwise(EPOCHS))
    assert [looks_of(k) for k in (1, 2, 6, 16, 96)] == [[1], [2], [5, 6], [13, 14, 15, 16], [72, 80, 88, 96]]


@pytest.mark.parametrize("order", ["rr", "balanced"])
def test_a_training_goes_on_to_where_minimize_ends(order):
    problem, entrant = make(), Entrant(order, 8, -3)
    run = Training(problem, *entrant.lane, entrant.step, seed=3)
    run.go_on([1, 2])
    run.go_on([5])
    for k in (1, 2, 5):
        again = rs.minimize(problem, order=order, batch_size=8, step_size=2**-1.5, epochs=k, seed=3, average="last")
        assert run.values[k] == again.f
    assert len(run.seconds) == run.epochs == 5


def test_what_diverges_has_an_infinite_gap_and_loses():
    problem = make(loss="squared")
    track = Race(problem, theory.measure(problem).f, seed=0)
    wild, calm = Entrant("rr", 8, 30), Entrant("rr", 8, -6)
    track.measure([wild, calm], 96, 1)
    assert track.gap(wild, 96, 1) == np.inf
    assert np.isfinite(track.gap(calm, 96, 1))


def test_the_gap_of_a_place_is_the_mean_over_looks_and_seeds(raced):
    problem, minimum, _, outcome = raced
    for place in (outcome.winner, outcome.places[0]):
        assert place.gap == pytest.approx(mean_gap(problem, minimum, place.entrant, place.epochs, range(5, 5 + place.seeds)))


def test_no_neighbour_and_no_batch_size_is_much_better_than_the_winner(raced):
    """Brute force over batch sizes and steps in random orders, with seeds that the race saw."""
    problem, minimum, _, outcome = raced
    winner = outcome.winner
    seeds = range(5, 5 + winner.seeds)
    for by in (-1, 1):
        assert mean_gap(problem, minimum, winner.entrant.moved(by), winner.epochs, seeds) >= winner.gap * (1 - 1e-9)
    notches = [place.entrant.notch for place in outcome.places]
    everything = [Entrant("rr", b, k) for b in batch_grid(problem.n) for k in range(min(notches) - 4, max(notches) + 5)]
    assert winner.gap <= 1.1 * min(mean_gap(problem, minimum, entrant, winner.epochs, seeds) for entrant in everything)


def test_it_ends_on_the_first_rung_on_which_every_run_is_there(raced):
    _, _, target, outcome = raced
    winner = outcome.winner
    assert outcome.reached
    assert winner.gap <= winner.largest <= target
    before = [place for place in outcome.ladder if place.epochs < winner.epochs]
    late = [place for place in before if place.largest <= target]
    assert all(place.epochs == max(p.epochs for p in before) for place in late)  # finals with more seeds may send it on once


def test_every_batch_size_has_a_place_in_random_orders(raced):
    problem, _, _, outcome = raced
    assert [p.entrant.batch_size for p in outcome.places if p.entrant.order == "rr"] == batch_grid(problem.n)
    assert {p.entrant.order for p in outcome.places} <= {"rr", "balanced"}
    assert {p.epochs for p in outcome.places if p.entrant.order == "rr"} == {outcome.winner.epochs}


def test_nothing_but_the_seed_decides(raced, monkeypatch):
    problem, minimum, target, outcome = raced
    monkeypatch.setattr(module, "cores", lambda: 5)
    assert race(problem, minimum, target, sizes=batch_grid(problem.n), seed=5) == outcome
    assert race(problem, minimum, target, sizes=batch_grid(problem.n), seed=6).places != outcome.places


def test_a_bad_guess_costs_runs_and_not_the_answer(raced):
    problem, minimum, target, outcome = raced
    for notch in (-30, 20):
        far = race(problem, minimum, target, sizes=batch_grid(problem.n), seed=5, start=dict.fromkeys(batch_grid(problem.n), notch))
        assert far.runs > outcome.runs
        assert far.winner.gap <= 1.5 * outcome.winner.gap or far.winner.epochs < outcome.winner.epochs


def test_with_little_to_spend_batch_sizes_drop_out_and_keep_the_place_they_had(raced, monkeypatch):
    problem, minimum, _, _ = raced
    unreachable = 1e-14 * minimum
    monkeypatch.setattr(module, "WORK", 100 * module.cost(problem))
    poor = race(problem, minimum, unreachable, sizes=batch_grid(problem.n), seed=5)
    assert not poor.reached
    assert poor.winner.epochs == 16  # the last rung within a fifth of 100 epochs
    random = [place for place in poor.places if place.entrant.order == "rr"]
    assert [place.entrant.batch_size for place in random] == batch_grid(problem.n)
    assert min(place.epochs for place in random) < 16
    assert {place.seeds for place in random} == {1}
