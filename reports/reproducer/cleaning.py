"""Remove from a text everything that must not become public. All that a reproducer contains passes through here."""

import hmac
import json
import re
import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.common.wording import REDACTED, SECRET_WORDS, redact_setting, redact_text

USER, HOST, PATH, URL = "<user>", "<host>", "<path>", "<url>"
CONTENT_KEYS = frozenset({"content", "key", "correlation_key"})
"""The keys of examples that hold the contents of records."""
SUM_KEYS = frozenset({"state", "due"})
"""The keys of examples that hold the contents of records if they hold numbers: the sums of an aggregate."""
LOG_KEYS = frozenset(
    {"level", "severity", "time", "timestamp", "ts", "logger", "name", "message", "msg", "error", "err", "stack",
     "code", "api", "clientId", "groupId", "transactionalId", "broker", "topic", "thread", "component", "module"}
)  # fmt: skip
"""Keys of a log line in JSON whose texts are about the program, and not contents of records."""
SMALL = 10_000
"""A number below this identifies nobody. It stays, because offsets and counts are such numbers."""
WORD = re.compile(r"\w+", re.ASCII)

_SYSTEM = r"(?:bin|dev|etc|lib|lib64|proc|sbin|sys|usr)(?=/)"
"""The folders of every system. Their paths tell nothing about a user."""
_PATH = re.compile(
    rf"(?<![\w.<>/$}}])~?/(?!{_SYSTEM}|[\d.]+(?::\d+)?\b)(?:[\w.@+%-]+/+)+[\w.@+%-]*|"
    r"(?<![\w/])~[\w.-]+(?:/[\w.@+%-]*)*"
)
_HOME = re.compile(r"(?<![\w.>])/(?:home|Users|root|mnt|media|var|tmp|private)\b(?:/[\w.@+%-]+)*/*")
_URL = re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s\"'<>),\]}]+")
_EMAIL = re.compile(r"[\w.+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+")
_IPV4 = re.compile(r"(?:[\w.-]*/)?(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.]*\.\d)(:\d{1,5})?\b")
_IPV6 = re.compile(
    r"(?<![\w:.])/?\[?(?=[0-9a-fA-F:]*[0-9a-fA-F])(?:(?:[0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}|(?:[0-9a-fA-F]{1,4}(?::[0-9a-fA-F]{1,4}){0,6})?"
    r"::(?:[0-9a-fA-F]{1,4}(?::[0-9a-fA-F]{1,4}){0,6}))(?:%\w+)?\]?(?![\w:])"
)
_HOST_PORT = re.compile(
    r"(?<![\w.<@-])(?P<host>[A-Za-z0-9](?:[\w-]*\.)*[\w-]*[A-Za-z][\w-]*|[A-Za-z][\w-]*):(?P<port>\d{2,5})(?![\w:.]*\w)"
)
_DOMAIN = re.compile(
    r"(?<![\w.@<-])(?:[A-Za-z0-9][A-Za-z0-9-]*\.)+"
    r"(?:com|net|org|io|internal|intra|local|localdomain|lan|corp|home|cloud|dev|example|test|cluster)\b"
    r"(?![.-]?\w|[\"']?\s*=)"
)
_NAMED = re.compile(
    r"(?P<name>\b(?:host(?:[._-]?name)?|user(?:[._-]?(?:name|home|dir))?|principal|rack|client[._-]?(?:host|rack|dns)|"
    r"broker[._-]?rack|dir(?:ectory)?|home|cwd)[\"']?\s*(?:=|:(?!:))\s*)(?P<value>\"[^\"]*\"|'[^']*'|[^\s,;)\]}\"']+)",
    re.IGNORECASE,
)
_PRINCIPAL = re.compile(r"\bUser:[^\s,;)\]}\"']+")
_VARIABLE = re.compile(r"(?<![\w.-])(?P<name>[A-Z][A-Z0-9_]{2,})=(?P<value>\"[^\"]*\"|'[^']*'|\S+)")
_COLON = re.compile(rf"(?P<name>[\w.-]*(?:{SECRET_WORDS})[\w.-]*:\s+)(?P<value>\S+)", re.IGNORECASE)
_LITERAL = re.compile(
    rf"(?P<name>[\w.-]*(?:{SECRET_WORDS})[\w.-]*[\"'`]?\s*"
    r"(?:=>|:=|=|:|,|\()\s*)(?P<value>\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|`[^`]*`)",
    re.IGNORECASE,
)
_ADDRESSES = re.compile(r"(?<=[\"'`])[\w.-]+:\d{4,5}(?:,[\w.-]+:\d{4,5})*(?=[\"'`])")
_PEM = re.compile(r"-----BEGIN [A-Z ]+-----.*?-----END [A-Z ]+-----", re.DOTALL)
_PRINTED = re.compile(r"\{.*\}|(?<!File )\"[^\"]*\"|(?<!\w)'[^']*'|`[^`]*`")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?\w*")
_TOKEN = re.compile(r"\w+(?:[-.@+:/]\w+)*", re.ASCII)
_FILE = re.compile(
    r"[\w-][\w.-]*\.(?:c|cc|cpp|class|go|h|jar|java|jsonl?|kt|log|[cm]?js|properties|py|rs|scala|so|toml|ts)"
)
_NO_HOST = re.compile(
    r"(?:count|epoch|generation|id|leader|line|max|min|nodes?|offsets?|partition|position|size|time)"
)
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "0.0.0.0"})


