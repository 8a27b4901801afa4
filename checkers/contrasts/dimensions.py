"""The dimensions in which subjects are compared, such as partition, key, size, place in a commit, fault and time."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkers.contrasts.contrast import Categories, Codes, Dimension, Flags, Numbers, Scale
from checkers.contrasts.subjects import INPUT, TRANSACTION, RunSubjects
from checkers.stored.sources import StoredRun
from harness.common.wording import printable
from harness.results.verdict import FaultReport

AFTER_S = 5.0
"""So long after its heal, a fault may still have effects: members join again, and their first batches are processed."""
MARGIN_S = 1.0
"""So long before its injection, a fault can already meet a subject: a commit may come before the work is done."""
MOST_FIELDS, MOST_CONTENTS = 12, 50_000
"""Contents are compared by their first fields, if there are not too many of them."""
BEFORE, AT_ONCE, LATER = range(3)
"""Phases: before the first fault; while one acted, or shortly after; between faults, or after all."""
_SEED, _M = 0x9747B28C, 0x5BD1E995
_MASK = 0xFFFFFFFF


@dataclass(frozen=True)
class RunFacts:
    """The facts of a run with which its subjects are compared, in addition to its tables."""

    partitions: Mapping[int, tuple[str, int]]  # by number in the run: topic and partition
    wall_ms_at_zero: float | None  # None: times are not compared
    faults: Sequence[FaultReport] = ()

    @classmethod
    def of(cls, run: StoredRun, partitions: Mapping[int, Mapping[str, Any]]) -> "RunFacts":
        """Return the facts of a stored run. `partitions` has its rows of the table `tps`, by partition number."""
        names = {tp: (row["topic"], row["partition"]) for tp, row in partitions.items()}
        return cls(names, run.one_clock_ms, run.faults)

    @property
    def acted(self) -> list[FaultReport]:
        """The faults that acted, in the order of their starts."""
        return sorted((fault for fault in self.faults if fault.acted), key=lambda fault: fault.start_s)

    def name(self, tp: int) -> str:
        """Return topic and partition, as in `orders/0`."""
        topic, partition = self.partitions.get(tp, ("partition", tp))
        return f"{topic}/{partition}"


@dataclass(frozen=True)
class SubjectComparison:
    """The subjects of one kind of a run, as arrays."""

    kind: str
    rows: pa.Table
    subjects: RunSubjects
    facts: RunFacts

    def column(self, name: str) -> Numbers:
        """Return a column as numbers, with NaN for null."""
        values = pc.cast(self.rows[name], pa.float64()) if name in self.rows.column_names else None
        if values is None:
            return np.full(len(self.rows), np.nan)
        return np.asarray(pc.fill_null(values, float("nan")), np.float64)

    @cached_property
    def tps(self) -> Numbers:
        """The partition of each subject."""
        return self.column("tp")

    @cached_property
    def written_s(self) -> Numbers:
        """When each subject was written or called, in seconds since the run began."""
        if self.kind == TRANSACTION:
            return self.column("call_ns") / 1e9
        if self.facts.wall_ms_at_zero is None:
            return np.full(len(self.rows), np.nan)
        return (self.column("timestamp_ms") - self.facts.wall_ms_at_zero) / 1000

    @cached_property
    def passing(self) -> "Passing | None":
        """The offset commits around each input. None: it is no input, or the commits are not known."""
        if self.kind != INPUT or self.subjects.commits is None or not len(self.subjects.commits):
            return None
        return Passing.of(self)

    @cached_property
    def happened_s(self) -> Numbers:
        """When each subject took effect: an input when its group committed past it, a record of a transaction when its
        marker was written, and any other subject when it was written. A program may give its records old time stamps.
        """
        if self.passing is None:
            if self.kind == TRANSACTION or self.facts.wall_ms_at_zero is None:
                return self.written_s
            return np.fmax(self.written_s, (self.column("marker_ms") - self.facts.wall_ms_at_zero) / 1000)
        return np.where(np.isnan(self.passing.commit_s), self.written_s, self.passing.commit_s)

    @property
    def done(self) -> str:
        """The word for how a subject takes effect. An input is processed when its group commits past it."""
        if self.kind == TRANSACTION:
            return "begun"
        return "written" if self.passing is None else "processed"


@dataclass(frozen=True)
class Passing:
    """For each input, the offset commits of its partition around it. NaN: there is none."""

    commit_s: Numbers  # when the group committed past the input
    before_s: Numbers  # when it had made the commit before that one
    first: Codes  # 1: the commit before ends directly below the input
    last: Codes  # 1: the commit ends directly above the input
    process: Sequence[str | None]  # who committed past the input

    def in_work_at(self, time_s: float) -> Flags:
        """Return the inputs that the group had not committed past at a time, but committed past next."""
        begun_s = np.where(np.isnan(self.before_s), -np.inf, self.before_s)
        flags: Flags = (begun_s <= time_s) & (self.commit_s >= time_s)
        return flags

    @classmethod
    def of(cls, comparison: SubjectComparison) -> "Passing":
        """Find the commits around each input, partition by partition. A commit that goes back is left out."""
        commits, facts = comparison.subjects.commits, comparison.facts
        assert commits is not None
        size = len(comparison.rows)
        commit_s, before_s = np.full(size, np.nan), np.full(size, np.nan)
        first, last = np.full(size, -1, np.int64), np.full(size, -1, np.int64)
        process: list[str | None] = [None] * size
        offsets = comparison.column("offset")
        zero_ms = float("nan") if facts.wall_ms_at_zero is None else facts.wall_ms_at_zero
        commits = commits.sort_by([("tp", "ascending"), ("log_offset", "ascending")])
        of_tp = np.asarray(commits["tp"])
        for tp in np.unique(comparison.tps[~np.isnan(comparison.tps)]):
            own = np.flatnonzero(of_tp == tp)
            committed = np.asarray(commits["committed"])[own]
            rising = np.maximum.accumulate(committed) if len(own) else committed
            kept = np.flatnonzero(np.diff(rising, prepend=-1) > 0)
            if not len(kept):
                continue
            ends = committed[kept]
            times_s = (np.asarray(commits["timestamp_ms"])[own][kept].astype(np.float64) - zero_ms) / 1000
            here = np.flatnonzero(comparison.tps == tp)
            place = np.searchsorted(ends, offsets[here], side="right")
            passed = place < len(ends)
            at, by = here[passed], place[passed]
            commit_s[at] = times_s[by]
            last[at] = (ends[by] == offsets[at] + 1).astype(np.int64)
            first[at] = 0
            later = by > 0
            before_s[at[later]] = times_s[by[later] - 1]
            first[at[later]] = (ends[by[later] - 1] == offsets[at[later]]).astype(np.int64)
            journals, producers = commits["journal"], commits["producer_id"]
            names = {
                n: journals[own[kept[n]]].as_py()
                or comparison.subjects.ids.get(producers[own[kept[n]]].as_py())
                for n in np.unique(by)
            }
            for row, n in zip(at, by, strict=True):
                process[row] = names[n]
        return cls(commit_s, before_s, first, last, process)


def dimensions(comparison: SubjectComparison) -> list[Dimension]:
    """Return all dimensions of the subjects, those that explain most first."""
    every = (
        _partitioners,
        _work_at_faults,
        _partitions,
        _contents,
        _keys,
        _places,
        _sizes,
        _processes,
        _times,
    )
    return [dimension for make in every for dimension in make(comparison)]


def phases(comparison: SubjectComparison) -> Codes:
    """Return the phase in which each subject took effect; -1: its time is not known."""
    times_s, acted = comparison.happened_s, comparison.facts.acted
    codes = np.full(len(times_s), LATER, np.int64)
    for fault in acted:
        end_s = fault.start_s if fault.end_s is None else fault.end_s
        codes[(times_s >= fault.start_s - MARGIN_S) & (times_s <= end_s + AFTER_S)] = AT_ONCE
    if acted:
        codes[times_s < acted[0].start_s - MARGIN_S] = BEFORE
    codes[np.isnan(times_s)] = -1
    return codes


def _partitioners(comparison: SubjectComparison) -> Iterator[Dimension]:
    """Compare the partition of each key with the one that each partitioner would choose."""
    if comparison.kind != INPUT:
        return
    count: dict[str, int] = defaultdict(int)
    for topic, _ in comparison.facts.partitions.values():
        count[topic] += 1
    places = [None if np.isnan(tp) else comparison.facts.partitions.get(int(tp)) for tp in comparison.tps]
    keys = _texts(comparison.rows, "key")
    hashed = {key: key.encode() for key in set(keys) if key is not None and not key.startswith("#")}
    for name, (clients, partition_of) in PARTITIONERS.items():
        chosen: dict[tuple[str, int], int] = {}
        codes = np.full(len(places), -1, np.int64)
        for n, (key, place) in enumerate(zip(keys, places, strict=True)):
            if key in hashed and place is not None:
                of_key = (key or "", count[place[0]])
                if of_key not in chosen:
                    chosen[of_key] = partition_of(hashed[of_key[0]], of_key[1])
                codes[n] = int(chosen[of_key] == place[1])
        yield Categories(
            f"key by {name}",
            codes,
            (
                f"have a key that {name}, the partitioner of {clients}, puts in another partition",
                f"have a key that {name}, the partitioner of {clients}, puts in this partition",
            ),
        )


def _work_at_faults(comparison: SubjectComparison) -> Iterator[Dimension]:
    """Say whether an input was in work when a fault came: the first commit past it came after the fault, and the one
    before came before it.
    """
    passing, acted = comparison.passing, comparison.facts.acted
    if passing is None or not acted or np.isnan(passing.commit_s).all():
        return
    codes = np.where(np.isnan(passing.commit_s), -1, 0).astype(np.int64)
    starts_s = np.array([fault.start_s for fault in acted])
    for start_s in starts_s:
        codes[(passing.commit_s < start_s) & (passing.commit_s >= start_s - 2 * MARGIN_S) & (codes == 0)] = 2
        codes[passing.in_work_at(start_s)] = 1
    names = (
        "were not in work when a fault came",
        "were in work when a fault came: their group committed past them only after it",
        f"were committed in the {2 * MARGIN_S:.0f} s before a fault",
    )
    yield Categories("work at faults", codes, names, skip=frozenset({0}))


def _partitions(comparison: SubjectComparison) -> Iterator[Dimension]:
    for dimension, column, predicate in (
        ("partition", "tp", "are in {}"),
        ("partition of the output" if comparison.kind == INPUT else "partition of the input", "other_tp", ""),
    ):
        tps = comparison.column(column)
        known = ~np.isnan(tps)
        if not known.any():
            continue
        values, codes = np.unique(tps[known], return_inverse=True)
        of_all = np.full(len(tps), -1, np.int64)
        of_all[known] = codes
        names = [comparison.facts.name(int(tp)) for tp in values]
        other = "have an output in {}" if comparison.kind == INPUT else "have an input in {}"
        yield Categories(dimension, of_all, names, predicate or other)


def _keys(comparison: SubjectComparison) -> Iterator[Dimension]:
    yield from _categories("key", _texts(comparison.rows, "key"), "have the key {}")


def _places(comparison: SubjectComparison) -> Iterator[Dimension]:
    """Compare by the place in the producer's batch, and in the range of one offset commit."""
    passing = comparison.passing
    if passing is not None:
        codes = np.where(passing.first < 0, -1, passing.first + 2 * passing.last)
        names = (
            "are between the first and the last input of a commit",
            "are the first input of a commit",
            "are the last input of a commit",
            "are alone in a commit",
        )
        yield Categories("place in a commit", codes, names)
    batches = comparison.subjects.batches
    if batches is None or not len(batches) or comparison.kind == TRANSACTION:
        return
    codes = np.full(len(comparison.rows), -1, np.int64)
    offsets, of_tp = comparison.column("offset"), np.asarray(batches["tp"])
    for tp in np.unique(comparison.tps[~np.isnan(comparison.tps)]):
        own = np.flatnonzero(of_tp == tp)
        own = own[np.argsort(np.asarray(batches["base_offset"])[own])]
        base, end = np.asarray(batches["base_offset"])[own], np.asarray(batches["last_offset"])[own]
        here = np.flatnonzero(comparison.tps == tp)
        place = np.searchsorted(base, offsets[here], side="right") - 1
        inside = (place >= 0) & (offsets[here] <= end[np.maximum(place, 0)]) if len(base) else place > 0
        at, by = here[inside], place[inside]
        codes[at] = (offsets[at] == base[by]) + 2 * (offsets[at] == end[by])
    names = (
        "are between the first and the last record of their batch",
        "are the first record of their batch",
        "are the last record of their batch",
        "are alone in their batch",
    )
    yield Categories("place in a batch", codes, names)


