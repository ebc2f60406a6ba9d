"""Families of generated data, from a random generator and a size to rows and a score for each: the target of a regression, whose
sign is the class. The first group decided the numbers in `reshuffle.solver.certified.tuning`, the second none.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

Data = tuple[Any, Any]
Random = np.random.Generator
Family = Callable[[Random, int, int], Data]


# --- that decided


def text(rng: Random, n: int, d: int) -> Data:
    """Documents: words come with a power law, weights are tf-idf, rows have unit norm."""
    chances = 1.0 / np.arange(1, d + 1) ** 1.1
    lengths = rng.poisson(rng.lognormal(4.0, 0.5, n)) + 1
    words = rng.choice(d, size=lengths.sum(), p=chances / chances.sum())
    counts = sp.csr_array((np.ones(words.size), (np.repeat(np.arange(n), lengths), words)), shape=(n, d))
    counts.data = 1.0 + np.log(counts.data)
    seen = np.bincount(counts.indices, minlength=d)
    counts.data *= np.log((1.0 + n) / (1.0 + seen[counts.indices])) + 1.0
    norms = np.sqrt(np.asarray(counts.multiply(counts).sum(axis=1)).ravel())
    X = sp.csr_array(sp.diags_array(1.0 / norms) @ counts)
    return X, X @ rng.standard_normal(d) + 0.3 * rng.standard_normal(n)


def one_hot(rng: Random, n: int, d: int) -> Data:
    """Ten variables of d / 10 categories each, some of them common and most of them rare."""
    each = d // 10
    categories = (each * rng.random((n, 10)) ** 3).astype(np.int32) + each * np.arange(10, dtype=np.int32)
    X = sp.csr_array((np.ones(10 * n), categories.ravel(), np.arange(0, 10 * n + 1, 10)), shape=(n, d))
    return X, X @ rng.standard_normal(d) + 2.0 * rng.standard_normal(n)


def correlated(rng: Random, n: int, d: int) -> Data:
    """Dense features that share five causes."""
    X = rng.standard_normal((n, 5)) @ rng.standard_normal((5, d)) + 0.1 * rng.standard_normal((n, d))
    return X, X @ rng.standard_normal(d) + 3.0 * rng.standard_normal(n)


def heavy_tailed(rng: Random, n: int, d: int) -> Data:
    """Sparse rows, a few of which are far longer than the rest."""
    columns = (d * rng.random((n, 15)) ** 2).astype(np.int32)
    values = rng.standard_normal((n, 15)) * (rng.pareto(1.5, n) + 0.1)[:, None]
    X = sp.csr_array((values.ravel(), columns.ravel(), np.arange(0, 15 * n + 1, 15)), shape=(n, d))
    X.sum_duplicates()
    return X, X @ rng.standard_normal(d) + 0.3 * rng.standard_normal(n)


def separable(rng: Random, n: int, d: int) -> Data:
    """Dense rows, all but one in two hundred of them on the right side of a plane."""
    X = rng.standard_normal((n, d))
    return X, X @ rng.standard_normal(d) * np.where(rng.random(n) < 0.005, -1.0, 1.0)


def few_rows(rng: Random, n: int, d: int) -> Data:
    """Dense, as many measurements of few samples are: the features form groups that rise and fall together."""
    groups = rng.standard_normal((n, 20))
    X = groups[:, rng.integers(20, size=d)] + rng.standard_normal((n, d))
    return X, groups[:, 0] + 0.5 * groups[:, 1] + 0.5 * rng.standard_normal(n)


def many_rows(rng: Random, n: int, d: int) -> Data:
    """Dense, few features with much noise in the labels."""
    X = rng.standard_normal((n, d))
    return X, X @ rng.standard_normal(d) + 2.0 * math.sqrt(d) * rng.standard_normal(n)


def small_table(rng: Random, n: int, d: int) -> Data:
    """Dense standardised features, so few rows that a fit goes on until rounding ends it."""
    X = rng.standard_normal((n, d)) + rng.standard_normal((n, 1))
    return X, X @ rng.standard_normal(d) + rng.standard_normal(n)


def baskets(rng: Random, n: int, d: int) -> Data:
    """What was bought, or not: a few habits decide which goods go together."""
    habits = rng.gamma(0.3, 1.0, (8, d)) / np.arange(1, d + 1) ** 0.5
    chances = np.minimum(0.9, 20.0 * habits / habits.sum(axis=1, keepdims=True))
    X = sp.csr_array((rng.random((n, d)) < chances[rng.integers(8, size=n)]).astype(np.float64))
    return X, X @ rng.standard_normal(d) + 1.5 * rng.standard_normal(n)


def _counted(rng: Random, subjects: Any, lengths: Any, d: int, share: float, steps: tuple[int, int]) -> Any:
    """Counts of words by a power law, a share of which are the subject's own: `steps` say where among all words those lie."""
    common = (np.exp(rng.random(lengths.sum()) * math.log(d))).astype(np.int64) - 1
    own = rng.random(lengths.sum()) < share
    words = np.where(own, (common * steps[0] + steps[1] * np.repeat(subjects, lengths)) % d, common)
    n = lengths.size
    return sp.csr_array((np.ones(words.size), (np.repeat(np.arange(n), lengths), words)), shape=(n, d))


