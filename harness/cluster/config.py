"""The ports and the configuration of brokers. Every link to a broker has its own proxy.

For each peer k, broker j has an internal listener `INT_k` and a controller listener `CTL_k`. As their addresses, it
advertises the proxies of the links k -> j. So broker i dials each peer at the peer's listeners `INT_i` and `CTL_i`,
through proxies. Each client endpoint has a listener on every broker, and its advertised address is a proxy too. The
listener `HARNESS` has no proxy, so no fault can cut off the harness.

The controller listeners are in `advertised.listeners` too. Otherwise followers learn the leader's real address from its
responses, and bypass the proxies a few seconds after a cut begins.

Kafka ignores a setting that it does not know, so a misspelt name would have no effect.
"""

import re
import subprocess
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path, PurePath

from harness.common.errors import StartFailed, UsageError
from harness.common.wording import nearest
from harness.environment.cache import provide
from harness.network import client_link, peer_link, proxy_name
from harness.network.toxiproxy import HOST, Proxy
from harness.protocol.proxy import ProxyLink

HARNESS = "HARNESS"

BROKER_SETTINGS: Mapping[str, str] = {
    # Safety: Kafka's recommendations for transactions. `replication_settings` has the replication factors.
    "unclean.leader.election.enable": "false",
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "6",
    "transaction.state.log.num.partitions": "6",
    # The witness needs whole logs.
    "log.cleaner.enable": "false",
    "log.retention.check.interval.ms": "86400000",
    # Make failover quick, and still realistic.
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "1000",
    "replica.lag.time.max.ms": "5000",
    "replica.socket.timeout.ms": "3000",
    # A completed transaction does not wake a follower's fetch that waits for records, so no fetch may wait for long.
    "replica.fetch.wait.max.ms": "20",
    "replica.fetch.backoff.ms": "200",
    "controller.socket.timeout.ms": "3000",
    "controller.quorum.request.timeout.ms": "1000",
    "controller.quorum.fetch.timeout.ms": "2000",
    "controller.quorum.election.timeout.ms": "1000",
    "request.timeout.ms": "5000",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    # Make failover quick in the consumer protocol too (KIP-848). There the broker decides these values.
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "2000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "300",
    # Make failover quick in the streams protocol too (KIP-1071). Older versions of Kafka ignore these settings.
    "group.streams.min.session.timeout.ms": "1000",
    "group.streams.session.timeout.ms": "2000",
    "group.streams.min.heartbeat.interval.ms": "100",
    "group.streams.heartbeat.interval.ms": "300",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    # Use few threads, and make start and stop quick.
    "num.network.threads": "1",
    "num.io.threads": "4",
    "num.recovery.threads.per.data.dir": "2",
    "controlled.shutdown.retry.backoff.ms": "500",
}
"""The settings of every broker that a run starts. The user's settings override them."""


MAX_REPLICAS = 3
MAX_VOTERS = 3
"""Three voters survive the loss of one, and faults stop one broker at a time. Five voters would survive the loss of
two, which is not needed, but would slow every change of metadata.
"""
TOOL = "kafka.server.KafkaConfig"
"""The class whose `main` prints the documentation of all settings as HTML."""
_SETTING_NAME = re.compile(r'<a id="([a-z0-9.]+)"></a>')
_TIMEOUT_S = 60.0
_UNCHECKED_PREFIXES = ("listener.name.", "log4j2.", "confluent.")
"""Prefixes of names that plug-ins and listeners define. They cannot be checked."""


def voters_of(brokers: Sequence[int]) -> tuple[int, ...]:
    """Return the brokers that are also controllers: the first three, or the first one if there are fewer than three.

    Two voters would not help, because a majority of two needs both.
    """
    return tuple(brokers[:MAX_VOTERS] if len(brokers) >= MAX_VOTERS else brokers[:1])