def _sizes(comparison: SubjectComparison) -> Iterator[Dimension]:
    if comparison.kind == TRANSACTION:
        yield Scale("size", comparison.column("size"), "have {} records or more", "have less than {} records")
    else:
        yield Scale(
            "size", comparison.column("size_bytes"), "have {} bytes or more", "have less than {} bytes"
        )


def _processes(comparison: SubjectComparison) -> Iterator[Dimension]:
    if comparison.kind == TRANSACTION:
        yield from _categories("process", _texts(comparison.rows, "journal"), "are of {}")
    elif comparison.passing is not None:
        yield from _categories("process", comparison.passing.process, "were first committed by {}")
    else:
        ids = comparison.subjects.ids
        producers = _texts(comparison.rows, "producer_id")
        names = [None if own is None else ids.get(own, f"producer {own}") for own in producers]
        yield from _categories("process", names, "were written by {}")


def _times(comparison: SubjectComparison) -> Iterator[Dimension]:
    if comparison.facts.acted:
        done = comparison.done
        names = (
            f"were {done} before the first fault",
            f"were {done} while a fault acted, or in the {AFTER_S:.0f} s after it",
            f"were {done} between faults or after them",
        )
        yield Categories("phase", phases(comparison), names)
    yield Scale("time", comparison.written_s, "were written at {} s or later", "were written before {} s")


