"""The lines of logs: warnings and errors, removed members, and skipped markers, with their times and without secrets.

A line counts if it has a level and a time stamp. These forms are known: ISO 8601 and Go's default (`2026/11/27
17:26:03`) near the start of a line with a level (`ERROR`, `level=error`), librdkafka (`%3|1795770797.448|FAIL|`), and
objects of JSON (kafkajs, slog, zap, pino). A time without a zone is local time of this machine.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Literal

import orjson

from harness.common.wording import printable, redact_text
from harness.record.table_reader import RunTables
from reports.known_secrets import known_secrets, without_secrets

Level = Literal["error", "warning"]
MOST_BYTES = 32 << 20
"""The number of bytes that are read of one file."""
MOST_KEPT = 20_000
"""The number of lines of one file that are kept."""
_MOST_TEXT = 300
_LINE_BYTES = 8 << 10
_HEAD = 160
"""Time and level are searched in this many characters of a line."""
_TIME = re.compile(
    r"(?P<date>\d{4}[-/]\d\d[-/]\d\d)[T ](?P<time>\d\d:\d\d:\d\d)"
    r"(?:[.,:](?P<fraction>\d{1,9}))?\s?(?P<zone>Z|UTC|[+-]\d\d:?\d\d)?"
)
_LEVEL = re.compile(
    r"\b(?P<word>TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|FATAL|SEVERE|CRITICAL)\b|\b(?:level|lvl)=\"?(?P<key>\w+)"
)
_LIBRDKAFKA = re.compile(r"%(?P<level>[0-7])\|(?P<time>\d{9,11}\.\d{3})\|(?P<text>.*)", re.DOTALL)
_QUICK = re.compile(rb"WARN|ERR|FATAL|SEVERE|CRITICAL|PANIC|(?i:level|lvl|severity)|^%[0-4]\|")
"""Every line with a warning or an error has a match. It saves decoding the others, which are most of a broker's log."""
_REMOVED = re.compile(
    r" group (?P<group>\S+) in state .*reason: removing member (?P<member>\S+) on (?P<why>[^.;)]+)"
    r"|GroupId (?P<own_group>\S+?)\] Member (?P<own_member>\S+) fenced from the group because (?P<own_why>[^.;]+)"
)
"""A removal in the log of a group coordinator: of the classic protocol, and of KIP-848."""
_SKIPPED = re.compile(
    r"Couldn't find leader endpoint for partitions \S*\((?P<partitions>.*?)\) .* for (?P<id>[^,]+),"
)
"""A line of a transaction coordinator that writes no markers to some partitions."""
_WARNINGS = frozenset(("WARN", "WARNING"))
_ERRORS = frozenset(("ERROR", "FATAL", "SEVERE", "CRITICAL", "ERR", "PANIC", "DPANIC"))
_PINO = {40: "WARN", 50: "ERROR", 60: "FATAL"}


@dataclass(frozen=True)
class TimedLogLine:
    """A warning or an error in a log."""

    time_s: float  # since the start of the run
    level: Level
    source: str  # `broker 2`, or the name of the program's log
    file: str  # relative to the run folder
    number: int
    text: str  # without its time


@dataclass(frozen=True)
class Removal:
    """A group coordinator removed a member that did not leave by itself."""

    at_ns: int
    group: str
    member: str
    why: str


@dataclass(frozen=True)
class SkippedMarker:
    """A transaction coordinator wrote no marker of a transactional id to some partitions."""

    at_ns: int
    broker: str  # `broker 2`
    transactional_id: str
    partitions: Sequence[str]  # as brokers write them: `invoices-2`


@dataclass(frozen=True)
class LogLines:
    """The warnings and errors in the order of their times, and notes about logs that were not read in full."""

    lines: Sequence[TimedLogLine] = ()
    notes: Sequence[str] = ()