def word_counts(rng: Random, n: int, d: int) -> Data:
    """Documents as they are counted, nothing scaled: words by a power law, of one of ten subjects each, lengths far apart."""
    subjects = rng.integers(10, size=n)
    X = _counted(rng, subjects, rng.poisson(rng.lognormal(3.0, 0.8, n)) + 1, d, 0.3, (7, 131))
    return X, np.where(subjects < 4, 1.0, -1.0) + 0.6 * rng.standard_normal(n)


def images(rng: Random, n: int, d: int) -> Data:
    """Strokes of grey levels 0 to 255 on an empty square: neighbours go together, the corners are hardly ever touched."""
    side = int(math.sqrt(d))
    at = np.arange(side) / (side - 1.0)
    strokes = np.zeros((n, side, side))
    for _ in range(4):
        across, down, thick = rng.normal(0.5, 0.17, (n, 1)), rng.normal(0.5, 0.17, (n, 1)), rng.uniform(0.05, 0.12, (n, 1))
        strokes += np.exp(-(((at - across) / thick) ** 2))[:, :, None] * np.exp(-(((at - down) / (2.0 * thick)) ** 2))[:, None, :]
    X = np.floor(255.0 * np.minimum(strokes, 1.0)).reshape(n, -1)
    X[X < 20.0] = 0.0
    score = X @ rng.standard_normal(side * side)
    return sp.csr_array(X), score - np.median(score) + 0.1 * score.std() * rng.standard_normal(n)


def species(rng: Random, n: int, d: int) -> Data:
    """Twenty marks of d / 20 kinds each, as a field guide lists them: rows are one of forty species, with a mark in ten another."""
    each = d // 20
    kinds = (each * rng.random((40, 20)) ** 2).astype(np.int32)
    own = rng.integers(40, size=n)
    found = np.where(rng.random((n, 20)) < 0.1, (each * rng.random((n, 20)) ** 2).astype(np.int32), kinds[own])
    columns = found + each * np.arange(20, dtype=np.int32)
    X = sp.csr_array((np.ones(20 * n), columns.ravel(), np.arange(0, 20 * n + 1, 20)), shape=(n, d))
    return X, np.where(own % 2 == 0, 1.0, -1.0) + 0.1 * rng.standard_normal(n)


def topics(rng: Random, n: int, d: int) -> Data:
    """Documents as they are counted, of twenty topics with words of their own, one of which is looked for; lengths far apart."""
    own_topic = rng.integers(20, size=n)
    X = _counted(rng, own_topic, rng.poisson(rng.lognormal(4.0, 1.0, n)) + 1, d, 0.2, (11, 977))
    return X, np.where(own_topic == 0, 1.0, -1.0) + 0.1 * rng.standard_normal(n)


def reviews(rng: Random, n: int, d: int) -> Data:
    """Long documents as they are counted, of two opinions: most words are in all of them, and each is a little more frequent in one
    of the two. Nearly all rows can be told apart, none of them easily.
    """
    chances = 1.0 / np.arange(2, d + 2) ** 1.1
    lean = 0.1 * rng.standard_normal(d)
    lengths = rng.poisson(rng.lognormal(6.0, 0.4, n)) + 1
    opinions = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    words = np.empty(lengths.sum(), dtype=np.int64)
    for opinion in (1.0, -1.0):
        odds = chances * np.exp(opinion * lean)
        own = np.repeat(opinions == opinion, lengths)
        words[own] = rng.choice(d, size=int(own.sum()), p=odds / odds.sum())
    X = sp.csr_array((np.ones(words.size), (np.repeat(np.arange(n), lengths), words)), shape=(n, d))
    return X, opinions + 0.1 * rng.standard_normal(n)


