"""Asking by numbers, and what the record of many labels is made of."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from benchmarks import many_labels
from benchmarks.ask_numbers import numbered
from simdx.simulators.base import Completion, TokenLogprobs

NAMES = tuple(f"illness {i}" for i in range(41))


class Knowing:
    """Gives 0.9 to the digits of one label's number, wherever the list puts it, and the rest evenly."""

    id, concurrency, remote, lockstep = "knowing", 8, False, False

    def __init__(self, label: str) -> None:
        self._label = label

    def complete(self, requests):
        for i, request in enumerate(requests):
            number = re.search(rf"^(\d\d)\. {self._label}$", request.prompt, re.MULTILINE)[1]
            digit = number[len(request.opening)]
            shares = {d: 0.9 if d == digit else 0.1 / 9 for d in "0123456789"}
            top = tuple((d, math.log(share)) for d, share in shares.items())
            yield i, Completion(digit, logprobs=(TokenLogprobs(digit, math.log(0.9), top),))


@pytest.mark.parametrize("place", [0, 8, 9, 40])
@pytest.mark.parametrize("rotations", [1, 8])
def test_a_number_is_read_back_as_its_label_under_every_rotation(place: int, rotations: int) -> None:
    p = numbered(Knowing(NAMES[place]), ["a case"], NAMES, rotations)
    assert p.shape == (1, 41)
    assert p.sum() == pytest.approx(1)
    assert p[0].argmax() == place
    assert p[0, place] > 0.8


def test_labels_of_equal_probability_share_the_places_that_are_left() -> None:
    y = np.arange(41)
    flat = np.full((41, 41), 1 / 41)
    found = many_labels.measured(flat, y, np.eye(41))
    assert found["accuracy at 3"][0] == pytest.approx(3 / 41)
    assert found["TV to differential"][0] == pytest.approx(40 / 41)
    sure = many_labels.measured(np.eye(41) * 0.9 + 0.1 / 41, y, np.eye(41))
    assert sure["accuracy at 3"][0] == 1
