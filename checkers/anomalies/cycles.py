"""Cycles: transactions that depend on each other in a cycle.

An edge leads from a transaction to one that depends on it: `wr` to a reader of what it wrote, `ww` to the
writer of the following value in the version order, `rw` from a reader (by its last read of a partition) to
the writer of the following value, process order to the next operation of the same process, realtime order
to whatever was invoked after its ok completion. A name says which edges the cycle needs: it is a strongly
connected component of the graph of exactly those edges, in which no graph of fewer kinds has a cycle. All
operations are in it, whatever their outcome, as in Jepsen's checker; one that never completed counts as info.

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

Illegal because nobody can read what is not yet committed: by `G1c`, `G1c-process` and `G1c-realtime`
information has flowed in a circle, or was read before it was sent. All others are listed and always
allowed: Kafka interleaves the writes of transactions by design, and does not isolate their reads.
Evidence: who was given what, and the version order; each finding has a short cycle, step by step.

    T1  send x=1, poll y: 2 at offset 0      ok
    T2  send y=2, poll x: 1 at offset 0      ok      <- G1c: each read what the other wrote

Blind spot: what nobody read, and values whose offsets nobody knows or that have several, make no edges.
Reference: Adya 1999, G0, G1c, G-single, G2; Kingsbury and Alvaro, Elle, VLDB 2020; Jepsen's Kafka checker.
"""

from pyspark.sql import DataFrame

from checkers.external.graph.names import BAD, GRAPHS, PROCESS, REALTIME, RW, WR, WW, CycleKind
from checkers.external.lines import line
from checkers.external.tables import ExternalTables
from checkers.findings.wording import AnomalyWording
from harness.results.example import Example
from harness.results.wording import join_words, printable

EDGES = {
    WR: "reading what another wrote (wr)",
    WW: "writing after another (ww)",
    RW: "reading before another wrote (rw)",
    PROCESS: "process order",
    REALTIME: "realtime order",
}


def cycles_external(t: ExternalTables) -> DataFrame:
    """One row for each component."""
    return t.components


def _meaning(graph: CycleKind) -> str:
    edges = join_words([words for kind, words in EDGES.items() if kind in graph.kinds], 5)
    allowed = "" if graph.name in BAD else " Kafka allows it."
    return f"Transactions depend on each other in a cycle, by {edges}.{allowed}"


def _sentence(e: Example) -> str:
    return printable(line(e.body), 5000)


WORDING = {
    graph.name: AnomalyWording(f"{graph.name} cycle", f"{graph.name} cycles", _meaning(graph), _sentence)
    for graph in GRAPHS
}
