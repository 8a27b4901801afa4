"""Tags: how the names begin of all that a run makes on a cluster that others use."""

import re
import secrets

from harness.settings.kinds import Text

PREFIX = Text("1 to 60 letters, digits, dots, underscores and hyphens", r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}")
"""What a run's own names begin with where others have names as well: what Kafka permits in the name of a topic."""
IDLE = "10m"
"""How old the last record of a run must be before one takes it for killed, where the user says nothing."""


KEPT = "-kept"
"""What the prefix of a run ends in that leaves its topics on purpose: `fencepost clean` takes them for another's."""


def new_tag(prefix: str, *, kept: bool = False) -> str:
    """What all that a run makes on a cluster that others use begins with."""
    return f"{prefix}{KEPT if kept else ''}-{secrets.token_hex(3)}"


def prefix_of(tag: str) -> str:
    """The prefix of a run by its tag, as the user has it."""
    return tag.rpartition("-")[0].removesuffix(KEPT)


def _tagged(prefix: str) -> re.Pattern[str]:
    """A name with a tag as `new_tag` makes it: TAG or TAG-...; `prefix`: the pattern of its prefix."""
    return re.compile(rf"(?P<tag>(?P<prefix>{prefix})-[0-9a-f]{{6}})(?:-.*)?", re.DOTALL)


def tag_of(name: str, prefix: str) -> str | None:
    """The tag in the name of a topic or a group; None: no run with that prefix has made it."""
    found = _tagged(re.escape(prefix)).fullmatch(name)
    return found["tag"] if found else None


def longest_prefix(name: str) -> str | None:
    """Of the prefixes whose runs may have made that name the longest: of `a-0b1c2d-3e4f5a-in` it is `a-0b1c2d`."""
    found = _tagged(PREFIX.pattern).fullmatch(name)
    return found["prefix"] if found else None