def replication_settings(brokers: int) -> dict[str, str]:
    """Return the settings for replication factors and `min.insync.replicas`, for internal topics too."""
    replicas = min(MAX_REPLICAS, brokers)
    min_isr = max(1, replicas - 1)
    return {
        "default.replication.factor": str(replicas),
        "min.insync.replicas": str(min_isr),
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(min_isr),
    }


@dataclass(frozen=True)
class Hosts:
    """The host names at which brokers and proxies reach each other. Clients and the harness use `HOST`."""

    bind: str = HOST  # the address on which brokers and proxies listen
    proxies: str = HOST  # the host at which a broker dials a proxy
    brokers: str = HOST  # the host at which a proxy dials a broker; `{broker}` is replaced by its node id
    machine: str = HOST  # the host at which toxiproxy dials a process of this machine

    def of(self, broker: int) -> str:
        """Return the host at which a proxy dials this broker."""
        return self.brokers.format(broker=broker)


@dataclass(frozen=True)
class PortLayout:
    """The ports of a cluster.

    `listeners` has the port of each listener, by node id and listener name. `links` has the proxy of each link.
    """

    brokers: tuple[int, ...]
    voters: tuple[int, ...]  # the brokers that are also controllers
    endpoints: tuple[str, ...]
    listeners: Mapping[tuple[int, str], int]
    links: Mapping[str, Proxy]
    toxiproxy: int
    hosts: Hosts = Hosts()
    protocol_links: tuple[ProxyLink, ...] = ()  # the links through the protocol proxy
    behind: tuple[Proxy, ...] = ()  # through these the protocol proxy dials brokers in containers

    def harness_port(self, broker: int) -> int:
        """Return the broker's port for the harness. It has no proxy."""
        return self.listeners[broker, HARNESS]

    def controller_port(self, broker: int) -> int:
        """Return the controller's port for the harness. It has no proxy."""
        return self.listeners[broker, f"CTL_{broker}"]

    def listener_of(self, endpoint: str) -> str:
        """Return the name of a client endpoint's listener. It is the same on every broker."""
        return _endpoint_listener(self.endpoints.index(endpoint))

    def bootstrap(self) -> str:
        """Return the addresses of the brokers' listeners for the harness."""
        return ",".join(f"{HOST}:{self.harness_port(broker)}" for broker in self.brokers)

    def bootstrap_for(self, endpoint: str) -> str:
        """Return the addresses of a client endpoint's proxies."""
        ports = [self.links[client_link(endpoint, broker)].listen_port for broker in self.brokers]
        return ",".join(f"{HOST}:{port}" for port in ports)


def lay_out(
    brokers: int,
    endpoints: Sequence[str],
    next_port: Callable[[], int],
    hosts: Hosts | None = None,
    decoded: Collection[str] = (),
) -> PortLayout:
    """Choose a port for every listener and every proxy.

    Args:
        brokers: The number of brokers.
        endpoints: The names of the client endpoints.
        next_port: Returns a free port.
        hosts: None if all are on one address.
        decoded: How the names of the links begin that pass through the protocol proxy: `client:w`, `peer:`.
    """
    hosts = hosts or Hosts()
    ids = tuple(range(1, brokers + 1))
    voters = voters_of(ids)
    client_listeners = [_endpoint_listener(index) for index in range(len(endpoints))] + [HARNESS]
    kinds = {broker: ("INT", "CTL") if broker in voters else ("INT",) for broker in ids}
    names = {
        broker: [f"{kind}_{peer}" for kind in kinds[broker] for peer in ids] + client_listeners
        for broker in ids
    }
    listeners = {(broker, name): next_port() for broker in ids for name in names[broker]}
    upstreams = {
        peer_link(source, target, kind.lower()): (target, f"{kind}_{source}")
        for kind in ("INT", "CTL")
        for target in (ids if kind == "INT" else voters)
        for source in ids
        if source != target
    }
    upstreams |= {
        client_link(endpoint, broker): (broker, _endpoint_listener(index))
        for index, endpoint in enumerate(endpoints)
        for broker in ids
    }
    links = {
        link: Proxy(proxy_name(link), next_port(), listeners[upstream], hosts.bind, hosts.of(upstream[0]))
        for link, upstream in upstreams.items()
    }
    protocol_links, behind = _through_protocol_proxy(links, decoded, hosts, next_port)
    return PortLayout(
        ids,
        voters,
        tuple(endpoints),
        listeners,
        links,
        toxiproxy=next_port(),
        hosts=hosts,
        protocol_links=tuple(protocol_links),
        behind=tuple(behind),
    )


