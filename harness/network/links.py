"""The names of links, and the links between two brokers or around one.

Over `peer:1->2:int`, broker 1 dials broker 2 as a peer (replication, markers, forwarded requests). Over
`peer:1->2:ctl`, broker 1 dials broker 2 as a controller. Over `client:w0->2`, the client endpoint w0 dials broker 2.
Each link has its own proxy, so a cut of one link does not affect the others.
"""

from collections.abc import Iterable, Sequence
from itertools import permutations

KINDS = ("int", "ctl")


def peer_link(source: int, target: int, kind: str) -> str:
    """Return the name of the link from one broker to another. `kind` is `int` or `ctl`."""
    return f"peer:{source}->{target}:{kind}"


def client_link(endpoint: str, broker: int) -> str:
    """Return the name of the link from a client endpoint to a broker."""
    return f"client:{endpoint}->{broker}"


def client_links_by_broker(endpoint: str, links: Iterable[str]) -> dict[int, str]:
    """Return the links that begin at a client endpoint, by broker."""
    stem = f"client:{endpoint}->"
    return {int(link.removeprefix(stem)): link for link in links if link.startswith(stem)}


def links_between(first: int, second: int) -> list[str]:
    """Return all links between two brokers, in both directions."""
    return [peer_link(a, b, kind) for a, b in permutations((first, second)) for kind in KINDS]


def links_around(broker: int, brokers: Sequence[int]) -> list[str]:
    """Return all links between a broker and its peers, in both directions."""
    return [link for peer in brokers if peer != broker for link in links_between(broker, peer)]


def proxy_name(link: str) -> str:
    """Return the name of a link's proxy in toxiproxy. It has no characters that a URL would escape."""
    return link.replace("->", "-to-").replace(":", ".")