def read_logs(
    folder: Path, wall_ms_at_zero: float, secrets: frozenset[str] = frozenset()
) -> tuple[list[TimedLogLine], list[str]]:
    """Return the warnings and errors in the order of their times, and notes about logs that were not read in full."""
    lines: list[TimedLogLine] = []
    notes: list[str] = []
    for source, path in _logs(folder):
        name = str(path.relative_to(folder))
        try:
            with path.open("rb") as file:
                found = list(islice(_read(file, source, name, wall_ms_at_zero), MOST_KEPT))
                cut_off = len(found) == MOST_KEPT or file.tell() >= MOST_BYTES
        except OSError as error:
            notes.append(printable(f"{name} cannot be read: {error.strerror}", 300))
            continue
        if cut_off:
            notes.append(
                f"{printable(name)}: only its first lines are on the time axis, because it is very long"
            )
        lines += found
    cleaned = [replace(line, text=without_secrets(line.text, secrets)) for line in lines]
    return sorted(cleaned, key=lambda line: line.time_s), notes


def program_lines(
    t: RunTables, file_names: Iterable[str], interval_s: tuple[float, float]
) -> list[tuple[float, float, str]]:
    """Return the lines of programs' logs in an interval, of every level, without secrets.

    Each has the first and the last time that it can have: a log may have whole seconds only.

    Args:
        t: the run
        file_names: the names of files in its folder `workers`
        interval_s: in seconds since the start of the run
    """
    options, zero_ms = t.settings.get("options"), t.wall_ms_at_zero
    if zero_ms is None:
        return []
    secrets = known_secrets(t.folder, options if isinstance(options, Mapping) else {}, {})
    found: list[tuple[float, float, str]] = []
    for name in file_names:
        entries: list[tuple[float, str]] = []
        whole_seconds = True
        with suppress(OSError), (t.folder / "workers" / name).open("rb") as file:
            for _, line in _lines(file):
                if entry := entry_of(line.decode("utf-8", "replace").rstrip("\r\n")):
                    whole_seconds &= entry[0].is_integer()
                    time_s = entry[0] - zero_ms / 1000
                    if interval_s[0] - 1 <= time_s <= interval_s[1]:
                        entries.append((time_s, entry[2]))
        width_s = 1.0 if whole_seconds else 0.0
        for time_s, words in entries:
            if time_s + width_s >= interval_s[0]:
                text = printable(redact_text(words.strip()), _MOST_TEXT)
                found.append((time_s, time_s + width_s, without_secrets(text, secrets)))
    return sorted(found)


def near(lines: Sequence[TimedLogLine], moments_s: Iterable[float], most: int) -> list[TimedLogLine]:
    """Return at most `most` lines in the order of their times: those nearest to one of the moments."""
    moments = sorted(moments_s)
    if len(lines) <= most:
        return list(lines)

    def distance(line: TimedLogLine) -> tuple[float, bool]:
        return min((abs(line.time_s - moment) for moment in moments), default=0.0), line.level != "error"

    return sorted(sorted(lines, key=distance)[:most], key=lambda line: line.time_s)


def coordinator_lines(t: RunTables) -> tuple[list[Removal], list[SkippedMarker]]:
    """Return the members that groups removed and the markers that were not written, each in order of time."""
    removals, skipped = [], []
    for at_ns, broker, match in sorted(_coordinator_lines(t), key=lambda line: line[0]):
        facts = match.groupdict()
        if match.re is _SKIPPED:
            skipped.append(SkippedMarker(at_ns, broker, facts["id"], facts["partitions"].split(", ")))
        else:
            own = (facts[name] or facts[f"own_{name}"] for name in ("group", "member", "why"))
            removals.append(Removal(at_ns, *own))
    return removals, skipped


def _coordinator_lines(t: RunTables) -> Iterator[tuple[int, str, re.Match[str]]]:
    for path in sorted(t.folder.glob("brokers/*/server.log")):
        with suppress(OSError), path.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                match = _REMOVED.search(line) or _SKIPPED.search(line)
                at_ns = _logged_ns(t, line) if match else None
                if match and at_ns is not None:
                    yield at_ns, f"broker {path.parent.name}", match


def _logged_ns(t: RunTables, line: str) -> int | None:
    with suppress(ValueError):
        return t.at_ns(datetime.fromisoformat(line.split(" ", 1)[0]).timestamp() * 1000)
    return None


def _logs(folder: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.glob("brokers/*/*.log")):
        yield f"broker {path.parent.name}", path
    for path in sorted(folder.glob("workers/*.log")):
        yield path.stem, path


