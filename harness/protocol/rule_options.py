"""Rules as users write them, and as a schedule stores them: a flat table of names and values.

On the command line it is `api=EndTxn,nth=3,action=error,error=NOT_COORDINATOR,when=after`. In a file it is a table
`[[rule]]` with the same names, where `who`, `fields`, `set` and `release` may be tables of their own.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import inf
from pathlib import Path
from typing import Any

from harness.common.documents import read_toml
from harness.common.errors import UsageError
from harness.common.names import on_one_line
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
from harness.witness.transaction_log import STATES

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
_KEYS = frozenset(
    {
        *_WHO,
        *(
            "api",
            "message",
            "error_seen",
            "action",
            "nth",
            "times",
            "probability",
            "seed",
            "client",
            "delay_s",
        ),
        *("error", "when", "links", "since", "start_s", "hold_s"),
        *("release.after", "release.after_s", "release.state"),
    }
)


class MessageKind(StrEnum):
    """Which of the two messages of an API a rule selects."""

    REQUEST = "request"
    RESPONSE = "response"


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
        return _RuleMaker(dict(table)).make(name)
    except UsageError as error:
        raise UsageError(f"a rule: {error}") from None


class _RuleMaker:
    def __init__(self, table: dict[str, str | int | float]) -> None:
        self._table = table

    def make(self, name: str) -> RuleSpec:
        table = self._table
        for key, value in table.items():
            _require_size(key, value)
        for api in self._apis():
            require_api(api)
        for key in table:
            if key not in _KEYS and not key.startswith(("fields.", "set.")):
                raise unknown_name(key, "there is no name", _KEYS)
        if "action" not in table:
            raise UsageError(f"it needs action=NAME: one of {', '.join(action.value for action in Action)}")
        action = _choice("action", str(table["action"]), Action)
        message = _choice("message", str(table.get("message", "request")), MessageKind)
        self._require_fit(action, message)
        select = self._selector(message)
        client = _choice("client", str(table.get("client", ClientConnection.RESET)), ClientConnection)
        return RuleSpec(
            ProtocolRule(
                name=name,
                select=select,
                action=action,
                nth=self._number("nth", 1, int, least=1),
                times=self._number("times", 1, int, least=1),
                probability=self._number("probability", 1.0, float, above=0.0, most=1.0),
                seed=self._number("seed", 0, int, least=0),
                release=self._release(
                    action,
                    client_waits=message is MessageKind.RESPONSE or client is ClientConnection.STALL,
                ),
                client=client,
                error=self._error("error", select.api),
                when=_choice("when", str(table.get("when", When.INSTEAD)), When),
                set_fields=self._paths("set."),
            ),
            since_start=self._since_start(),
            start_s=self._number("start_s", 0.0, float, least=0.0),
            hold_s=self._number("hold_s", None, float, above=0.0),
            links=self._links(),
        )

    def _apis(self) -> list[str]:
        """Return the names of all APIs in the table."""
        after = [part.partition(" ")[0] for part in self._parts("release.after")]
        selected = [str(self._table["api"])] if self._table.get("api") else []
        return selected + [api for part in after for api in part.split("|")]

    def _require_fit(self, action: Action, message: MessageKind) -> None:
        """Raise `UsageError` if the action needs a name that is missing, or would not use one that is there."""
        if message is MessageKind.RESPONSE and action in _OF_REQUESTS:
            raise UsageError(f"{action} is for requests; leave out message=response")
        needed = _NEEDED.get(action)
        if needed is not None and not any(
            key == needed or key.startswith(f"{needed}.") for key in self._table
        ):
            raise UsageError(f"action={action} needs {needed}{'.FIELD' if needed == 'set' else ''}=...")
        for key in self._table:
            actions = _ONLY_FOR.get(key.partition(".")[0])
            if actions is not None and action not in actions:
                raise UsageError(
                    f"{key} is for action={' or '.join(actions)}; leave it out with action={action}"
                )
        if message is MessageKind.RESPONSE and "when" in self._table:
            raise UsageError("when is for requests; leave it out with message=response")
        if message is MessageKind.RESPONSE and action is Action.HOLD and "client" in self._table:
            raise UsageError(
                "client is for requests: the client of a held response waits, or gives up by itself; leave it out"
            )
        if message is MessageKind.REQUEST and "error_seen" in self._table:
            raise UsageError("error_seen is for responses, and requests have no error; add message=response")

    def _selector(self, message: MessageKind) -> Selector:
        api = str(self._table.get("api", ""))
        if not api:
            raise UsageError("it needs api=NAME; `fencepost list apis` prints the names")
        who = {key: str(self._table[key]) for key in _WHO if key in self._table}
        return Selector(
            api,
            "response" if message is MessageKind.RESPONSE else "request",
            error=self._error("error_seen", api) or None,
            fields=self._paths("fields."),
            **who,
        )

    def _paths(self, prefix: str) -> dict[str, Scalar]:
        return {
            key.removeprefix(prefix): value for key, value in self._table.items() if key.startswith(prefix)
        }

    def _release(self, action: Action, *, client_waits: bool) -> Release:
        if action is Action.DELAY:
            return Release(after_s=self._number("delay_s", None, float, above=0.0))
        after, states = self._parts("release.after"), self._parts("release.state")
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
        after_s = self._number("release.after_s", None, float, least=0.0)
        if after_s == 0 and not after and action is Action.HOLD and client_waits:
            raise UsageError("release.after_s is 0, so nothing is held; write a number above 0")
        if states and (after or after_s is not None):
            raise UsageError("release.state cannot be joined with release.after; leave one of them out")
        if not after and not states and after_s is None and action is Action.DUPLICATE:
            after_s = 0.0
        return Release(tuple(selectors), after_s, tuple(states))

    def _parts(self, key: str) -> list[str]:
        """Return the parts of a value that + separates."""
        return [part.strip() for part in str(self._table[key]).split("+")] if key in self._table else []

    def _error(self, key: str, api: str) -> str:
        name = str(self._table.get(key, ""))
        if name and (key, name) != ("error_seen", "NONE"):
            require_possible_error(api, name)
        return name

    def _links(self) -> str:
        links = str(self._table.get("links", "client"))
        if links not in ("client", "peer"):
            raise UsageError(
                f'links is "{on_one_line(links)}"; write client, or peer for the links between brokers'
            )
        return links

    def _since_start(self) -> bool:
        if "since" not in self._table:
            return False
        if self._table["since"] != "start":
            raise UsageError(
                f'since is "{on_one_line(str(self._table["since"]))}"; write start, or start_s for a later time'
            )
        if "start_s" in self._table:
            raise UsageError("since=start cannot be joined with start_s; leave one of them out")
        return True

    def _number(
        self,
        key: str,
        default: Any,
        kind: Callable[[Any], Any],
        *,
        least: float = -inf,
        above: float = -inf,
        most: float = inf,
    ) -> Any:
        if key not in self._table:
            return default
        value: Any = self._table[key]
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not (least <= value <= most and value > above) or kind(value) != value:
            what = "a whole number" if kind is int else "a number"
            limits = f"above {above:g}" if least == -inf else f"of at least {least:g}"
            limits += "" if most == inf else f", and at most {most:g}"
            raise UsageError(f"{key} is {value!r}; write {what} {limits}")
        return kind(value)


def _choice(key: str, text: str, kind: type[Any]) -> Any:
    try:
        return kind(text)
    except ValueError:
        names = ", ".join(each.value for each in kind)
        raise UsageError(f'{key} is "{on_one_line(text)}"; write one of {names}') from None


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
