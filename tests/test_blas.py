"""BLAS runs in one thread while a solver works, and has its threads again afterwards."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController

import reshuffle as rs
from reshuffle.blas import one_thread
from reshuffle.solver.certified import solve


@pytest.fixture
def threads():
    """How many threads each BLAS has now; two each at first."""
    controller = ThreadpoolController()
    with controller.limit(limits=2, user_api="blas"):
        yield lambda: [library.get_num_threads() for library in controller.lib_controllers if library.user_api == "blas"]


def test_a_fit_leaves_blas_as_it_was_and_takes_one_thread(threads):
    usual, rng, during = threads(), np.random.default_rng(0), []
    problem = rs.Problem(rng.standard_normal((900, 20)), np.arange(900) % 2, alpha=0.01)
    solve(problem, callback=lambda _: during.append(threads()))
    assert set(usual) == {2}
    assert during
    assert all(set(seen) == {1} for seen in during)
    assert threads() == usual


def test_of_several_python_threads_the_last_puts_it_back(threads):
    """The first to come is the first to go: what it saw before must not come back while the other still works, nor be lost."""
    usual = threads()
    first_may_go, first_is_gone = threading.Event(), threading.Event()

    def first():
        with one_thread():
            first_may_go.wait(10)
        first_is_gone.set()

    other = threading.Thread(target=first)
    other.start()
    with one_thread():
        first_may_go.set()
        assert first_is_gone.wait(10)
        assert set(threads()) == {1}
    other.join()
    assert threads() == usual


def test_an_error_inside_puts_it_back_too(threads):
    usual = threads()
    with pytest.raises(ZeroDivisionError), one_thread():
        1 / 0  # noqa: B018
    assert threads() == usual


def test_constants_from_several_threads_are_the_same_and_leave_nothing_behind(threads):
    usual = threads()
    X = np.random.default_rng(0).standard_normal((60, 500))  # whose Gram matrix is formed by BLAS
    alone = rs.constants(X, permutations=3, batch_size=4, jobs=1)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda k: rs.constants(X, permutations=1 + k % 3, batch_size=4, jobs=1), range(12)))
    for c in found:
        assert c.hat.tobytes() == alone.hat[: c.permutations].tobytes()
        assert c.til.tobytes() == alone.til[: c.permutations].tobytes()
    assert threads() == usual
