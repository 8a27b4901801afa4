"""The names of links, and which of them a cut between two ends means.

`peer:1->2:int` is how broker 1 dials broker 2 as a peer (replication, markers, forwarded
requests), `peer:1->2:ctl` how it dials it as a controller, `client:w0->2` how the client endpoint w0
dials broker 2. Each is a proxy of its own, so cutting one leaves the others alone.
"""

from collections.abc import Iterable, Sequence
from itertools import permutations

KINDS = ("int", "ctl")


def peer_link(source: int, target: int, kind: str) -> str:
    """How one broker dials another; `kind` is `int` or `ctl`."""
    return f"peer:{source}->{target}:{kind}"


def client_link(endpoint: str, broker: int) -> str:
    """How a client endpoint dials a broker."""
    return f"client:{endpoint}->{broker}"


def client_links_by_broker(endpoint: str, links: Iterable[str]) -> dict[int, str]:
    """The links by which a client endpoint dials brokers, by broker."""
    stem = f"client:{endpoint}->"
    return {int(link.removeprefix(stem)): link for link in links if link.startswith(stem)}


def links_between(one: int, other: int) -> list[str]:
    """Every link between two brokers, in both directions."""
    return [peer_link(a, b, kind) for a, b in permutations((one, other)) for kind in KINDS]


def links_around(broker: int, brokers: Sequence[int]) -> list[str]:
    """Every link between a broker and all its peers."""
    return [link for peer in brokers if peer != broker for link in links_between(broker, peer)]


def proxy_name(link: str) -> str:
    """A link's name as toxiproxy has it, where names stand in URLs."""
    return link.replace("->", "-to-").replace(":", ".")
