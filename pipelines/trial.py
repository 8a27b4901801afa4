"""A trial of a user's functions before anything is started: made inputs, and what must come of them, twice each.

It runs in a process of its own, for a function may hang, or end the process.
"""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

from harness.errors import UsageError
from harness.expectation import Input
from pipelines.description import Description
from pipelines.expectation import Made, UserExpectation
from pipelines.functions import UserError
from pipelines.pipeline import UserPipeline

TRIED = 20
"""Inputs of each topic."""
TIMEOUT_S = 30.0


def require_working(described: Description) -> None:
    """Raise `UsageError` where a function of the pipeline raises, hangs, gives nonsense, or what it gave differs."""
    if not described.functions and not any(one.file for one in described.inputs.values()):
        return
    argv = [sys.executable, "-P", "-m", "pipelines.trial", str(described.file)]
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        names = ", ".join(map(str, described.functions))
        raise UsageError(
            f"{described.file}: a function ({names}) did not come to its end on {TRIED} inputs within {TIMEOUT_S:g} s"
        ) from None
    if done.returncode != 0:
        last = (done.stdout.strip() or done.stderr.strip()).splitlines()
        words = last[-1] if last else f"it ended with status {done.returncode} and said nothing"
        raise UsageError(f"{described.file}: {words}")


def trial(pipeline: UserPipeline) -> None:
    """Make inputs, and ask what must come of them, through all stages. Raises `UserError`."""
    first, second = list(_told(pipeline)), list(_told(pipeline))
    for (topic, one), (_, other) in zip(first, second, strict=True):
        if one != other:
            raise UserError(
                f"what must come of an input in {topic} differs from one call to the next ({one!r}, then {other!r}): "
                "leave out what is random or of the moment, and name it in `ignore`"
            )


def _told(pipeline: UserPipeline) -> Iterator[tuple[str, Sequence[Made]]]:
    """Each input that is tried, and what must come of it."""
    expect = pipeline.described.expect
    asked = UserExpectation(pipeline.described, expect) if expect else None
    for feed in pipeline.feeds():
        rng = Random("trial")
        for n in range(min(TRIED, feed.count if feed.count is not None else TRIED)):
            fed = feed.make(rng, n)
            if asked is not None:
                yield from _through(
                    pipeline, asked, Input(feed.topic, fed.key, fed.value, headers=fed.headers)
                )


def _through(
    pipeline: UserPipeline, asked: UserExpectation, record: Input, depth: int = 0
) -> Iterator[tuple[str, Sequence[Made]]]:
    made = asked.made(record)
    list(UserExpectation(pipeline.described, asked.expect).due(record))  # each has a stage, and can be joined
    yield record.topic, made
    for topic, key, value in made:
        if topic in pipeline.read and depth < len(pipeline.described.stages):
            yield from _through(pipeline, asked, Input(topic, key, value), depth + 1)


def main(argv: Sequence[str]) -> int:
    """Exit status 0, or 2 and a sentence."""
    try:
        trial(UserPipeline.load(Path(argv[0])))
    except UsageError as error:
        sys.stdout.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
