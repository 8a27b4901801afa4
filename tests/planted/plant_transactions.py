"""Plants: transactions that do not end as they were told, or not as a whole."""

from random import Random

from tests.planted.planted import Planted, at, each, given, record, taken
from tests.planted.run import Run


def lost_commit(h: Run, rng: Random) -> Planted:
    """Outputs or offsets of a commit that was told ok are aborted."""
    source, inputs = h.fed(rng.randint(1, 3))
    worker, pid = h.fresh()
    if rng.random() < 0.3:
        op = h.transact(*inputs, to="p", offsets_fate="abort", source=source, worker=worker, pid=pid)
        return {"lost-commit": [at(op)], "offset-output-mismatch": [at(op)]}
    op = h.transact(*inputs, to="p", fates={"p": "abort"}, source=source, worker=worker, pid=pid)
    records = each("p", h.sent_of(op, "p"))
    return {
        "lost-commit": [at(op)],
        "offset-output-mismatch": [at(op)],
        "lost-write": records,
        "unseen": records,
        "lost-input": [taken(source, offset) for offset in inputs],
    }


def ghost_commit(h: Run, rng: Random) -> Planted:
    """What was aborted, or never asked for, is committed."""
    source, inputs = h.fed(rng.randint(1, 3))
    worker, pid = h.fresh()
    if rng.random() < 0.5:
        op = h.transact(
            *inputs, to="p", outcome="info", commit_ns=None, source=source, worker=worker, pid=pid
        )
        return {"ghost-commit": [at(op)]}
    op = h.transact(*inputs, to="p", outcome="fail", fate="commit", source=source, worker=worker, pid=pid)
    records = h.sent_of(op, "p")
    return {"ghost-commit": [at(op)], "aborted-read": [record("p", offset) for offset in records]}


def ghost_taken_again(h: Run, rng: Random) -> Planted:
    """Its inputs are processed a second time."""
    source, inputs = h.fed(rng.randint(1, 2))
    worker, pid = h.fresh()
    op = h.transact(
        *inputs,
        to="p",
        outcome="info",
        fate="commit",
        commit_ns=None,
        source=source,
        worker=worker,
        pid=pid,
    )
    worker, pid = h.fresh()
    h.transact(*inputs, to="p", source=source, worker=worker, pid=pid)
    return {
        "ghost-commit": [at(op)],
        "reprocessed-input": [taken(source, offset) for offset in inputs],
        "overlapping-commit": [taken(source, inputs[0])],
    }


def torn_transaction(h: Run, rng: Random) -> Planted:
    """Committed in one topic and aborted in the other, though nobody was told how it ended."""
    source, inputs = h.fed(rng.randint(1, 3))
    worker, pid = h.fresh()
    op = h.transact(
        *inputs, to="pq", outcome="info", fates={"q": "abort"}, source=source, worker=worker, pid=pid
    )
    return {
        "torn-transaction": [at(op)],
        "offset-output-mismatch": [at(op)],
        "lost-write": each("q", h.sent_of(op, "q")),
    }


def torn_of_what_was_aborted(h: Run, rng: Random) -> Planted:
    """It takes nothing, and was told that it had failed."""
    worker, pid = h.fresh()
    op = h.op(worker, "txn", "fail")
    for topic, fate in (("p", "abort"), ("q", "commit")):
        h.send(op, topic, h.append(topic, f"{op.name}:{len(op.values)}", pid, digest=7))
        h.append_marker(topic, pid, fate)
    h.log_transaction(pid, "pq", "Abort")
    return {
        "torn-transaction": [at(op)],
        "ghost-commit": [at(op)],
        "aborted-read": [record("q", h.sent_of(op, "q")[0])],
    }


def zombie_write(h: Run, rng: Random) -> Planted:
    """Whoever was replaced commits all the same."""
    source, inputs = h.fed(rng.randint(1, 3))
    (first, pid), (second, _) = h.fresh(), h.fresh()
    shared = {"transactional_id": f"shared-{pid}"}
    h.op(first, "init", **shared)
    h.op(second, "init", **shared)
    op = h.transact(*inputs, to="p", source=source, worker=first, pid=pid, **shared)
    return {"zombie-write": [at(op)]}


def zombie_by_epoch(h: Run, rng: Random) -> Planted:
    """A batch that was committed stands above one of a higher epoch."""
    _, pid = h.fresh()
    high = rng.randint(1, 5)
    h.append("m", None, pid, high)
    h.append_marker("m", pid, "abort", high)
    offset = h.append("m", None, pid, high - 1)
    h.append_marker("m", pid, "commit", high - 1)
    return {"zombie-write": [record("m", offset)], "epoch-regression": [record("m", offset)]}


def hanging_transaction(h: Run, rng: Random) -> Planted:
    """Complete, or under way for too long: a record stays open, and what stands above it is never read."""
    worker, pid = h.fresh()
    op = h.op(worker, "txn", "fail")
    offsets = []
    for n in range(rng.randint(1, 3)):
        offsets.append(h.append("h", f"{op.name}:{n}", pid, digest=7))
        h.send(op, "h", offsets[-1])
    if rng.random() < 0.5:
        h.log_transaction(pid, "", "Abort")
    else:
        h.log_state(pid, "Ongoing", "h")
    h.sent("h", rng.randint(0, 2))
    return {"hanging-transaction": each("h", offsets)}


def read_above_lso(h: Run, rng: Random) -> Planted:
    """An observer goes past a record that is open to this day."""
    worker, pid = h.fresh()
    op = h.op(worker, "txn", "fail")
    held = h.append("l", f"{op.name}:0", pid, digest=7)
    h.send(op, "l", held)
    h.log_transaction(pid, "", "Abort")
    _, offsets = h.sent("l", rng.randint(1, 3))
    read = rng.choice(offsets)
    reader = h.shown("l", read)
    return {"hanging-transaction": [record("l", held)], "read-above-lso": [given("l", read, reader)]}


PLANTS = (
    lost_commit,
    ghost_commit,
    ghost_taken_again,
    torn_transaction,
    torn_of_what_was_aborted,
    zombie_write,
    zombie_by_epoch,
    hanging_transaction,
    read_above_lso,
)
