"""Every named order has the law of the loader that it stands for, and says no more of itself than is true."""

from collections import Counter
from functools import partial
from itertools import pairwise
from math import factorial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from reshuffle.orders import SCHEMES, Family, Parameter, Scheme, describe, make_order
from reshuffle.orders.streams import Stream, start
from tests import loaders
from tests.test_orders import splitmix64

#: A name, how many rows, and the loader whose law it has.
LAWS = [
    ("rr", 4, lambda choose: loaders.shuffled(range(4), choose)),
    ("paired", 4, lambda choose: loaders.shuffled(range(4), choose)),
    ("buffer:2", 5, lambda choose: loaders.full_buffer(range(5), 2, choose)),
    ("buffer:3", 5, lambda choose: loaders.full_buffer(range(5), 3, choose)),
    ("buffer:9", 4, lambda choose: loaders.shuffled(range(4), choose)),
    ("buffer:4/initial:2", 6, lambda choose: loaders.buffer(range(6), 4, choose, 2)),
    ("windows:3", 5, partial(loaders.windows, 5, 3)),
    ("blocks:2", 7, partial(loaders.blocks, 7, 2)),
    ("blocks:2/window:2", 5, partial(loaders.blocks, 5, 2, window=2)),
    ("shards:3", 7, partial(loaders.shards, 7, 3)),
    ("shards:4/open:2", 9, partial(loaders.shards, 9, 4, open_shards=2)),
    ("shards:3/open:2/buffer:2", 5, partial(loaders.shards, 5, 3, open_shards=2, size=2)),
    ("shards:3/buffer:2/workers:2/batch:2", 6, partial(loaders.shards, 6, 3, size=2, workers=2, batch=2)),
    ("webdataset:2", 4, partial(loaders.webdataset, 4, 2)),
    (
        "webdataset:3/buffer:3/initial:2/workers:2/batch:2",
        7,
        partial(loaders.webdataset, 7, 3, size=3, initial=2, workers=2, batch=2),
    ),
    ("ffcv:2/open:2", 5, partial(loaders.ffcv, 5, 2, 2)),
    ("py1s:3", 5, partial(loaders.py1s, 5, 3)),
    ("py1s:2/nodes:2", 5, partial(loaders.py1s, 5, 2, nodes=2)),
    ("py2s:2/nodes:2", 5, partial(loaders.py2s, 5, 2, nodes=2)),
    ("py1br:3/nodes:2/block:4", 5, partial(loaders.py1br, 5, 3, nodes=2, block=4)),
]


def far_from(counts, expected):
    """Whether counts are further from what is expected than chance takes them once in ten thousand times."""
    assert counts.keys() <= expected.keys()  # what cannot be is not
    square = sum((counts[order] - e) ** 2 / e for order, e in expected.items())
    return square > chi2.isf(1e-4, max(len(expected) - 1, 1))


@pytest.mark.parametrize(("name", "n", "loader"), LAWS, ids=[name for name, *_ in LAWS])
def test_an_order_has_the_law_of_the_loader(name, n, loader):
    law = loaders.law(loader)
    assert sum(law.values()) == 1
    draws = int(max(2000, 8 / min(law.values())))  # each order is expected 8 times or more
    assert draws < 40_000
    counts = Counter(tuple(make_order(name, n, seed).permutation(1).tolist()) for seed in range(draws))
    expected = {order: draws * float(chance) for order, chance in law.items()}
    assert not far_from(counts, expected)


def test_another_law_would_be_noticed():
    draws = 4000
    counts = Counter(tuple(make_order("buffer:3/initial:2", 5, seed).permutation(1).tolist()) for seed in range(draws))
    for initial, far in ((2, False), (3, True)):
        law = loaders.law(partial(loaders.buffer, range(5), 3, initial=initial))
        expected = {order: draws * float(law.get(order, 1e-9)) for order in counts.keys() | law.keys()}
        assert far_from(counts, expected) == far


def test_a_full_buffer_is_the_buffer_of_webdataset_that_waits_until_it_is_full():
    for n, size in [(4, 2), (5, 3), (5, 1), (3, 7)]:
        full = loaders.law(partial(loaders.full_buffer, range(n), size))
        assert full == loaders.law(lambda choose, n=n, size=size: loaders.buffer(range(n), size, choose))


