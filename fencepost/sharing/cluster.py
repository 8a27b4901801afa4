"""The Kafka cluster of a session, as its tests see it.

Like all that a user's process loads, this imports no other room.
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
    """A cluster that several runs use: each has topics, groups and transactional ids of its own, whose names begin with
    its tag, and removes them at its end.
    """

    bootstrap: str
    cluster: str  # its kind
    kafka: str
    more: Sequence[str] = ()  # all else that describes it, as words of a command

    @property
    def options(self) -> Mapping[str, str]:
        """The options of a run on it."""
        return {"cluster": "external", "bootstrap": self.bootstrap}

    def result(self, result: Result) -> Result:
        """The result of a run on it. Its `repeat` names a new cluster, because this one ends with the session."""
        return _OnShared(result.valid, result.exit_status, result.verdict, result.folder, self)


@dataclass(frozen=True)
class _OnShared(Result):
    shared: SharedCluster

    @property
    def repeat(self) -> str | None:
        """The command that repeats the run, on a cluster of its own."""
        repeat = super().repeat
        acted = [_as_option(fault) for fault in (self.verdict or {}).get("faults", ())]
        return repeat and command_on_own_cluster(repeat, self.shared, list(dict.fromkeys(acted)))


def _as_option(fault: Mapping[str, Any]) -> str:
    """A fault as `--nemesis` names it: with the state of a transaction in which it struck."""
    state = (fault.get("details") or {}).get("state")
    return f"{fault.get('fault')}@{state}" if state else str(fault.get("fault"))


def command_on_own_cluster(command: str, shared: SharedCluster, faults: Sequence[str] = ()) -> str:
    """Change the command of a run on `shared` into one that starts a cluster like it.

    More faults are possible there. Where the run drew its faults, the new command names those that struck.
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
    """The cluster of the server with this socket; it starts with the first call, and ends with the server.

    `options` are those of `fencepost run` that describe a cluster: kafka, brokers, broker, heap_mb, ... Raises
    `FencepostFailed`, whose message is the command's own sentence.
    """
    try:
        answer = send_request(path, {"cluster": option_words(dict(sorted(options.items())))}, _show)
    except ServerRefused as error:
        raise FencepostFailed(error.status, str(error)) from None
    return SharedCluster(**answer["cluster"])


def _show(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
