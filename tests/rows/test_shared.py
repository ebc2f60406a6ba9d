"""Arrays that one process lends to others of its host."""

import dataclasses
import errno
import gc
import os
import pickle
import signal
import subprocess
import sys
from contextlib import suppress

import numpy as np
import pytest

from reshuffle.rows import shared

if not hasattr(os, "memfd_create"):
    pytest.skip("the system has no files in memory without a name", allow_module_level=True)


class Owner:
    pass


def test_arrays_come_in_the_types_that_are_asked_for_and_are_copied_once(monkeypatch):
    monkeypatch.setattr(shared, "_BLOCK", 7)  # so that arrays are several blocks
    owner, rng = Owner(), np.random.default_rng(0)
    arrays = rng.standard_normal((5, 4)), np.arange(9), np.arange(30, dtype=np.int32), np.empty(0)
    kinds = np.float64, np.uint8, np.uint16, np.float32
    loan = shared.lend(owner, arrays, kinds)
    assert shared.lend(owner, (), ()) is loan
    for found, array, kind in zip(shared.borrow(loan), arrays, kinds, strict=True):
        assert (found.dtype, found.shape) == (kind, array.shape)
        assert found.flags.writeable
        np.testing.assert_array_equal(found, array)


def test_what_is_written_to_a_borrowed_array_is_seen_by_nobody_else():
    owner = Owner()
    loan = shared.lend(owner, (np.zeros(3),), (np.float64,))
    mine, theirs = shared.borrow(loan)[0], shared.borrow(loan)[0]
    mine[:] = 1.0
    assert not theirs.any()
    assert not shared.borrow(loan)[0].any()


def test_a_loan_goes_with_its_owner_and_with_those_who_borrowed():
    def held():
        """Whether this process still has the file."""
        folder, files = "/proc/self/fd", []
        for one in os.listdir(folder):
            with suppress(FileNotFoundError):  # that by which the folder was listed
                files.append(os.readlink(f"{folder}/{one}"))
        return any(loan.name in file for file in files)

    owner = Owner()
    loan = shared.lend(owner, (np.arange(5.0),), (np.float64,))
    (borrowed,) = shared.borrow(loan)
    del owner
    gc.collect()
    assert borrowed.sum() == 10.0
    assert held()
    with pytest.raises(FileNotFoundError):
        shared.borrow(loan)
    del borrowed
    gc.collect()
    assert not held()


def test_a_descriptor_of_another_file_is_not_taken_for_it(tmp_path):
    owner = Owner()
    loan = shared.lend(owner, (np.zeros(3),), (np.float64,))
    with open(tmp_path / "other", "wb") as other, pytest.raises(FileNotFoundError, match="is another file by now"):
        shared.borrow(dataclasses.replace(loan, descriptor=other.fileno()))


CHILD = """
import pickle, time
import numpy as np
from reshuffle.rows import shared
class Owner: pass
owner = Owner()
print(pickle.dumps(shared.lend(owner, (np.arange(1000.0),), (np.float32,))).hex(), flush=True)
time.sleep(60)
"""


def test_what_was_borrowed_outlives_a_process_that_is_killed():
    with subprocess.Popen([sys.executable, "-c", CHILD], stdout=subprocess.PIPE, text=True) as child:
        loan = pickle.loads(bytes.fromhex(child.stdout.readline()))
        (borrowed,) = shared.borrow(loan)
        child.send_signal(signal.SIGKILL)
    np.testing.assert_array_equal(borrowed, np.arange(1000.0))
    with pytest.raises(OSError, match=str(loan.process)):  # and nothing else is left of it
        shared.borrow(loan)


def test_without_room_there_is_no_loan(monkeypatch):
    def full(file, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shared, "FileIO", type("Full", (shared.FileIO,), {"write": full}))
    assert shared.lend(Owner(), (np.zeros(3),), (np.float64,)) is None
    monkeypatch.delattr(os, "memfd_create")
    assert shared.lend(Owner(), (np.zeros(3),), (np.float64,)) is None