def _through_protocol_proxy(
    links: dict[str, Proxy], decoded: Collection[str], hosts: Hosts, next_port: Callable[[], int]
) -> tuple[list[ProxyLink], list[Proxy]]:
    """Let the decoded links lead to the protocol proxy, in place.

    Returns the links of the protocol proxy, and the proxies through which it dials brokers in containers.
    """
    protocol_links: list[ProxyLink] = []
    behind: list[Proxy] = []
    for link, proxy in links.items():
        if link.startswith(tuple(decoded)) and not link.endswith(":ctl"):
            port, dialed = next_port(), proxy.upstream_port
            if hosts.machine != HOST:
                # A published port of a broker would be another way to it, which faults on its network do not affect.
                behind.append(replace(proxy, name=f"{proxy.name}.behind", listen_port=next_port()))
                dialed = behind[-1].listen_port
            protocol_links.append(ProxyLink(link, port, (HOST, dialed)))
            links[link] = replace(proxy, upstream_host=hosts.machine, upstream_port=port)
    return protocol_links, behind


def count_ports(brokers: int, endpoints: int, decoded: Collection[str] = ()) -> int:
    """Return how many ports a cluster needs at most. Brokers in containers need two for each decoded link."""
    names = [f"w{endpoint}" for endpoint in range(endpoints)]
    layout = lay_out(brokers, names, count().__next__, decoded=decoded)
    return len(layout.listeners) + len(layout.links) + 2 * len(layout.protocol_links) + 1


RESERVED_SETTINGS = frozenset(
    {
        *("node.id", "broker.id", "process.roles", "log.dir", "log.dirs", "metadata.log.dir"),
        *(
            "listeners",
            "advertised.listeners",
            "listener.security.protocol.map",
            "inter.broker.listener.name",
        ),
        *("security.inter.broker.protocol", "controller.listener.names"),
        *("controller.quorum.voters", "controller.quorum.bootstrap.servers"),
    }
)
"""Settings that Fencepost computes for each broker. A user cannot set them, because faults rely on them."""


def _endpoint_listener(index: int) -> str:
    return f"ENDPOINT_{index}"


