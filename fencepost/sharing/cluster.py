"""The client of the Kafka cluster that the tests of a session share.

This module imports no other package of Fencepost, because it is loaded into a user's process.
"""

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fencepost.api import FencepostFailed, Result, option_words
from fencepost.sharing.client import ServerRefused, send_request


@dataclass(frozen=True)
class SharedCluster:
    """A cluster that several runs use.

    Each run has its own topics, groups and transactional ids, whose names begin with its tag. They are removed at
    its end.
    """

    bootstrap: str
    cluster: str  # the cluster kind
    kafka: str
    more: Sequence[str] = ()  # other options that describe the cluster, as arguments of a command

    @property
    def options(self) -> Mapping[str, str]:
        """The options of a run on this cluster."""
        return {"cluster": "external", "bootstrap": self.bootstrap}

    def result(self, result: Result) -> Result:
        """The result of a run on this cluster. `repeat` starts a new cluster, as this one ends with the session."""
        return _SharedClusterResult(result.valid, result.exit_status, result.verdict, result.folder, self)


@dataclass(frozen=True)
class _SharedClusterResult(Result):
    shared: SharedCluster

    @property
    def repeat(self) -> str | None:
        """The command that repeats the run on a new cluster."""
        repeat = super().repeat
        faults = [_as_option(fault) for fault in (self.verdict or {}).get("faults", ())]
        return repeat and command_on_own_cluster(repeat, self.shared, list(dict.fromkeys(faults)))


def _as_option(fault: Mapping[str, Any]) -> str:
    """A fault as `--nemesis` names it, with the state of the transaction in which it was injected."""
    state = (fault.get("details") or {}).get("state")
    return f"{fault.get('fault')}@{state}" if state else str(fault.get("fault"))


def command_on_own_cluster(command: str, shared: SharedCluster, faults: Sequence[str] = ()) -> str:
    """Change the command of a run on `shared` into one that starts an equal cluster.

    A local cluster permits more faults. If the run drew its faults, the new command therefore names them.
    """
    words = shlex.split(command)
    for name in ("--cluster", "bootstrap", "permits", "prefix", "client-config"):
        for n, word in enumerate(words):
            if word == name or (word == "--set" and words[n + 1].startswith(f"{name}=")):
                del words[n : n + 2]
                break
    if faults and "--nemesis" not in words:
        words += ["--nemesis", ",".join(faults)]
    return shlex.join([*words, *shared.more, "--kafka", shared.kafka])


def shared_cluster(path: Path, options: Mapping[str, Any]) -> SharedCluster:
    """The cluster of the server with this socket. The first call starts it. It ends with the server.

    `options` are the options of `fencepost run` that describe a cluster: kafka, brokers, broker, heap_mb, ... Raises
    `FencepostFailed` with the message of the command.
    """
    try:
        answer = send_request(path, {"cluster": option_words(dict(sorted(options.items())))}, _show)
    except ServerRefused as error:
        raise FencepostFailed(error.status, str(error)) from None
    return SharedCluster(**answer["cluster"])


def _show(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
