"""Compiled loops over samples: a loss applied to every margin, summed, or modelled by a parabola at each.

Functions of a loss come in as addresses of C functions, so that one compiled loop serves all losses: of some hundred samples at
once (`losses.base.compiled_over`), which are copied to where the processor has them at hand, or of one (`compiled`).
"""

from typing import Any

import numpy as np

from reshuffle._compiled import jit, of_sample, of_samples, prox_of_sample

_MANY = 256  # samples at once
_SLACK = 1e-12  # rounding must not make a feasible dual point infeasible
_SUMS = {"reassoc", "nsz", "contract"}  # sums may be added up in any order


@jit()
def apply_loss(function: Any, z: Any, labels: Any, parameter: float, out: Any) -> None:
    function = of_samples(function)
    at, y, found = np.empty(_MANY), np.empty(_MANY), np.empty(_MANY)
    for begin in range(0, z.size, _MANY):
        many = min(_MANY, z.size - begin)
        for i in range(many):
            at[i], y[i] = z[begin + i], labels[begin + i]
        function(at[:many], y[:many], parameter, found[:many])
        for i in range(many):
            out[begin + i] = found[i]


@jit(fastmath=_SUMS)
def total_loss(value: Any, parameter: float, labels: Any, weights: Any, z: Any, move: Any, length: float) -> float:
    """The sum of w_i l(z_i + length move_i, y_i)."""
    value = of_samples(value)
    at, y, losses = np.empty(_MANY), np.empty(_MANY), np.empty(_MANY)
    total = 0.0
    for begin in range(0, z.size, _MANY):
        many = min(_MANY, z.size - begin)
        for i in range(many):
            at[i], y[i] = z[begin + i] + length * move[begin + i], labels[begin + i]
        value(at[:many], y[:many], parameter, losses[:many])
        for i in range(many):
            total += weights[begin + i] * losses[i]
    return total


@jit(fastmath=_SUMS)
def total_conjugate(
    conjugate: Any, parameter: float, labels: Any, weights: Any, low: float, high: float, of_margins: bool, u: Any, share: float
) -> float:
    """The sum of w_i l*(share u_i, y_i); infinite where one lies outside its domain, low to high: of u or, of_margins, of u y."""
    conjugate = of_samples(conjugate)
    inside, y, values = np.empty(_MANY), np.empty(_MANY), np.empty(_MANY)
    total = 0.0
    for begin in range(0, u.size, _MANY):
        many, outside = min(_MANY, u.size - begin), 0
        for i in range(many):
            sign = labels[begin + i] if of_margins else 1.0
            v = sign * share * u[begin + i]
            outside += not low - _SLACK <= v <= high + _SLACK
            inside[i], y[i] = sign * min(max(v, low), high), labels[begin + i]
        if outside > 0:
            return np.inf
        conjugate(inside[:many], y[:many], parameter, values[:many])
        for i in range(many):
            total += weights[begin + i] * values[i]
    return total


@jit()
def clip_duals(low: float, high: float, of_margins: bool, labels: Any, u: Any, out: Any) -> None:
    """u moved into its domain: see `total_conjugate`."""
    for i in range(u.size):
        below, above = (low, high) if labels[i] > 0.0 or not of_margins else (-high, -low)
        out[i] = min(max(u[i], below), above)


