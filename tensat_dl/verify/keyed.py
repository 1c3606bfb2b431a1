"""Keyed random functions and values. They depend on their key and argument alone."""

from __future__ import annotations

import hashlib

import numpy as np

from tensat_dl.ops.semantics.arrays import Array

#: So many integers are scrambled at a time: a near cache holds them.
BLOCK = 1 << 15


def generator(*key: object) -> np.random.Generator:
    return generator_of(repr(key))


def generator_of(text: str) -> np.random.Generator:
    """A generator that depends on the text alone: not on the process, the platform, earlier calls."""
    return np.random.Generator(np.random.PCG64(_number(text)))


def scrambled(x: Array, *key: object) -> Array:
    """For each integer a random one of 64 bits: the output function of SplitMix64 (Steele, Lea and Flood, 2014),
    twice, with a secret number of 64 bits added before each time."""
    secret = _number(repr(key))
    # NumPy warns of overflow in bare elements, which it makes of rank 0.
    out = x.astype(np.uint64).reshape(-1)
    room = np.empty(min(out.size, BLOCK), np.uint64)
    for start in range(0, out.size, BLOCK):
        z = out[start : start + BLOCK]
        shifted = room[: z.size]
        for half in (secret & 0xFFFFFFFFFFFFFFFF, secret >> 64):
            z += np.uint64(half)
            for bits, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
                z ^= np.right_shift(z, np.uint64(bits), out=shifted)
                z *= np.uint64(factor)
            z ^= np.right_shift(z, np.uint64(31), out=shifted)
    return out.reshape(x.shape)


def packed(x: Array, y: Array) -> Array:
    """Two integers below 2^31 as one, element by element."""
    return np.asarray(x.astype(np.uint64) << np.uint64(32) | y.astype(np.uint64))


def digest(array: Array) -> str:
    """Tells arrays with different elements or shapes apart."""
    # by str, as 2 and Fraction(2, 1) are equal
    elements = (
        "".join(f"{x} " for x in array.ravel().tolist()) if array.dtype == object else array.tobytes().hex()
    )
    return hashlib.sha256(f"{array.shape} {elements}".encode()).hexdigest()


def _number(text: str) -> int:
    """A number of 128 bits."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "little")
