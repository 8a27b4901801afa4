"""Nonsensical histories get a verdict or an error, and no check crashes on them. One job checks all."""

from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from fencepost.checks.histories import check_history_files
from harness.common.errors import UnreadableInput
from harness.results.verdict import Verdict
from tests.reference.generate import bent, random_history, to_edn, to_jsonl
from tests.support.fuzzing import mangle

PLANTS = ("duplicate", "inconsistent-offsets", "aborted-read", "poll-skip", "G1c", "G-single")


def write_mangled(folder: Path, count: int, seed: int) -> list[Path]:
    paths = []
    for number in range(count):
        rng = Random(f"{seed} {number}")
        plant = set(rng.sample(PLANTS, rng.randint(0, 2)))
        events = bent(rng, random_history(rng, rng.randint(2, 15), plant), rng.randint(0, 3))
        text = (to_edn if number % 3 == 0 else to_jsonl)(mangle(rng, events))
        paths.append(folder / f"h{number}.{'edn' if number % 3 == 0 else 'jsonl'}")
        paths[-1].write_text(text)
    return paths


def check_all(spark: SparkSession, paths: list[Path]) -> tuple[int, int]:
    """The number of verdicts and the number of errors. Each history has one of them, and no check crashed."""
    answers = check_history_files(spark, paths, frozenset())
    verdicts = [answer for answer in answers if isinstance(answer, Verdict)]
    for path, answer in zip(paths, answers, strict=True):
        if isinstance(answer, Verdict):
            assert not [reason for reason in answer.unknown_because if reason.code == "check-crashed"], (
                path,
                answer,
            )
        else:
            assert isinstance(answer, UnreadableInput) and "line " in str(answer), (path, answer)
    return len(verdicts), len(paths) - len(verdicts)


@pytest.mark.parametrize("seed", [1])
def test_a_nonsensical_history_gets_a_verdict_or_a_reason(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    verdicts, errors = check_all(spark, write_mangled(tmp_path, 120, seed))
    assert verdicts >= 20 and errors >= 20
