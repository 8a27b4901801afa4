"""Reads from the journals which Kafka client the workers of a run really used."""

from collections.abc import Iterator
from pathlib import Path

import orjson

from harness.environment.versions import RunningClient
from harness.model.vocabulary import Role
from harness.record.events import JournalBegan, NotAnEvent, parse
from harness.results.reasons import ReasonCode
from harness.runner.run_log import RunLog
from harness.settings.kinds import ClientChoice


def record_clients(folder: Path, choice: ClientChoice, run_log: RunLog) -> None:
    """Store the clients of the workers in the run log.

    If the user chose a client version, each worker must have recorded exactly this client. Otherwise add an evidence
    problem, because the run says nothing about the client that the user chose.
    """
    clients = dict(read_worker_clients(folder))
    run_log.clients = tuple(sorted({str(client) for client in clients.values() if client is not None}))
    if choice.version is None:
        return
    for journal, client in sorted(clients.items()):
        if client is None or (client.name, client.version) != (choice.name, choice.version):
            chosen = f"--client {choice.name}:{choice.version}"
            message = (
                f"{journal} does not record its client, so it is not known whether it used {chosen}"
                if client is None
                else f"{journal} used {client}, but {chosen} was chosen"
            )
            run_log.add_problem(ReasonCode.OTHER_CLIENT, message, journal)


def read_worker_clients(folder: Path) -> Iterator[tuple[str, RunningClient | None]]:
    """Yield each worker's journal with a complete first line, and its client, or None if it does not record one."""
    for path in sorted((folder / "journals").glob("*.jsonl")):
        with path.open("rb") as lines:
            head = _first_event(lines.readline())
        if head is not None and head.role == Role.WORKER.value:
            yield path.stem, _client(head)


def _client(head: JournalBegan) -> RunningClient | None:
    if head.client is None or head.client_version is None:
        return None
    return RunningClient(head.client, head.client_version, head.library_version)


def _first_event(line: bytes) -> JournalBegan | None:
    """Return the event of a first line. None: it is torn or of another kind; the tables count it as missing."""
    try:
        event = parse(orjson.loads(line))
    except (NotAnEvent, orjson.JSONDecodeError):
        return None
    return event if isinstance(event, JournalBegan) else None
