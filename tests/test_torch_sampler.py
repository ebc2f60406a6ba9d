"""The sampler for PyTorch: epochs that count themselves, ranks that share one order, and a state to go on from."""

import pickle

import numpy as np
import pytest

from reshuffle.orders import make_order, torch_sampler

torch = pytest.importorskip("torch", reason="the sampler is for PyTorch, which is not installed")
data = torch.utils.data


def epoch(order, k, n=23, seed=5):
    return make_order(order, n, seed).permutation(k).tolist()


@pytest.mark.parametrize("order", ["rr", "so", "file", "buffer:5", "blocks:4/window:2", "distributed:4", "replacement"])
def test_each_pass_is_the_next_epoch_of_the_order(order):
    sampler = torch_sampler(order, 23, seed=5)
    assert isinstance(sampler, data.Sampler)
    assert [list(sampler) for _ in range(3)] == [epoch(order, k) for k in range(3)]
    assert sampler.epoch == 3
    sampler.set_epoch(1)
    assert [list(sampler), list(sampler)] == [epoch(order, 1), epoch(order, 2)]
    assert len(sampler) == len(epoch(order, 0))


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("batch_size", [None, 4])
def test_a_data_loader_gets_a_new_epoch_each_time(workers, batch_size):
    keep = {"persistent_workers": True} if workers else {}
    loader = data.DataLoader(range(23), batch_size=batch_size, sampler=torch_sampler("rr", 23, seed=5), num_workers=workers, **keep)
    for k in range(3):
        rows = [np.atleast_1d(np.asarray(batch)).tolist() for batch in loader]
        assert [row for batch in rows for row in batch] == epoch("rr", k)
        assert [len(batch) for batch in rows] == ([1] * 23 if batch_size is None else [4] * 5 + [3])


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("ranks", [1, 2, 4, 23])
def test_ranks_share_the_order_as_those_of_a_distributed_sampler_do(ranks, drop_last):
    samplers = [torch_sampler("rr", 23, seed=5, rank=r, num_replicas=ranks, drop_last=drop_last) for r in range(ranks)]
    theirs = [data.DistributedSampler(range(23), ranks, r, shuffle=False, drop_last=drop_last) for r in range(ranks)]
    for k in range(2):
        rows, indices = epoch("rr", k), [list(sampler) for sampler in samplers]
        assert indices == [[rows[i] for i in other] for other in theirs]
        assert [len(sampler) for sampler in samplers] == [len(other) for other in theirs]
    together = [row for step in zip(*indices, strict=True) for row in step]
    assert together == epoch(f"distributed:{ranks}" + "/drop:1" * drop_last, 1)  # what the global batch sees


def test_a_state_goes_on_in_the_midst_of_an_epoch_and_at_its_end():
    whole = [epoch("buffer:7", k) for k in range(3)]
    for used in (0, 1, 9, 22, 23):
        sampler = torch_sampler("buffer:7", 23, seed=5)
        assert list(sampler) == whole[0]
        running = iter(sampler)
        assert [next(running) for _ in range(used)] == whole[1][:used]
        state = pickle.loads(pickle.dumps(sampler.state_dict()))
        other = torch_sampler("buffer:7", 23, seed=5)
        other.load_state_dict(state)
        assert other.state_dict() == state
        first = list(other)
        assert first == (whole[2] if used == 23 else whole[1][used:])
        assert list(other) == epoch("buffer:7", 3 if used == 23 else 2)


def test_a_loader_that_asks_ahead_is_told_where_it_is():
    sampler = torch_sampler("rr", 23, seed=5)
    loader = data.DataLoader(range(23), batch_size=2, sampler=sampler, num_workers=2)
    running = iter(loader)
    used = [row for _ in range(3) for row in next(running).tolist()]
    assert sampler.state_dict()["position"] > 6
    state = sampler.state_dict(position=6)
    del running
    other = torch_sampler("rr", 23, seed=5)
    other.load_state_dict(state)
    assert used + list(other) == epoch("rr", 0)


def test_an_iterator_that_was_dropped_does_not_count_on():
    sampler = torch_sampler("rr", 23, seed=5)
    old = iter(sampler)
    next(old)
    new = iter(sampler)
    assert next(new) == epoch("rr", 1)[0]
    next(old)
    assert sampler.state_dict()["position"] == 1
    iter(sampler)  # never asked for anything
    assert sampler.epoch == 2
    sampler.set_epoch(2)  # the next one in any case: but the one that runs is given up
    assert (sampler.state_dict()["epoch"], sampler.state_dict()["position"]) == (2, 0)
    next(new)
    assert sampler.state_dict()["position"] == 0


def test_a_state_that_was_taken_before_the_first_epoch_starts_there():
    sampler = torch_sampler("rr", 23, seed=5)
    state = sampler.state_dict()
    list(sampler)
    sampler.load_state_dict(state)
    assert list(sampler) == epoch("rr", 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 0}, "n=0 is too small"),
        ({"rank": 2, "num_replicas": 2}, "rank=2 is larger than the 1 of the last rank; use 0..1"),
        ({"rank": -1}, "rank=-1 is too small"),
        ({"num_replicas": 9, "drop_last": True}, "num_replicas=9 is larger than the 8 samples of an epoch"),
        ({"order": "bufer:3"}, "order='bufer:3' is not known"),
        ({"order": iter([[0]])}, "order is an iterator: it cannot be asked for an epoch"),
        ({"order": "balanced"}, "order 'balanced' is made while a run goes on: it cannot be asked for an epoch"),
    ],
)
def test_what_cannot_be_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        torch_sampler(**{"order": "rr", "n": 8, **options})


def test_a_state_of_another_sampler_is_refused():
    state = torch_sampler("rr", 23, seed=5, num_replicas=2).state_dict()
    torch_sampler("rr", 23, seed=5, num_replicas=2, rank=1).load_state_dict(state)  # of another rank
    for other in ({"seed": 6}, {"order": "so"}, {"num_replicas": 1}, {"drop_last": True}, {"n": 22}):
        sampler = torch_sampler(**{"order": "rr", "n": 23, "seed": 5, "num_replicas": 2, **other})
        name = next(iter(other))
        with pytest.raises(ValueError, match=f"the state is of a sampler with {name}=.*; make it with the same"):
            sampler.load_state_dict(state)
