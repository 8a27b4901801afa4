"""Write the tables of faults in docs/faults.md: python -m nemeses.pages docs/faults.md."""

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from harness.cluster.kinds.registry import clusters_able_to
from harness.runner.nemesis import Nemesis
from nemeses.registry import NEMESES

TABLES: Mapping[str, Callable[[Nemesis], bool]] = {
    "drawn by default": lambda fault: fault.by_default,
    "only if you name them": lambda fault: not fault.by_default and not fault.links,
    "on Kafka's messages": lambda fault: not fault.by_default and bool(fault.links),
}
"""By the name of a table: whether a fault is in it. Each fault is in one of them."""
TABLE = re.compile(r"(<!-- faults ([^\n]+) -->\n).*?(<!-- end -->)", re.S)


def with_tables(page: str) -> str:
    """Return the page with the current tables in place of those that it has."""

    def table(match: re.Match[str]) -> str:
        rows = (_row(fault) for fault in NEMESES.values() if TABLES[match[2]](fault))
        head = ["| fault | what it does | `--cluster` |", "| --- | --- | --- |"]
        return match[1] + "\n".join([*head, *rows, match[3]])

    return TABLE.sub(table, page)


def _row(fault: Nemesis) -> str:
    sources = ", ".join(source for source in fault.sources if source not in fault.summary)
    what = f"{fault.summary}; see {sources}" if sources else fault.summary
    clusters = clusters_able_to(fault.needs).removeprefix("--cluster ").replace(" or ", ", ")
    clusters = re.sub(r"--set (\S+)", r"(`\1`)", clusters)
    return f"| `{fault.name}` | {what} | {clusters} |"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(with_tables(path.read_text(encoding="utf-8")), encoding="utf-8")