@dataclass(frozen=True)
class Cleaning:
    """Replaces what must not become public. The rule, in this order:

    1. A secret becomes `<redacted>`: each value in `secret_values`; the value of a setting, flag or name that
       `harness.common.wording` calls a secret; user and password of a URL; a PEM block.
    2. An environment variable (`NAME=value`, name in capitals) keeps its name, and its value becomes `<redacted>`.
    3. A path in a folder of `folders` becomes relative to it, or begins with the replacement of that folder. Of another
       absolute path only the name of a file stays (`<path>/main.go`); paths of the system (`/usr`, `/etc`) stay.
    4. The address of a broker in `brokers` becomes `broker-1:9092`. Another address becomes `<host>` with its port, or
       `localhost` with its port if it is this machine's loopback. A URL becomes `<url>`. A host in `hosts`, a domain
       name, and the value of `host=`, `rack=` and the like become `<host>`.
    5. A user in `users`, an address of an e-mail, a principal and the value of `user=` become `<user>`.
    6. The content of a record (key, value, correlation key, sum) becomes a digest, such as `#3f9a51c2`, unless
       `with_values`. The same content has the same digest within one folder. The digest is keyed with a random number
       that is not stored, so that nobody can find a content by trying. `printed` says what counts as content in a line
       of a user's program.

    In the source of a program (`code`), only literals are replaced, so that it still runs: rule 1 for literals in
    quotes and known values, rule 3 for known folders and homes, rule 4 for known addresses and hosts, IP addresses and
    an address that is a whole literal, and rule 5 for known users and addresses of e-mails.

    Names of topics, groups, transactional ids, stages and workers stay: without them a finding says nothing.
    """

    folders: Mapping[str, str] = field(default_factory=dict)  # by absolute path: the replacement, or ""
    brokers: Mapping[str, str] = field(default_factory=dict)  # by HOST:PORT: such as `broker-1:9092`
    hosts: Collection[str] = ()
    users: Collection[str] = ()
    secret_values: Collection[str] = ()
    names: Collection[str] = ()  # of topics, groups, ids, stages and workers: these are no contents
    with_values: bool = False
    salt: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)

    def text(self, text: str) -> str:
        """Return a text of a run, such as a line of a log, without what must not become public."""
        text = _COLON.sub(rf"\g<name>{REDACTED}", redact_text(_PEM.sub(REDACTED, self._known_secrets(text))))
        text = _EMAIL.sub(USER, _VARIABLE.sub(rf"\g<name>={REDACTED}", text))
        text = _URL.sub(_unless_broker, self._known_places(text))
        text = _PRINCIPAL.sub(f"User:{USER}", text)
        text = _NAMED.sub(_named, _IPV6.sub(HOST, _IPV4.sub(_address, text)))
        text = _HOST_PORT.sub(
            lambda match: match[0] if match["host"] in self.names else _host_port(match), text
        )
        text = _DOMAIN.sub(HOST, text)
        text = _PATH.sub(_file_name, _HOME.sub(_file_name, text))
        return self._known_people(text)

    def code(self, text: str) -> str:
        """Return the source of a program, in which only literals are replaced."""
        text = _LITERAL.sub(_quoted, _PEM.sub(REDACTED, self._known_secrets(text)))
        text = re.sub(r"(?<=://)[^\s/?#'\"{}$]*@", f"{REDACTED}@", text)
        text = self._known_places(_EMAIL.sub(USER, text))
        text = _ADDRESSES.sub(lambda match: _HOST_PORT.sub(_host_port, match[0]), _IPV4.sub(_address, text))
        return self._known_people(_HOME.sub(_file_name, text))

    def content(self, content: object) -> str:
        """Return the digest of a record's content. `with_values`: return the content without secrets.

        The name of a partition stays: in a client's history it is the key of its records.
        """
        text = str(content)
        if self.with_values or text in self.names or text.partition("/")[0] in self.names:
            return self.text(text)
        return "#" + hmac.digest(self.salt, text.encode("utf-8", "replace"), "sha256").hex()[:8]

    def printed(self, line: str, content_words: Collection[str]) -> str:
        """Return a line that a user's program printed. Without `with_values`, digests replace what may be a content:
        text in quotes and in braces, and each word in `content_words`. The file in a traceback of Python stays.

        If the line is a JSON object, as many log libraries write it, each value under a key of `LOG_KEYS` counts as a
        line of its own, and a digest replaces each other text.

        Args:
            line: the line
            content_words: the words of the contents of the run's records that may occur in the line
        """
        if self.with_values:
            return self.text(line)
        entry = _json_object(line)
        if entry is not None:
            values = {key: self._log_value(key, value, content_words) for key, value in entry.items()}
            return json.dumps({self.text(key): value for key, value in values.items()}, ensure_ascii=False)
        line = _PRINTED.sub(lambda match: self.content(match[0]), line)
        return self.text(_TOKEN.sub(lambda match: self._word(match[0], content_words), line))

    def _log_value(self, key: str, value: Any, content_words: Collection[str]) -> Any:
        if key in LOG_KEYS and isinstance(value, str):
            return self.setting(key, self.printed(value, content_words))
        if value is None or isinstance(value, bool) or (isinstance(value, int) and abs(value) < SMALL):
            return value
        return self.content(value)

    def example(self, value: Any, key: str = "") -> Any:
        """Return the JSON of an example with everything in it replaced. `key` is the key of the value."""
        if isinstance(value, Mapping):
            return {self.text(name): self.example(inner, name) for name, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self.example(inner, key) for inner in value]
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if value is not None and (key in CONTENT_KEYS or (is_number and key in SUM_KEYS)):
            return self.content(value)
        return self.setting(key, value)

    def settings(self, value: Any, key: str = "") -> Any:
        """Return a table of settings with everything in it replaced. `key` is the key of the value."""
        if isinstance(value, Mapping):
            return {self.text(name): self.settings(inner, name) for name, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self.settings(inner, key) for inner in value]
        return self.setting(key, value)

    def setting(self, name: str, value: Any) -> Any:
        """Return the value of a setting. Numbers, booleans and None stay."""
        return self.text(redact_setting(name, value)) if isinstance(value, str) else value

    def _word(self, token: str, content_words: Collection[str]) -> str:
        if token in self.names or token.partition(":")[0] in self.names:
            return token
        if _MOMENT.fullmatch(token):
            return token
        words = WORD.findall(token)
        return (
            self.content(token)
            if any(may_identify(word) and word in content_words for word in words)
            else token
        )

    def _known_secrets(self, text: str) -> str:
        for value in sorted(self.secret_values, key=len, reverse=True):
            text = text.replace(value, REDACTED)
        return text

    def _known_places(self, text: str) -> str:
        for folder, replacement in sorted(self.folders.items(), key=lambda item: len(item[0]), reverse=True):
            before = rf"(?<![\w.-]){re.escape(folder)}"
            text = re.sub(f"{before}/+", f"{replacement}/" if replacement else "", text)
            text = re.sub(rf"{before}(?![\w.-])", replacement or ".", text)
        for address, name in self.brokers.items():
            text = re.sub(rf"(?:[\w.-]*/)?(?<![\w.-]){re.escape(address)}(?!\d)", name, text)
        return self._sub_words(text, self.hosts, HOST)

    def _known_people(self, text: str) -> str:
        return self._sub_words(text, self.users, USER)

    def _sub_words(self, text: str, words: Collection[str], by: str) -> str:
        if not words:
            return text
        either = "|".join(map(re.escape, sorted(words, key=len, reverse=True)))
        return re.sub(rf"(?<![\w.])(?:{either})(?![\w]|\.\w)", by, text)


