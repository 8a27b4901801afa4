"""Plants: inputs that are taken twice, or never, or by the wrong offset."""

from random import Random

from tests.planted.planted import Planted, of_input, of_operation, position
from tests.planted.run import Run


def reprocessed_input(h: Run, rng: Random) -> Planted:
    """Two workers process the same inputs. The second commits no offsets, or the same ones."""
    source, inputs = h.fed(rng.randint(1, 3))
    without_offsets = rng.random() < 0.5
    for number in range(2):
        worker, pid = h.fresh()
        offsets = "" if number and without_offsets else None
        h.transact(*inputs, to="p", offsets_fate=offsets, source=source, worker=worker, pid=pid)
    found: Planted = {"reprocessed-input": [of_input(source, offset) for offset in inputs]}
    return found if without_offsets else {**found, "overlapping-commit": [of_input(source, inputs[0])]}


def lost_input(h: Run, rng: Random) -> Planted:
    """The group continues after inputs whose transaction failed."""
    source, inputs = h.fed(rng.randint(2, 4))
    lost = rng.randint(1, len(inputs) - 1)
    for outcome, some in (("fail", inputs[:lost]), ("ok", inputs[lost:])):
        worker, pid = h.fresh()
        h.transact(*some, to="p", outcome=outcome, source=source, worker=worker, pid=pid)
    return {"lost-input": [of_input(source, offset) for offset in inputs[:lost]]}


def offset_output_mismatch(h: Run, rng: Random) -> Planted:
    """A transaction aborts, its offsets are committed outside it, and its inputs are processed again."""
    source, inputs = h.fed(rng.randint(1, 3))
    worker, pid = h.fresh()
    op = h.transact(*inputs, to="p", outcome="fail", offsets_fate="", source=source, worker=worker, pid=pid)
    h.commit_offset(inputs[-1] + 1, op, source=source)
    worker, pid = h.fresh()
    h.transact(*inputs, to="p", source=source, worker=worker, pid=pid)
    return {"offset-output-mismatch": [of_operation(op)]}


def claimed_without_output(h: Run, rng: Random) -> Planted:
    """A transaction claims an input that none of its outputs names."""
    source, inputs = h.fed(rng.randint(2, 3))
    worker, pid = h.fresh()
    left = rng.choice(inputs)
    named = [offset for offset in inputs if offset != left]
    op = h.transact(*inputs, to="p", output_inputs=named, source=source, worker=worker, pid=pid)
    return {
        "offset-output-mismatch": [{**of_operation(op), **of_input(source, left)}],
        "lost-input": [of_input(source, left)],
    }


def overlapping_commit(h: Run, rng: Random) -> Planted:
    """A second worker commits only offsets, of inputs that the first has processed."""
    source, inputs = h.fed(rng.randint(2, 3))
    worker, pid = h.fresh()
    h.transact(*inputs, to="p", source=source, worker=worker, pid=pid)
    again = inputs[rng.randrange(1, len(inputs)) :]
    worker, pid = h.fresh()
    h.transact(*again, to="", source=source, worker=worker, pid=pid)
    return {"overlapping-commit": [of_input(source, again[0])]}


def group_offset_regression(h: Run, rng: Random) -> Planted:
    """An offset commit outside any transaction moves back. The next one is correct again."""
    source, inputs = h.fed(rng.randint(2, 4))
    worker, pid = h.fresh()
    h.transact(*inputs, to="p", source=source, worker=worker, pid=pid)
    low, end = rng.choice(inputs[1:]), inputs[-1] + 1
    h.commit_offset(low, source=source)
    h.commit_offset(end, source=source)
    return {"group-offset-regression": [{**of_input(source, low), "committed": low, "committed_before": end}]}


def stale_offset(h: Run, rng: Random) -> Planted:
    """A worker that is assigned the topic later begins below the committed offset."""
    source, inputs = h.fed(rng.randint(2, 4))
    worker, pid = h.fresh()
    done = rng.randint(1, len(inputs) - 1)
    op = h.transact(*inputs[:done], to="p", source=source, worker=worker, pid=pid)
    worker, pid = h.fresh()
    h.assign(worker, source)
    start = rng.choice(inputs[:done])
    reader = h.op(worker, "poll")
    for offset in inputs[inputs.index(start) : done]:
        h.poll(reader, source, offset, h.entries[source][offset]["value"])
    h.transact(*inputs[done:], to="p", source=source, worker=worker, pid=pid)
    return {
        "stale-offset": [{**of_input(source, start), "reader": {"name": reader.name}, **of_operation(op)}]
    }


def premature_offset(h: Run, rng: Random) -> Planted:
    """A worker commits an offset beyond its polled inputs. No output of the inputs between is expected."""
    source, inputs = h.fed(rng.randint(1, 2))
    _, beyond = h.fed(rng.randint(1, 2), source=source, owes="")
    worker, pid = h.fresh()
    claim = (inputs[0], rng.choice(beyond) + 1)
    op = h.transact(*inputs, to="p", claim=claim, source=source, worker=worker, pid=pid)
    return {"premature-offset": [of_operation(op)]}


def aggregate_mismatch(h: Run, rng: Random) -> Planted:
    """The last sum of one key is wrong, and that of another key is right."""
    source, inputs = h.fed(rng.randint(1, 3), source="a")
    worker, pid = h.fresh()
    amounts = [rng.randint(1, 9) for _ in inputs]
    for key in ("right", "wrong"):
        for offset, amount in zip(inputs, amounts, strict=True):
            h.expect_amount(offset, f"{key}-{pid}", amount, "s")
    h.transact(*inputs, to="p", source=source, worker=worker, pid=pid)
    h.append("s", None, key=f"right-{pid}", state=sum(amounts))
    h.append("s", None, key=f"wrong-{pid}", state=sum(amounts))
    last = h.append("s", None, key=f"wrong-{pid}", state=sum(amounts) + rng.choice([-1, 1, 5]))
    return {
        "aggregate-mismatch": [{"key": f"wrong-{pid}", "due": sum(amounts), "record": position("s", last)}]
    }


def order_violation(h: Run, rng: Random) -> Planted:
    """Outputs of one key are in another order than their inputs. One transaction commits the offsets of all."""
    source, inputs = h.fed(rng.randint(2, 4))
    key = f"k-{h.fresh()[1]}"
    order = rng.sample(inputs, len(inputs))
    if order == inputs:
        order.reverse()
    for offset in order:
        worker, pid = h.fresh()
        last = None if offset == inputs[-1] else ""
        h.transact(offset, to="p", key=key, offsets_fate=last, source=source, worker=worker, pid=pid)
    late = [offset for at, offset in enumerate(order) if max(order[: at + 1]) > offset]
    return {"order-violation": [{"key": key, **of_input(source, offset)} for offset in late]}


PLANTS = (
    reprocessed_input,
    lost_input,
    offset_output_mismatch,
    claimed_without_output,
    overlapping_commit,
    group_offset_regression,
    stale_offset,
    premature_offset,
    aggregate_mismatch,
    order_violation,
)
