"""Write the tables of a valid run of any size, to measure how long a check takes.

    python -P -m tests.support.synthetic FOLDER [INPUTS]

Each input has two outputs, and each transaction has ten inputs. Two observers and the final reader read every record:
N inputs make 3 N records and 10 N polls. One transaction in fifty aborts and is repeated.
"""

import sys
from pathlib import Path

from tests.support.histories import History
from tests.support.stored_tables import write_store


def synthetic(inputs: int) -> History:

    h = History(expects="xy")
    h.feed(inputs)
    for number, first in enumerate(range(0, inputs, 10)):
        batch = range(first, min(first + 10, inputs))
        if number % 50 == 0:
            h.transact(*batch, to="xy", outcome="fail")
        h.transact(*batch, to="xy")
    for observer in ("o1", "o2"):
        op = h.op(observer, "poll")
        for topic in "axy":
            for at, (entry, fate) in enumerate(zip(h.entries[topic], h.fates(topic), strict=True)):
                if fate in ("commit", "plain"):
                    h.poll(op, topic, at, entry["value"], role="observer")
    return h


if __name__ == "__main__":
    write_store(
        Path(sys.argv[1]), [(0, synthetic(int(sys.argv[2]) if len(sys.argv) > 2 else 20_000))], log=True
    )
