"""The steps that the broker logs show: states of transactions, markers, stored offsets."""

from collections.abc import Iterator, Mapping, Sequence

from harness.record.table_reader import Row, RunTables
from harness.record.timeline.by_logs import stored_states
from reports.trace.step import TraceStep

CLOCK_NS = 2_000_000
"""Brokers write times in whole milliseconds."""


def coordinators(t: RunTables, begun_ns: Mapping[str, Sequence[int] | None]) -> Iterator[TraceStep]:
    """Yield the transaction log's states of these ids.

    For each id, `begun_ns` holds the times at which its transactions began. The states of each transaction are included
    until it is complete. With None all states are included.
    """
    states = stored_states(t, transactional_id=begun_ns.keys())
    for transactional_id, begun in sorted(begun_ns.items()):
        rows = [row for row in states if row["transactional_id"] == transactional_id]
        timed = [(t.at_ns(row["update_ms"]), row) for row in rows]
        for _, row in timed if begun is None else _until_complete(timed, begun):
            over = f" [{', '.join(t.name(tp) for tp in row['tps'])}]" if row["tps"] else ""
            what = f"{row['state']}{over}, producer {row['producer_id']} epoch {row['epoch']}"
            where = f"{t.name(row['log_tp'])} @ {row['log_offset']}"
            yield TraceStep(row["at_ns"], f"coordinator of {transactional_id}", what, where)


def _until_complete(
    timed: Sequence[tuple[int | None, Row]], begun_ns: Sequence[int]
) -> Iterator[tuple[int | None, Row]]:
    """Return the states after each begin, until the transaction is complete."""
    wanted: set[int] = set()
    for begun in begun_ns:
        for n, (at, row) in enumerate(timed):
            if at is None or at < begun - CLOCK_NS:
                continue
            wanted.add(n)
            if str(row["state"]).startswith("Complete"):
                break
    return (timed[n] for n in sorted(wanted))


def marker_of(t: RunTables, batch: Row, offset: int) -> Iterator[TraceStep]:
    """Yield the marker that decided a record, or that there is none. A record outside transactions needs none."""
    if not batch["transactional"]:
        return
    where = f"log of {t.name(batch['tp'])}"
    if batch["marker"] is None:
        words = f"no marker is above offset {offset}: the transaction is open"
        yield TraceStep(None, where, words, "batches")
        return
    words = (
        f"{batch['marker']} marker at {batch['marker_offset']}, above offset {offset}, "
        f"by coordinator epoch {batch['coordinator_epoch']}"
    )
    yield TraceStep(t.at_ns(batch["marker_ms"]), where, words, "batches")


def stored_offset(t: RunTables, row: Row) -> TraceStep:
    """Return the step of a row of `offsets`."""
    how = "in a transaction" if row["transactional"] else "outside any transaction"
    words = f"offset {row['committed']} of {t.name(row['tp'])} is stored, {how}"
    source = f"{t.name(row['log_tp'])} @ {row['log_offset']}"
    return TraceStep(t.at_ns(row["timestamp_ms"]), f"group {row['group']}", words, source)