def _contents(comparison: SubjectComparison) -> Iterator[Dimension]:
    """Compare the fields of JSON in the expected outputs of each input."""
    if "expected" not in comparison.rows.column_names or len(comparison.rows) > MOST_CONTENTS:
        return
    columns: dict[str, list[Any]] = {}
    bodies = [
        {name: value for text in texts or () for name, value in _fields(text).items()}
        for texts in _texts(comparison.rows, "expected")
    ]
    for n, body in enumerate(bodies):
        for name, value in body.items():
            if name in columns or len(columns) < MOST_FIELDS:
                columns.setdefault(name, [None] * len(bodies))[n] = value
    for name, values in columns.items():
        shown = printable(name, 40)
        known = [value for value in values if value is not None]
        if len(set(map(str, known))) >= len(known) * 0.9:
            continue  # an id, which tells one input from another
        if all(isinstance(value, int | float) and not isinstance(value, bool) for value in known):
            numbers = np.array([float("nan") if value is None else value for value in values], np.float64)
            phrase = f"must lead to an output whose `{shown}` is"
            yield Scale(f"content: {shown}", numbers, phrase + " {} or more", phrase + " less than {}")
        else:
            texts = [None if value is None else printable(value, 40) for value in values]
            yield _where_partitioners_agree(comparison, shown, values)
            yield from _categories(
                f"content: {shown}", texts, f"must lead to an output whose `{shown}` is {{}}"
            )