def _read(file: BinaryIO, source: str, name: str, wall_ms_at_zero: float) -> Iterator[TimedLogLine]:
    """Yield the warnings and errors of a file. The line behind an entry is part of it if it is not an entry itself."""
    before = None
    for line_number, line in _lines(file):
        if before is None and not _QUICK.search(line):
            continue
        text = line.decode("utf-8", "replace").rstrip("\r\n")
        entry = entry_of(text)
        if before is not None:
            yield _extended(before, "" if entry else text)
            before = None
        if entry is not None and (level := _level(entry[1])):
            time_s = (entry[0] * 1000 - wall_ms_at_zero) / 1000
            before = TimedLogLine(time_s, level, source, name, line_number, entry[2])
    if before is not None:
        yield _extended(before, "")


def _lines(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield number and start of each line, until `MOST_BYTES` are read."""
    line_number = read = 0
    while read < MOST_BYTES and (line := file.readline(_LINE_BYTES)):
        line_number += 1
        read += len(line)
        rest = line
        while not rest.endswith(b"\n") and (rest := file.readline(1 << 20)):
            read += len(rest)
        yield line_number, line


def _extended(line: TimedLogLine, following: str) -> TimedLogLine:
    text = f"{line.text} {following.strip()}" if following.strip() else line.text
    return TimedLogLine(
        line.time_s,
        line.level,
        line.source,
        line.file,
        line.number,
        printable(redact_text(text.strip()), _MOST_TEXT),
    )


def entry_of(text: str) -> tuple[float, str, str] | None:
    """Return the time of an entry in seconds since 1970, its level as written, and its text. None: it is not one."""
    if text.startswith("%") and (own := _LIBRDKAFKA.match(text)):
        severity = int(own["level"])
        return (
            float(own["time"]),
            "ERROR" if severity < 4 else "WARN" if severity == 4 else "INFO",
            own["text"],
        )
    if text.startswith("{"):
        return _json_entry(text)
    head = text[:_HEAD]
    time, level = _TIME.search(head), _LEVEL.search(head)
    if time is None or (moment := _moment(time)) is None:
        return None
    word = (level["word"] or level["key"]) if level else "INFO"
    rest = f"{text[: time.start()]}{text[time.end() :]}".strip()
    return moment, word, rest.removeprefix(word).lstrip(": ")


def _json_entry(text: str) -> tuple[float, str, str] | None:
    try:
        body = orjson.loads(text)
    except ValueError:
        return None
    if not isinstance(body, Mapping):
        return None
    level = next((body[key] for key in ("level", "severity", "lvl") if key in body), "INFO")
    stamp = next((body[key] for key in ("timestamp", "time", "ts", "@timestamp") if key in body), None)
    moment: float | None = None
    if isinstance(stamp, str) and (time := _TIME.search(stamp)):
        moment = _moment(time)
    elif isinstance(stamp, int | float) and not isinstance(stamp, bool):
        moment = stamp / 1000 if stamp > 1e11 else float(stamp)  # pino writes milliseconds, zap seconds
    rest = {key: value for key, value in body.items() if key not in ("level", "timestamp", "time", "ts")}
    message = next((rest.pop(key) for key in ("message", "msg") if isinstance(rest.get(key), str)), "")
    words = f"{message} {orjson.dumps(rest).decode()}" if rest else message
    if moment is None:
        return None
    return moment, str(_PINO.get(level, level) if isinstance(level, int) else level), words


def _moment(time: re.Match[str]) -> float | None:
    """Return a time in seconds since 1970. None: there is no such time."""
    fraction = (time["fraction"] or "0")[:6].ljust(6, "0")
    zone = {None: "", "Z": "+00:00", "UTC": "+00:00"}.get(time["zone"], time["zone"])
    text = f"{time['date'].replace('/', '-')}T{time['time']}.{fraction}{zone}"
    with suppress(ValueError, OverflowError, OSError):
        return datetime.fromisoformat(text).astimezone(UTC).timestamp()
    return None


def _level(word: str) -> Level | None:
    upper = word.upper()
    return "warning" if upper in _WARNINGS else "error" if upper in _ERRORS else None
