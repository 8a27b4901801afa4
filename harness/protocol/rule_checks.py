"""Check a rule against the messages of a Kafka version: refuse unknown names, and rules that never match."""

from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from pathlib import Path

from harness.common.documents import read_toml
from harness.common.errors import UsageError
from harness.common.wording import on_one_line
from harness.model.kafka_protocol import APIS, SENT_IN_RUNS, error_codes
from harness.protocol.rules import ProtocolRule, Release, Scalar
from harness.protocol.schemas import Api, MessageSchema, Schemas

_INTEGERS = {"int8": 8, "int16": 16, "uint16": 17, "int32": 32, "uint32": 33, "int64": 64}
"""By type: the bits of a number with its sign."""
_ENTITIES = {"transactional_id": "transactionalId", "group": "groupId"}
_WORDS = {"transactional_id": "transactional id", "group": "group"}
COORDINATOR_API = "FindCoordinator"
"""Its key is a transactional id or a group."""


def require_possible(rule: ProtocolRule, schemas: Schemas, subject: str = "a rule") -> None:
    """Raise `UsageError` if a rule names what Kafka's messages do not have, or what never fits together.

    Args:
        subject: What the message begins with: "a rule", or the name of a fault.
    """
    select = rule.select
    try:
        api = _known_api(select.api, schemas)
        message = api.request if select.message == "request" else api.response
        for path, value in select.fields.items():
            _require_value(message, path, value)
        for path, value in rule.set_fields.items():
            _require_value(message, path, value, changes=True)
        for key in _ENTITIES:
            if getattr(select, key) is not None and key not in _named(api):
                raise UsageError(f"{api.name} names no {_WORDS[key]}: leave out {key}")
        if rule.error:
            require_possible_error(api.name, rule.error)
        _require_release(api, rule.release, schemas)
    except UsageError as error:
        raise UsageError(f"{subject}: {error}") from None


def require_api(name: str) -> None:
    """Raise `UsageError` if no version of Kafka has an API with this name."""
    if name not in APIS:
        raise unknown_name(name, "there is no API", SENT_IN_RUNS)


def require_possible_error(api: str, name: str) -> None:
    """Raise `UsageError` if a broker never answers an API with an error."""
    if name not in error_codes():
        raise unknown_name(name, "there is no error", error_codes())
    possible = possible_errors().get(api)
    if possible is not None and name not in possible:
        raise UsageError(
            f"a broker never answers {api} with {name}; it can answer {', '.join(sorted(possible))}"
        )


def unknown_name(text: str, beginning: str, known: Iterable[str]) -> UsageError:
    """Return the error for a name that does not exist. It suggests the nearest in any case, or some of the known names.

    Args:
        beginning: The start of the sentence: "there is no error".
    """
    names = {name.lower(): name for name in known}
    near = get_close_matches(text.lower(), names, 1, 0.5)
    return UsageError(
        f'{beginning} "{on_one_line(text)}"'
        + (
            f"; did you mean {names[near[0]]}?"
            if near
            else f"; write one of {', '.join(sorted(names.values())[:12])}, ..."
        )
    )


@cache
def possible_errors() -> Mapping[str, frozenset[str]]:
    """Return by API the errors that a broker can answer, for the APIs of which that is known."""
    body = read_toml(Path(__file__).with_name("api-errors.toml"))
    return {api: frozenset(errors) for api, errors in body.items()}


def _known_api(name: str, schemas: Schemas) -> Api:
    offered = [each for each in schemas.names if schemas.api(each).request.versions.last >= 0]
    if name not in offered:
        raise unknown_name(name, f"Kafka {schemas.kafka} has no API", offered)
    return schemas.api(name)


def _require_value(message: MessageSchema, path: str, value: Scalar, *, changes: bool = False) -> None:
    """Raise `UsageError` if a field does not exist, or can never have the value."""
    if path not in message.paths:
        raise unknown_name(path, f"{message.name} has no field", message.paths)
    field = message.paths[path]
    key = f"{'set' if changes else 'fields'}.{path}"
    if field.is_struct:
        raise UsageError(
            f"{key}: {path} is a structure; write one of its fields: {key}.{field.fields[0].name}"
        )
    if changes and field.is_array:
        raise UsageError(f"{key}: {path} is a list, which a rule cannot change; choose another field")
    wanted = _required(field.kind, value)
    if wanted:
        raise UsageError(f"{key} is {on_one_line(str(value))}; {wanted}")


def _required(kind: str, value: Scalar) -> str:
    """Return what a value must be instead. "" if a field of this kind can have it."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind == "bool":
        return "" if isinstance(value, bool) else "write true or false"
    if kind == "string":
        return "" if isinstance(value, str) or is_number else "write a text"
    if kind == "float64":
        return "" if is_number else "write a number"
    if kind not in _INTEGERS:
        return f"a field of type {kind} cannot be written in a rule: choose another field"
    bits = _INTEGERS[kind]
    least, most = (
        (0, 2 ** (bits - 1) - 1) if kind.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    )
    if not isinstance(value, int) or not is_number or not least <= value <= most:
        return f"write a whole number from {least} to {most}"
    return ""


def _named(api: Api) -> Collection[str]:
    """Return what the requests of an API name: `transactional_id`, `group`."""
    if api.name == COORDINATOR_API:
        return tuple(_ENTITIES)
    entities = {field.entity for field in api.request.paths.values()}
    return [key for key, entity in _ENTITIES.items() if entity in entities]


def _require_release(api: Api, release: Release, schemas: Schemas) -> None:
    """Raise `UsageError` if a message of the release is never one of the same transactional id or group."""
    if release.states and "transactional_id" not in _named(api):
        raise UsageError(f"{api.name} names no transactional id: leave out release.state")
    own = next(iter(_named(api)), None)
    for name in [name for selector in release.after for name in selector.apis]:
        other = _known_api(name, schemas)
        if (
            own is not None and api.name != "Produce" and own not in _named(other)
        ):  # a plain Produce names none
            raise UsageError(
                f"{other.name} names no {_WORDS[own]}, so it never releases {api.name}: "
                "choose another API for release.after"
            )