def broker_properties(
    layout: PortLayout, broker: int, data_dir: PurePath, settings: Mapping[str, str]
) -> str:
    """Return the text of a broker's `server.properties`.

    Args:
        layout: The ports of the cluster.
        broker: The broker's node id.
        data_dir: The broker's data folder, as the broker sees it.
        settings: The user's settings, without those in `RESERVED_SETTINGS`. They override `BROKER_SETTINGS`.
    """
    own_ports = {name: port for (owner, name), port in layout.listeners.items() if owner == broker}
    peers = [peer for peer in layout.brokers if peer != broker]
    own_host, proxies = layout.hosts.of(broker), layout.hosts.proxies
    advertised = {name: f"{own_host}:{port}" for name, port in own_ports.items()}
    advertised[HARNESS] = f"{HOST}:{own_ports[HARNESS]}"
    for peer in peers:
        advertised[f"INT_{peer}"] = f"{proxies}:{layout.links[peer_link(peer, broker, 'int')].listen_port}"
        if broker in layout.voters:
            advertised[f"CTL_{peer}"] = (
                f"{proxies}:{layout.links[peer_link(peer, broker, 'ctl')].listen_port}"
            )
    for index, endpoint in enumerate(layout.endpoints):
        advertised[_endpoint_listener(index)] = (
            f"{HOST}:{layout.links[client_link(endpoint, broker)].listen_port}"
        )
    is_voter = broker in layout.voters
    voters = {
        voter: f"{own_host}:{layout.controller_port(voter)}"
        if voter == broker
        else f"{proxies}:{layout.links[peer_link(broker, voter, 'ctl')].listen_port}"
        for voter in layout.voters
    }
    settings_of_broker = {
        **BROKER_SETTINGS,
        **replication_settings(len(layout.brokers)),
        **settings,
        "node.id": str(broker),
        "process.roles": "broker,controller" if is_voter else "broker",
        "listeners": _addresses({name: f"{layout.hosts.bind}:{port}" for name, port in own_ports.items()}),
        "advertised.listeners": _addresses(advertised),
        "listener.security.protocol.map": ",".join(
            f"{name}:PLAINTEXT" for name in {**own_ports, f"CTL_{broker}": 0}
        ),
        "inter.broker.listener.name": f"INT_{broker}",
        # A node dials controllers by the first name. A node that is no controller has only this name.
        "controller.listener.names": ",".join(
            f"CTL_{peer}" for peer in [broker, *(peers if is_voter else [])]
        ),
        "controller.quorum.voters": ",".join(f"{id_}@{address}" for id_, address in voters.items()),
        "log.dirs": str(data_dir),
    }
    return "".join(f"{name}={_escaped(value)}\n" for name, value in settings_of_broker.items())


def _addresses(listeners: Mapping[str, str]) -> str:
    return ",".join(f"{name}://{address}" for name, address in listeners.items())


def _escaped(value: str) -> str:
    """Escape a value for `java.util.Properties`: double backslashes, and write non-ASCII characters as \\uXXXX."""
    units = value.replace("\\", "\\\\").encode("utf-16-be")
    codes = [int.from_bytes(units[position : position + 2]) for position in range(0, len(units), 2)]
    return "".join(chr(code) if 31 < code < 127 else f"\\u{code:04x}" for code in codes)


def check_settings(settings: Mapping[str, str], documented: Collection[str]) -> list[str]:
    """Return the names that are not documented and do not look misspelt.

    Raises `UsageError` for a name that looks misspelt, and for a setting that Fencepost sets itself.
    """
    for name in settings:
        if name in RESERVED_SETTINGS:
            raise UsageError(f"Fencepost sets {name} for each broker itself: leave out broker.{name}")
    undocumented = [
        name for name in settings if name not in documented and not name.startswith(_UNCHECKED_PREFIXES)
    ]
    for name in undocumented:
        if similar := nearest(name, documented):
            raise UsageError(f'there is no broker setting "{name}"; did you mean "{similar}"?')
    return undocumented


def documented_settings(cache: Path, kafka: str, command: Callable[[Path], Sequence[str]]) -> Collection[str]:
    """Return the names of all settings of a Kafka version, from the cache or from Kafka itself.

    Args:
        cache: The folder of the cache. If the names are not in the cache, they are stored.
        kafka: The version.
        command: Returns the command line that runs `TOOL`. Its argument is a folder for files of the JVM.

    Raises:
        StartFailed: Kafka did not print its settings.
    """

    def make(folder: Path) -> None:
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            try:
                result = subprocess.run(
                    command(Path(scratch)),
                    capture_output=True,
                    text=True,
                    timeout=_TIMEOUT_S,
                    check=False,
                    encoding="utf-8",
                    errors="replace",
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                raise StartFailed(f"Kafka could not be started to print its settings: {error}") from error
        names = sorted(set(_SETTING_NAME.findall(result.stdout)))
        if "log.segment.bytes" not in names:
            raise StartFailed(
                f"Kafka did not print its settings: {result.stderr.strip()[:300] or 'it printed nothing'}"
            )
        (folder / "names.txt").write_text("\n".join(names) + "\n", encoding="utf-8")

    return (provide(cache, f"settings-{kafka}", make) / "names.txt").read_text(encoding="utf-8").split()