def survey(rng: Random, n: int, d: int) -> Data:
    """Answers on scales of few levels, many of them rare and all of them standardised, and a class of one row in sixteen that a few
    answers have a little to do with.
    """
    leanings = rng.standard_normal((n, 8)) @ rng.standard_normal((8, d)) + 2.0 * rng.standard_normal((n, d))
    levels = np.floor(np.maximum(0.7 * leanings - rng.uniform(-2.0, 3.0, d), 0.0))
    X = (levels - levels.mean(axis=0)) / np.maximum(levels.std(axis=0), 1e-3)
    score = X @ (rng.standard_normal(d) * (rng.random(d) < 0.1)) + 3.0 * rng.standard_normal(n)
    return X, score - np.quantile(score, 15 / 16)


def interactions(rng: Random, n: int, d: int) -> Data:
    """Dense products of two of a few standardised measurements, as polynomial features are made, in the columns' own scales."""
    few = math.ceil(math.sqrt(2.0 * d))
    inner = rng.standard_normal((n, few)) @ (np.eye(few) + 0.3 * rng.standard_normal((few, few)) / math.sqrt(few))
    first, second = np.triu_indices(few)
    X = inner[:, first[:d]] * inner[:, second[:d]]
    return X, X @ (rng.standard_normal(d) * (rng.random(d) < 0.2)) + 2.0 * rng.standard_normal(n)


def lags(rng: Random, n: int, d: int) -> Data:
    """Dense windows of a series that each moment carries on from the two before, whose next step is looked for."""
    series = rng.standard_t(5, n + d)
    for moment in range(2, n + d):
        series[moment] += 1.3 * series[moment - 1] - 0.4 * series[moment - 2]
    X = np.lib.stride_tricks.sliding_window_view(series, d)[:n].copy()
    return X, series[d:] - series[d - 1 : -1] + 0.5 * rng.standard_normal(n)


def outlying(rng: Random, n: int, d: int) -> Data:
    """Dense, each feature much like the one before it, and three rows in a hundred that are six times as long."""
    X = rng.standard_normal((n, d))
    for j in range(1, d):
        X[:, j] = 0.8 * X[:, j - 1] + 0.6 * X[:, j]
    X *= np.where(rng.random(n) < 0.03, 6.0, 1.0)[:, None]
    return X, X @ (rng.standard_normal(d) * (rng.random(d) < 0.2)) * (2.0 / math.sqrt(d)) + rng.standard_normal(n)


def accounts(rng: Random, n: int, d: int) -> Data:
    """A table as it is kept, dense: amounts, shares, counts and ages, each in its own unit, with long tails. A few shares were
    entered in another unit, counts that nobody knows are 98, and one row in fourteen is of the class that is looked for.
    """
    causes = rng.standard_normal((n, 3))
    level = 0.6 * causes @ rng.standard_normal((3, d)) + rng.standard_normal((n, d))
    kind = np.arange(d) % 4
    X = np.empty((n, d))
    X[:, kind == 0] = np.exp(7.0 + 1.2 * level[:, kind == 0])
    X[:, kind == 1] = 1.0 / (1.0 + np.exp(-level[:, kind == 1]))
    X[:, kind == 1] *= np.where(rng.random((n, (kind == 1).sum())) < 3e-4, 10.0 ** rng.uniform(2.0, 5.0), 1.0)
    X[:, kind == 2] = rng.poisson(0.4 * np.exp(level[:, kind == 2]))
    X[np.ix_(rng.random(n) < 0.002, kind == 2)] = 98.0
    X[:, kind == 3] = np.round(50.0 + 12.0 * level[:, kind == 3])
    score = level[:, : min(d, 6)] @ rng.standard_normal(min(d, 6)) + 1.5 * rng.standard_normal(n)
    return X, score - np.quantile(score, 13.0 / 14.0)


# --- that decided nothing


def voices(rng: Random, n: int, d: int) -> Data:
    """More dense measurements than recordings, in groups that rise and fall together, each group in units of its own."""
    groups = rng.standard_normal((n, 25))
    own = rng.integers(25, size=d)
    X = (groups[:, own] + 0.4 * rng.standard_normal((n, d))) * 10.0 ** rng.uniform(-4.0, 3.0, 25)[own]
    return X, groups[:, :3] @ rng.standard_normal(3) + rng.standard_normal(n)


def prices(rng: Random, n: int, d: int) -> Data:
    """Dense standardised amounts with long tails, and the squares of half of them; a few have something to do with a rare class."""
    half = d // 2
    amounts = np.exp(rng.standard_normal((n, 4)) @ rng.standard_normal((4, d - half)) * 0.5 + rng.standard_normal((n, d - half)))
    X = np.hstack([amounts, amounts[:, :half] ** 2])
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    score = np.log(amounts[:, :6]) @ rng.standard_normal(6) + rng.standard_normal(n)
    return X, score - np.quantile(score, 0.9)