def _where_partitioners_agree(comparison: SubjectComparison, field: str, values: Sequence[Any]) -> Dimension:
    """Say whether the default partitioners of librdkafka and of Java clients put a field into one partition. A program
    may look for it under this key, for instance in a join.
    """
    count: dict[str, int] = defaultdict(int)
    for topic, _ in comparison.facts.partitions.values():
        count[topic] += 1
    by_crc, by_murmur = PARTITIONERS["CRC32"][1], PARTITIONERS["murmur2"][1]
    codes = np.full(len(values), -1, np.int64)
    agrees: dict[tuple[str, int], bool] = {}
    for n, (value, tp) in enumerate(zip(values, comparison.tps, strict=True)):
        if isinstance(value, str) and not np.isnan(tp):
            of_field = value, count[comparison.facts.partitions.get(int(tp), ("", 0))[0]] or 1
            if of_field not in agrees:
                agrees[of_field] = by_crc(value.encode(), of_field[1]) == by_murmur(
                    value.encode(), of_field[1]
                )
            codes[n] = int(agrees[of_field])
    names = (
        f"have a `{field}` for which CRC32 (librdkafka) and murmur2 (Java clients) choose different partitions",
        f"have a `{field}` for which CRC32 (librdkafka) and murmur2 (Java clients) choose one partition",
    )
    return Categories(f"key by field {field}", codes, names)


