"""A cluster for the length of a session, as whoever starts it sees it.

Like all that a user's process loads, this imports no other room of the house.
"""

import json
import os
import select
import shlex
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fencepost.api import LAST_WORDS, FencepostFailed, Result, command, option_words

START_TIMEOUT_S = 900.0
"""The first time on a machine Kafka is fetched."""
END_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class SharedCluster:
    """A cluster on which runs are guests: each has topics, groups and transactional ids of its own, which bear its tag
    and are removed at its end.
    """

    bootstrap: str
    cluster: str  # its kind
    kafka: str
    more: Sequence[str] = ()  # what else says what it is, as words of a command

    @property
    def options(self) -> Mapping[str, str]:
        """What a run is given to come to it."""
        return {"cluster": "external", "bootstrap": self.bootstrap}

    def result(self, result: Result) -> Result:
        """The result of a run on it, which a cluster of its own repeats: this one ends with the session."""
        return _OnShared(result.valid, result.exit_status, result.verdict, result.folder, self)


@dataclass(frozen=True)
class _OnShared(Result):
    shared: SharedCluster

    @property
    def repeat(self) -> str | None:
        """The command that repeats the run, on a cluster of its own."""
        told = super().repeat
        struck = [_aimed(fault) for fault in (self.verdict or {}).get("faults", ())]
        return told and own_cluster(told, self.shared, list(dict.fromkeys(struck)))


def _aimed(fault: Mapping[str, Any]) -> str:
    """As `--nemesis` asks for it: with the state of a transaction in which it struck."""
    state = (fault.get("details") or {}).get("state")
    return f"{fault.get('fault')}@{state}" if state else str(fault.get("fault"))


def own_cluster(told: str, shared: SharedCluster, struck: Sequence[str] = ()) -> str:
    """The command of a run, on a cluster like the one it was a guest of.

    That can be struck in more ways: where faults were drawn, it names those that struck.
    """
    words = shlex.split(told)
    for name in ("--cluster", "bootstrap", "permits", "prefix", "client-config"):
        for n, word in enumerate(words):
            if word == name or (word == "--set" and words[n + 1].startswith(f"{name}=")):
                del words[n : n + 2]
                break
    if struck and "--nemesis" not in words:
        words += ["--nemesis", ",".join(struck)]
    return shlex.join([*words, *shared.more, "--kafka", shared.kafka])


@contextmanager
def shared_cluster(options: Mapping[str, Any]) -> Iterator[SharedCluster]:
    """Start a cluster for the length of a `with`; it ends with this process too, whatever ends it.

    `options` are those of `fencepost run` that say what a cluster is: kafka, brokers, broker, heap_mb, ... Raises
    `FencepostFailed`, whose message is the command's own sentence.
    """
    with tempfile.TemporaryDirectory(prefix="fencepost-session-") as folder:
        last_words = Path(folder) / "last-words"
        words = [*command(), "hold", *option_words(options)]
        environment = {**os.environ, LAST_WORDS: str(last_words)}
        try:  # in a session of its own: Ctrl-C is for the tests, and this ends with them
            process = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, start_new_session=True
            )
        except OSError as error:
            raise FencepostFailed(4, f"`{shlex.join(command())}` cannot be started: {error}") from None
        with process:
            try:
                yield _started(process, last_words)
            finally:
                _end(process)


def _started(process: "subprocess.Popen[bytes]", last_words: Path) -> SharedCluster:
    assert process.stdout is not None
    with process.stdout as said:
        readable, _, _ = select.select([said], [], [], START_TIMEOUT_S)
        line = said.readline() if readable else b""
    try:
        return SharedCluster(**json.loads(line))
    except (ValueError, TypeError):
        pass
    _end(process)
    why = last_words.read_text(encoding="utf-8") if last_words.exists() else "it said nothing"
    raise FencepostFailed(process.returncode or 4, f"the session's cluster did not start: {why}")


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Have it end in order: it removes what it has made."""
    assert process.stdin is not None
    with suppress(OSError, ValueError):  # it has ended before, or was told
        process.stdin.write(b"end\n")  # a child forked meanwhile may hold this pipe open
        process.stdin.close()
    try:
        process.wait(END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()  # its guardian ends the rest
        process.wait()
