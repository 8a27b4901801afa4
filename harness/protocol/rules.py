"""What a rule of the protocol proxy selects, and what it does with the messages that match.

A rule is data: it comes from a fault, from `[[rule]]` in a file, from `--rule` or from `fencepost.rule(...)`, and it is
stored in the schedule of the run.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any

from harness.common.wording import HARNESS_CLIENT_ID
from harness.processes.messages import ProcessMessage
from harness.protocol.schemas import Direction, Field, Message

Scalar = str | int | float | bool | None


class Action(StrEnum):
    """What happens to a message that a rule matches."""

    HOLD = "hold"  # keep a message until the release; a request is delivered even if its client has gone
    DELAY = "delay"  # deliver a request or a response later; everything behind it on its connection waits
    DROP = "drop"  # never deliver a request or a response
    DUPLICATE = (
        "duplicate"  # deliver a request, and a copy of it at the release; the copy's response is dropped
    )
    SWAP = "swap"  # deliver a request after the next one of its kind
    ERROR = "error"  # answer with an error code
    CLOSE = "close"  # close the client's connection
    EDIT = "edit"  # change fields


class ClientConnection(StrEnum):
    """What a client sees while its request is held or after it was dropped."""

    RESET = "reset"  # its connection is closed at once
    STALL = "stall"  # it gets no response, until its own time-out


class When(StrEnum):
    """When `error` and `close` act."""

    INSTEAD = "instead"  # the broker never gets the request
    AFTER = "after"  # the broker has carried the request out


class Selector(ProcessMessage, frozen=True):
    """Selects messages. A field that is None selects all. Names may have the wildcards `*` and `?`."""

    api: str  # Kafka's name: EndTxn; or several: AddOffsetsToTxn|TxnOffsetCommit
    message: Direction = "request"
    client_id: str | None = None
    transactional_id: str | None = None
    group: str | None = None
    error: str | None = None  # of a response: the name of an error that it has, or NONE
    fields: Mapping[str, Scalar] = {}  # by path: {"Committed": False}

    @property
    def apis(self) -> tuple[str, ...]:
        """The names of the APIs."""
        return tuple(self.api.split("|"))

    def matches(self, frame: "Frame") -> bool:
        """Return whether this message is selected. Messages of the harness itself never are."""
        return (
            frame.client_id != HARNESS_CLIENT_ID
            and frame.api in self.apis
            and self.message == frame.message
            and _fits(self.client_id, (frame.client_id,))
            and _fits(self.transactional_id, frame.transactional_ids)
            and _fits(self.group, frame.groups)
            and (self.error is None or self.error in (frame.errors or ("NONE",)))
            and all(
                wanted in (found := values_at(frame.body, path)) or str(wanted) in found
                for path, wanted in self.fields.items()
            )
        )

    def __str__(self) -> str:
        """Describe it: `TxnOffsetCommit requests of shop-1 with GenerationId = -1`, `EndTxn(abort) requests`."""
        names = [name for name in (self.transactional_id, self.group, self.client_id) if name is not None]
        api, fields = self.api, dict(self.fields)
        if api == "EndTxn" and "Committed" in fields:
            api = f"EndTxn({'commit' if fields.pop('Committed') else 'abort'})"
        words = f"{api} {self.message}s" + (f" of {', '.join(names)}" if names else "")
        facts = [f"{path} = {value}" for path, value in fields.items()]
        facts += [f"error {self.error}"] if self.error is not None else []
        return f"{words} with {', '.join(facts)}" if facts else words


class Release(ProcessMessage, frozen=True):
    """When a kept message is delivered: after each of `after` was seen, in this order, and then `after_s` later.

    Or, with `states`: after the coordinator has shown the transaction of the message in these states, in this order.
    The run watches for them. Without all three, a message is delivered when the fault is healed. The last message of
    `after` waits until the broker has answered the released one, so that the order is certain.
    """

    after: tuple[
        Selector, ...
    ] = ()  # of the same transactional id or group as the kept message, if that has one
    after_s: float | None = None
    states: tuple[str, ...] = ()  # states of `harness.witness.internal_topics.STATES`


class ProtocolRule(ProcessMessage, frozen=True):
    """One rule. Matching messages are counted from 1; the rule acts on those from `nth` on, `times` of them."""

    name: str
    select: Selector
    action: Action
    links: tuple[str, ...] = ()  # it acts only on messages of these links; empty: of all
    nth: int = 1
    times: int | None = 1  # None: on all
    probability: float = 1.0  # decided by the run's seed
    seed: int = 0
    release: Release = Release()  # of hold, duplicate and swap; of delay, `after_s` is the delay
    holds_retries: bool = False  # of hold: act also on the client's retries of a message that it keeps
    client: ClientConnection = ClientConnection.RESET  # of hold and drop
    error: str = ""  # of error: Kafka's name of the code
    when: When = When.INSTEAD  # of error and close
    set_fields: Mapping[str, Scalar] = {}  # of edit


@dataclass
class Frame:
    """A decoded message with what rules select by."""

    api: str
    message: Direction
    version: int
    correlation: int
    client_id: str | None
    body: Message
    link: str = ""
    transactional_ids: tuple[str, ...] = ()  # of a response: those of its request
    groups: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()  # of a response

    @property
    def gets_response(self) -> bool:
        """Whether a broker answers it. It does not answer a Produce with acks = 0."""
        return self.api != "Produce" or self.body.get("Acks") != 0


def _fits(pattern: str | None, names: tuple[str | None, ...]) -> bool:
    return pattern is None or any(name is not None and fnmatchcase(name, pattern) for name in names)


def values_at(body: Any, path: str) -> list[Any]:
    """Return the values at a path such as `Topics.Partitions.PartitionIndex`. Lists on the way are searched."""
    values = [body]
    for name in path.split("."):
        values = [
            each[name]
            for value in values
            for each in (value if isinstance(value, list) else [value])
            if isinstance(each, Mapping) and name in each
        ]
    return [each for value in values for each in (value if isinstance(value, list) else [value])]


def with_values(body: Message, changes: Mapping[str, Scalar]) -> Message:
    """Return the message with these values at these paths. A field that the message does not have is left out."""
    for path, value in changes.items():
        body = _with_value(body, path.split("."), value)
    return body


def _with_value(body: Any, path: list[str], value: Scalar) -> Any:
    if isinstance(body, list):
        return [_with_value(each, path, value) for each in body]
    name, *rest = path
    if body is None or name not in body:
        return body
    old = body[name]
    new = _with_value(old, rest, value) if rest else str(value) if isinstance(old, str) else value
    return {**body, name: new}


def describe_changes(
    before: Message, after: Message, paths: Iterable[str], fields: Mapping[str, Field]
) -> str:
    """Describe the values at these paths that differ: `NodeId 2 became 1`. Empty if none differs.

    It has numbers, booleans, and the names of topics, groups and ids. Of any other text it has the length, because the
    text may be a secret.
    """
    changed = []
    for path in paths:
        old, new = (list(dict.fromkeys(values_at(body, path))) for body in (before, after))
        if old != new:
            texts = [", ".join(_shown(each, fields[path]) for each in values) for values in (old, new)]
            changed.append(f"{path} {texts[0]} became {texts[1]}")
    return ", ".join(changed)


def _shown(value: Any, field: Field) -> str:
    if value is None or isinstance(value, int | float) or field.entity or field.name.endswith("Id"):
        return str(value)
    return f"a text of {len(value)} characters"
