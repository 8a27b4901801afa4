"""Tags: a tag is the start of the names of all topics, groups and ids of a run on a shared cluster."""

import re
import secrets

from harness.settings.kinds import Text

PREFIX = Text("1 to 60 letters, digits, dots, underscores and hyphens", r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}")
"""The type of the option `prefix`. Each tag begins with its value. Kafka permits these characters in topic names."""
IDLE = "10m"
"""The default age of the last record of a run after which `fencepost clean` considers the run dead."""


KEPT_SUFFIX = "-kept"
"""The end of the prefix if a run leaves its topics on purpose, so that `fencepost clean` does not delete them."""


def new_tag(prefix: str, *, keep_topics: bool = False) -> str:
    """Return a new tag. `keep_topics`: the run leaves its topics on purpose."""
    return f"{prefix}{KEPT_SUFFIX if keep_topics else ''}-{secrets.token_hex(3)}"


def prefix_of(tag: str) -> str:
    """Return the value of the option `prefix` from a tag."""
    return tag.rpartition("-")[0].removesuffix(KEPT_SUFFIX)


def _tag_pattern(prefix: str) -> re.Pattern[str]:
    """Return the pattern of names with a tag: TAG or TAG-... . `prefix` is the pattern of the prefix."""
    return re.compile(rf"(?P<tag>(?P<prefix>{prefix})-[0-9a-f]{{6}})(?:-.*)?", re.DOTALL)


def tag_of(name: str, prefix: str) -> str | None:
    """Return the tag in the name of a topic or a group. None: no run with this prefix has created it."""
    match = _tag_pattern(re.escape(prefix)).fullmatch(name)
    return match["tag"] if match else None


def longest_prefix(name: str) -> str | None:
    """Return the longest prefix with which a run may have created this name, or None.

    For `a-0b1c2d-3e4f5a-in` it is `a-0b1c2d`.
    """
    match = _tag_pattern(PREFIX.pattern).fullmatch(name)
    return match["prefix"] if match else None
