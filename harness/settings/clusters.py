"""What only an external cluster has, and what it cannot do without."""

import re
import secrets
from collections.abc import Collection, Mapping

from harness.errors import UsageError
from harness.settings.kinds import Text

WORKERS, LINKS = "workers", "links"
PERMITS = (WORKERS, LINKS)
"""What a run may strike of an external cluster and its clients; the workers are the run's own."""
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


def check_external(
    cluster: str, bootstrap: str | None, client_config: str | None, keep: str, settings: Mapping[str, str]
) -> None:
    """Raises `UsageError` in one sentence."""
    if cluster == "external":
        if bootstrap is None and client_config is None:
            raise UsageError("--cluster external needs --set bootstrap=HOST:PORT,...")
        if settings:
            raise UsageError("an external cluster has its own broker settings: leave out --set broker....")
        if keep == "logs":
            raise UsageError("an external cluster keeps its segment files itself: leave out --keep logs")
        return
    given = {
        "--set bootstrap": bootstrap is not None,
        "--set client-config": client_config is not None,
        "--keep topics": keep == "topics",
    }
    if names := [name for name, there in given.items() if there]:
        raise UsageError(f"{names[0]} needs --cluster external")


def check_guest(cluster: str, permits: Collection[str] | None, prefix: str) -> None:
    """Raise `UsageError` for what cannot be permitted on a cluster of that kind, and for a prefix that it needs not."""
    if cluster != "external" and prefix != "fencepost":
        raise UsageError(
            "--set prefix needs --cluster external: a cluster of the run's own has no other names"
        )
    if permits is None:
        return
    if cluster != "external":
        raise UsageError(
            "--set permits needs --cluster external: everything of a cluster of our own may be struck"
        )
    if strange := [one for one in permits if one not in PERMITS]:
        raise UsageError(
            f"a run cannot strike {strange[0]} of an external cluster: permits may have {' and '.join(PERMITS)}"
        )


def check_given(cluster: str, given: Collection[str]) -> None:
    """Raise `UsageError` for an option that a user gave, by key, and that an external cluster decides by itself."""
    if cluster == "external" and "brokers" in given:
        raise UsageError("an external cluster has its own number of brokers: leave out --brokers")
