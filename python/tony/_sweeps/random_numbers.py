"""The random numbers of platform/random.ts: sfc32 by Chris Doty-Humphrey (PractRand), seeded by splitmix32."""

from typing import Callable

_MASK = 0xFFFFFFFF


def create_random(*seeds: int) -> Callable[[], float]:
    """Returns a function that draws numbers from 0 to 1. The same seeds always give the same numbers."""
    mixed = 0x9E3779B9

    def following() -> int:
        nonlocal mixed
        mixed = (mixed + 0x9E3779B9) & _MASK
        value = ((mixed ^ (mixed >> 16)) * 0x21F0AAAD) & _MASK
        value = ((value ^ (value >> 15)) * 0x735A2D97) & _MASK
        return value ^ (value >> 15)

    for seed in seeds:
        mixed ^= seed & _MASK
        mixed = following() ^ ((seed >> 32) & _MASK)
    state = [following(), following(), following(), 1]

    def draw() -> int:
        a, b, c, counter = state
        total = (a + b + counter) & _MASK
        state[0] = b ^ (b >> 9)
        state[1] = (c + (c << 3)) & _MASK
        state[2] = ((((c << 21) | (c >> 11)) & _MASK) + total) & _MASK
        state[3] = (counter + 1) & _MASK
        return total

    for _ in range(12):
        draw()
    return lambda: draw() / 2**32
