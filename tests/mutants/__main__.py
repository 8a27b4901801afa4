"""`make mutants`: every mutant of the checkers against the exhaustive histories; resumable.

    python -m tests.mutants [--file checkers/external/tables.py ...] [--results FILE] [--tests]

Each is judged on the smallest histories first, and on more of them if it survives those. What became of it
is added to the file of results (of this machine), and in the end to judged.txt (of the repository); what stands in
either is not done again. With `--tests` the unit tests are
run on those that have survived. `equivalent.toml` says of survivors why they mean the same.
"""

import argparse
import json
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from py4j.protocol import Py4JError, Py4JNetworkError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from tests.mutants.changed import changed
from tests.mutants.judged import RESULTS, SUMMARY, load, save
from tests.mutants.mutate import Mutant, mutants
from tests.mutants.reasons import reasons
from tests.mutants.subjects import SUBJECTS, Subject, subjects_of
from tests.mutants.tested import fate_in_tests

ROOT = Path(__file__).parents[2]
LIMIT_S = 240
INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.limit.initialNumPartitions": "2",
}
"""Each mutant is a plan that nobody has seen before, over little: to compile it costs more than to run it."""
RAISED = (
    ArithmeticError, AssertionError, AttributeError, LookupError, NameError, TypeError, ValueError,
    PySparkException, Py4JError,
)  # fmt: skip
"""What a changed checker may raise. Anything else, a Spark that has died above all, ends the work instead: it
would count as a catch of every mutant to come.
"""


def main() -> None:
    """Judge what is not judged yet, and tell what survives."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--file", nargs="*", help="these files alone, as checkers/external/tables.py")
    parser.add_argument(
        "--tests", action="store_true", help="run the unit tests on the survivors, a minute each"
    )
    parser.add_argument("--results", type=Path, default=RESULTS)
    asked = parser.parse_args()
    files = asked.file or sorted(subjects_of())
    known = load(SUMMARY, asked.results)
    every = [mutant for file in files for mutant in mutants(file, (ROOT / file).read_text())]
    todo = [mutant for mutant in every if mutant.key not in known]
    print(f"{len(every)} mutants, {len(todo)} to be judged", flush=True)
    if todo:
        with asked.results.open("a") as out:
            for row in judged(todo):
                known[row["key"]] = row
                out.write(json.dumps(row) + "\n")
                out.flush()
    if asked.tests:
        left = [mutant for mutant in every if known[mutant.key]["fate"] == "survived"]
        left = [mutant for mutant in left if subjects_of()[mutant.file]]
        for mutant in left:
            if mutant.key not in reasons():
                known[mutant.key]["fate"] = fate_in_tests(mutant)
                print(f"{mutant.file}:{mutant.line} {mutant.change}: {known[mutant.key]['fate']}", flush=True)
                with asked.results.open("a") as out:
                    out.write(json.dumps(known[mutant.key]) + "\n")
    there = {mutant.key for mutant in every}
    keep = [row for row in known.values() if row["key"] in there or row["file"] not in files]
    save(SUMMARY, keep)
    tell([known[mutant.key] for mutant in every])


def judged(todo: list[Mutant]) -> Iterator[dict[str, object]]:
    """What becomes of each."""
    by_histories = [mutant for mutant in todo if subjects_of()[mutant.file]]
    by_tests = [mutant for mutant in todo if not subjects_of()[mutant.file]]
    for number, (mutant, fate, took_s) in enumerate(chain(_judge(by_histories), _test(by_tests)), 1):
        place = f"{mutant.file}:{mutant.line}"
        print(f"{number}/{len(todo)} {took_s:.1f} s {place} {mutant.change}: {fate}", flush=True)
        yield {
            "key": mutant.key,
            "file": mutant.file,
            "line": mutant.line,
            "change": mutant.change,
            "fate": fate,
        }


def _judge(todo: list[Mutant]) -> Iterator[tuple[Mutant, str, float]]:
    """By histories, in one Spark session."""
    from checkers.spark.session import SparkSettings, session

    if not todo:
        return
    with session(SparkSettings(size="large", conf=INTERPRETED)) as spark:
        ready: dict[str, Subject] = {}
        sound: set[tuple[str, str]] = set()
        signal.signal(signal.SIGALRM, _late)
        for mutant in todo:
            began_s = time.monotonic()
            fate = "survived"
            for name in subjects_of()[mutant.file]:
                if name not in ready:
                    ready[name] = SUBJECTS[name](spark)
                    _show_sound(ready[name], name, None)
                if (name, mutant.file) not in sound:
                    _show_sound(ready[name], name, mutant.file)
                    sound.add((name, mutant.file))
                fate = _fate(ready[name], mutant)
                spark.catalog.clearCache()
                if fate != "survived":
                    break
            yield mutant, fate, time.monotonic() - began_s


def _show_sound(subject: Subject, name: str, file: str | None) -> None:
    """What is done again of a file says what it should as long as nothing is changed: no kill is false."""
    with changed(None):
        difference = subject.differs(file)
    assert difference is None, f"{name}: wrong, unchanged, {file or 'whole'}: {difference}"


def _test(todo: list[Mutant]) -> Iterator[tuple[Mutant, str, float]]:
    """By the tests of files that no history judges."""
    for mutant in todo:
        began_s = time.monotonic()
        fate = fate_in_tests(mutant)
        yield mutant, fate, time.monotonic() - began_s


class TooLong(Exception):
    """A mutant has gone on for too long."""


def _late(*_: object) -> None:
    raise TooLong


def _fate(subject: Subject, mutant: Mutant) -> str:
    """survived, or how it was caught: by a difference, by what it raised, or because it does not end."""
    signal.alarm(LIMIT_S)
    try:
        with changed(mutant):
            difference = subject.differs(mutant.file)
        return "survived" if difference is None else f"killed: {difference[:200]}"
    except TooLong:
        subject.spark.sparkContext.cancelAllJobs()
        return "killed: it does not end"
    except Py4JNetworkError:
        raise
    except RAISED as error:
        return f"killed: {type(error).__name__}"
    finally:
        signal.alarm(0)


def tell(rows: list[dict[str, object]]) -> None:
    """Figures by file, and the survivors for which nobody has a reason."""
    by_file = Counter((row["file"], str(row["fate"]).startswith("killed")) for row in rows)
    for file in sorted({str(row["file"]) for row in rows}):
        killed, survived = by_file[file, True], by_file[file, False]
        print(f"{file}: {killed} of {killed + survived} killed")
    left = [row for row in rows if row["fate"] == "survived" and row["key"] not in reasons()]
    for row in left:
        print(f"survives: {row['key']} {row.get('change', '')}")
    sys.exit(1 if left else 0)


if __name__ == "__main__":
    main()
