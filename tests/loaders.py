"""Slow, obvious loaders, written from what the projects say of theirs. Each makes its random choices by `choose(k)`, which gives
one of 0..k-1, so that `law` can walk through all of them and say how likely each order is.
"""

from collections import defaultdict
from fractions import Fraction


def law(loader):
    """The exact probability of each order: every sequence of choices, each choice equally likely."""
    found, prefix = defaultdict(Fraction), []
    while True:
        taken, options = list(prefix), []

        def choose(k, taken=taken, options=options):
            if len(options) == len(taken):
                taken.append(0)
            options.append(k)
            return taken[len(options) - 1]

        order = tuple(loader(choose))
        chance = Fraction(1)
        for k in options:
            chance /= k
        found[order] += chance
        while taken and taken[-1] == options[len(taken) - 1] - 1:
            taken.pop()
        if not taken:
            return dict(found)
        prefix = [*taken[:-1], taken[-1] + 1]


def shuffled(items, choose):
    rest, out = list(items), []
    while rest:
        out.append(rest.pop(choose(len(rest))))
    return out


def flat(lists):
    return [row for rows in lists for row in rows]


def parts(n, count):
    """n rows in so many parts, as even as they can be."""
    return [list(range(j * n // count, (j + 1) * n // count)) for j in range(count)]


def pieces(rows, size):
    return [rows[low : low + size] for low in range(0, len(rows), size)]


def buffer(rows, size, choose, initial=None):
    """WebDataset's shuffle; without `initial`, the buffer is full before the first row leaves."""
    held, out, rows = [], [], iter(rows)
    for row in rows:
        held.append(row)
        if len(held) < size:
            held.extend([following] if (following := next(rows, None)) is not None else [])
        if len(held) >= min(initial or size, size):
            out.append(held.pop(choose(len(held))))
    return out + shuffled(held, choose)


def full_buffer(rows, size, choose):
    """The buffer of tf.data and Hugging Face in their own words: once it is full, a random slot leaves and the new row takes it."""
    held, out = [], []
    for row in rows:
        if len(held) < size:
            held.append(row)
        else:
            slot = choose(size)
            out.append(held[slot])
            held[slot] = row
    return out + shuffled(held, choose)


def windows(n, size, choose):
    return flat(shuffled(window, choose) for window in pieces(range(n), size))


def blocks(n, size, choose, window=0):
    order = shuffled(pieces(list(range(n)), size), choose)
    return flat(shuffled(flat(some), choose) for some in pieces(order, window)) if window else flat(order)


def interleaved(shards, count):
    """tf.data's interleave: a slot whose shard has ended is passed over once, and opens the next shard at its next turn."""
    waiting, slots, out = list(shards), [None] * count, []
    while waiting or any(slots):
        for k in range(count):
            if slots[k] is None and waiting:
                slots[k] = list(waiting.pop(0))
            if slots[k]:
                out.append(slots[k].pop(0))
            else:
                slots[k] = None
    return out


def in_turn(lists, each):
    """A DataLoader with workers: so many rows of one, then of the next, as long as they have any."""
    waiting, out = [list(rows) for rows in lists], []
    while any(waiting):
        for rows in waiting:
            out += rows[:each]
            del rows[:each]
    return out


def shards(n, count, choose, open_shards=1, size=1, workers=1, batch=1):
    order = shuffled(parts(n, count), choose)
    return in_turn([buffer(interleaved(order[w::workers], open_shards), size, choose) for w in range(workers)], batch)


def webdataset(n, count, choose, size=1000, initial=100, workers=1, batch=1):
    own = [shuffled(parts(n, count)[w::workers], choose) for w in range(workers)]
    return in_turn([buffer(flat(mine), size, choose, initial) for mine in own], batch)


def ffcv(n, size, open_pages, choose):
    waiting, out, current = shuffled([shuffled(page, choose) for page in pieces(list(range(n)), size)], choose), [], []
    while waiting or current:
        while waiting and len(current) < open_pages:
            current.append(waiting.pop(0))
        page = current[choose(len(current))]
        out.append(page.pop(0))
        current = [page for page in current if page]
    return out


def streaming(n, count, choose, nodes=1, *, finish, before=lambda shard, choose: shard):
    """MosaicML Streaming: shards in an order of the run, cut at the ends of nodes, pieces of a node in an order of the epoch."""
    kept = shuffled([[(row, k) for row in before(shard, choose)] for k, shard in enumerate(parts(n, count))], choose)
    laid, out = flat(kept), []
    for low, high in ((j * n // nodes, (j + 1) * n // nodes) for j in range(nodes)):
        mine = laid[low:high]
        of_shard = [[row for row, k in mine if k == shard] for shard in dict.fromkeys(k for _, k in mine)]
        out.append(finish(shuffled(of_shard, choose), choose))
    return in_turn(out, 1)


def py1s(n, count, choose, nodes=1):
    return streaming(n, count, choose, nodes, finish=lambda some, choose: flat(shuffled(piece, choose) for piece in some))


def py2s(n, count, choose, nodes=1):
    finish = {"finish": lambda some, choose: flat(shuffled(piece, choose) for piece in some), "before": shuffled}
    return streaming(n, count, choose, nodes, **finish)


def py1br(n, count, choose, nodes=1, block=1 << 18):
    low, high = int(0.75 * block), int(1.25 * block)

    def finish(some, choose):
        rows, out = flat(some), []
        cut = choose(low)  # by so much the first block of a node is shorter
        while rows:
            size = low + choose(high - low) - cut
            out += shuffled(rows[:size], choose)
            rows, cut = rows[size:], 0
        return out

    return streaming(n, count, choose, nodes, finish=finish)


def py1e(n, count, rng, nodes=1, block=1 << 18):
    """With the random numbers of NumPy: how far rows move is no choice among a few."""

    def finish(some, choose):
        places, begin, total = [], 0, sum(map(len, some))
        for piece in some:
            reach = max((rng.integers(int(0.75 * block), int(1.25 * block)) - len(piece)) / 2, 0)
            low, high = max(-reach, -begin), min(reach, total - begin - len(piece))
            places += [(begin + k + rng.uniform(low, high), row) for k, row in enumerate(shuffled(piece, choose))]
            begin += len(piece)
        return [row for _, row in sorted(places)]

    return streaming(n, count, lambda k: int(rng.integers(k)), nodes, finish=finish)
