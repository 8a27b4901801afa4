"""How long each fault hurt, and the lag of the groups at the end of a run.

The lag is the key `left` of `verdict.json`. It explains a verdict and never decides it.
"""

from collections.abc import Iterable, Iterator
from typing import Annotated, Any

from msgspec import Meta, Struct, field
from msgspec.structs import astuple, force_setattr

from harness.common.wording import join_words, number, plural, printable
from harness.results import Count, Duration

COMPARED_WITH_NORMAL = ("rate_back_s", "latency_back_s", "lag_back_s")
"""The values of `Liveness` that are measured against what was normal before the fault."""
LEAST_BEFORE_S = 3
"""A median of fewer seconds before the fault says nothing: then it is not known when the value was back."""
MOST_ROWS = 50
"""`verdict.json` and the report have at most this many rows, the worst first."""
OPEN_RECORD = "record of an open transaction"


class Liveness(Struct, frozen=True):
    """The progress of a pipeline in the window of one fault. Durations are seconds. None: it did not happen, or the
    evidence does not show it.

    The window begins when the fault is injected. It ends when the next fault is injected, but not before this fault
    was healed. At the latest it ends with the load, when no more inputs arrive. If the fault was healed later than
    that, it ends with the last commit.

    A value is back in its band if it is within 25 % of its median in the ten seconds before the fault, or better, for
    two seconds.
    """

    first_commit_s: Annotated[
        Duration | None,
        Meta(
            description="from the injection to the first commit that followed. A rule counts from the first message "
            "on which it acted"
        ),
    ] = None
    first_commit_after_heal_s: Annotated[
        Duration | None, Meta(description="from the heal to the first commit that followed")
    ] = None
    longest_gap_s: Annotated[
        Duration | None, Meta(description="the longest time without a commit in the window of the fault")
    ] = None
    worst_partition: Annotated[
        str | None,
        Meta(
            description="the output partition with the longest time without a commit: `invoices/2`. Only partitions "
            "that had received commits before the fault are compared"
        ),
    ] = None
    worst_partition_gap_s: Annotated[
        Duration | None, Meta(description="the longest time without a commit in that partition")
    ] = None
    lso_still_s: Annotated[
        Duration | None,
        Meta(
            description="the longest time in which the last stable offset of a partition did not move although its "
            "end had moved"
        ),
    ] = None
    lso_partition: Annotated[str | None, Meta(description="that partition")] = None
    rate_back_s: Annotated[
        Duration | None,
        Meta(
            description="from the injection until commits per second are back in their band: for two seconds within "
            "25 % of their median in the ten seconds before the fault, or better"
        ),
    ] = None
    latency_back_s: Annotated[Duration | None, Meta(description="the same for the latency of commits")] = None
    lag_back_s: Annotated[Duration | None, Meta(description="the same for the lag")] = None
    not_measured: Annotated[
        tuple[str, ...],
        Meta(
            description="which of `rate_back_s`, `latency_back_s` and `lag_back_s` the run cannot show: without "
            "transactions there is no latency of commits, and without committed offsets no lag. They are `null` then"
        ),
    ] = ()
    slowest_input: Annotated[
        str | None,
        Meta(
            description="the input partition whose group committed offsets last after the fault: `purchases/2`"
        ),
    ] = None
    slowest_input_s: Annotated[
        Duration | None,
        Meta(
            description="from the injection to its first commit. Only partitions are compared that had inputs to "
            "process after the injection"
        ),
    ] = None
    inputs_not_back: Annotated[
        tuple[str, ...],
        Meta(
            description="the input partitions with inputs to process and no commit until the end of the run"
        ),
    ] = ()
    victim: Annotated[
        str | None,
        Meta(description="the process that the fault hit: `bill-2`; null: it hit no single process"),
    ] = None
    victim_commit_s: Annotated[
        Duration | None,
        Meta(
            description="from the injection to the next commit of that process, or of the one that took its place"
        ),
    ] = None
    victim_not_known: Annotated[
        str | None, Meta(description="why the commits of that process are not known; null: they are")
    ] = None
    aborted: Annotated[
        Count | None,
        Meta(description="transactions in the window that were aborted, according to the transaction log"),
    ] = None
    fenced: Annotated[
        Count | None,
        Meta(description="transactions in the window that were fenced, according to the journals"),
    ] = None
    rebalances: Annotated[
        Count | None,
        Meta(
            description="how often consumers were assigned partitions in the window, according to the journals"
        ),
    ] = None
    bound_s: Annotated[
        Duration | None,
        Meta(description="the longest gap that the time-outs in force explain for this kind of fault"),
    ] = None
    seconds_before: Annotated[
        Count | None,
        Meta(
            description="the seconds from the first commit to the fault, at most ten: they say what is normal. With "
            "fewer than three, `rate_back_s`, `latency_back_s` and `lag_back_s` are not known. The first"
            " fault begins eight seconds after the first input, or earlier if the time limit has no room"
            " for that"
        ),
    ] = None
    not_known: Annotated[
        str | None,
        Meta(
            description="why nothing is known: the brokers' clocks are not the clock of this machine, a fault "
            "changed a clock, or a table is missing. All other values are `null` then"
        ),
    ] = None

    @property
    def normal_known(self) -> bool:
        """Return True if the load lasted `LEAST_BEFORE_S` before the fault. A shorter load shows no normal values."""
        return self.seconds_before is None or self.seconds_before >= LEAST_BEFORE_S

    @property
    def normal_after_s(self) -> float | None:
        """From the injection until the measured ones of rate, latency and lag are back in their bands. None: not all
        were seen back.
        """
        back = [getattr(self, name) for name in COMPARED_WITH_NORMAL if name not in self.not_measured]
        return None if None in back else max(filter(None, back), default=0.0)

    @property
    def not_back(self) -> tuple[str, ...]:
        """The measured values that were not seen back in their bands."""
        return tuple(
            name
            for name in COMPARED_WITH_NORMAL
            if name not in self.not_measured and getattr(self, name) is None
        )

    @property
    def stalled(self) -> bool:
        """Return whether the longest gap is longer than the bound."""
        return (
            self.longest_gap_s is not None and self.bound_s is not None and self.longest_gap_s > self.bound_s
        )