def may_identify(word: str) -> bool:
    """Return whether a word of a record's content may identify anybody: no, if it is short or a small number."""
    return int(word) >= SMALL if word.isdecimal() else len(word) > 2


def _json_object(line: str) -> dict[str, Any] | None:
    """Return the object that a line consists of. None: it is no JSON object."""
    if not line.lstrip().startswith("{"):
        return None
    try:
        body = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


def _unless_broker(match: "re.Match[str]") -> str:
    return match[0] if re.fullmatch(r"[a-z+]+://broker-\d+:9092/?", match[0]) else URL


def _named(match: "re.Match[str]") -> str:
    value = match["value"].strip("\"'")
    if (
        value in ("null", "None", "true", "false", "", "''")
        or value.startswith(("<", "broker-"))
        or value.isdecimal()
    ):
        return match[0]
    name = match["name"].lower()
    by = (
        USER
        if name.startswith(("user", "principal"))
        else PATH
        if name.startswith(("dir", "home", "cwd"))
        else HOST
    )
    return match["name"] + by


def _address(match: "re.Match[str]") -> str:
    address, _, port = match[0].partition(":")
    host = "localhost" if address.rpartition("/")[2] in _LOOPBACK else HOST
    return f"{host}:{port}" if port else host


def _host_port(match: "re.Match[str]") -> str:
    host, port = match["host"], match["port"]
    labels = host.split(".")
    is_file = len(labels) == 2 and _FILE.fullmatch(host)
    is_word = len(labels) == 1 and (int(port) < 1024 or _NO_HOST.fullmatch(host.lower()))
    if is_file or is_word or host in _LOOPBACK or re.fullmatch(r"broker-\d+", host) or labels[-1].isdecimal():
        return match[0]
    return f"{HOST}:{port}"


def _file_name(match: "re.Match[str]") -> str:
    name = match[0].rpartition("/")[2]
    return f"{PATH}/{name}" if _FILE.fullmatch(name) else PATH


def _quoted(match: "re.Match[str]") -> str:
    quote = match["value"][0]
    return f"{match['name']}{quote}{REDACTED}{quote}"
