"""A client that is a program: the run's worker sends it one command a line, and it answers each with one line.

So every client library can be explored, in every language. `driver.toml` describes the program, and docs/explore.md its
commands. The worker reads inputs and committed offsets with librdkafka. Only transactions are the program's own.
"""

import json
import os
import select
import shlex
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from harness.clients.interface import (
    ClientError,
    ConsumerSettings,
    ErrorMeaning,
    OnDelivery,
    PartitionOffset,
    ProducerSettings,
)
from harness.clients.librdkafka_client import LibrdkafkaClient, LibrdkafkaConsumer
from harness.common.documents import read_toml
from harness.common.errors import UsageError
from harness.common.toml_tables import Text, WrongTable, convert_table, matches
from harness.common.wording import on_one_line
from harness.record.naming import Headers

FILE = "driver.toml"
FIRST_ANSWER_S = 20.0
"""How long a program may take to its first answer. After that the run decides when a case takes too long."""
MOST_BYTES = 1_000_000
"""The longest answer."""
Step = Literal["offsets", "abort"]
"""A step that a client may lack."""


@dataclass(frozen=True)
class Driver:
    """The contents of `driver.toml`."""

    name: Annotated[
        str,
        matches(
            "(?!librdkafka$|java$)[a-z0-9][a-z0-9._-]{0,63}",
            "up to 64 small letters, digits, '.', '_' and '-', and not librdkafka or java",
            '"kafkajs"',
        ),
    ]
    version: Annotated[str, matches("[A-Za-z0-9][A-Za-z0-9.+_-]{0,31}", "a version", '"2.2.4"')]
    command: Annotated[tuple[Text, ...], Meta(min_length=1, examples=['["node", "driver.mjs"]'])]
    build: Text | None = None  # the shell command that makes the program, for messages
    lacks: tuple[Step, ...] = ()

    @classmethod
    def read(cls, folder: Path) -> "Driver":
        """Read the file in a folder. Raises `UsageError` if it is wrong, or if there is no such program."""
        file = folder / FILE
        try:
            driver = convert_table(read_toml(file), cls)
        except WrongTable as error:
            raise UsageError(f"{file}: {error}") from error
        except OSError as error:
            raise UsageError(
                f"{file} cannot be read: {error.strerror or error}; docs/explore.md shows one"
            ) from error
        except ValueError as error:
            raise UsageError(f"{file} is not valid TOML: {error}") from error
        if shutil.which(driver._executable(folder)) is None:
            raise UsageError(
                f"{file}: the command {driver.command[0]} does not exist; {driver._remedy(folder)}"
            )
        return driver

    def offers(self, program: str) -> bool:
        """Return whether the client has the steps of a program. Each program sends offsets."""
        return "offsets" not in self.lacks and not ("abort" in self.lacks and set(program) & set("AaB"))

    def _executable(self, folder: Path) -> str:
        word = self.command[0]
        return str(folder.absolute() / word) if "/" in word else word

    def _remedy(self, folder: Path) -> str:
        return (
            "correct `command`"
            if self.build is None
            else f"run `cd {shlex.quote(str(folder))} && {self.build}`"
        )

    def start(self, folder: Path) -> "DriverProgram":
        """Start the program."""
        argv = [self._executable(folder), *self.command[1:]]
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        process = subprocess.Popen(
            argv, cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        return DriverProgram(self, process)


class Answer(Struct):
    """An answer of a program."""

    ok: bool = False
    version: str = ""  # of the client, in the answer to `init`
    offsets: list[Annotated[int, Meta(ge=0)] | None] = []  # of the records of `send`
    error: str = ""
    meaning: ErrorMeaning = ErrorMeaning.UNKNOWN


@dataclass
class DriverProgram:
    """A running program."""

    driver: Driver
    process: "subprocess.Popen[bytes]"
    has_answered: bool = False
    _buffer: bytes = b""

    def ask(self, command: Mapping[str, Any]) -> Answer:
        """Send a command, and return the answer.

        Raises:
            ClientError: The program answered with an error, or it has ended, which is fatal.
            UsageError: The program is no driver: it answers something else, or nothing.
        """
        stdin = self.process.stdin
        assert stdin is not None
        if self._buffer or self._has_output(0.0):
            raise self._wrong(command, "more than one line, or spoke before it was asked")
        try:
            stdin.write(json.dumps(command).encode() + b"\n")
            stdin.flush()
        except BrokenPipeError:
            raise self._ended() from None
        line = self._read_line(command)
        try:
            answer = msgspec.json.decode(line, type=Answer)
        except msgspec.DecodeError as error:
            raise self._wrong(
                command, f"{on_one_line(line.decode(errors='replace'))[:200]}: {error}"
            ) from error
        if answer.ok is bool(answer.error):
            raise self._wrong(command, 'neither "ok": true nor an "error"')
        self.has_answered = True
        if answer.error:
            raise ClientError(answer.meaning, answer.error)
        return answer

    def require(self, answer: Answer) -> None:
        """Raise `UsageError` if the answer to `init` has another version than `driver.toml`."""
        if answer.version != self.driver.version:
            self.kill()
            raise UsageError(
                f'the program of {self.driver.name} answered init with version "{answer.version}", and {FILE} says '
                f'"{self.driver.version}": write the version that runs'
            )

    def kill(self) -> None:
        """End the program by SIGKILL."""
        self.process.kill()
        self.process.wait()

    def _has_output(self, timeout_ms: float | None) -> bool:
        """Wait until the program has written something. Return False if it has not, or has ended without it."""
        stdout = self.process.stdout
        assert stdout is not None
        poll = select.poll()
        poll.register(stdout, select.POLLIN)
        return any(event & select.POLLIN for _, event in poll.poll(timeout_ms))

    def _read_line(self, command: Mapping[str, Any]) -> bytes:
        stdout = self.process.stdout
        assert stdout is not None
        deadline_s = time.monotonic() + FIRST_ANSWER_S
        received = b""
        while b"\n" not in received:
            left_ms = None if self.has_answered else max(0.0, 1000 * (deadline_s - time.monotonic()))
            if not self._has_output(left_ms) and not self.has_answered and time.monotonic() > deadline_s:
                self.kill()
                raise UsageError(
                    f"the program of {self.driver.name} did not answer its first command within {FIRST_ANSWER_S:g} s: "
                    "it must answer each line with a line, and flush it"
                )
            received = os.read(stdout.fileno(), 65536)
            if not received:
                raise self._ended()
            self._buffer += received
            if len(self._buffer) > MOST_BYTES:
                raise self._wrong(command, f"a line of more than {MOST_BYTES:,} bytes")
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _ended(self) -> Exception:
        status = self.process.wait()
        ended = f"the program of {self.driver.name} ended with status {status}"
        if self.has_answered:
            return ClientError(ErrorMeaning.FATAL, ended)
        return UsageError(f"{ended} before its first answer: start it by hand to see why, or build it again")

    def _wrong(self, command: Mapping[str, Any], problem: str) -> UsageError:
        self.kill()
        return UsageError(f"the program of {self.driver.name} answered {command['do']} with {problem}")


@dataclass
class DriverProducer:
    """A `TransactionalClient`. Records are sent by `flush`, all those since the last one in one command."""

    client: "DriverClient"
    settings: ProducerSettings
    transactional_id: str
    _open: bool = False  # whether a transaction is open
    _queued: list[tuple[dict[str, Any], OnDelivery]] = field(default_factory=list)

    def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        on_delivery: OnDelivery,
        timestamp_ms: int | None = None,
        *,
        partition: int | None = None,
    ) -> bool:
        record = {
            "topic": topic,
            "partition": partition,
            "key": _text(key),
            "value": _text(value),
            "headers": [(name, _text(header)) for name, header in headers],
        }
        self._queued.append((record, on_delivery))
        return True

    def poll(self, timeout_s: float) -> None:
        pass

    def flush(self, timeout_s: float) -> int:
        queued, self._queued = self._queued, []
        if queued:
            answer = self._ask("send", timeout_s, records=[record for record, _ in queued])
            if len(answer.offsets) != len(queued):
                raise UsageError(
                    f"the program of {self.client.name} answered send with {len(answer.offsets)} offsets, not "
                    f"{len(queued)}"
                )
            for (record, on_delivery), offset in zip(queued, answer.offsets, strict=True):
                on_delivery(record["partition"], offset, None)
        return 0

    def discard(self) -> None:
        """Kill the program if a transaction is open, as a crash would. Otherwise it is used again."""
        if self._open:
            self.client.kill()

    def init(self, timeout_s: float) -> None:
        answer = self._ask(
            "init",
            timeout_s,
            bootstrap=self.settings.bootstrap,
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self.settings.txn_timeout_ms,
            topics=self.settings.topics,
        )
        self.client.program().require(answer)
        self._open = False

    def begin(self) -> None:
        self._ask("begin", self.settings.block_s)

    def send_offsets(self, positions: Sequence[PartitionOffset], membership: Any, timeout_s: float) -> None:
        offsets = [
            {"topic": p.topic, "partition": p.partition, "offset": p.offset, "metadata": p.metadata}
            for p in positions
        ]
        self._ask("offsets", timeout_s, group=membership, offsets=offsets)

    def commit(self, timeout_s: float) -> None:
        self._ask("commit", timeout_s)
        self._open = False

    def abort(self, timeout_s: float) -> None:
        self._ask("abort", timeout_s)
        self._open = False

    def _ask(self, do: str, timeout_s: float, **more: Any) -> Answer:
        self._open = True  # until a call has ended the transaction, and also if a call fails
        return self.client.program().ask({"do": do, "timeout_ms": round(1000 * timeout_s), **more})