def test_the_spread_rows_of_py1e_have_the_law_of_the_loader():
    draws, rng = 3000, np.random.default_rng(0)
    for name, options in [("py1e:3/block:6", {"block": 6}), ("py1e:2/nodes:2/block:3", {"nodes": 2, "block": 3})]:
        n, shards = 5, int(name[5])
        ours = Counter(tuple(make_order(name, n, seed).permutation(1).tolist()) for seed in range(draws))
        theirs = Counter(tuple(loaders.py1e(n, shards, rng, **options)) for _ in range(draws))
        both = ours | theirs
        square = sum((ours[order] - theirs[order]) ** 2 / (ours[order] + theirs[order]) for order in both)
        assert square < chi2.isf(1e-6, len(both) - 1)


def test_a_buffer_draws_the_same_numbers_as_python_does():
    n, size, seed, epoch = 200, 7, 5, 3
    begin, draws = int(start(seed, epoch, Stream.WITHIN)), iter(range(n))

    def choose(k):
        return splitmix64((begin + (next(draws) + 1) * 0x9E3779B97F4A7C15) % 2**64) * k >> 64

    held, out, rows = [], [], iter(range(n))
    while len(out) < n:
        held += [row for _ in range(size - len(held)) if (row := next(rows, None)) is not None]
        slot = choose(len(held))
        out.append(held[slot])
        held[slot] = held[-1]
        held.pop()
    assert make_order(f"buffer:{size}", n, seed).permutation(epoch).tolist() == out


# --- for all numbers in the name


def numbers(n):
    rows, small = st.integers(1, n), st.integers(1, 6)
    block = st.integers(2, 2 * n + 2)
    return st.one_of(
        st.builds("buffer:{}".format, st.integers(1, 2 * n)),
        st.integers(1, n + 3).flatmap(lambda size: st.builds("buffer:{}/initial:{}".format, st.just(size), st.integers(1, size))),
        st.builds("windows:{}".format, rows),
        st.builds("blocks:{}".format, rows),
        st.builds("blocks:{}/window:{}".format, rows, small),
        rows.flatmap(
            lambda count: st.builds(
                "shards:{}/open:{}/buffer:{}/workers:{}/batch:{}".format,
                *(st.just(count), st.integers(1, count), rows, st.integers(1, count), small),
            )
        ),
        rows.flatmap(
            lambda count: st.builds(
                "webdataset:{}/buffer:{}/initial:{}/workers:{}/batch:{}".format,
                *(st.just(count), rows, rows, st.integers(1, count), small),
            )
        ),
        st.builds("ffcv:{}/open:{}".format, rows, small),
        st.builds("py1s:{}/nodes:{}".format, rows, rows),
        st.builds("py2s:{}/nodes:{}".format, rows, rows),
        st.builds("py1br:{}/nodes:{}/block:{}".format, rows, rows, block),
        st.builds("py1e:{}/nodes:{}/block:{}".format, rows, rows, block),
        st.builds("distributed:{}".format, rows.filter(lambda ranks: n % ranks == 0)),
        st.sampled_from(["rr", "so", "ig", "file", "paired"]),
    )


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 40).flatmap(lambda n: st.tuples(st.just(n), numbers(n))), st.integers(0, 2**40), st.integers(0, 10**6))
def test_every_order_that_says_so_permutes(n_and_name, seed, epoch):
    n, name = n_and_name
    order = make_order(name, n, seed)
    assert order.permutes
    assert sorted(order.scheme.draw(n, seed, epoch).tolist()) == list(range(n))
    again = make_order(order.name, n, seed)  # the name in results stands for the same order
    assert (again.name, again.fixed, again.uniform) == (order.name, order.fixed, order.uniform)
    np.testing.assert_array_equal(again.permutation(epoch), order.permutation(epoch))
    if order.fixed:
        np.testing.assert_array_equal(order.permutation(epoch), order.permutation(epoch + 1))


