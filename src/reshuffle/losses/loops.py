"""Compiled loops over samples: a loss applied to every margin, summed, or modelled by a parabola at each.

Functions of a loss come in as C functions (see `losses.base.compiled`), so that one compiled loop serves all losses.
"""

from typing import Any

import numpy as np

from reshuffle._compiled import jit


@jit()
def apply_loss(function: Any, z: Any, labels: Any, parameter: float, out: Any) -> None:
    for i in range(z.size):
        out[i] = function(z[i], labels[i], parameter)


@jit()
def total_loss(value: Any, parameter: float, labels: Any, weights: Any, z: Any, move: Any, length: float) -> float:
    """The sum of w_i l(z_i + length move_i, y_i)."""
    total = 0.0
    for i in range(z.size):
        total += weights[i] * value(z[i] + length * move[i], labels[i], parameter)
    return total


@jit()
def total_conjugate(
    conjugate: Any, parameter: float, labels: Any, weights: Any, low: float, high: float, of_margins: bool, u: Any, share: float
) -> float:
    """The sum of w_i l*(share u_i, y_i); infinite where one lies outside its domain, low to high: of u or, of_margins, of u y."""
    slack = 1e-12  # rounding must not make a feasible dual point infeasible
    total = 0.0
    for i in range(u.size):
        sign = labels[i] if of_margins else 1.0
        v = sign * share * u[i]
        if not low - slack <= v <= high + slack:
            return np.inf
        total += weights[i] * conjugate(sign * min(max(v, low), high), labels[i], parameter)
    return total


@jit()
def clip_duals(low: float, high: float, of_margins: bool, labels: Any, u: Any, out: Any) -> None:
    """u moved into its domain: see `total_conjugate`."""
    for i in range(u.size):
        below, above = (low, high) if labels[i] > 0.0 or not of_margins else (-high, -low)
        out[i] = min(max(u[i], below), above)


@jit()
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
    slack, most = 1e-12, 0.0
    of_far = of_squares = of_conjugates = of_duals = of_rows = 0.0
    for i in range(u.size):
        sign, weight, label, dual = labels[i] if of_margins else 1.0, weights[i], abs(labels[i]), abs(u[i])
        far, v = reach * lengths[i] + label + abs(parameter), sign * u[i]
        value = np.inf
        if low - slack <= v <= high + slack:
            value = abs(conjugate(sign * min(max(v, low), high), labels[i], parameter))
        of_far += weight * far
        of_squares += weight * far * far
        of_conjugates += weight * (value + dual * (2.0 * label + abs(parameter)))
        of_duals += weight * dual
        of_rows += weight * dual * lengths[i]
        most = max(most, far)
    return of_far, of_squares, of_conjugates, of_duals, of_rows, most


@jit()
def careful(curvature: float, slope: float, off: float, care: float) -> float:
    """A curvature moved by `care` towards that of the parabola with this slope whose least point is `off` away."""
    return curvature + care * max(abs(slope) / off - curvature, 0.0) if care > 0.0 and off > 0.0 else curvature


@jit()
def models(
    derivative: Any, curvature: Any, parameter: float, labels: Any, weights: Any, z: Any, care: float, slopes: Any, curvatures: Any
) -> None:
    """The weighted slope and curvature of each loss at its margin."""
    for i in range(z.size):
        slope = derivative(z[i], labels[i], parameter)
        bend = careful(curvature(z[i], labels[i], parameter), slope, abs(z[i] - labels[i]), care)
        slopes[i], curvatures[i] = weights[i] * slope, weights[i] * bend


@jit()
def smoothed_models(prox: Any, smoothing: Any, z: Any, care: float, slopes: Any, curvatures: Any) -> None:
    """As `models`, of Moreau envelopes: see `newton.Smoothed`."""
    parameter, width, labels, weights, multipliers = smoothing
    h = 1e-6 * width
    for i in range(z.size):
        p = z[i] + width * multipliers[i]
        slope = (p - prox(p, labels[i], width, parameter, p)) / width
        rise = prox(p + h, labels[i], width, parameter, p) - prox(p - h, labels[i], width, parameter, p)
        bend = careful(max(1.0 - rise / (2.0 * h), 0.0) / width, slope, abs(z[i] - labels[i]), care)
        slopes[i], curvatures[i] = weights[i] * slope, weights[i] * bend


@jit()
def smoothed_total(value: Any, prox: Any, smoothing: Any, z: Any, move: Any, length: float) -> float:
    """As `total_loss`, likewise."""
    parameter, width, labels, weights, multipliers = smoothing
    total = 0.0
    for i in range(z.size):
        at = z[i] + length * move[i]
        t = prox(at + width * multipliers[i], labels[i], width, parameter, at)
        total += weights[i] * (value(t, labels[i], parameter) + (at - t) * (multipliers[i] + 0.5 * (at - t) / width))
    return total
