"""Plants: consumers that skip records or move back, and producers whose records are in another order."""

from random import Random

from tests.planted.planted import Planted, position
from tests.planted.run import Run
from tests.support.histories import Op


def _reads(h: Run, polls: list[list[int]], topic: str = "q") -> list[Op]:
    """A new observer reads these offsets, poll by poll."""
    h.settle(topic)
    journal, ops = f"o-{h.fresh()[0]}", []
    for offsets in polls:
        ops.append(h.op(journal, "poll"))
        for offset in offsets:
            h.poll(ops[-1], topic, offset, h.entries[topic][offset]["value"], role="observer")
    return ops


def _step(before: int, after: int, reader: Op, topic: str = "q", **more: object) -> dict[str, object]:
    return {
        "records": [position(topic, before), position(topic, after)],
        "reader": {"name": reader.name},
        **more,
    }


def poll_skip(h: Run, rng: Random) -> Planted:
    _, (first, *skipped, last) = h.sent("q", rng.randint(3, 5))
    _, reader = _reads(h, [[first], [last]])
    return {"poll-skip": [_step(first, last, reader, skipped=len(skipped))]}


def int_poll_skip(h: Run, rng: Random) -> Planted:
    _, (first, *skipped, last) = h.sent("q", rng.randint(3, 5))
    (reader,) = _reads(h, [[first, last]])
    return {"int-poll-skip": [_step(first, last, reader, skipped=len(skipped))]}


def nonmonotonic_poll(h: Run, rng: Random) -> Planted:
    """The next poll has an earlier record, or the same again."""
    _, offsets = h.sent("q", rng.randint(1, 3))
    again = rng.choice(offsets)
    *_, reader = _reads(h, [offsets, [again]])
    return {"nonmonotonic-poll": [_step(offsets[-1], again, reader)]}


def int_nonmonotonic_poll(h: Run, rng: Random) -> Planted:
    _, offsets = h.sent("q", rng.randint(2, 3))
    again = rng.choice(offsets)
    (reader,) = _reads(h, [[*offsets, again]])
    return {"int-nonmonotonic-poll": [_step(offsets[-1], again, reader)]}


def group_input_polled_again(h: Run, rng: Random) -> Planted:
    """A worker polls an input again although it has committed it."""
    source, inputs = h.fed(rng.randint(1, 3))
    worker, pid = h.fresh()
    h.transact(*inputs, to="p", source=source, worker=worker, pid=pid)
    reader = h.op(worker, "poll")
    offset = inputs[-1]
    h.poll(reader, source, offset, h.entries[source][offset]["value"])
    return {"nonmonotonic-poll": [_step(offset, offset, reader, source)]}


def nonmonotonic_send(h: Run, rng: Random) -> Planted:
    """The record of a feeder's first operation has a higher offset than that of its second."""
    source, _ = h.fed(0)
    feeder, _ = h.fresh()
    one, two = h.op(f"f-{feeder}", "send"), h.op(f"f-{feeder}", "send")
    low, high = (h.append(source, f"{op.name}:0", digest=7) for op in (two, one))
    h.send(one, source, high)
    h.send(two, source, low)
    _owed(h, source, [low, high])
    return {"nonmonotonic-send": [{"operations": [{"name": one.name}, {"name": two.name}]}]}


def int_nonmonotonic_send(h: Run, rng: Random) -> Planted:
    """Two records of one operation are in reverse order in the log."""
    source, _ = h.fed(0)
    feeder, _ = h.fresh()
    op = h.op(f"f-{feeder}", "send")
    low, high = (h.append(source, f"{op.name}:{n}", digest=7) for n in (1, 0))
    h.send(op, source, high)
    h.send(op, source, low)
    _owed(h, source, [low, high])
    return {"int-nonmonotonic-send": [{"operations": [{"name": op.name}]}]}


def _owed(h: Run, source: str, inputs: list[int]) -> None:
    """They are taken."""
    for offset in inputs:
        h.expect(offset, source)
    worker, pid = h.fresh()
    h.transact(*inputs, source=source, worker=worker, pid=pid)


PLANTS = (
    poll_skip,
    int_poll_skip,
    nonmonotonic_poll,
    int_nonmonotonic_poll,
    group_input_polled_again,
    nonmonotonic_send,
    int_nonmonotonic_send,
)
