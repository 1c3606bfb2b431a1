"""Random functions of integers, compared with SplitMix64 on Python's integers."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from tensat_dl.verify.keyed import BLOCK, scrambled

MASK = 2**64 - 1


def split_mix(z: int, secret: int) -> int:
    z = (z + secret) & MASK
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
    return z ^ (z >> 31)


@pytest.mark.parametrize("shape", [(), (0,), (7,), (3, 5), (2, BLOCK // 2 + 3), (BLOCK, 1)])
def test_each_integer_is_scrambled_by_itself(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(len(shape)).integers(0, 2**62, shape)
    secret = int.from_bytes(hashlib.sha256(repr(("a", 1)).encode()).digest()[:16], "little")
    expected = [split_mix(split_mix(int(z), secret & MASK), secret >> 64) for z in np.ravel(x)]
    for array in (np.asarray(x), np.asarray(x).T):
        found = scrambled(array, "a", 1)
        assert found.shape == array.shape
        assert sorted(found.ravel().tolist()) == sorted(expected)
    assert np.ravel(scrambled(np.asarray(x), "a", 1)).tolist() == expected