def genes(rng: Random, n: int, d: int) -> Data:
    """Few samples of very many dense measurements, some of which follow one of a few pathways, none of which is the label alone."""
    pathways = rng.standard_normal((n, 12))
    loads = rng.standard_normal((12, d)) * (rng.random((12, d)) < 0.1)
    X = pathways @ loads + rng.gamma(2.0, 0.4, d) * rng.standard_normal((n, d))
    return X, pathways[:, :4] @ rng.standard_normal(4) + 0.5 * rng.standard_normal(n)


def sensors(rng: Random, n: int, d: int) -> Data:
    """Dense windows of d / 4 moments of four channels, each a wave in noise that is slow to change; one channel's phase decides."""
    moments = d // 4
    noise = np.cumsum(rng.standard_normal((n, 4, moments)), axis=2) / math.sqrt(moments) + rng.standard_normal((n, 4, moments))
    phases, pace = rng.uniform(0.0, 2.0 * math.pi, (n, 4, 1)), np.array([3.0, 5.0, 7.0, 11.0])[:, None]
    waves = np.sin(2.0 * math.pi * pace * np.arange(moments) / moments + phases)
    X = (waves + 0.7 * noise).reshape(n, -1)
    return X, np.cos(phases[:, 1, 0]) + 0.3 * rng.standard_normal(n)


def embeddings(rng: Random, n: int, d: int) -> Data:
    """Dense, as networks leave them: a mean that all rows share, variances that fall as a power law, values that are a little
    heavy-tailed, and a label that many directions have a part in.
    """
    spectrum = 1.0 / np.arange(1, d + 1) ** 0.8
    turned, _ = np.linalg.qr(rng.standard_normal((d, d)))
    inner = rng.standard_t(6, (n, d))
    X = (inner * np.sqrt(spectrum)) @ turned + rng.standard_normal(d) / math.sqrt(d)
    return X, inner[:, :50] @ rng.standard_normal(50) / math.sqrt(50) + 0.5 * rng.standard_normal(n)


def sparse_binary(rng: Random, n: int, d: int) -> Data:
    """Each feature is there or not, some nearly always and most hardly ever."""
    chances = np.minimum(0.8, 3.0 / np.arange(1, d + 1) ** 0.8)
    X = sp.csr_array((rng.random((n, d)) < chances).astype(np.float64))
    return X, X @ rng.standard_normal(d) + rng.standard_normal(n)


def raw_counts(rng: Random, n: int, d: int) -> Data:
    """Counts around one of four profiles a row, not normalised, of rows that differ much in size."""
    profiles = rng.gamma(0.3, 1.0, (4, d)) * 20.0 / d
    topics = rng.integers(4, size=n)
    X = sp.csr_array(rng.poisson(profiles[topics] * rng.lognormal(0.0, 1.0, (n, 1))).astype(np.float64))
    return X, np.where(topics < 2, 1.0, -1.0) + 0.7 * rng.standard_normal(n)


def splices(rng: Random, n: int, d: int) -> Data:
    """Windows of d / 4 letters of DNA, a feature for each letter at each place: copies of one of three junctions, the more faithful
    the nearer to the middle.
    """
    places = d // 4
    chances = np.minimum(0.9, 0.1 + np.abs(np.arange(places) - 0.5 * places) / (0.3 * places))
    junctions, kinds = rng.integers(4, size=(3, places)), rng.integers(3, size=n)
    letters = np.where(rng.random((n, places)) < chances, rng.integers(4, size=(n, places)), junctions[kinds])
    columns = (letters + 4 * np.arange(places)).astype(np.int32)
    X = sp.csr_array((np.ones(n * places), columns.ravel(), np.arange(0, n * places + 1, places)), shape=(n, 4 * places))
    return X, np.where(kinds == 0, 1.0, -1.0) + 0.3 * rng.standard_normal(n)


def spectra(rng: Random, n: int, d: int) -> Data:
    """Smooth curves, of which neighbouring features are nearly the same."""
    curves = np.cumsum(rng.standard_normal((n, d)), axis=1) / math.sqrt(d)
    return curves, curves[:, d // 3] - curves[:, d // 2] + 0.1 * rng.standard_normal(n)


def mixed_scales(rng: Random, n: int, d: int) -> Data:
    """Dense skewed features whose scales run from 0.1 to 10."""
    X = rng.lognormal(0.0, 0.7, (n, d)) * np.logspace(-1, 1, d)
    return X, (X / np.logspace(-1, 1, d) - 1.3) @ rng.standard_normal(d) + rng.standard_normal(n)
