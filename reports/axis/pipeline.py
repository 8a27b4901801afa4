"""The lanes of a pipeline: its transactions, its group members, and its requests that protocol rules changed."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.record.protocol_journal import JournaledRequest
from harness.record.table_reader import Row, RunTables
from harness.record.timeline.model import Ending, Timeline
from harness.results.wording import join_words, plural, printable
from reports.axis.lane import MOST_BARS, MOST_LANES, AxisBar, Lane, LaneGroup, bars, milliseconds
from reports.story.subjects import Subjects

NOT_KNOWN = "not known"
OWNS = "owns partitions"
CHANGED, DELIVERED = "changed request", "delivered to a broker"


def transactions(timeline: Timeline, named: Subjects) -> Iterator[Lane]:
    """Yield a lane for each transactional id: those of findings first, then those with the most transactions that were
    not committed.

    A transaction without an id is in the lane of its process.
    """
    table = timeline.transactions
    if not len(table):
        return
    ids = pc.fill_null(pc.coalesce(table["transactional_id"], table["process"]), NOT_KNOWN)
    encoded = pc.dictionary_encode(ids).combine_chunks()
    names, codes = encoded.dictionary.to_pylist(), encoded.indices.to_numpy(zero_copy_only=False)
    endings = tuple(map(str, Ending))
    ending = _codes(table["ending"], endings)
    not_committed = np.bincount(codes, ending != endings.index(Ending.COMMITTED), minlength=len(names))
    of_finding = np.array([name in named.transactional_ids for name in names])
    order = np.lexsort((-np.bincount(codes, minlength=len(names)), -not_committed, ~of_finding))
    begin = pc.fill_null(table["begin_ns"], 0).to_numpy()
    end = pc.fill_null(table["end_ns"], -1).to_numpy()
    for place, index in enumerate(order):
        name, own = printable(names[index], 80), bool(of_finding[index])
        if place >= MOST_LANES:  # it is only counted
            yield Lane(LaneGroup.TRANSACTIONS, name, (), own)
            continue
        rows = np.flatnonzero(codes == index)
        texts = _texts(table, rows, named) if len(rows) <= MOST_BARS else []
        lane_bars = bars(begin[rows], end[rows], endings, ending[rows], texts)
        yield Lane(LaneGroup.TRANSACTIONS, name, lane_bars, own)


def _texts(table: pa.Table, rows: np.ndarray, named: Subjects) -> list[str | None]:
    """Return the name of each transaction, and the error that its process got."""
    texts: list[str | None] = []
    for row in table.select(["name", "error", "fenced"]).take(pa.array(rows)).to_pylist():
        words = [row["name"] or ""]
        words += ["of a finding"] if row["name"] in named.operations else []
        words += ["fenced"] if row["fenced"] else []
        words += [printable(row["error"], 80)] if row["error"] else []
        texts.append(", ".join(filter(None, words)) or None)
    return texts


def _codes(values: pa.ChunkedArray, names: Sequence[str]) -> np.ndarray:
    """Return for each value its index in `names`; a value that is not there counts as the last name."""
    codes = pc.fill_null(pc.index_in(values, pa.array(names)), len(names) - 1)
    return np.asarray(codes, np.int64)


def members(t: RunTables, named: Subjects) -> Iterator[Lane]:
    """Yield a lane for each process of a group: the partitions that it owned, until it lost them or until its last
    operation. Raises `UnreadableInput`.
    """
    if not t.exists("assignments"):
        return
    table = t.table("assignments", ("journal", "group", "time_ns", "gained", "tp"))
    table = table.sort_by([("journal", "ascending"), ("group", "ascending"), ("time_ns", "ascending")])
    last_ns = _last_operations(t)
    for (journal, group), rows in groupby(table.to_pylist(), key=itemgetter("journal", "group")):
        owned = list(_ownership(rows, last_ns.get(journal)))
        of_group = "" if group is None else f" (group {printable(group, 60)})"
        texts: list[str | None] = [
            f"{plural(len(tps), 'partition')}: {join_words(sorted(map(t.name, tps)), 8)}{of_group}"
            for _, _, tps in owned
        ]
        begin, end = (np.array([row[n] for row in owned], np.int64) for n in (0, 1))
        lane_bars = bars(begin, end, (OWNS,), np.zeros(len(owned), np.int64), texts)
        yield Lane(
            LaneGroup.MEMBERS, printable(journal, 80), lane_bars, of_finding=journal in named.processes
        )


def _last_operations(t: RunTables) -> dict[str, int]:
    """Return by journal when its last operation began or ended."""
    if not t.exists("ops"):
        return {}
    ops = t.table("ops", ("journal", "call_ns", "return_ns"))
    last = pa.table({"journal": ops["journal"], "at": pc.max_element_wise(ops["call_ns"], ops["return_ns"])})
    rows = last.group_by("journal").aggregate([("at", "max")]).to_pylist()
    return {row["journal"]: row["at_max"] for row in rows if row["at_max"] is not None}


def _ownership(rows: Iterable[Row], last_ns: int | None) -> Iterator[tuple[int, int, frozenset[int]]]:
    """Yield (from, to, partitions) for each time in which a process owned the same partitions. To is -1 if it is not
    known.
    """
    owned: frozenset[int] = frozenset()
    since_ns = 0
    for time_ns, changes in groupby(rows, key=itemgetter("time_ns")):
        if owned and time_ns > since_ns:
            yield since_ns, time_ns, owned
        for change in changes:
            owned = owned | {change["tp"]} if change["gained"] else owned - {change["tp"]}
        since_ns = time_ns
    if owned:
        yield since_ns, -1 if last_ns is None else max(last_ns, since_ns), owned


def changed_requests(changed: Sequence[JournaledRequest], named: Subjects) -> Iterator[Lane]:
    """Yield a lane for each client: its changed requests from sent to answered, and a mark for each delivery."""
    by_client: dict[str, list[AxisBar]] = {}
    of_findings = set()
    for each in changed:
        request = each.request
        name = printable(", ".join(request.names) or NOT_KNOWN, 80)
        lane_bars = by_client.setdefault(name, [])
        if each.is_of(named.transactional_ids):
            of_findings.add(name)
        text = printable(each.describe(), 400)
        answered = None if each.answered_ns is None else milliseconds(each.answered_ns)
        lane_bars.append(AxisBar(milliseconds(request.seen_ns), answered, CHANGED, text=text))
        if request.delivered_ns is not None:
            at_ms = milliseconds(request.delivered_ns)
            lane_bars.append(AxisBar(at_ms, at_ms, DELIVERED, text=text))
    for name, lane_bars in by_client.items():
        lane_bars.sort(key=lambda bar: bar.from_ms)
        yield Lane(LaneGroup.REQUESTS, name, lane_bars, of_finding=name in of_findings)
