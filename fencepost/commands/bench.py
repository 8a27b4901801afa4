"""`fencepost bench`."""

import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from fencepost.commands import options as cli_options
from fencepost.runs.progress import progress_for
from harness.common.errors import ExitStatus, UsageError
from harness.common.names import check_name
from harness.common.secrets import redact_text
from harness.environment.client_versions import CLIENTS
from harness.results.wording import plural
from harness.settings.options import Options

if TYPE_CHECKING:
    from fencepost.bench.plan import BenchRequest

MOST_SIZE, MOST_PARTITIONS, MOST_WORKERS, MOST_ROUNDS = 10_000, 64, 16, 50


def _whole_numbers(text: str, option: str, maximum: int) -> tuple[int, ...]:
    words = [word.strip().replace("_", "") for word in text.split(",")]
    if not all(
        word.isascii() and word.isdecimal() and len(word) < 9 and 1 <= int(word) <= maximum for word in words
    ):
        raise UsageError(
            f"--{option} must be whole numbers from 1 to {maximum:,} with commas between them, not {text!r}"
        )
    return tuple(dict.fromkeys(map(int, words)))


def _clients(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(word.strip() for word in text.split(",")))
    for name in names:
        check_name("client", name, CLIENTS)
    return names


@click.command("bench", short_help="Measure what exactly-once costs.")
@click.option("--rounds", metavar="N", help="how many times to measure each point  [default: 3]")
@click.option(
    "--quick", is_flag=True, help="measure fewer sizes with one client; takes less than three minutes"
)
@click.option("--client", metavar="NAMES", help="clients, separated by commas  [default: librdkafka,java]")
@click.option("--txn-size", metavar="SIZES", help="inputs per transaction  [default: 1,10,100,1000,10000]")
@click.option(
    "--partitions",
    metavar="COUNTS",
    help="partitions of the output topic; the first number is used while other options vary  [default: 6,1,24]",
)
@click.option(
    "--workers",
    metavar="COUNTS",
    help="workers; the first number is used while other options vary  [default: 1,3]",
)
@cli_options.option_flags("seed", "store")
@click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="KEY=VALUE",
    help="an option of the cluster, as in `fencepost run`: java, heap-mb, broker.NAME, ...",
)
@click.option(
    "--json", "as_json", is_flag=True, help="print the figures as JSON; messages go to standard error"
)
def command(
    rounds: str | None,
    quick: bool,
    client: str | None,
    txn_size: str | None,
    partitions: str | None,
    workers: str | None,
    sets: tuple[str, ...],
    as_json: bool,
    **flags: Any,
) -> ExitStatus:
    """Measure what exactly-once costs on one cluster. The results are ratios to at-least-once, with their spread.

    At-least-once, idempotent and transactional pipelines take turns. The bench measures the throughput of each when it
    is saturated. At a lower rate, it measures the time from an input to its visible output. Ctrl-C ends the bench early
    and writes a page with the measurements until then.

    Exit status: 0 measured, 2 wrong usage, 4 failure.

    \b
    Example:
      fencepost bench
      fencepost bench --quick
      fencepost bench --client java --txn-size 1,100 --partitions 6 --workers 1 --json
    """
    options = cli_options.settle(cli_options.options_from(flags, sets, None))
    texts = {
        "client": client,
        "rounds": rounds,
        "txn-size": txn_size,
        "partitions": partitions,
        "workers": workers,
    }
    request = _request(texts, quick=quick)
    repeat = _command_line(texts, sets, options, quick=quick)

    from fencepost.bench.run import bench
    from reports.console import bench_lines

    with closing(progress_for(sys.stderr)) as progress:
        progress.say(_announcement(request))
        result = bench(options, request, progress, repeat)
    for line in bench_lines(result.figures, result.page, repeat):
        print(line, file=sys.stderr if as_json else sys.stdout)
    if as_json:
        print(json.dumps(result.figures))
    return ExitStatus.VALID


def _request(texts: Mapping[str, str | None], *, quick: bool) -> "BenchRequest":
    """Parse the values of the flags in `texts`. Raises `UsageError`."""
    from fencepost.bench.plan import QUICK, BenchRequest

    request = QUICK if quick else BenchRequest()
    if (client := texts["client"]) is not None:
        request = replace(request, clients=_clients(client))
    if (rounds := texts["rounds"]) is not None:
        request = replace(request, rounds=_whole_number(rounds, "rounds", MOST_ROUNDS))
    if (txn_size := texts["txn-size"]) is not None:
        request = replace(request, sizes=_whole_numbers(txn_size, "txn-size", MOST_SIZE))
    if (partitions := texts["partitions"]) is not None:
        request = replace(request, partitions=_whole_numbers(partitions, "partitions", MOST_PARTITIONS))
    if (workers := texts["workers"]) is not None:
        request = replace(request, workers=_whole_numbers(workers, "workers", MOST_WORKERS))
    return request


def _announcement(request: "BenchRequest") -> str:
    """The first line of progress: the number of measurements and the estimated duration."""
    count, minutes = request.rounds * len(request.points()), max(1, round(request.planned_s / 60))
    return (
        f"{plural(count, 'measurement')} in {plural(request.rounds, 'round')}, about "
        f"{plural(minutes, 'minute')}; Ctrl-C ends the bench early and keeps its measurements"
    )


def _whole_number(text: str, option: str, maximum: int) -> int:
    (number, *more) = _whole_numbers(text, option, maximum)
    if more:
        raise UsageError(f"--{option} must be one whole number from 1 to {maximum:,}, not {text!r}")
    return number


def _command_line(
    texts: Mapping[str, str | None], sets: Sequence[str], options: Options, *, quick: bool
) -> str:
    """The command that repeats the bench, without secrets."""
    words = ["fencepost", "bench", *(["--quick"] if quick else [])]
    for name, text in {**texts, "seed": str(options.seed)}.items():
        words += [] if text is None else [f"--{name}", text]
    for assignment in sets:
        words += ["--set", redact_text(assignment)]
    return shlex.join(words)