@jit(fastmath=_SUMS)
def sums_for_rounding(
    conjugate: Any,
    parameter: float,
    labels: Any,
    weights: Any,
    low: float,
    high: float,
    of_margins: bool,
    u: Any,
    reach: float,
    lengths: Any,
) -> tuple[float, float, float, float, float, float]:
    """What `duality.rounding` asks for, with far_i = reach lengths_i + |y_i| + |parameter|: the weighted sums of far, of its
    square, of |l*(u)| + |u| (2 |y| + |parameter|), of |u| and of |u| lengths, and the largest far.
    """
    conjugate = of_samples(conjugate)
    inside, y, values = np.empty(_MANY), np.empty(_MANY), np.empty(_MANY)
    most = of_far = of_squares = of_conjugates = of_duals = of_rows = 0.0
    for begin in range(0, u.size, _MANY):
        many, outside = min(_MANY, u.size - begin), 0
        for i in range(many):
            sign = labels[begin + i] if of_margins else 1.0
            v = sign * u[begin + i]
            outside += not low - _SLACK <= v <= high + _SLACK
            inside[i], y[i] = sign * min(max(v, low), high), labels[begin + i]
        conjugate(inside[:many], y[:many], parameter, values[:many])
        of_conjugates += np.inf if outside > 0 else 0.0
        for i in range(many):
            weight, label, dual, length = weights[begin + i], abs(y[i]), abs(u[begin + i]), lengths[begin + i]
            far = reach * length + label + abs(parameter)
            of_far += weight * far
            of_squares += weight * far * far
            of_conjugates += weight * (abs(values[i]) + dual * (2.0 * label + abs(parameter)))
            of_duals += weight * dual
            of_rows += weight * dual * length
            most = max(most, far)
    return of_far, of_squares, of_conjugates, of_duals, of_rows, most


@jit()
def bent(curvature: float, slope: float, off: float, steep: bool) -> float:
    """A curvature or, if `steep`, at least that of the parabola with this slope whose least point is `off` away."""
    return max(abs(slope) / off, curvature) if steep and off > 0.0 else curvature


@jit()
def models(
    derivative: Any, curvature: Any, parameter: float, labels: Any, weights: Any, z: Any, steep: bool, slopes: Any, curvatures: Any
) -> None:
    """The weighted slope and curvature of each loss at its margin."""
    derivative, curvature = of_samples(derivative), of_samples(curvature)
    at, y, slope, bend = np.empty(_MANY), np.empty(_MANY), np.empty(_MANY), np.empty(_MANY)
    for begin in range(0, z.size, _MANY):
        many = min(_MANY, z.size - begin)
        for i in range(many):
            at[i], y[i] = z[begin + i], labels[begin + i]
        derivative(at[:many], y[:many], parameter, slope[:many])
        curvature(at[:many], y[:many], parameter, bend[:many])
        for i in range(many):
            weight = weights[begin + i]
            slopes[begin + i] = weight * slope[i]
            curvatures[begin + i] = weight * bent(bend[i], slope[i], abs(at[i] - y[i]), steep)


@jit()
def smoothed_models(prox: Any, smoothing: Any, z: Any, steep: bool, slopes: Any, curvatures: Any) -> None:
    """As `models`, of Moreau envelopes: see `newton.Smoothed`."""
    prox = prox_of_sample(prox)
    parameter, width, labels, weights, multipliers = smoothing
    h = 1e-6 * width
    for i in range(z.size):
        p = z[i] + width * multipliers[i]
        slope = (p - prox(p, labels[i], width, parameter, p)) / width
        rise = prox(p + h, labels[i], width, parameter, p) - prox(p - h, labels[i], width, parameter, p)
        bend = bent(max(1.0 - rise / (2.0 * h), 0.0) / width, slope, abs(z[i] - labels[i]), steep)
        slopes[i], curvatures[i] = weights[i] * slope, weights[i] * bend


@jit()
def smoothed_total(value: Any, prox: Any, smoothing: Any, z: Any, move: Any, length: float) -> float:
    """As `total_loss`, likewise."""
    value, prox = of_sample(value), prox_of_sample(prox)
    parameter, width, labels, weights, multipliers = smoothing
    total = 0.0
    for i in range(z.size):
        at = z[i] + length * move[i]
        t = prox(at + width * multipliers[i], labels[i], width, parameter, at)
        total += weights[i] * (value(t, labels[i], parameter) + (at - t) * (multipliers[i] + 0.5 * (at - t) / width))
    return total
