"""Cycles: transactions that depend on each other in a cycle.

An edge leads from one operation to an operation that depends on it:

- `wr`: from a writer to an operation that read what it wrote.
- `ww`: from a writer to the writer of the next value in the version order.
- `rw`: from a reader, by its last read of a partition, to the writer of the next value.
- process order: from an operation to the next operation of the same process.
- realtime order: from an operation to each operation that was invoked after its ok completion.

A name says which kinds of edges the cycle needs. The cycle is a strongly connected component of the graph with exactly
these kinds of edges. A graph with fewer kinds has no cycle among the operations of the component. All operations are in
the graph, whatever their outcome, as in Jepsen's checker. An operation that never completed counts as `info`.

    G0                  transactions in a cycle of ww edges
    G0-process          transactions in a cycle of ww edges, and process order
    G0-realtime         transactions in a cycle of ww edges, and realtime order
    G1c                 transactions in a cycle of wr edges
    G1c-process         transactions in a cycle of wr edges, and process order
    G1c-realtime        transactions in a cycle of wr edges, and realtime order
    G1c-ww              transactions in a cycle of ww and wr edges
    G1c-ww-process      transactions in a cycle of ww and wr edges, and process order
    G1c-ww-realtime     transactions in a cycle of ww and wr edges, and realtime order
    G-single            transactions in a cycle of ww, wr and one rw edge
    G-single-process    transactions in a cycle of ww, wr and one rw edge, and process order
    G-single-realtime   transactions in a cycle of ww, wr and one rw edge, and realtime order
    G2                  transactions in a cycle of ww, wr and two or more rw edges
    G2-process          transactions in a cycle of ww, wr and two or more rw edges, and process order
    G2-realtime         transactions in a cycle of ww, wr and two or more rw edges, and realtime order

Illegal because a transaction cannot read what is not yet committed. In a `G1c`, `G1c-process` or `G1c-realtime`,
information has flowed in a circle, or a record was read before it was sent. All other cycles are listed and always
allowed, because Kafka interleaves the writes of transactions by design and does not isolate their reads.
Evidence: which operation read which record, and the version order. Each finding shows a short cycle, step by step.

    T1  send x=1, poll y: 2 at offset 0      ok
    T2  send y=2, poll x: 1 at offset 0      ok      <- G1c: each read what the other wrote

Blind spot: records that no operation read, and values with several offsets or without a known offset, make no edges.
Reference: Adya 1999, G0, G1c, G-single, G2; Kingsbury and Alvaro, Elle, VLDB 2020; Jepsen's Kafka checker.
"""

from pyspark.sql import DataFrame

from checkers.external_tables import BAD, GRAPHS, PROCESS, REALTIME, RW, WR, WW, CycleKind, ExternalTables
from checkers.findings import AnomalyWording, example_line
from harness.common.wording import join_words, printable
from harness.results.example import Example

EDGES = {
    WR: "one read what another wrote (wr)",
    WW: "one wrote after another (ww)",
    RW: "one read before another wrote (rw)",
    PROCESS: "process order",
    REALTIME: "realtime order",
}


def cycles_external(tables: ExternalTables) -> DataFrame:
    """Return one row for each component."""
    return tables.components


def _meaning(graph: CycleKind) -> str:
    edges = join_words([words for kind, words in EDGES.items() if kind in graph.kinds], 5)
    allowed = "" if graph.name in BAD else " Kafka allows it."
    return f"Transactions depend on each other in a cycle: {edges}.{allowed}"


def _sentence(e: Example) -> str:
    return printable(example_line(e), 5000)


WORDING = {
    graph.name: AnomalyWording(f"{graph.name} cycle", f"{graph.name} cycles", _meaning(graph), _sentence)
    for graph in GRAPHS
}
