"""Which client the workers of a run really ran: their journals say so in their first lines."""

from collections.abc import Iterator
from pathlib import Path

import orjson

from harness.model.vocabulary import Role
from harness.record.events import JournalBegan, NotAnEvent, parse
from harness.results.reasons import ReasonCode
from harness.roles.running_client import RunningClient
from harness.runner.run_log import RunLog
from harness.settings.client_choice import ClientChoice


def record_clients(folder: Path, asked: ClientChoice, run_log: RunLog) -> None:
    """Keep what was run for the run's facts. Where a worker ran another version than was asked for, or does not say
    which, the run is no evidence of the one that was asked for.
    """
    ran = dict(read_worker_clients(folder))
    run_log.ran = tuple(sorted({str(client) for client in ran.values() if client is not None}))
    if asked.version is None:
        return
    for journal, client in sorted(ran.items()):
        if client is None or (client.name, client.version) != (asked.name, asked.version):
            told = "does not say which client it ran" if client is None else f"ran {client}"
            words = f"{journal} {told}, and --client {asked.name}:{asked.version} was asked for"
            run_log.add_problem(ReasonCode.OTHER_CLIENT, words, journal)


def read_worker_clients(folder: Path) -> Iterator[tuple[str, RunningClient | None]]:
    """By worker's journal that has a whole first line: the client; None where it is not told."""
    for path in sorted((folder / "journals").glob("*.jsonl")):
        with path.open("rb") as lines:
            begun = _begun(lines.readline())
        if begun is not None and begun.role == Role.WORKER.value:
            yield path.stem, _client(begun)


def _client(begun: JournalBegan) -> RunningClient | None:
    if begun.client is None or begun.client_version is None:
        return None
    return RunningClient(begun.client, begun.client_version, begun.library_version)


def _begun(line: bytes) -> JournalBegan | None:
    """The event of a first line; None where it is torn, or another: the tables count it as one that is missing."""
    try:
        event = parse(orjson.loads(line))
    except (NotAnEvent, orjson.JSONDecodeError):
        return None
    return event if isinstance(event, JournalBegan) else None