class EntryCounts(Struct, frozen=True):
    """How many log entries of each kind a range of a partition has."""

    committed_records: Annotated[
        int,
        Meta(
            description="of committed transactions, or outside transactions; the group has not processed them. "
            "Without sentinels"
        ),
    ] = 0
    open_records: Annotated[int, Meta(description="of transactions without a marker")] = 0
    aborted_records: Annotated[int, Meta(description="of aborted transactions")] = 0
    commit_markers: Annotated[int, Meta(description="of any transactions")] = 0
    abort_markers: Annotated[int, Meta(description="of any transactions")] = 0
    sentinels: Annotated[int, Meta(description="records with which Fencepost marks the end of the run")] = 0

    def __add__(self, other: "EntryCounts") -> "EntryCounts":
        return EntryCounts(*(mine + more for mine, more in zip(self.numbers, other.numbers, strict=True)))

    @property
    def numbers(self) -> tuple[int, ...]:
        """The counts, in the order of the fields."""
        return astuple(self)

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
        return join_words([*parts, *self.harmless], most=len(self.numbers))

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


class PartitionLag(Struct, frozen=True):
    """The lag of a group in one partition: the log entries from its committed offset to the log end."""

    stage: Annotated[str, Meta(description="the stage that reads the partition")]
    group: Annotated[
        str | None,
        Meta(description="null: the stage has no group, or its [stage.progress] says what it has processed"),
    ]
    topic: Annotated[str, Meta(description="the topic that the stage reads")]
    partition: Annotated[int | None, Meta(description="null: all partitions of the topic")]
    committed: Annotated[
        int | None, Meta(description="null: the group has committed no offset, or it is not known")
    ] = None
    end: Annotated[
        int | None, Meta(description="the offset after the last log entry; null: it is not known")
    ] = None
    entries: Annotated[EntryCounts | None, Meta(description="null: they are not known")] = None
    not_known: Annotated[str, Meta(description="why they are not known; empty: they are known")] = ""
    pending: Annotated[
        int | None,
        Meta(description="a later offset whose commit is in an open transaction; null: there is none"),
    ] = None
    between: Annotated[str, Meta(description="the entries in words")] = ""

    def __post_init__(self) -> None:
        force_setattr(self, "between", self._between())

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

    def _between(self) -> str:
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


class Lag(Struct, frozen=True):
    """The lag of the groups of a run: one row for each group and each partition that its stage reads.

    A stage that does not commit for a group has one row for each topic that it reads. If its [stage.progress] printed
    positions, it has one row for each partition, and if it printed a number, one row for all its topics.
    """

    summary: Annotated[
        str, Meta(description="whether anything is left, and why tools show a lag, in sentences")
    ] = ""
    entries: Annotated[EntryCounts, Meta(description="the sum of all rows that are known")] = field(
        default_factory=EntryCounts
    )
    all_rows: Annotated[
        int,
        Meta(
            description="the number of pairs of a group and a partition. A stage that commits for no group counts "
            "once for each of its topics; with [`[stage.progress]`](your-pipeline.md#the-end-of-a-run), "
            "once for each partition, or once if it printed a number"
        ),
    ] = 0
    unknown_rows: Annotated[int, Meta(description="how many of them are not known")] = 0
    not_known: Annotated[
        str,
        Meta(description="why the first of them is not known, or why there is none; empty: all are known"),
    ] = ""
    rows: Annotated[
        tuple[PartitionLag, ...],
        Meta(
            description="at most 50 of them: first those with something left, then those that are not known, then "
            "the rest by their lag"
        ),
    ] = ()

    def __post_init__(self) -> None:
        if self.entries.is_left and not self.rows:
            raise ValueError("rows is empty, and entries says that something is left")
        summary = " ".join((*self._left(), *self._nothing(), *self._unknown()))
        force_setattr(self, "summary", summary)

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
