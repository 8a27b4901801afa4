"""A valid run of any size, written straight to Parquet, to measure the analysis with.

    python tests/synthetic.py FOLDER [INPUTS]

Each input leads to two outputs, ten inputs to a transaction. Two observers and the final reader are given
every record: N inputs make 3 N records and 10 N polls. One transaction in fifty is aborted and done again.
"""

import sys
from pathlib import Path

from tests.support.histories import History
from tests.support.stored_tables import write


def synthetic(inputs: int) -> History:
    """The history."""
    h = History(expects="xy")
    h.feed(inputs)
    for number, first in enumerate(range(0, inputs, 10)):
        taken = range(first, min(first + 10, inputs))
        if number % 50 == 0:
            h.take(*taken, gives="xy", outcome="fail")
        h.take(*taken, gives="xy")
    for observer in ("o1", "o2"):
        op = h.op(observer, "poll")
        for topic in "axy":
            for at, (entry, fate) in enumerate(zip(h.entries[topic], h.fates(topic), strict=True)):
                if fate in ("commit", "plain"):
                    h.poll(op, topic, at, entry["value"], role="observer")
    return h


if __name__ == "__main__":
    write(Path(sys.argv[1]), [(0, synthetic(int(sys.argv[2]) if len(sys.argv) > 2 else 20_000))], log=True)