@settings(max_examples=200, deadline=None)
@given(st.integers(2, 60).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n))), st.integers(0, 1000))
def test_rows_stay_where_buffers_windows_and_blocks_leave_them(n_and_size, seed):
    n, k = n_and_size
    place = np.argsort(make_order(f"buffer:{k}", n, seed).permutation(0))
    assert (place >= np.arange(n) - k + 1).all()  # row i leaves no earlier than this
    initial = min(2, k)
    early = np.argsort(make_order(f"buffer:{k}/initial:{initial}", n, seed).permutation(0))
    assert (early >= np.arange(n) - k + 1).all()
    windowed = make_order(f"windows:{k}", n, seed).permutation(0)
    assert (windowed // k == np.arange(n) // k).all()
    whole = make_order(f"blocks:{k}", n, seed).permutation(0)
    assert all(following == row + 1 for row, following in pairwise(whole) if following % k)
    in_order = list(dict.fromkeys((whole // k).tolist()))  # the blocks
    mixed = make_order(f"blocks:{k}/window:2", n, seed).permutation(0).tolist()
    for pair in loaders.pieces(in_order, 2):  # the same blocks, two at a time
        rows = [row for block in sorted(pair) for row in range(block * k, min(block * k + k, n))]
        assert sorted(mixed[: len(rows)]) == rows
        del mixed[: len(rows)]


@pytest.mark.parametrize("open_pages", [1, 3, 20])
def test_no_more_pages_are_begun_than_are_open(open_pages):
    order, begun = make_order(f"ffcv:5/open:{open_pages}", 98, 2).permutation(0), Counter()
    for row in order:
        begun[row // 5] += 1
        assert sum(count < min(5, 98 - 5 * page) for page, count in begun.items()) <= open_pages
    assert len(begun) == 20


def test_streaming_keeps_rows_in_their_node_and_webdataset_in_their_worker():
    for name in ("py1s:7/nodes:4", "py2s:7/nodes:4", "py1br:7/nodes:4/block:6", "py1e:7/nodes:4/block:60"):
        order = make_order(name, 100, 3)
        node = [{*order.permutation(epoch)[j::4].tolist()} for epoch in range(3) for j in range(4)]
        assert node[:4] == node[4:8] == node[8:]
        assert {*make_order(name, 100, 4).permutation(0)[::4].tolist()} != node[0]
    order = make_order("webdataset:6/buffer:10/workers:3", 60, 0)
    assert all(set(order.permutation(epoch)[w::3] // 10) == {w, w + 3} for epoch in range(3) for w in range(3))
    moving = make_order("shards:6/buffer:10/workers:3", 60, 0)
    assert len({frozenset((moving.permutation(epoch)[::3] // 10).tolist()) for epoch in range(9)}) > 1


def test_the_ends_of_families_are_the_orders_without_numbers():
    n, seed, epoch = 30, 2, 4
    rr, file = (make_order(name, n, seed).permutation(epoch) for name in ("rr", "file"))
    for name in ("blocks:1", "shards:30", "distributed:5", "distributed:30/drop:1"):
        np.testing.assert_array_equal(make_order(name, n, seed).permutation(epoch), rr)
        assert make_order(name, n, seed).uniform
    for name in ("buffer:1", "buffer:1/initial:1", "windows:1", "blocks:30", "shards:1", "webdataset:1/buffer:1"):
        np.testing.assert_array_equal(make_order(name, n, seed).permutation(epoch), file)
        assert make_order(name, n, seed).fixed
    assert make_order("file", n, seed).name == "ig"
    paired = make_order("paired", n, seed)
    np.testing.assert_array_equal(paired.permutation(4), paired.permutation(5)[::-1])
    np.testing.assert_array_equal(paired.permutation(4), make_order("rr", n, seed).permutation(2))


@pytest.mark.parametrize(
    "name",
    [
        *("buffer:4", "buffer:9", "buffer:5/initial:4", "windows:4", "blocks:1/window:2", "blocks:3/window:2", "shards:2/buffer:4"),
        *(
            "shards:4/open:3/buffer:2/workers:2",
            "webdataset:2",
            "webdataset:4/buffer:2/initial:1",
            "ffcv:1/open:2",
            "ffcv:4/open:3",
        ),
        *("py1s:1", "py1s:4", "py2s:1", "py2s:4", "py1br:4/block:3", "py1e:1/block:3", "py1e:4/block:6", "distributed:2"),
    ],
)
def test_what_calls_itself_uniform_is(name):
    assert make_order(name, 4, 0).uniform
    counts = Counter(tuple(make_order(name, 4, seed).permutation(2).tolist()) for seed in range(2400))
    expected = dict.fromkeys(loaders.law(lambda choose: loaders.shuffled(range(4), choose)), 2400 / factorial(4))
    assert not far_from(counts, expected)


@pytest.mark.parametrize(
    "name", ["buffer:3", "buffer:4/initial:3", "windows:2", "blocks:2", "shards:2/buffer:3", "ffcv:2/open:2", "py1s:2"]
)
def test_what_is_not_uniform_does_not_say_so(name):
    assert not make_order(name, 4, 0).uniform


EXAMPLES = [
    *("rr", "paired", "replacement", "buffer:100", "buffer:100/initial:10", "windows:50", "blocks:20", "blocks:20/window:4"),
    *("shards:25/open:4/buffer:50", "webdataset:25/buffer:50/workers:5", "ffcv:20/open:8", "py1s:25/nodes:2", "py2s:25"),
    *("py1br:25/block:100", "py1e:25/block:200", "distributed:8", "distributed:7/drop:1"),
]


def test_every_scheme_is_among_the_examples():
    assert {name.partition(":")[0] for name in EXAMPLES} == SCHEMES.keys() - {"so", "ig", "balanced"}


@pytest.mark.parametrize("name", EXAMPLES)
def test_no_epoch_comes_again_and_seeds_differ(name):
    order = make_order(name, 1000, 7)
    drawn = [order.permutation(epoch).tobytes() for epoch in range(30)]
    assert len(set(drawn)) == 30
    other = make_order(name, 1000, 8)
    assert not set(drawn) & {other.permutation(epoch).tobytes() for epoch in range(30)}
    np.testing.assert_array_equal(np.frombuffer(drawn[17], np.int64), make_order(name, 1000, 7).permutation(17))


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name != "paired"])
def test_where_a_row_stands_in_one_epoch_says_nothing_of_the_next(name):
    """Beyond what stays: its mean place over the epochs, near the file's for a buffer, is taken away first."""
    order = make_order(name, 1000, 1)
    places = np.array([np.argsort(order.permutation(epoch), kind="stable") for epoch in range(40)], dtype=float)
    moved = places - places.mean(axis=0)
    found = [np.corrcoef(a, b)[0, 1] for a, b in pairwise(moved)]
    assert abs(np.mean(found)) < 0.1  # -1/40 by the mean, and some hundredths by chance where blocks move as one


# --- epochs that are not permutations


def test_ranks_pad_or_drop_what_they_cannot_share():
    n, rr = 10, make_order("rr", 10, 3).permutation(2)
    padded, dropped = make_order("distributed:4", n, 3), make_order("distributed:4/drop:1", n, 3)
    np.testing.assert_array_equal(padded.permutation(2), [*rr, *rr[:2]])  # as DistributedSampler pads: from the front
    np.testing.assert_array_equal(dropped.permutation(2), rr[:8])
    assert not padded.permutes
    assert not dropped.permutes
    assert not padded.uniform
    assert make_order("distributed:5", n, 3).permutes


def test_with_replacement_every_row_is_drawn_alike():
    rows = np.concatenate([make_order("replacement", 20, 0).permutation(epoch) for epoch in range(500)])
    counts = np.bincount(rows, minlength=20)
    assert np.sum((counts - 500) ** 2 / 500) < chi2.isf(1e-6, 19)
    pairs = np.bincount(rows[:-1] * 20 + rows[1:], minlength=400)
    assert np.sum((pairs - 25) ** 2 / 25) < chi2.isf(1e-6, 399)


# --- names


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("buffer:0", r"order='buffer:0': buffer=0 is too small; use 1 or more"),
        ("buffer:-3", r"order='buffer:-3': buffer=-3 is too small; use 1 or more"),
        ("buffer:many", r"order='buffer:many': buffer='many' is not a whole number; use 1 or more"),
        ("buffer:1.5", r"buffer='1.5' is not a whole number"),
        ("buffer", r"order='buffer': buffer \(rows that it holds\) is missing; use 'buffer:N\[/initial:N\]'"),
        ("ffcv:3", r"order='ffcv:3': open \(.*\) is missing; use 'ffcv:N/open:N'"),
        ("bufer:3", r"order='bufer:3' is not known; use one of rr, so, ig \(or file\), .*paired, .*buffer:N, .* or a list of them"),
        ("", r"order='' is not known"),
        ("blocks:13", r"order='blocks:13': rows=13 is larger than the 12 rows of the data; use 1..12"),
        ("windows:13", r"rows=13 is larger than the 12 rows of the data"),
        ("shards:13", r"shards=13 is larger than the 12 rows of the data"),
        ("distributed:13", r"ranks=13 is larger than the 12 rows of the data"),
        ("distributed:5/drop:2", r"drop=2 is larger than the 1 allowed"),
        ("blocks:3/win:2", r"order='blocks:3/win:2': 'win' is not known; use 'blocks:N\[/window:N\]'"),
        ("blocks:3/window:2/window:2", r"'window' is there twice; leave one out"),
        ("blocks:3/window", r"window='' is not a whole number"),
        ("shards:4/workers:5", r"order='shards:4/workers:5': workers=5 is larger than the 4 of shards; use 1..4"),
        ("shards:4/open:5", r"open=5 is larger than the 4 of shards"),
        ("buffer:5/initial:6", r"initial=6 is larger than the 5 of buffer"),
        ("py1br:4/block:1", r"block=1 is too small; use 2 or more"),
        ("rr:3", r"order='rr:3': 'rr' takes no numbers; use 'rr'"),
    ],
)
def test_a_name_that_does_not_fit_is_refused_with_what_does(text, message):
    with pytest.raises(ValueError, match=message):
        make_order(text, 12, 0)


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        ("file", "ig", "the order of the file"),
        ("buffer:007", "buffer:7", "a shuffle buffer of 7 rows"),
        ("blocks:4/window:2", "blocks:4/window:2", "blocks of 4 rows in a random order, window 2"),
        ("shards:4/buffer:3/open:2", "shards:4/open:2/buffer:3", "4 shards in a random order, open 2, buffer 3"),
        ("webdataset:4/buffer:1000/workers:1", "webdataset:4", "WebDataset with 4 shards and a buffer of 1000 rows"),
        (
            "webdataset:shards=4,buffer=50,workers=2",
            "webdataset:4/buffer:50/workers:2",
            "WebDataset with 4 shards and a buffer of 50 rows, workers 2",
        ),
        ("blocks:4,window=2", "blocks:4/window:2", "blocks of 4 rows in a random order, window 2"),
        ("blocks:window=2,rows=4", "blocks:4/window:2", "blocks of 4 rows in a random order, window 2"),
        ("ffcv:3/open:2", "ffcv:3/open:2", "pages of 3 rows, 2 of them open at a time"),
        ("distributed:5/drop:1", "distributed:5/drop:1", "5 ranks with one random order each epoch, drop 1"),
    ],
)
def test_an_order_has_one_name_and_words_for_it(text, name, words):
    assert make_order(text, 12, 0).name == name
    assert describe(text) == describe(name) == words


def test_a_family_of_ones_own_is_one_entry(monkeypatch):
    def rotated(label, n, by):
        return Scheme(label, lambda n, seed, epoch: np.roll(np.arange(n), -by), fixed=True)

    entry = Family("the file from row {by} on", {"by": Parameter("where to begin", smallest=0, at_most="rows")}, rotated)
    monkeypatch.setitem(SCHEMES, "rotated", entry)
    order = make_order("rotated:2", 5, 0)
    assert (order.permutation(0).tolist(), describe(order.name), order.fixed) == ([2, 3, 4, 0, 1], "the file from row 2 on", True)
    with pytest.raises(ValueError, match=r"by=6 is larger than the 5 rows of the data; use 0..5"):
        make_order("rotated:6", 5, 0)
