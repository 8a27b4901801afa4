"""Parse a container's connections from `/proc/net/tcp` and `/proc/net/tcp6`."""

from collections.abc import Iterator
from typing import NamedTuple

ESTABLISHED = 1
SOCKET_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")


class ContainerConnection(NamedTuple):
    """One end of an established connection."""

    local_port: int
    remote_port: int


def read_established(tables: str) -> Iterator[ContainerConnection]:
    """Yield the established connections in the text of both tables.

    Each line has one connection. Addresses have the form `HOST:PORT`, both in hexadecimal.
    """
    for line in tables.splitlines():
        words = line.split()
        if len(words) > 3 and words[0].endswith(":") and int(words[3], 16) == ESTABLISHED:
            yield ContainerConnection(*(int(address.rpartition(":")[2], 16) for address in words[1:3]))
