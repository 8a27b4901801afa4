"""Run mutants of checker files, and name those that survive.

A mutant is a checker file with one thing changed. It runs on the histories of the unit tests and of the exhaustive
tests; if it survives them, on all unit tests of the checkers. A mutant that survives shows a line that no test
holds, or a change that means the same.

    make mutants FILE=duplicate       the checker files with this name, or of this anomaly
    make mutants SINCE=main~3         the checker files that have changed since then

Results are in the folder .mutants, which git ignores: an interrupted run goes on where it ended. The exit status
is 1 if a mutant survives.
"""

import argparse
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence

from py4j.protocol import Py4JError, Py4JNetworkError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from tests.mutants import results
from tests.mutants.changed import changed
from tests.mutants.histories import KINDS, Histories, kinds_for
from tests.mutants.mutate import Mutant, mutants
from tests.mutants.results import SURVIVED
from tests.mutants.selection import ROOT, SelectionError, changed_since, checker_files
from tests.mutants.unit_tests import fate_in_unit_tests

INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.limit.initialNumPartitions": "2",
}
"""Each mutant is a new plan over little data: to compile it costs more than to run it."""
RAISED = (
    ArithmeticError, AssertionError, AttributeError, LookupError, NameError, TypeError, ValueError,
    PySparkException, Py4JError,
)  # fmt: skip
"""What a changed checker may raise. Any other exception ends the command, because a Spark that has died would
count as a catch of each mutant that follows.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the mutants of the selected files that have no result yet; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="make mutants", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", metavar="FILE")
    parser.add_argument("--since", metavar="REVISION")
    options = parser.parse_args(arguments)
    if not options.files and not options.since:
        print("no checker file is named; try make mutants FILE=duplicate, or SINCE=main~3", file=sys.stderr)
        return 2
    try:
        files = {file for name in options.files for file in checker_files(name)}
        files |= {*changed_since(options.since)} if options.since else set()
    except SelectionError as error:
        print(error, file=sys.stderr)
        return 2
    every = [mutant for file in sorted(files) for mutant in mutants(file, (ROOT / file).read_text())]
    tests = results.digest_of_tests()
    known = results.load(results.RESULTS, tests)
    todo = [mutant for mutant in every if mutant.key not in known]
    print(f"{len(every)} mutants of {len(files)} files, {len(todo)} to run", flush=True)
    for number, (mutant, fate, took_s) in enumerate(_run(todo), 1):
        known[mutant.key] = results.add(results.RESULTS, mutant, fate, tests)
        print(f"{number}/{len(todo)} {took_s:.1f} s {described(mutant)}: {fate}", flush=True)
    return report(every, {mutant.key: known[mutant.key].fate for mutant in every})


def described(mutant: Mutant) -> str:
    """Return the file and line of the change, and the change."""
    return f"{mutant.file}:{mutant.line} {mutant.change}"


def report(every: Sequence[Mutant], fates: dict[str, str]) -> int:
    """Print the number of killed mutants of each file, and each survivor; return the exit status."""
    survivors = [mutant for mutant in every if fates[mutant.key] == SURVIVED]
    alive = Counter(mutant.file for mutant in survivors)
    for file, count in sorted(Counter(mutant.file for mutant in every).items()):
        print(f"{file}: {count - alive[file]} of {count} killed")
    for mutant in survivors:
        print(f"survived: {described(mutant)}")
    return 1 if survivors else 0


def _run(todo: list[Mutant]) -> Iterator[tuple[Mutant, str, float]]:
    """Yield the fate of each mutant, and the seconds that it took: first those that the histories kill."""
    left: list[tuple[Mutant, float]] = []
    for mutant, fate, took_s in _on_histories(todo):
        if fate == SURVIVED:
            left.append((mutant, took_s))
        else:
            yield mutant, fate, took_s
    if left:
        print(f"{len(left)} survived the histories: the unit tests of the checkers run on each", flush=True)
    for mutant, took_s in left:
        began_s = time.monotonic()
        fate = fate_in_unit_tests(mutant)
        yield mutant, fate, took_s + time.monotonic() - began_s


def _on_histories(todo: list[Mutant]) -> Iterator[tuple[Mutant, str, float]]:
    """Yield the fate of each mutant on the histories, all of them in one Spark session."""
    from checkers.spark.session import SparkSettings, session

    kinds = {file: kinds_for(file) for file in {mutant.file for mutant in todo}}
    for mutant in todo:
        if not kinds[mutant.file]:
            yield mutant, SURVIVED, 0.0
    todo = [mutant for mutant in todo if kinds[mutant.file]]
    if not todo:
        return
    signal.signal(signal.SIGALRM, _too_long)
    with session(SparkSettings(size="large", conf=INTERPRETED)) as spark:
        ready: dict[str, tuple[Histories, float]] = {}
        for kind in sorted({kind for mutant in todo for kind in kinds[mutant.file]}):
            histories = KINDS[kind](spark)
            with changed(None):
                began_s = time.monotonic()
                difference = histories.difference()
            assert difference is None, f"{kind}: wrong without any change: {difference}"
            ready[kind] = histories, time.monotonic() - began_s
        for mutant in todo:
            began_s = time.monotonic()
            fate = SURVIVED
            for kind in kinds[mutant.file]:
                histories, usual_s = ready[kind]
                fate = _fate(histories, mutant, limit_s=60 + 10 * int(usual_s))
                spark.sparkContext.cancelAllJobs()
                spark.catalog.clearCache()
                if fate != SURVIVED:
                    break
            yield mutant, fate, time.monotonic() - began_s


class TooLong(Exception):
    """A mutant has not ended in time."""


def _too_long(*_: object) -> None:
    raise TooLong


def _fate(histories: Histories, mutant: Mutant, limit_s: int) -> str:
    """Return `survived`, or `killed: ` with the difference, the exception, or that it does not end."""
    signal.alarm(limit_s)
    try:
        with changed(mutant):
            difference = histories.difference()
        return SURVIVED if difference is None else f"killed: {difference[:200]}"
    except TooLong:
        return "killed: it does not end"
    except Py4JNetworkError:
        raise
    except RAISED as error:
        return f"killed: {type(error).__name__}"
    finally:
        signal.alarm(0)


if __name__ == "__main__":
    sys.exit(main())
