"""The lines of the logs of brokers and programs around a finding."""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from harness.common.wording import printable
from harness.record.naming import EXCERPT_LENGTH
from harness.record.table_reader import RunTables
from reports.reproducer.cleaning import WORD, Cleaning, may_identify
from reports.story.logs import entry_of

MOST_LINES = 40
"""The most lines of all logs of brokers, and of all logs of programs."""
MOST_CHARACTERS = 600
"""The most characters of a line that are shown."""
LONGEST_READ = 8_000
"""The most characters of a line that are cleaned. Much longer than what is shown, so that no secret is cut in two."""
AROUND_S = 2.0
"""Seconds before and after a finding."""
_TROUBLE = re.compile(r"\b(?:WARN|ERROR|FATAL)|error|exception|fenced|abort|traceback|panic", re.IGNORECASE)


@dataclass(frozen=True)
class LogLine:
    """A line of a log."""

    file: str  # relative to the folder of the run
    number: int  # from 1
    at_ns: int | None  # since the start of the run; None: the line has no time
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.number}: {self.text}"


def broker_lines(
    folder: Path,
    zero_ms: float,
    interval_ns: tuple[int, int] | None,
    names: Collection[str],
    decided_ns: int | None = None,
) -> list[LogLine]:
    """Return the lines of the brokers' logs around a finding, in order of time.

    If there are too many, those stay that have names twice, such as a transactional id and a partition, then those that
    have one or report trouble, and of those the nearest to the end of the interval.

    Args:
        folder: the folder of the run
        zero_ms: the wall clock at the start of the run
        interval_ns: the time of the finding; None: it is not known, and there are no lines
        names: the partitions, groups and ids of the finding
        decided_ns: until when lines count that have names twice; None: as the others
    """
    if interval_ns is None:
        return []
    begin, end = (interval_ns[0] - AROUND_S * 1e9, interval_ns[1] + AROUND_S * 1e9)
    words = [re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w-])") for name in names]
    around: list[tuple[bool, LogLine]] = []  # with whether the names are less than twice in it
    for file in sorted(folder.glob("brokers/*/server.log")):
        for line in _lines(folder, file, zero_ms):
            if line.at_ns is None or not begin <= line.at_ns <= max(end, decided_ns or 0):
                continue
            # A transactional id may be called as a partition is: `payments-2`.
            unnamed = sum(len(word.findall(line.text)) for word in words) < 2
            if not unnamed or line.at_ns <= end:
                around.append((unnamed, line))
    if len(around) > MOST_LINES:
        around = [(unnamed, line) for unnamed, line in around if _concerns(line, names)]
    around.sort(key=lambda each: (each[0], abs((each[1].at_ns or 0) - interval_ns[1])))
    lines = [line for _, line in around[:MOST_LINES]]
    return sorted(lines, key=lambda line: (line.at_ns, line.file, line.number))


def program_lines(
    folder: Path, zero_ms: float, interval_ns: tuple[int, int] | None, names: Collection[str]
) -> list[LogLine]:
    """Return the lines of the programs' logs that concern a finding, file by file.

    A line with a time counts if it is around the finding. A line without one counts if it has one of the names, or
    reports trouble.
    """
    chosen: list[LogLine] = []
    for file in sorted(folder.glob("workers/*.log*")):
        for line in _lines(folder, file, zero_ms):
            if interval_ns is None or line.at_ns is None:
                wanted = _concerns(line, names)
            else:
                wanted = interval_ns[0] - AROUND_S * 1e9 <= line.at_ns <= interval_ns[1] + AROUND_S * 1e9
            if wanted:
                chosen.append(line)
    if len(chosen) <= MOST_LINES:
        return chosen
    named = [line for line in chosen if any(name in line.text for name in names)]
    return (named or chosen)[:MOST_LINES]


def cleaned(lines: Sequence[LogLine], cleaning: Cleaning) -> list[str]:
    """Return lines of brokers, or of programs that are part of Fencepost: they have no contents of records."""
    return [f"{line.file}:{line.number}: {_shown(cleaning.text(line.text))}" for line in lines]


