"""Unusual transactions are counted if a run's goals need it, and are no findings."""

from collections.abc import Mapping

from one_job import WantedRun, want

from harness.model.vocabulary import Exercise
from harness.results.verdict import CheckResult
from tests.support.histories import WALL_MS, History
from tests.support.stored_tables import OFFSETS

SHAPES = (
    Exercise.SEVERAL_TOPICS,
    Exercise.EMPTY,
    Exercise.OFFSETS_ONLY,
    Exercise.OUTPUTS_ONLY,
    Exercise.TIMED_OUT,
)
GOALS = tuple(shape.value for shape in SHAPES)


def _unusual() -> History:
    h = History(inputs="ab", expects="x")
    h.feed(2)
    h.feed(1, "b")
    both = h.op()  # of two topics
    for source in "ab":
        h.poll(both, source, 0, h.entries[source][0]["value"])
        h.rows["claims"].append({"op": both.op, "group": "g", "tp": h.tp[source], "first": 0, "next": 1})
        value = f"{both.name}:{len(both.values)}"
        at = h.append("x", value, 1, output_name="x", inputs=[(source, 0)], digest=7)
        h.send(both, "x", at, inputs=[0], output_name="x", source=source)
        h.commit_offset(1, both, 1, source=source)
    for topic in ("x", OFFSETS):
        h.append_marker(topic, 1, "commit")
    h.log_transaction(1, ["x", OFFSETS])
    h.op()  # nothing
    again = h.op()  # offsets alone, which claim nothing
    h.commit_offset(1, again, 1)
    h.append_marker(OFFSETS, 1, "commit")
    h.log_transaction(1, [OFFSETS])
    alone = h.op()  # an output of no input
    h.send(alone, "y", h.append("y", f"{alone.name}:0", 1, digest=7))
    h.append_marker("y", 1, "commit")
    h.log_transaction(1, ["y"])
    h.op(
        "w1", "init", transactional_id="id-7"
    )  # one that timed out: asked to commit, and nobody says whether it did
    late = {"transactional_id": "id-7", "pid": 7, "fenced": True}
    h.transact(1, worker="w1", outcome="info", fate="abort", **late)  # type: ignore[arg-type]
    h.transact(1, worker="v", pid=2)

    def bend(row: dict[str, object]) -> dict[str, object]:
        timed_out = (row["transactional_id"], row["state"]) == ("id-7", "PrepareAbort")
        return row | {"start_ms": int(WALL_MS) - 10_000, "update_ms": int(WALL_MS)} if timed_out else row

    h.alter("transactions", bend)
    return h


def _plain() -> History:
    h = History()
    h.feed(2)
    h.transact(0)
    h.transact(1)
    return h


RUNS = {
    (draw, goals): want(draw, goals=goals, healed=False)
    for draw in (_unusual, _plain)
    for goals in (GOALS, ())
}


def test_unusual_transactions_are_counted_and_are_no_findings(
    result_of: Mapping[WantedRun, CheckResult],
) -> None:
    results = {key: result_of[run] for key, run in RUNS.items()}
    assert [one.anomalies for one in results.values()] == [{}] * 4
    assert [results[_unusual, GOALS].coverage[goal] for goal in GOALS] == [1, 1, 1, 1, 1]
    assert [results[_plain, GOALS].coverage[goal] for goal in GOALS] == [0] * 5
    assert not {*GOALS} & results[_unusual, ()].coverage.keys()
