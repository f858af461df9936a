#!/usr/bin/env python3
"""Writes the values that scipy and numpy give for 100 inputs, for tests/scipy.rs.

Usage: python3 -m venv V && V/bin/pip install numpy scipy && V/bin/python expected.py > expected.json
"""

import json

import numpy as np
from scipy import stats

MASK = (1 << 64) - 1


def random_bytes(seed, count):
    """SplitMix64, as in src/random.rs."""
    with np.errstate(over="ignore"):
        steps = np.arange(1, (count + 7) // 8 + 1, dtype=np.uint64)
        z = np.uint64(seed) + steps * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return z.astype("<u8").view(np.uint8)[:count].copy()


def numbers(seed):
    state = seed
    while True:
        state = (state + 0x9E3779B97F4A7C15) & MASK
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        yield z ^ (z >> 31)


def sample(number):
    """Width, height and bytes of an input: random, slightly biased, smooth, or few values."""
    # The last ones are large enough for local entropy.
    scale = 2 if number >= 85 else 1
    width = scale * (37 + 11 * (number % 23))
    height = scale * (40 + 13 * (number % 17))
    data = random_bytes(number, width * height)
    place = np.arange(len(data))
    kind = number % 4
    if kind == 1:
        # One byte in 50 is 0.
        data[place % 50 == 7] = 0
    elif kind == 2:
        data = (place // width + data % 32).astype(np.uint8)
    elif kind == 3:
        data = data & 0x5F
    return width, height, data


def pearson(a, b):
    return float(stats.pearsonr(a.ravel().astype(float), b.ravel().astype(float))[0])


def entropy(counts):
    return float(stats.entropy(counts, base=2))


def entropy_mean(n):
    k = np.arange(1, n + 1)
    return float(-256 * np.sum(stats.binom.pmf(k, n, 1 / 256) * (k / n) * np.log2(k / n)))


def local_entropy(image, seed):
    rows, columns = image.shape[0] // 44, image.shape[1] // 44
    squares = rows * columns >= 30
    grid = list(range(rows * columns if squares else image.size // 1936))
    if len(grid) < 30:
        return None
    random = numbers(seed)
    values = []
    for chosen in range(30):
        other = chosen + (next(random) * (len(grid) - chosen) >> 64)
        grid[chosen], grid[other] = grid[other], grid[chosen]
        if squares:
            row, column = divmod(grid[chosen], columns)
            block = image[44 * row :][:44, 44 * column :][:, :44]
        else:
            block = image.ravel()[1936 * grid[chosen] :][:1936]
        values.append(entropy(np.bincount(block.ravel(), minlength=256)))
    return float(np.mean(values))


def expected(number):
    width, height, data = sample(number)
    image = data.reshape(height, width)
    n = len(data)
    counts = np.bincount(data, minlength=256)
    chi_square, p_histogram = stats.chisquare(counts)
    neighbours = [
        pearson(image[:, :-1], image[:, 1:]),
        pearson(image[:-1], image[1:]),
        pearson(image[:-1, :-1], image[1:, 1:]),
    ]
    pairs = [height * (width - 1), (height - 1) * width, (height - 1) * (width - 1)]
    ones = np.array([int(((data >> bit) & 1).sum()) for bit in range(8)])
    bit_square = stats.chisquare([ones, n - ones], axis=0)[0].sum()
    lags = [*range(1, 33), *(1 << power for power in range(6, 17) if 1 << power <= n // 4)]
    coefficients = [pearson(data[:-lag], data[lag:]) for lag in lags]
    auto_square = sum((n - lag) * r * r for lag, r in zip(lags, coefficients))
    # Against another sample.
    other = random_bytes(number + 1000, n)
    differing = int((data != other).sum())
    uaci = np.abs(data.astype(int) - other.astype(int)).mean() / 255
    uaci_deviation = np.sqrt(257 * (255**2 + 2 * 255 + 3) / (18 * 256**2 * 255 * n))
    return {
        "histogram": [float(chi_square), float(p_histogram)],
        "evenness": [float(chi_square), float(stats.chi2.cdf(chi_square, 255))],
        "entropy": [entropy(counts), entropy_mean(n)],
        "correlation": neighbours,
        "p_correlation": [
            float(2 * stats.norm.sf(abs(r) * np.sqrt(n))) for r, n in zip(neighbours, pairs)
        ],
        "bit_balance": [float(bit_square), float(stats.chi2.sf(bit_square, 8))],
        "autocorrelation": [float(auto_square), float(stats.chi2.sf(auto_square, len(lags)))],
        "local_entropy": local_entropy(image, number),
        "npcr": [differing / n, float(stats.binom.sf(n - differing - 1, n, 1 / 256))],
        "uaci": [
            float(uaci),
            float(2 * stats.norm.sf(abs(uaci - 257 / 768) / uaci_deviation)),
        ],
        "bit_change": float(np.unpackbits(data ^ other).mean()),
    }


rows = ",\n".join(json.dumps(expected(number)) for number in range(100))
print(f"[\n{rows}\n]")
