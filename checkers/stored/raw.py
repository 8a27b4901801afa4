"""What is counted of the recorded tables before anything is brought together, in one pass over them."""

from checkers.spark.gather import beside
from checkers.stored.sources import Sources
from checkers.stored.tally import Counted, Tally, tally


def count_raw(s: Sources) -> Tally:
    """By run and table (`ended` and `named` aside, which are parts of `records` and `expected`)."""
    return tally(
        [
            Counted("ops", s["ops"], {}, text="journal"),
            Counted("sends", s["sends"], {}, text="topic"),
            Counted("claims", s["claims"], {}),
            Counted("assignments", s["assignments"], {"given_up": "not gained"}),
            Counted("expected", s["expected"], {}, text="stage"),
            _named(s),
            Counted("ended", s["records"].where("sentinel"), {}, most="timestamp_ms"),
            Counted("transactions", s["transactions"], {}, by_tp="log_tp", most="timeout_ms"),
            Counted("offsets", s["offsets"], OFFSETS, text="group"),
        ]
    )


OFFSETS = {
    "within": "transactional",
    "unnamed": "not (op is not null and transactional)",
}
"""Offset commits that are part of a transaction; and those that are not, or do not name their operation."""


def _named(s: Sources) -> Counted:
    """The outputs that name their inputs, of stages without journals, by the topic in which they are due."""
    unjournaled = beside(s["stages"].where("journaled = false"))
    due = s["expected"].where("slot is not null and about is null")
    return Counted("named", due.join(unjournaled, on=["run", "stage"], how="left_semi"), {}, text="topic")
