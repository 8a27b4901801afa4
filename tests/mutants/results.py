"""The results of earlier runs on this machine, so that an interrupted `make mutants` goes on where it ended."""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.mutants.mutate import Mutant
from tests.mutants.selection import ROOT

RESULTS = ROOT / ".mutants" / "results.jsonl"
SURVIVED = "survived"


@dataclass(frozen=True)
class Result:
    """What became of a mutant: `survived`, or `killed: ` and how."""

    key: str
    fate: str
    tests: str  # the digest of the checkers and tests that it survived


def load(path: Path, tests: str) -> dict[str, Result]:
    """Return the results that still hold, by the key of the mutant.

    A mutant that was killed is killed as long as its file is unchanged. One that survived has to run again when
    anything in `checkers/` or `tests/` has changed.
    """
    lines = path.read_text().splitlines() if path.exists() else []
    results = [Result(**json.loads(line)) for line in lines]
    return {one.key: one for one in results if one.fate != SURVIVED or one.tests == tests}


def add(path: Path, mutant: Mutant, fate: str, tests: str) -> Result:
    """Append the result of a mutant to the file."""
    result = Result(mutant.key, fate, tests)
    path.parent.mkdir(exist_ok=True)
    with path.open("a") as out:
        out.write(json.dumps(asdict(result)) + "\n")
    return result


def digest_of_tests() -> str:
    """Return a digest of all files that decide whether a mutant survives."""
    digest = hashlib.sha256()
    for folder in ("checkers", "tests"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            digest.update(path.relative_to(ROOT).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:16]