def cleaned_printed(
    lines: Sequence[LogLine], cleaning: Cleaning, tables: RunTables, inputs: Sequence[Path]
) -> list[str] | None:
    """Return lines of a user's programs, with digests in place of contents of records.

    None: the run's records are longer than what is stored of them, so they cannot be recognised in the lines.

    Args:
        lines: the lines
        cleaning: what is replaced
        tables: the run
        inputs: the files with the inputs of the run
    """
    if cleaning.with_values:
        words = set[str]()
    elif has_truncated_contents(tables):
        return None
    else:
        words = content_words(tables, [line.text for line in lines], inputs)
    return [f"{line.file}:{line.number}: {_shown(cleaning.printed(line.text, words))}" for line in lines]


def has_truncated_contents(tables: RunTables) -> bool:
    """Return whether the content of a record is stored truncated."""
    for table in ("records", "expected"):
        for batch in tables.batches(table, ["content"]) if tables.exists(table) else ():
            longest = pc.max(pc.utf8_length(batch.column("content"))).as_py()
            if longest is not None and longest > EXCERPT_LENGTH:
                return True
    return False


def content_words(tables: RunTables, texts: Sequence[str], inputs: Sequence[Path] = ()) -> set[str]:
    """Return the words of the texts that also occur in a key or a value of a record of the run, or in its inputs."""
    candidates = {word for text in texts for word in WORD.findall(text) if may_identify(word)}
    wanted, found = pa.array(sorted(candidates), pa.string()), set[str]()
    for table, columns in (
        ("records", ("key", "correlation_key", "content")),
        ("expected", ("key", "correlation_key", "content")),
    ):
        if not candidates or not tables.exists(table):
            continue
        for batch in tables.batches(table, columns):
            for column in batch.columns:
                words = pc.list_flatten(pc.split_pattern_regex(column.drop_null(), r"[^0-9A-Za-z_]+"))
                found.update(words.filter(pc.is_in(words, value_set=wanted)).unique().to_pylist())
    for file in inputs:
        with file.open(encoding="utf-8", errors="replace") as input_lines:
            for line in input_lines:
                found.update(candidates.intersection(WORD.findall(line)))
    return found


def _shown(text: str) -> str:
    more = " ..." if len(text) > MOST_CHARACTERS else ""
    return printable(text[:MOST_CHARACTERS] + more, MOST_CHARACTERS + len(more))


def _concerns(line: LogLine, names: Collection[str]) -> bool:
    return _TROUBLE.search(line.text) is not None or any(name in line.text for name in names)


def _lines(folder: Path, file: Path, zero_ms: float) -> Iterator[LogLine]:
    """Yield the lines of a log. A line without a time, as in a stack trace, gets the time of the line before."""
    at_ns = None
    name = str(file.relative_to(folder))
    with file.open(encoding="utf-8", errors="backslashreplace") as lines:
        for number, text in enumerate(lines, 1):
            if (entry := entry_of(text)) is not None:
                at_ns = round((entry[0] * 1000 - zero_ms) * 1e6)
            if text.strip():
                yield LogLine(name, number, at_ns, text.rstrip("\n")[:LONGEST_READ])


def names_in(finding_facts: object) -> set[str]:
    """Return the partitions, groups and ids in the facts of a finding, as brokers write them in their logs."""
    names: set[str] = set()
    if isinstance(finding_facts, dict):
        topic, partition = finding_facts.get("topic"), finding_facts.get("partition")
        if isinstance(topic, str) and isinstance(partition, int):
            names.add(f"{topic}-{partition}")
        for key in ("group", "transactional_id", "journal"):
            if isinstance(finding_facts.get(key), str):
                names.add(finding_facts[key])
        names |= set(chain.from_iterable(map(names_in, finding_facts.values())))
    elif isinstance(finding_facts, list):
        names |= set(chain.from_iterable(map(names_in, finding_facts)))
    return names
