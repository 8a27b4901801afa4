"""Offsets and outputs of one transaction do not belong together.

Three clauses. In one operation an offset commit and an output have different fates (one committed, one
aborted; an offset commit outside any transaction counts as committed). Or a committed operation's offset
commit stands at another offset than the inputs that it claims. Or its claim and its outputs name different
inputs: a visible output names an input outside the claim, or the claim holds a visible input that must lead
to outputs and, of all that it wrote, nothing names that input. Transactions that hold only offsets, or only
outputs, are no anomaly.

Illegal because exactly-once rests on this one atom: the outputs and the step over their inputs,
together or not.
Evidence: the journal's claims and sends, the fates of records and of offset commits.

    T1  poll a@4, send x=1 (from a@4), send_offsets a->5, commit     ok
    log of x: 1 at offset 7, abort at offset 8
    log of __consumer_offsets: a->5, commit                                 <- offset-output-mismatch

Blind spot: offset commits that are gone (their topic is compacted), and those that bear no operation's
name.
Reference: KIP-98, "consume-transform-produce"; KIP-447.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from checkers.findings.build import finding, operation
from checkers.stored.tables import Tables

NAME = "offset-output-mismatch"


def offset_output_mismatch(t: Tables) -> DataFrame:
    """One row for each operation and clause; the last clause: for each operation and input."""
    return _fates(t).unionByName(_elsewhere(t)).unionByName(_inputs(t))


def _fates(t: Tables) -> DataFrame:
    def some(column: str, effect: str) -> Column:
        return F.exists(column, lambda row: F.coalesce(row["effect"] == effect, F.lit(False)))

    apart = (some("records", "commit") & some("commits", "abort")) | (
        some("records", "abort") & some("commits", "commit")
    )
    return finding(
        t.operations.where(apart),
        NAME,
        order=["op"],
        ops=F.array("op"),
        operation=operation(),
        records=F.transform(
            F.slice("records", 1, 20),
            lambda r: F.struct(r["tp"].alias("tp"), r["offset"].alias("offset"), r["value"].alias("value")),
        ),
        offsets=F.transform(
            "commits",
            lambda c: F.struct(
                c["tp"].alias("tp"), c["committed"].alias("committed"), c["effect"].alias("fate")
            ),
        ),
    )


def _elsewhere(t: Tables) -> DataFrame:
    commits = t.operations.where("size(claims) > 0").select(
        "run", "op", "claims", F.explode("commits").alias("c")
    )
    claimed = F.exists(
        "claims", lambda claim: (claim["tp"] == F.col("c.tp")) & (claim["next"] == F.col("c.committed"))
    )
    return finding(
        commits.where((F.col("c.effect") == "commit") & F.col("c.committed").isNotNull() & ~claimed),
        NAME,
        order=["op", "c.tp"],
        ops=F.array("op"),
        operation=operation(),
        offsets=F.array(F.struct("c.tp", "c.committed")),
        claims=F.transform(
            "claims",
            lambda c: F.struct(c["tp"].alias("tp"), c["first"].alias("first"), c["next"].alias("next")),
        ),
    )


def _inputs(t: Tables) -> DataFrame:
    outside = t.inputs.select(
        "run",
        "tp",
        "offset",
        F.explode(
            F.filter(
                "outputs",
                lambda o: o["visible"] & o["claims"] & ~F.exists("claims", lambda c: c["op"] == o["op"]),
            )
        ).alias("output"),
    ).select(
        "run",
        "tp",
        "offset",
        "output.op",
        "output",
        F.lit("an output names an input that the offsets do not cover").alias("why"),
    )
    bare = F.filter(
        "claims",
        lambda c: (
            (c["settled"] == "committed")
            & c["writes"]
            & F.exists("expected", lambda e: e["group"] == c["group"])
            & ~F.exists("outputs", lambda o: F.coalesce(o["op"] == c["op"], F.lit(False)))
        ),
    )
    covered = (
        t.inputs.where("visible")
        .select("run", "tp", "offset", F.explode(bare).alias("claim"))
        .select(
            "run",
            "tp",
            "offset",
            "claim.op",
            F.lit("the offsets cover an input that no output names").alias("why"),
        )
    )
    return finding(
        outside.unionByName(covered, allowMissingColumns=True),
        NAME,
        order=["op", "tp", "offset"],
        ops=F.array("op"),
        absence=F.col("output").isNull(),
        operation=operation(),
        input=F.struct("tp", "offset"),
        record=F.when(
            F.col("output").isNotNull(),
            F.struct("output.tp", "output.offset", F.col("output.name").alias("value")),
        ),
        why=F.col("why"),
    )
