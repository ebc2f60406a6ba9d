"""BLAS has its own number of threads again when the last of several callers has left, and one thread until then."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.linalg  # noqa: F401 with a BLAS of its own, which must be there to be told
from threadpoolctl import threadpool_info, threadpool_limits

import reshuffle as rs
from reshuffle._threads import one_blas_thread


def blas_threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.fixture
def three_threads():
    with threadpool_limits(3, user_api="blas"):
        if blas_threads() != {3}:
            pytest.skip("this BLAS cannot be told how many threads to use")
        yield


def test_whoever_leaves_first_takes_nothing_from_the_others(three_threads):
    inside, leave = threading.Event(), threading.Event()

    def hold():
        with one_blas_thread():
            inside.set()
            leave.wait(30)

    other = threading.Thread(target=hold)
    with one_blas_thread():
        other.start()
        inside.wait(30)
    assert blas_threads() == {1}  # the other is still inside
    leave.set()
    other.join()
    assert blas_threads() == {3}
    with pytest.raises(KeyError), one_blas_thread():
        raise KeyError
    assert blas_threads() == {3}


def test_constants_from_several_threads_are_the_same_and_leave_nothing_behind(three_threads):
    X = np.random.default_rng(0).standard_normal((60, 500))  # whose Gram matrix is formed by BLAS
    alone = rs.constants(X, permutations=3, batch_size=4, jobs=1)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda k: rs.constants(X, permutations=1 + k % 3, batch_size=4, jobs=1), range(12)))
    for c in found:
        assert c.hat.tobytes() == alone.hat[: c.permutations].tobytes()
        assert c.til.tobytes() == alone.til[: c.permutations].tobytes()
    assert blas_threads() == {3}
