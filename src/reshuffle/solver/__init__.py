"""Solvers: `shuffled` is Algorithm 1, `sums` is Algorithm 2, `certified` needs no step size and stops by its certificate."""