def _fields(text: str) -> Mapping[str, Any]:
    """Return the fields of an excerpt, such as `customer-3: {"pieces": 4}`. Empty: it is no JSON object, or is cut."""
    start = text.find("{")
    if start < 0:
        return {}
    try:
        body = json.loads(text[start:])
    except ValueError:
        return {}
    return {name: value for name, value in body.items() if isinstance(value, str | int | float)}


def _categories(dimension: str, values: Sequence[str | None], predicate: str) -> Iterator[Dimension]:
    encoded = pc.dictionary_encode(pa.array(values, pa.string()))
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    names = [printable(name, 60) for name in encoded.dictionary.to_pylist()]
    codes = np.asarray(pc.fill_null(encoded.indices, -1), np.int64)
    if len(names) > 1:
        yield Categories(dimension, codes, names, predicate)


def _texts(rows: pa.Table, name: str) -> list[Any]:
    return rows[name].to_pylist() if name in rows.column_names else [None] * len(rows)


def murmur2(key: bytes) -> int:
    """Return Kafka's 32-bit murmur2 hash (`org.apache.kafka.common.utils.Utils.murmur2`)."""
    value = _SEED ^ len(key)
    whole = len(key) & ~3
    for start in range(0, whole, 4):
        part = int.from_bytes(key[start : start + 4], "little") * _M & _MASK
        part = (part ^ part >> 24) * _M & _MASK
        value = value * _M & _MASK ^ part
    if rest := key[whole:]:
        value = (value ^ int.from_bytes(rest, "little")) * _M & _MASK
    value = (value ^ value >> 13) * _M & _MASK
    return value ^ value >> 15


def fnv1a(key: bytes) -> int:
    """Return the 32-bit FNV-1a hash."""
    value = 0x811C9DC5
    for byte in key:
        value = (value ^ byte) * 0x01000193 & _MASK
    return value


def _by_sarama(key: bytes, partitions: int) -> int:
    """Sarama takes the hash as a signed number, and the absolute value of the remainder."""
    value = fnv1a(key)
    signed = value - (1 << 32) if value >> 31 else value
    return abs(signed) % partitions


PARTITIONERS: Mapping[str, tuple[str, Callable[[bytes, int], int]]] = {
    "murmur2": ("Java clients", lambda key, partitions: (murmur2(key) & 0x7FFFFFFF) % partitions),
    "CRC32": ("librdkafka", lambda key, partitions: crc32(key) % partitions),
    "FNV-1a": ("sarama", _by_sarama),
}
"""By name: the clients whose default it is, and the function from a key and the number of partitions to a partition."""
