"""What to change to get an answer, where a report has none."""

import re
from collections.abc import Sequence

from harness.verdict import ELSEWHERE, NO_AGGREGATE, NO_ORDER

_ADVICE: Sequence[tuple[str, str]] = (
    (ELSEWHERE, "nothing: it is not for a run of Fencepost's own"),
    (f"{NO_ORDER}|{NO_AGGREGATE}", "nothing: it is for workloads that do"),
    (r"does not say what its inputs", "run a workload that says so"),
    (
        r"and (they are|what stood before is) gone|the table \w+ |is not here|of which nothing is here",
        "repeat the run: this evidence is gone, and cannot be had again",
    ),
    (
        r"in this history|one replica",
        "run it on a local cluster, of which all logs are read",
    ),
    (
        r"interrupt|killed|facts\.json",
        "let the run come to its end: `fencepost replay` repeats it from its seed",
    ),
    (
        r"memory|\bOOM\b",
        "give Spark more room than it had, `--spark-conf spark.driver.memory=8g`, then check again",
    ),
    (
        r"was told nothing",
        "run it on a local cluster, of which all logs are read",
    ),
    (
        r"did not act|not act",
        "repeat it with another `--seed`, or name the fault with `--nemesis` and a longer `--time-limit`",
    ),
    (
        r"time limit|no room|fit",
        "raise `--time-limit` to what the reason names, or ask for fewer faults with `--nemesis`",
    ),
    (
        r"zombie|paused worker|pause-worker",
        "run it with `--nemesis pause-worker` and a longer `--time-limit`",
    ),
    (r"abort", "raise `--time-limit` or `--rate`: two transactions in a hundred are aborted on purpose"),
    (
        r"drain|lag|sentinel|to the end|short of|stuck",
        "lower `--rate`, or raise `--time-limit`, and repeat it",
    ),
    (r"journal|line|torn|missing|damaged", "repeat the run: this evidence is gone, and cannot be had again"),
    (
        r"crash|traceback|exception|broke",
        "hand it over as a bug report (below): the check had its evidence and broke",
    ),
    (
        r"kill-|pause-|partition|fault",
        "name the fault with `--nemesis`, and give it time with `--time-limit`",
    ),
)
FALLBACK = "repeat the run with a longer `--time-limit` or another `--seed`"


def advice(name: str, reason: str) -> str:
    """What to change, for something that was not checked, not exercised or is unknown."""
    for pattern, words in _ADVICE:
        if re.search(pattern, reason, re.IGNORECASE):
            return words
    for pattern, words in _ADVICE:
        if re.search(pattern, name, re.IGNORECASE):
            return words
    return FALLBACK
