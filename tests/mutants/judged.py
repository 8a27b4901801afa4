"""What is known of the mutants: `judged.txt`, which the repository holds, and the results of this machine.

`judged.txt` has a line for each file and fate: `checkers/x.py killed 2: 0bbca973b6cecb92 271d5f1b9dfeefc5`.
It is what is needed to go on: a mutant that stands there is not judged again. How each was caught stands only
in `results.jsonl`, which git ignores.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

HERE = Path(__file__).parent
SUMMARY = HERE / "judged.txt"
RESULTS = HERE / "results.jsonl"
KILLED, SURVIVED = "killed", "survived"


def fate_of(row: Mapping[str, object]) -> str:
    """`killed` or `survived`, without how."""
    return str(row["fate"]).partition(":")[0]


def load(summary: Path, results: Path) -> dict[str, dict[str, object]]:
    """What is known, by key; what this machine has found out is newer."""
    known: dict[str, dict[str, object]] = {}
    for line in summary.read_text().splitlines() if summary.exists() else ():
        head, _, keys = line.partition(":")
        file, fate, _ = head.split()
        for name in keys.split():
            key = f"{file}:{name}"
            known[key] = {"key": key, "file": file, "fate": fate}
    if results.exists():
        known |= {row["key"]: row for row in map(json.loads, results.read_text().splitlines())}
    return known


def save(summary: Path, rows: Iterable[Mapping[str, object]]) -> None:
    """Write the summary, whole or not at all; mutants that are gone are left out by not being handed in."""
    keys: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        name = str(row["key"]).rpartition(":")[2]
        keys.setdefault((str(row["file"]), fate_of(row)), []).append(name)
    lines = [
        f"{file} {fate} {len(names)}: {' '.join(sorted(names))}\n"
        for (file, fate), names in sorted(keys.items())
    ]
    part = summary.with_suffix(".part")
    part.write_text("".join(lines))
    part.replace(summary)
