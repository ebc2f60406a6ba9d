"""What commands take where nothing is said: the loss follows the labels, and it is asked where they leave it open."""

import numpy as np
import pytest

from reshuffle.defaults import largest_against_rest, loss_for


@pytest.mark.parametrize(
    ("y", "loss", "why"),
    [
        ([-1.0, 1.0, 1.0], "logistic", "the labels are two classes, -1 and 1"),
        ([1, 2, 2], "logistic", "the labels are two classes, 1 and 2"),
        (["no", "yes", "no"], "logistic", "the labels are two classes, no and yes"),
        ([True, False], "logistic", "the labels are two classes, False and True"),
        (np.arange(20) % 10, "logistic", "the labels are 10 classes"),
        (np.arange(40.0) % 20, "logistic", "the labels are 20 classes"),
        ([f"w{k}" for k in range(100)], "logistic", "the labels are 100 classes"),
        ([0.5, 1.0, 2.0], "squared", "the labels are numbers, 0.5 to 2"),
        ([0.5, 1.5], "squared", "the labels are numbers, 0.5 to 1.5"),
    ],
)
def test_the_loss_follows_the_labels(y, loss, why):
    assert loss_for(np.asarray(y), "t") == (loss, why)


@pytest.mark.parametrize(
    ("y", "complaint"),
    [
        (np.arange(42) % 21, "t: the labels are 21 distinct whole numbers, .* --loss squared .* or --loss logistic for 21 classes"),
        (np.arange(5), "t: the labels are 5 distinct whole numbers"),  # each of them once
        ([f"w{k}" for k in range(101)], "101 distinct words; say --loss logistic for that many classes, or .* --target"),
        ([3.0, 3.0], "all labels are 3.0; there is nothing to learn"),
        (None, "t has no labels"),
    ],
)
def test_it_is_asked_where_the_labels_leave_it_open(y, complaint):
    with pytest.raises(ValueError, match=complaint):
        loss_for(None if y is None else np.asarray(y), "t")


def test_of_several_classes_the_largest_stands_against_the_rest():
    y, label, told = largest_against_rest(np.array([3.0, 1.0, 2.0, 3.0, 1.0, 3.0]))
    assert y.tolist() == ["3", "the rest", "the rest", "3", "the rest", "3"]
    assert label == 3.0
    assert told == "of 3 classes this is the largest, 3, against the rest: 3 of 6 rows"
    assert largest_against_rest(np.array(["b", "a", "c"]))[0].tolist() == ["the rest", "a", "the rest"]  # the first of equals
