"""Find the properties that tell the affected subjects from the others.

A property is compared by the difference of two shares: that of the affected subjects that have it, and that of the
others that have it. 1 means that exactly the affected subjects have it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
import numpy.typing as npt

from harness.common.wording import number
from harness.results.conclusions import Contrast

MOST_CONTRASTS = 3
LEAST_DIFFERENCE = 0.3
"""A contrast with a smaller difference of shares is left out, because it explains too little."""
LEAST_SIGMAS = 5.0
"""How many standard deviations the difference is above what chance explains."""
COVERAGE = 0.25
"""This is added to the score of a property that all affected subjects have, because they seem to need it."""
MOST_VALUES = 3
"""A contrast names at most so many values of a dimension, such as three partitions."""
ALIKE = 0.9
"""Two contrasts that share this part of their subjects say the same."""
Flags = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Categories:
    """A dimension with few values. `codes` has for each subject the index of its value in `names`, or -1."""

    dimension: str
    codes: Codes
    names: Sequence[str]
    predicate: str = "{}"  # a verb phrase of several subjects, in which {} is the name: `are in {}`
    skip: frozenset[int] = frozenset()  # values that are no answer, such as `other`


@dataclass(frozen=True)
class Scale:
    """A dimension of numbers, with NaN where it is not known."""

    dimension: str
    values: Numbers
    above: str  # a verb phrase: `have {} bytes or more`
    below: str  # a verb phrase: `have less than {} bytes`


Dimension = Categories | Scale


@dataclass(frozen=True)
class Candidate:
    """The subjects with one property."""

    dimension: str
    value: str
    predicate: str
    has: Flags
    values: int = 1  # how many values of the dimension it names


def best_contrasts(
    dimensions: Sequence[Dimension], affected: Flags, weights: Numbers, noun: str, adjective: str = "affected"
) -> list[Contrast]:
    """Return the best contrasts. Of equal ones, that of the earlier dimension is first.

    Args:
        affected: which subjects have a finding
        weights: the number of subjects that each row represents
        noun: what the subjects are, in the plural
        adjective: what the affected ones are called in the sentences
    """
    ranked = sorted(
        (
            (round(score + COVERAGE * _coverage(candidate.has, affected, weights), 3), -place, candidate)
            for place, dimension in enumerate(dimensions)
            for candidate in _candidates(dimension, affected, weights)
            if (score := _difference(candidate.has, affected, weights)) >= LEAST_DIFFERENCE
            and _sigmas(candidate.has, affected, weights) >= LEAST_SIGMAS + candidate.values - 1
        ),
        key=lambda entry: entry[:2],
        reverse=True,
    )
    chosen: list[Candidate] = []
    for _, _, candidate in ranked:
        of_others = [other for other in chosen if other.dimension == candidate.dimension]
        if not of_others and not any(_alike(candidate.has, other.has) for other in chosen):
            chosen.append(candidate)
    return [_contrast(each, affected, weights, (noun, adjective)) for each in chosen[:MOST_CONTRASTS]]


def _candidates(dimension: Dimension, affected: Flags, weights: Numbers) -> Iterator[Candidate]:
    if isinstance(dimension, Scale):
        yield from _thresholds(dimension, affected, weights)
        return
    known = dimension.codes >= 0
    size = len(dimension.names)
    hits = np.bincount(dimension.codes[known & affected], weights[known & affected], minlength=size)
    others = np.bincount(dimension.codes[known & ~affected], weights[known & ~affected], minlength=size)
    share = hits / np.maximum(hits + others, 1)
    order = [code for code in np.argsort(-share, kind="stable") if hits[code] and code not in dimension.skip]
    for most in range(1, min(MOST_VALUES, len(order)) + 1):
        if most > 1 and most * 2 > size:
            break
        codes = order[:most]
        names = [dimension.names[code] for code in codes]
        words = " or ".join(filter(None, (", ".join(sorted(names)[:-1]), sorted(names)[-1])))
        has = np.isin(dimension.codes, codes)
        yield Candidate(dimension.dimension, words, dimension.predicate.format(words), has, most)
    if order:  # the value of most affected subjects, which may not have the highest share
        code = max(order, key=lambda each: hits[each])
        name = dimension.names[code]
        yield Candidate(dimension.dimension, name, dimension.predicate.format(name), dimension.codes == code)


def _thresholds(scale: Scale, affected: Flags, weights: Numbers) -> Iterator[Candidate]:
    """Yield the best lower and upper bound."""
    known = ~np.isnan(scale.values)
    values = np.unique(scale.values[known & affected])
    if len(np.unique(scale.values[known])) < 2 or not len(values):
        return
    if len(values) > 512:
        values = np.quantile(values, np.linspace(0, 1, 512))
    hits, others = known & affected, known & ~affected
    for words, above in ((scale.above, True), (scale.below, False)):
        bounds = values if above else np.nextafter(values, np.inf)
        shares = [_share_above(scale.values[of], weights[of], bounds) for of in (hits, others)]
        difference = shares[0] - shares[1] if above else shares[1] - shares[0]
        bound = bounds[int(np.argmax(difference))]
        has = known & (scale.values >= bound if above else scale.values < bound)
        shown = scale.values[has].min() if above else scale.values[known & ~has].min(initial=np.inf)
        if has[known].all() or not np.isfinite(shown):
            continue
        text = number(round(float(shown), 1)) if shown % 1 else number(int(shown))
        yield Candidate(scale.dimension, text, words.format(text), has)


def _share_above(values: Numbers, weights: Numbers, bounds: Numbers) -> Numbers:
    order = np.argsort(values)
    sums = np.concatenate((np.cumsum(weights[order][::-1])[::-1], np.zeros(1)))
    share: Numbers = sums[np.searchsorted(values[order], bounds)] / max(float(sums[0]), 1.0)
    return share


def _counts(has: Flags, affected: Flags, weights: Numbers) -> tuple[float, float, float, float]:
    """Return the affected subjects with and without a property, and the others with and without it."""
    return (
        float(weights[has & affected].sum()),
        float(weights[~has & affected].sum()),
        float(weights[has & ~affected].sum()),
        float(weights[~has & ~affected].sum()),
    )


def _difference(has: Flags, affected: Flags, weights: Numbers) -> float:
    a, b, c, d = _counts(has, affected, weights)
    return a / (a + b) - c / (c + d) if a + b and c + d else 0.0


def _coverage(has: Flags, affected: Flags, weights: Numbers) -> float:
    a, b, _, _ = _counts(has, affected, weights)
    return a / (a + b) if a + b else 0.0


def _sigmas(has: Flags, affected: Flags, weights: Numbers) -> float:
    """Return by how many standard deviations the difference of shares is above that of a random choice."""
    a, b, c, d = _counts(has, affected, weights)
    marginals = (a + b) * (c + d) * (a + c) * (b + d)
    return 0.0 if not marginals else (a * d - b * c) * sqrt((a + b + c + d) / marginals)


def _alike(one: Flags, other: Flags) -> bool:
    either = np.count_nonzero(one | other)
    return bool(either) and int(np.count_nonzero(one & other)) >= ALIKE * int(either)


def _contrast(candidate: Candidate, affected: Flags, weights: Numbers, words: tuple[str, str]) -> Contrast:
    noun, adjective = words
    a, b, c, d = (round(each) for each in _counts(candidate.has, affected, weights))
    who = f"all {number(a + b)}" if not b else f"{number(a)} of the {number(a + b)}"
    sentence = (
        f"{who} {adjective} {noun} {candidate.predicate}; of all such {noun}, {_of(a, a + c)} are {adjective}, and "
        f"of the others {_of(b, b + d)}"
    )
    return Contrast(candidate.dimension, candidate.value, sentence, a, a + c, b, b + d)


def _of(part: int, whole: int) -> str:
    """Return for example `181 of 331 (55 %)`."""
    if not part or part == whole:
        return f"none of {number(whole)}" if not part else f"all {number(whole)}"
    percent = min(max(round(100 * part / whole), 1), 99)
    return f"{number(part)} of {number(whole)} ({percent} %)"
