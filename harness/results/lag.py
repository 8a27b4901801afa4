"""The lag of the groups at the end of a run: what is between each committed offset and the end of the log.

This is the key `left` of `verdict.json`. It explains a verdict and never decides it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from harness.results.wording import join_words, number, plural, printable

MOST_ROWS = 50
"""`verdict.json` and the report have at most this many rows, the worst first."""
OPEN_RECORD = "record of an open transaction"


@dataclass(frozen=True)
class EntryCounts:
    """How many log entries of each kind a range of a partition has."""

    committed_records: int = 0  # of committed transactions, or outside transactions; without sentinels
    open_records: int = 0  # of transactions without a marker
    aborted_records: int = 0
    commit_markers: int = 0
    abort_markers: int = 0
    sentinels: int = 0

    def __add__(self, other: "EntryCounts") -> "EntryCounts":
        return EntryCounts(*(mine + more for mine, more in zip(self.numbers, other.numbers, strict=True)))

    @property
    def numbers(self) -> tuple[int, ...]:
        """The counts, in the order of the fields."""
        return tuple(getattr(self, each.name) for each in fields(self))

    @property
    def is_left(self) -> bool:
        """Return whether a group still has to process some of them, or may have to after a marker is written."""
        return bool(self.committed_records or self.open_records)

    @property
    def words(self) -> str:
        """All kinds, for example `2 records of aborted transactions and 1 abort marker`; or `nothing`."""
        left = (
            (self.committed_records, "committed record that the group has not processed"),
            (self.open_records, OPEN_RECORD),
        )
        parts = [plural(count, words, _several(words)) for count, words in left if count]
        return join_words([*parts, *self.harmless], most=len(fields(self)))

    @property
    def harmless(self) -> list[str]:
        """The kinds that no group has to process, in words."""
        kinds = (
            (self.aborted_records, "record of an aborted transaction"),
            (self.commit_markers, "commit marker"),
            (self.abort_markers, "abort marker"),
            (self.sentinels, "sentinel, which Fencepost wrote and no group processes"),
        )
        return [plural(count, words, _several(words)) for count, words in kinds if count]


def _several(words: str) -> str:
    """Return the plural of a kind of log entry: `records of aborted transactions`."""
    for one, many in (("record", "records"), ("marker", "markers"), ("sentinel", "sentinels")):
        words = words.replace(one, many)
    return words.replace("an open transaction", "open transactions").replace(
        "an aborted transaction", "aborted transactions"
    )


@dataclass(frozen=True)
class PartitionLag:
    """The lag of a group in one partition: the log entries from its committed offset to the log end."""

    stage: str
    group: str | None  # None: the stage has no group, or its [stage.progress] says what it has processed
    topic: str
    partition: int | None  # None: all partitions of the topic
    committed: int | None = None  # None: the group has committed no offset, or it is not known
    end: int | None = None  # the offset after the last log entry; None: not known
    entries: EntryCounts | None = None  # None: not known
    not_known: str = ""  # why it is not known; empty: it is known
    pending: int | None = None  # a later offset whose commit is in an open transaction

    @property
    def name(self) -> str:
        """The partition, for example `invoices/2`."""
        return self.topic if self.partition is None else f"{self.topic}/{self.partition}"

    @property
    def owner(self) -> str:
        """The group, or the stage if it has no group: `group billing`."""
        return (
            f"stage {printable(self.stage, 80)}"
            if self.group is None
            else f"group {printable(self.group, 80)}"
        )

    @property
    def between(self) -> str:
        """The log entries from the committed offset to the log end, in words."""
        words = f"not known: {self.not_known}" if self.entries is None else self.entries.words
        words = words.replace("the group has", "the stage has") if self.group is None else words
        if self.pending is None:
            return words
        return f"{words}; a commit of offset {self.pending} is in an open transaction"

    def order(self) -> tuple[Any, ...]:
        """The sort key: first what is left, then what is not known, then the rest, each with the largest lag first."""
        counts = self.entries or EntryCounts()
        kind = 1 if self.entries is None else 0 if counts.is_left else 2
        sizes = (-counts.committed_records, -counts.open_records, -sum(counts.numbers))
        return kind, *sizes, self.stage, self.topic, self.partition or 0

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> "PartitionLag":
        """Read what `as_json` returned. Raises KeyError or TypeError."""
        own = {key: value for key, value in body.items() if key != "between"}
        return cls(**{**own, "entries": _counts(own["entries"])})

    def as_json(self) -> dict[str, Any]:
        """Return an entry of `rows`."""
        body = asdict(self)
        for key in ("not_known", "pending"):
            if not body[key]:
                del body[key]
        return body | {"between": self.between}


def _counts(body: Mapping[str, Any] | None) -> EntryCounts | None:
    return None if body is None else EntryCounts(**body)


@dataclass(frozen=True)
class Lag:
    """The lag of the groups of a run: one row for each group and each partition that its stage reads.

    A stage that does not commit for a group has one row for each topic that it reads. If its [stage.progress] printed
    positions, it has one row for each partition, and if it printed a number, one row for all its topics.
    """

    rows: Sequence[PartitionLag] = ()  # at most `MOST_ROWS`, the worst first
    all_rows: int = 0  # the number of rows before the last ones were left out
    unknown_rows: int = 0  # how many of all rows are not known
    entries: EntryCounts = field(default_factory=EntryCounts)  # the sum of all rows that are known
    not_known: str = (
        ""  # why the first unknown row is not known, or why there is no row; empty: all are known
    )

    @classmethod
    def of(cls, rows: Iterable[PartitionLag]) -> "Lag":
        """Sum up the rows, and keep the worst."""
        ordered = sorted(rows, key=PartitionLag.order)
        known = [row.entries for row in ordered if row.entries is not None]
        unknown = [row for row in ordered if row.entries is None]
        return cls(
            rows=tuple(ordered[:MOST_ROWS]),
            all_rows=len(ordered),
            unknown_rows=len(unknown),
            entries=sum(known, start=EntryCounts()),
            not_known=f"{unknown[0].name}: {unknown[0].not_known}" if unknown else "",
        )

    @property
    def more_rows(self) -> int:
        """How many rows were left out."""
        return self.all_rows - len(self.rows)

    @property
    def is_left(self) -> bool:
        """Return whether a group has not processed a committed record, or a transaction is open."""
        return self.entries.is_left

    @property
    def summary(self) -> str:
        """Say in sentences whether anything is left, and why tools show a lag."""
        return " ".join((*self._left(), *self._nothing(), *self._unknown()))

    def _left(self) -> Iterator[str]:
        if count := self.entries.committed_records:
            worst = self.rows[0]
            known = "committed offset" if worst.group is not None else "position"
            nothing = "no offset committed" if worst.group is not None else "no position"
            offset = nothing if worst.committed is None else f"{known} {worst.committed}"
            who = "group" if all(row.group is not None for row in self.rows) else "stage"
            they = f"is left: its {who} has not processed it"
            if count > 1:
                they = f"are left: their {who}s have not processed them"
            yield (
                f"{plural(count, 'committed record')} {they}, for example {worst.owner} in "
                f"{printable(worst.name, 80)} ({offset}, log end {printable(worst.end)})."
            )
        if count := self.entries.open_records:
            yield (
                f"{plural(count, OPEN_RECORD, _several(OPEN_RECORD))} {'is' if count == 1 else 'are'} left: no marker "
                "shows whether the groups have to process them."
            )

    def _nothing(self) -> Iterator[str]:
        if self.is_left or self.unknown_rows == self.all_rows:
            return
        where = " where it is known" if self.unknown_rows else ""
        known = [row for row in self.rows if row.entries is not None]
        who = "group" if all(row.group is not None for row in known) else "stage"
        yield f"Nothing is left{where}: each {who} has processed all committed inputs."
        if harmless := join_words(self.entries.harmless) if self.entries.harmless else "":
            yield f"The lag that tools show is not zero, because the last committed offsets are followed by {harmless}."
        else:
            yield "The lag that tools show is zero."

    def _unknown(self) -> Iterator[str]:
        if self.not_known:
            where = ""
            if self.unknown_rows < self.all_rows:
                where = f" in {number(self.unknown_rows)} of {plural(self.all_rows, 'partition')}"
            yield f"It is not known whether anything is left{where}: {printable(self.not_known, 300)}."

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> "Lag":
        """Read what `as_json` returned. Raises KeyError or TypeError."""
        own = {key: value for key, value in body.items() if key != "summary"}
        return cls(
            **own
            | {
                "rows": tuple(PartitionLag.from_json(row) for row in own["rows"]),
                "entries": EntryCounts(**own["entries"]),
            }
        )

    def as_json(self) -> dict[str, Any]:
        """Return the value of `left`."""
        return {
            "summary": self.summary,
            "entries": asdict(self.entries),
            "all_rows": self.all_rows,
            "unknown_rows": self.unknown_rows,
            "not_known": self.not_known,
            "rows": [row.as_json() for row in self.rows],
        }