class _Group(LibrdkafkaConsumer):
    """A consumer whose metadata for a transaction is the name of its group."""

    def __init__(self, settings: ConsumerSettings) -> None:
        super().__init__(settings, lambda error: None)
        self._group = settings.group

    def membership(self) -> str:
        return self._group


class DriverClient(LibrdkafkaClient):
    """The client of `fencepost explore --driver FOLDER`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._driver = Driver.read(folder)
        self._program: DriverProgram | None = None
        self.name = self._driver.name

    def program(self) -> DriverProgram:
        """Return the running program. Start it if it does not run."""
        if self._program is None or self._program.process.poll() is not None:
            has_answered = self._program is not None and self._program.has_answered
            self._program = self._driver.start(self._folder)
            self._program.has_answered = has_answered
        return self._program

    def kill(self) -> None:
        """End the program as a crash would."""
        if self._program is not None:
            self._program.kill()

    def unsubscribed_consumer(self, settings: ConsumerSettings) -> LibrdkafkaConsumer:
        return _Group(settings.without_membership())

    def producer(  # type: ignore[override]  # another implementation of the same protocol
        self, settings: ProducerSettings, transactional_id: str
    ) -> DriverProducer:
        return DriverProducer(self, settings, transactional_id)


def _text(content: str | bytes | None) -> str | None:
    return content.decode() if isinstance(content, bytes) else content
