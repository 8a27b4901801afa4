"""Rules as users write them, and as a schedule stores them: a flat table of names and values.

On the command line it is `api=EndTxn,nth=3,action=error,error=NOT_COORDINATOR,when=after`. In a file it is a table
`[[rule]]` with the same names, where `who`, `fields`, `set` and `release` may be tables of their own.
"""

import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from math import inf
from pathlib import Path
from typing import Any

from harness.common.errors import UsageError
from harness.common.names import on_one_line
from harness.protocol.errors import error_codes
from harness.protocol.rules import Action, ClientConnection, ProtocolRule, Release, Scalar, Selector, When
from harness.protocol.schemas import Field, MessageSchema, Schemas, UnknownMessage

Table = Mapping[str, str | int | float]
_WHO = ("client_id", "transactional_id", "group")
_PARENTS = {"who": "", "fields": "fields.", "set": "set.", "release": "release."}
_NEEDED = {Action.DELAY: "delay_s", Action.ERROR: "error", Action.EDIT: "set"}
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
        *("error", "when", "links", "start_s", "hold_s"),
        *("release.after", "release.after_s"),
    }
)


@dataclass(frozen=True)
class RuleSpec:
    """A rule with the time for which it is in force, and the links on which it acts."""

    rule: ProtocolRule
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
        body = tomllib.loads(file.read_text())
    except OSError as error:
        raise UsageError(f"--rule {on_one_line(str(file))}: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"--rule {on_one_line(str(file))}: it is not TOML: {error}") from error
    rules = body.get("rule")
    if not isinstance(rules, list) or not rules:
        raise UsageError(f"--rule {on_one_line(str(file))}: it has no [[rule]]")
    return [_flat(table, f"--rule {file}") for table in rules]


def _flat(table: Mapping[str, Any], where: str) -> dict[str, str | int | float]:
    flat: dict[str, str | int | float] = {}
    for name, value in table.items():
        if name in _PARENTS and isinstance(value, Mapping):
            flat |= {f"{_PARENTS[name]}{key}": each for key, each in value.items()}
        else:
            flat[name] = value
    if after := flat.get("release.after"):
        flat["release.after"] = "+".join(after) if isinstance(after, list) else after
    for name, value in flat.items():
        if not isinstance(value, str | int | float):
            raise UsageError(f"{where}: {name} is {value!r}; write a text, a number, true or false")
    return flat


def rule_text(table: Table) -> str:
    """Return a flat table as it is written on the command line."""
    texts = {name: str(value).lower() if isinstance(value, bool) else value for name, value in table.items()}
    return ",".join(f"{name}={text}" for name, text in texts.items())


def rule_of(table: Table, name: str = "rule", schemas: Schemas | None = None) -> RuleSpec:
    """Make a rule of a flat table. With `schemas`, check it against Kafka's messages, too.

    Raises `UsageError` with one sentence if the rule is not one, or can never match.
    """
    return _RuleMaker(dict(table), schemas).make(name)


def require_known(rule: ProtocolRule, schemas: Schemas) -> None:
    """Raise `UsageError` if a rule names an API or an error that Kafka does not have, or that do not fit together."""
    table: dict[str, str | int | float] = {"api": rule.select.api, "action": str(rule.action)}
    if rule.action is Action.ERROR:
        table["error"] = rule.error
    if rule.action is Action.DELAY:
        table["delay_s"] = rule.delay_s
    rule_of(table, rule.name, schemas)


class _RuleMaker:
    def __init__(self, table: dict[str, str | int | float], schemas: Schemas | None) -> None:
        self._table = table
        self._schemas = schemas

    def make(self, name: str) -> RuleSpec:
        table = self._table
        for key in table:
            if key not in _KEYS and not key.startswith(("fields.", "set.")):
                raise _unknown(key, "name", _KEYS)
        if "action" not in table:
            raise UsageError(
                f"a rule needs action=NAME: one of {', '.join(action.value for action in Action)}"
            )
        action = _choice("action", str(table["action"]), Action)
        message = str(table.get("message", "request"))
        if message not in ("request", "response"):
            raise UsageError(f'a rule: message is "{on_one_line(message)}"; write request or response')
        if message == "response" and action in _OF_REQUESTS:
            raise UsageError(f"a rule: {action} is for requests; leave out message=response")
        select = self._selector(message)
        needed = _NEEDED.get(action)
        if needed is not None and not any(key == needed or key.startswith(f"{needed}.") for key in table):
            raise UsageError(
                f"a rule with action={action} needs {needed}{'.FIELD' if needed == 'set' else ''}=..."
            )
        return RuleSpec(
            ProtocolRule(
                name=name,
                select=select,
                action=action,
                nth=self._number("nth", 1, int, least=1),
                times=self._number("times", 1, int, least=1),
                probability=self._number("probability", 1.0, float, least=0.0, most=1.0),
                seed=self._number("seed", 0, int, least=0),
                release=self._release(action),
                client=_choice("client", str(table.get("client", ClientConnection.RESET)), ClientConnection),
                delay_s=self._number("delay_s", 0.0, float, least=0.0),
                error=self._error(select.api),
                when=_choice("when", str(table.get("when", When.INSTEAD)), When),
                set_fields=self._paths("set.", message),
            ),
            start_s=self._number("start_s", 0.0, float, least=0.0),
            hold_s=self._number("hold_s", 0.0, float, least=0.0) or None,
            links=self._links(),
        )

    def _selector(self, message: str) -> Selector:
        api = str(self._table.get("api", ""))
        if not api:
            raise UsageError("a rule needs api=NAME; `fencepost list apis` prints the names")
        self._require_api(api)
        who = {key: str(self._table[key]) for key in _WHO if key in self._table}
        error = self._table.get("error_seen")
        if error is not None:
            _require_error(str(error))
        return Selector(
            api,
            "response" if message == "response" else "request",
            error=None if error is None else str(error),
            fields=self._paths("fields.", message),
            **who,
        )

    def _require_api(self, api: str) -> None:
        try:
            if self._schemas is not None:
                self._schemas.api(api)
        except UnknownMessage:
            raise _unknown(api, "API", self._schemas.names if self._schemas else ()) from None

    def _paths(self, prefix: str, message: str) -> dict[str, Scalar]:
        paths: dict[str, Scalar] = {
            key.removeprefix(prefix): value for key, value in self._table.items() if key.startswith(prefix)
        }
        if self._schemas is None:
            return paths
        api = self._schemas.api(str(self._table["api"]))
        schema = api.request if message == "request" else api.response
        for path in paths:
            known = field_paths(schema)
            if path not in known:
                raise _unknown(path, f"field of {schema.name}", known)
        return paths

    def _release(self, action: Action) -> Release:
        text = self._table.get("release.after")
        after = []
        for part in str(text).split("+") if text is not None else ():
            api, _, message = part.strip().partition(" ")
            self._require_api(api)
            if message not in ("", "request", "response"):
                raise UsageError(
                    f'a rule: release.after is "{on_one_line(part)}"; write an API, and response if you mean that'
                )
            after.append(Selector(api, "response" if message == "response" else "request"))
        after_s = self._table.get("release.after_s")
        if after_s is None and not after and action is Action.DUPLICATE:
            return Release(after_s=0.0)
        return Release(
            tuple(after), None if after_s is None else self._number("release.after_s", 0.0, float, least=0.0)
        )

    def _error(self, api: str) -> str:
        name = self._table.get("error")
        if name is None:
            return ""
        _require_error(str(name))
        possible = possible_errors().get(api)
        if possible is not None and name not in possible:
            raise UsageError(
                f"a rule: a broker never answers {api} with {name}; it can answer {', '.join(sorted(possible))}"
            )
        return str(name)

    def _links(self) -> str:
        links = str(self._table.get("links", "client"))
        if links not in ("client", "peer"):
            raise UsageError(
                f'a rule: links is "{on_one_line(links)}"; write client, or peer for the links between brokers'
            )
        return links

    def _number(
        self, key: str, default: Any, kind: Callable[[Any], Any], *, least: float, most: float = inf
    ) -> Any:
        value = self._table.get(key, default)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not least <= value <= most or kind(value) != value:
            what = "a whole number" if kind is int else "a number"
            limits = f"of at least {least:g}" if most == inf else f"from {least:g} to {most:g}"
            raise UsageError(f"a rule: {key} is {value!r}; write {what} {limits}")
        return kind(value)


def field_paths(schema: MessageSchema) -> list[str]:
    """Return the paths of all fields of a message: `Topics.Partitions.PartitionIndex`."""
    return list(_all_paths(schema.fields))


def _all_paths(fields: Iterable[Field], prefix: str = "") -> Iterable[str]:
    for field in fields:
        yield prefix + field.name
        yield from _all_paths(field.fields, f"{prefix}{field.name}.")


def _require_error(name: str) -> None:
    if name not in error_codes():
        raise _unknown(name, "error", error_codes())


def _choice(key: str, text: str, kind: type[Any]) -> Any:
    try:
        return kind(text)
    except ValueError:
        names = ", ".join(each.value for each in kind)
        raise UsageError(f'a rule: {key} is "{on_one_line(text)}"; write one of {names}') from None


def _unknown(text: str, what: str, known: Iterable[str]) -> UsageError:
    names = list(known)
    near = get_close_matches(text, names, 1, 0.5)
    return UsageError(
        f'a rule: there is no {what} "{on_one_line(text)}"'
        + (f"; did you mean {near[0]}?" if near else f"; write one of {', '.join(sorted(names)[:12])}, ...")
    )


def _scalar(text: str) -> str | int | float:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


@cache
def possible_errors() -> Mapping[str, frozenset[str]]:
    """Return by API the errors that a broker can answer, for the APIs of which that is known."""
    body = tomllib.loads(Path(__file__).with_name("api-errors.toml").read_text())
    return {api: frozenset(errors) for api, errors in body.items()}
