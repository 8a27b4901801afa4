"""Rules as users write them, and as a schedule stores them: a flat table of names and values.

On the command line it is `api=EndTxn,nth=3,action=error,error=NOT_COORDINATOR,when=after`. In a file it is a table
`[[rule]]` with the same names, where `who`, `fields`, `set` and `release` may be tables of their own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from harness.common.documents import read_toml
from harness.common.errors import UsageError
from harness.common.toml_tables import WrongTable, convert_table
from harness.common.wording import on_one_line
from harness.protocol.rule_checks import require_api, require_possible_error, unknown_name
from harness.protocol.rules import (
    Action,
    ClientConnection,
    ProtocolRule,
    Release,
    Scalar,
    Selector,
    When,
)
from harness.witness.internal_topics import STATES

MAX_TEXT = 1000
"""No name or value of a rule has more characters."""
MAX_NUMBER = 2**63 - 1
Table = Mapping[str, str | int | float]
_WHO = ("client_id", "transactional_id", "group")
_PARENTS = {"who": "", "fields": "fields.", "set": "set.", "release": "release."}
_NEEDED = {Action.DELAY: "delay_s", Action.ERROR: "error", Action.EDIT: "set"}
_ONLY_FOR = {
    "delay_s": (Action.DELAY,),
    "error": (Action.ERROR,),
    "set": (Action.EDIT,),
    "when": (Action.ERROR, Action.CLOSE),
    "client": (Action.HOLD, Action.DROP),
    "release": (Action.HOLD, Action.DUPLICATE, Action.SWAP),
}
"""By name, or by the part of it before the dot: the actions that use it."""
_OF_REQUESTS = frozenset({Action.DUPLICATE, Action.SWAP})


class MessageKind(StrEnum):
    """Which of the two messages of an API a rule selects."""

    REQUEST = "request"
    RESPONSE = "response"


class RuleTable(Struct, frozen=True, rename=lambda name: name.replace("release_", "release.", 1)):
    """The names of a rule, besides those that begin with `fields.` and `set.`. A text is as the user wrote it."""

    api: str = ""
    message: MessageKind = MessageKind.REQUEST
    client_id: str | None = None
    transactional_id: str | None = None
    group: str | None = None
    error_seen: str = ""
    action: Action | None = None
    nth: Annotated[int, Meta(ge=1)] = 1
    times: Annotated[int, Meta(ge=1)] = 1
    probability: Annotated[float, Meta(gt=0, le=1)] = 1.0
    seed: Annotated[int, Meta(ge=0)] = 0
    client: ClientConnection = ClientConnection.RESET
    delay_s: Annotated[float, Meta(gt=0)] | None = None
    error: str = ""
    when: When = When.INSTEAD
    links: Annotated[
        Literal["client", "peer"], Meta(description='"client", or "peer" for the links between brokers')
    ] = "client"
    since: (
        Annotated[Literal["start"], Meta(description='"start"; or write start_s for a later time')] | None
    ) = None
    start_s: Annotated[float, Meta(ge=0)] = 0.0
    hold_s: Annotated[float, Meta(gt=0)] | None = None
    release_after: str = ""
    release_after_s: Annotated[float, Meta(ge=0)] | None = None
    release_state: str = ""


_KEYS = frozenset(RuleTable.__struct_encode_fields__)
_NUMBERS = frozenset(
    {"nth", "times", "probability", "seed", "delay_s", "start_s", "hold_s", "release.after_s"}
)


@dataclass(frozen=True)
class RuleSpec:
    """A rule with the time for which it is in force, and the links on which it acts."""

    rule: ProtocolRule
    since_start: bool = False  # in force before the first worker starts
    start_s: float = 0.0  # after the first input
    hold_s: float | None = None  # None: until the time limit
    links: str = "client"  # client or peer


def parse_rule(text: str) -> dict[str, str | int | float]:
    """Parse a rule of the command line into a flat table. Raises `UsageError`."""
    table: dict[str, str | int | float] = {}
    for part in text.split(","):
        name, separator, value = part.partition("=")
        if not separator:
            raise UsageError(
                f'--rule: "{on_one_line(part)}" is no NAME=VALUE; write for example api=EndTxn,action=drop'
            )
        if name.strip() in table:
            raise UsageError(
                f"--rule: {on_one_line(name.strip())} is given twice; write one --rule for each rule"
            )
        table[name.strip()] = _scalar(value.strip())
    return table


def read_rules(file: Path) -> list[dict[str, str | int | float]]:
    """Read the tables `[[rule]]` of a file as flat tables. Raises `UsageError`."""
    try:
        body = read_toml(file)
    except OSError as error:
        raise UsageError(f"--rule {on_one_line(str(file))}: {error.strerror or error}") from error
    except ValueError as error:
        raise UsageError(f"--rule {on_one_line(str(file))}: it is not TOML: {error}") from error
    rules = body.get("rule")
    if not isinstance(rules, list) or not rules or not all(isinstance(each, dict) for each in rules):
        raise UsageError(f"--rule {on_one_line(str(file))}: it has no [[rule]]")
    return [flat_table(table, f"--rule {file}") for table in rules]


def rules_of(text: str) -> tuple[str, ...]:
    """Return the rules that the option names: itself, or those of a file whose name ends in `.toml`.

    Raises `UsageError` if one is not a rule, or can never act.
    """
    tables = read_rules(Path(text)) if text.endswith(".toml") else [parse_rule(text)]
    for table in tables:
        rule_of(table)
    return tuple(map(rule_text, tables)) if text.endswith(".toml") else (text,)


def flat_table(table: Mapping[str, Any], where: str) -> dict[str, str | int | float]:
    """Return a table of a file as a flat table. Raises `UsageError`, whose message begins with `where`."""
    flat: dict[str, str | int | float] = {}
    for name, value in table.items():
        own = {name: value}
        if name in _PARENTS and isinstance(value, Mapping):
            own = {f"{_PARENTS[name]}{key}": each for key, each in value.items()}
        if name == "who" and (others := sorted(own.keys() - {*_WHO})):
            raise UsageError(f"{where}: who has {on_one_line(others[0])}; it can have {', '.join(_WHO)}")
        if twice := sorted(own.keys() & flat.keys()):
            raise UsageError(f"{where}: {on_one_line(twice[0])} is given twice; leave one of them out")
        flat |= own
    for name in ("release.after", "release.state"):
        if isinstance(parts := flat.get(name), list):
            flat[name] = "+".join(map(str, parts))
    for name, value in flat.items():
        if not isinstance(value, str | int | float):
            raise UsageError(f"{where}: {name} is {value!r}; write a text, a number, true or false")
    return flat


def rule_text(table: Table) -> str:
    """Return a flat table as it is written on the command line."""
    texts = {name: str(value).lower() if isinstance(value, bool) else value for name, value in table.items()}
    return ",".join(f"{name}={text}" for name, text in texts.items())


def rule_of(table: Table, name: str = "rule") -> RuleSpec:
    """Make a rule of a flat table. Raises `UsageError` with one sentence if it is not a rule, or can never act.

    `harness.protocol.rule_checks` checks it against Kafka's messages.
    """
    try:
        return _make_rule(table, name)
    except UsageError as error:
        raise UsageError(f"a rule: {error}") from None


def _make_rule(table: Table, name: str) -> RuleSpec:
    for key, value in table.items():
        _require_size(key, value)
    for api in _apis(table):
        require_api(api)
    for key in table:
        if key not in _KEYS and not key.startswith(("fields.", "set.")):
            raise unknown_name(key, "there is no name", _KEYS)
    own = {key: value if key in _NUMBERS else str(value) for key, value in table.items() if key in _KEYS}
    try:
        written = convert_table(own, RuleTable)
    except WrongTable as error:
        raise UsageError(str(error)) from error
    action = written.action
    if action is None:
        raise UsageError(f"it needs action=NAME: one of {', '.join(each.value for each in Action)}")
    _require_fit(table, action, written.message)
    if written.since is not None and "start_s" in table:
        raise UsageError("since=start cannot be joined with start_s; leave one of them out")
    select = _selector(table, written)
    waits = written.message is MessageKind.RESPONSE or written.client is ClientConnection.STALL
    return RuleSpec(
        ProtocolRule(
            name=name,
            select=select,
            action=action,
            nth=written.nth,
            times=written.times,
            probability=written.probability,
            seed=written.seed,
            release=_release(written, client_waits=waits),
            client=written.client,
            error=_error("error", written.error, select.api),
            when=written.when,
            set_fields=_paths(table, "set."),
        ),
        since_start=written.since is not None,
        start_s=written.start_s,
        hold_s=written.hold_s,
        links=written.links,
    )


def _apis(table: Table) -> list[str]:
    """Return the names of all APIs in the table."""
    after = [part.partition(" ")[0] for part in _parts(str(table.get("release.after", "")))]
    selected = [str(table["api"])] if table.get("api") else []
    return selected + [api for part in after for api in part.split("|")]


def _require_fit(table: Table, action: Action, message: MessageKind) -> None:
    """Raise `UsageError` if the action needs a name that is missing, or would not use one that is there."""
    if message is MessageKind.RESPONSE and action in _OF_REQUESTS:
        raise UsageError(f"{action} is for requests; leave out message=response")
    needed = _NEEDED.get(action)
    if needed is not None and not any(key == needed or key.startswith(f"{needed}.") for key in table):
        raise UsageError(f"action={action} needs {needed}{'.FIELD' if needed == 'set' else ''}=...")
    for key in table:
        actions = _ONLY_FOR.get(key.partition(".")[0])
        if actions is not None and action not in actions:
            raise UsageError(f"{key} is for action={' or '.join(actions)}; leave it out with action={action}")
    if message is MessageKind.RESPONSE and "when" in table:
        raise UsageError("when is for requests; leave it out with message=response")
    if message is MessageKind.RESPONSE and action is Action.HOLD and "client" in table:
        raise UsageError(
            "client is for requests: the client of a held response waits, or gives up by itself; leave it out"
        )
    if message is MessageKind.REQUEST and "error_seen" in table:
        raise UsageError("error_seen is for responses, and requests have no error; add message=response")


def _selector(table: Table, written: RuleTable) -> Selector:
    if not written.api:
        raise UsageError("it needs api=NAME; `fencepost list apis` prints the names")
    return Selector(
        written.api,
        "response" if written.message is MessageKind.RESPONSE else "request",
        written.client_id,
        written.transactional_id,
        written.group,
        error=_error("error_seen", written.error_seen, written.api) or None,
        fields=_paths(table, "fields."),
    )


def _paths(table: Table, prefix: str) -> dict[str, Scalar]:
    return {key.removeprefix(prefix): value for key, value in table.items() if key.startswith(prefix)}


def _release(written: RuleTable, *, client_waits: bool) -> Release:
    action, after_s = written.action, written.release_after_s
    if action is Action.DELAY:
        return Release(after_s=written.delay_s)
    after, states = _parts(written.release_after), _parts(written.release_state)
    selectors = []
    for part in after:
        api, _, message = part.partition(" ")
        if message not in ("", "request", "response"):
            raise UsageError(
                f'release.after is "{on_one_line(part)}"; write an API, and response if you mean that'
            )
        selectors.append(Selector(api, "response" if message == "response" else "request"))
    for state in states:
        if state not in STATES.values():
            raise unknown_name(state, "there is no state of a transaction", STATES.values())
    if after_s == 0 and not after and action is Action.HOLD and client_waits:
        raise UsageError("release.after_s is 0, so nothing is held; write a number above 0")
    if states and (after or after_s is not None):
        raise UsageError("release.state cannot be joined with release.after; leave one of them out")
    if not after and not states and after_s is None and action is Action.DUPLICATE:
        after_s = 0.0
    return Release(tuple(selectors), after_s, tuple(states))


def _parts(text: str) -> list[str]:
    """Return the parts of a value that + separates."""
    return [part.strip() for part in text.split("+")] if text else []


def _error(key: str, name: str, api: str) -> str:
    if name and (key, name) != ("error_seen", "NONE"):
        require_possible_error(api, name)
    return name


def _require_size(key: str, value: str | int | float) -> None:
    """Raise `UsageError` if a name or a value is too large to be stored and sent to the proxy."""
    longest = max(len(key), len(value) if isinstance(value, str) else 0)
    if longest > MAX_TEXT:
        raise UsageError(f"{on_one_line(key[:40])} has {longest:,} characters; write at most {MAX_TEXT:,}")
    if not isinstance(value, str) and not -MAX_NUMBER <= value <= MAX_NUMBER:
        raise UsageError(f"{on_one_line(key)} is {value!r}; write a number of at most {MAX_NUMBER}")


def _scalar(text: str) -> str | int | float:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
