"""Read a client-config file: how clients connect to an existing cluster, in Kafka's own property names.

It is the file that Kafka's command line tools take with `--command-config`. This module translates it for Fencepost's
own connections and for librdkafka. The Java client gets the properties unchanged. Other processes get only the path
of the file, so that its secrets are copied nowhere.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.common.errors import UsageError
from harness.wire.security import MECHANISMS, OAUTHBEARER, PROTOCOLS, Credentials, Security

BOOTSTRAP = "bootstrap.servers"
TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"
LOGIN_HANDLER = "sasl.login.callback.handler.class"
TOKEN_CALLBACK_HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
"""A JVM property: the URLs to which Kafka clients may send secrets (CVE-2025-27817). By default there is none."""
_TRUST, _KEY = "ssl.truststore", "ssl.keystore"
_JAAS = re.compile(r"^\s*(?P<module>[\w.$]+)\s+required\s+(?P<options>.*?);?\s*$", re.DOTALL)
_OPTION = re.compile(r"(\w+)\s*=\s*(?:\"((?:[^\"\\]|\\.)*)\"|'((?:[^'\\]|\\.)*)'|([^\s;]+))")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}
KNOWN = frozenset(
    {
        BOOTSTRAP,
        "security.protocol",
        "sasl.mechanism",
        "sasl.jaas.config",
        TOKEN_URL,
        LOGIN_HANDLER,
        f"{_TRUST}.location",
        f"{_TRUST}.type",
        f"{_TRUST}.certificates",
        f"{_KEY}.location",
        f"{_KEY}.type",
        "ssl.key.password",
        "ssl.endpoint.identification.algorithm",
    }
)
"""The properties that a client-config file may have. They only say how to connect."""

_PROPERTY = re.compile(r"[a-z0-9]+([.-][a-z0-9]+)+")


@dataclass(frozen=True)
class ClientProperties:
    """The content of a client-config file. The `repr` leaves the content out, because it has passwords."""

    security: Security = field(default_factory=Security, repr=False)
    java: Mapping[str, str] = field(default_factory=dict, repr=False)  # properties of Java clients
    librdkafka: Mapping[str, str] = field(default_factory=dict, repr=False)
    bootstrap: str | None = None  # None: the file names no servers

    @classmethod
    def load(cls, path: Path) -> "ClientProperties":
        """Read and translate a file. Raises `UsageError`, whose message contains no value of the file."""
        try:
            properties = parse(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise UsageError(f"the client-config file {path} cannot be read: {reason}") from error
        if unknown := sorted(properties.keys() - KNOWN):
            shown = [name for name in unknown if _PROPERTY.fullmatch(name)]
            # An odd name may be a line of a private key whose backslash is missing, so it is not shown.
            if len(shown) < len(unknown):
                shown.append("lines that are no property")
            raise UsageError(
                f"{path} has {', '.join(shown)}, but a client-config file only says how to connect: remove them. "
                f"It may have these properties: {', '.join(sorted(KNOWN))}"
            )
        try:
            security = _security(properties, path.parent)
        except UsageError as error:
            raise UsageError(f"{path}: {error}") from error
        java = {name: text for name, text in properties.items() if name != BOOTSTRAP}
        if security.credentials is not None:
            java[LOGIN_HANDLER] = TOKEN_CALLBACK_HANDLER
        for name, file in ((_TRUST, security.ca_file), (_KEY, security.certificate_file)):
            if file is not None:
                java[f"{name}.location"] = file  # absolute, because workers run in another folder
        return cls(security, java, _to_librdkafka(security), properties.get(BOOTSTRAP))


def _security(properties: Mapping[str, str], folder: Path) -> Security:
    protocol = properties.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in PROTOCOLS:
        raise UsageError(f"security.protocol must be one of {', '.join(PROTOCOLS)}")
    for store in (_TRUST, _KEY):
        kind = properties.get(f"{store}.type", "JKS" if f"{store}.location" in properties else "PEM")
        if kind.upper() != "PEM":
            raise UsageError(
                f"{store}.type is {kind}, but it must be PEM, which every client reads: "
                "convert a PKCS12 store with `openssl pkcs12 -in STORE.p12 -out STORE.pem`"
            )
    mechanism = properties.get("sasl.mechanism")
    username = password = ""
    credentials = None
    if protocol.startswith("SASL_"):
        if mechanism not in MECHANISMS:
            raise UsageError(f"sasl.mechanism must be one of {', '.join(MECHANISMS)}")
        jaas = properties.get("sasl.jaas.config", "")
        if mechanism == OAUTHBEARER:
            credentials = _token_credentials(properties, jaas)
            username = credentials.client_id
        else:
            username, password = _credentials(jaas, mechanism)
    return Security(
        protocol=protocol,
        ca_file=_file(properties, f"{_TRUST}.location", folder),
        ca_pem=properties.get(f"{_TRUST}.certificates"),
        certificate_file=_file(properties, f"{_KEY}.location", folder),
        key_password=properties.get("ssl.key.password"),
        check_name=bool(properties.get("ssl.endpoint.identification.algorithm", "https")),
        mechanism=mechanism,
        username=username,
        password=password,
        credentials=credentials,
    )


def _file(properties: Mapping[str, str], name: str, folder: Path) -> str | None:
    if name not in properties:
        return None
    path = (folder / Path(properties[name]).expanduser()).resolve()
    if not path.is_file():
        raise UsageError(f"{name} names {path}, but there is no such file")
    return str(path)


def _credentials(jaas: str, mechanism: str) -> tuple[str, str]:
    module = "scram.ScramLoginModule" if mechanism.startswith("SCRAM") else "plain.PlainLoginModule"
    options = _login(jaas, module, "username", "password")
    return options["username"], options["password"]


def _token_credentials(properties: Mapping[str, str], jaas: str) -> Credentials:
    url = properties.get(TOKEN_URL, "")
    if not re.fullmatch(r"https?://[^\s/@]+(/\S*)?", url):
        raise UsageError(f"{TOKEN_URL} must be the URL (http or https) of the server that issues tokens")
    handler = properties.get(LOGIN_HANDLER, TOKEN_CALLBACK_HANDLER)
    if handler.rpartition(".")[2] != TOKEN_CALLBACK_HANDLER.rpartition(".")[2]:
        raise UsageError(f"{LOGIN_HANDLER} must be {TOKEN_CALLBACK_HANDLER}: leave it out")
    options = _login(jaas, "oauthbearer.OAuthBearerLoginModule", "clientId", "clientSecret")
    return Credentials(url, options["clientId"], options["clientSecret"], options.get("scope"))


def _login(jaas: str, module: str, *required: str) -> dict[str, str]:
    """Return the options of a JAAS login module.

    Raises `UsageError` if it is another module, or if a required option is missing.
    """
    match = _JAAS.match(jaas)
    options = {
        name: re.sub(r"\\(.)", r"\1", double or single or bare)
        for name, double, single, bare in _OPTION.findall(match["options"] if match else "")
    }
    is_module = match is not None and match["module"].endswith(f".{module.rpartition('.')[2]}")
    if not is_module or not all(options.get(name) for name in required):
        form = " ".join(f'{name}="..."' for name in required)
        raise UsageError(
            f"sasl.jaas.config must be: org.apache.kafka.common.security.{module} required {form};"
        )
    return options


def _to_librdkafka(security: Security) -> dict[str, str]:
    settings = {"security.protocol": security.protocol.lower()}
    if security.tls:
        settings |= {
            "ssl.ca.location": security.ca_file or "",
            "ssl.ca.pem": security.ca_pem or "",
            "ssl.certificate.location": security.certificate_file or "",
            "ssl.key.location": security.key_file or security.certificate_file or "",
            "ssl.key.password": security.key_password or "",
            "ssl.endpoint.identification.algorithm": "https" if security.check_name else "none",
        }
    if security.credentials is not None:
        settings |= {
            "sasl.mechanism": OAUTHBEARER,
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.token.endpoint.url": security.credentials.url,
            "sasl.oauthbearer.client.id": security.credentials.client_id,
            "sasl.oauthbearer.client.secret": security.credentials.secret,
            "sasl.oauthbearer.scope": security.credentials.scope or "",
        }
    elif security.sasl:
        settings |= {
            "sasl.mechanism": security.mechanism or "",
            "sasl.username": security.username,
            "sasl.password": security.password,
        }
    return {name: text for name, text in settings.items() if text}


def parse(text: str) -> dict[str, str]:
    """Parse a properties file as Java does: `name=value`, comments, and lines continued by a backslash."""
    properties: dict[str, str] = {}
    lines = iter(text.splitlines())
    for line in lines:
        logical = line.lstrip()
        if not logical or logical[0] in "#!":
            continue
        while (len(logical) - len(logical.rstrip("\\"))) % 2:
            logical = logical[:-1] + next(lines, "").lstrip()
        match = re.match(r"((?:[^\\=:\s]|\\.)*)\s*[=:\s]?\s*(.*)", logical, re.DOTALL)
        assert match is not None  # every part of the pattern may be empty
        properties[_unescape(match[1])] = _unescape(match[2]).rstrip()
    return properties


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), text)


_in_use: list[ClientProperties] = []  # empty, or one element: the properties that this process uses


def use_client_config(path: str | Path | None) -> ClientProperties:
    """Read a client-config file, and use it for all clients that this process creates after this call.

    A `path` of None means plaintext without authentication. Raises `UsageError`.
    """
    _in_use[:] = [ClientProperties.load(Path(path))] if path is not None else []
    return _in_use[0] if _in_use else ClientProperties()


def librdkafka_properties() -> Mapping[str, str]:
    """Return the connection settings for the librdkafka clients of this process."""
    return _in_use[0].librdkafka if _in_use else {}


def java_properties() -> Mapping[str, str]:
    """Return the connection settings for the Java clients of this process."""
    return _in_use[0].java if _in_use else {}


def jvm_properties() -> Mapping[str, str]:
    """Return the JVM properties that the Java clients of this process need."""
    credentials = _in_use[0].security.credentials if _in_use else None
    return {} if credentials is None else {ALLOWED_URLS: credentials.url}
