"""Examples of external histories, in a line each: these have no report."""

from collections.abc import Iterator

from harness.history_files.schema import KNOWN
from harness.telling.words import printable, several
from harness.verdict import Verdict
from reports.console import headed
from reports.told import sentence

CHARACTERS = 600
"""Of an example, at most: all of it is in `verdict.json`."""


def explanations(verdict: Verdict) -> Iterator[str]:
    """For each anomaly that counts, how often it was found and what the first example says; and what nobody
    has judged.
    """
    if over := verdict.stats.get("passed_over"):
        yield f"{several(over, 'operation')} passed over: f is none of {', '.join(KNOWN)}"
    for name, found in verdict.anomalies.items():
        if found.example:
            yield f"{headed(name, found)}: {printable(sentence(name, found), CHARACTERS)}"
