"""How clients connect to a cluster that is already there: a file with Kafka's own property names.

The same file that Kafka's command line tools take with `--command-config`. It is translated for our own connections
and for librdkafka; the Java client is given it as it stands. What is secret in it goes nowhere else: processes are
handed the path.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.common.errors import UsageError
from harness.wire.security import MECHANISMS, PROTOCOLS, Security
from harness.wire.tokens import OAUTHBEARER, Credentials

BOOTSTRAP = "bootstrap.servers"
TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"
LOGIN_HANDLER = "sasl.login.callback.handler.class"
ASKS_FOR_TOKENS = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
"""A property of a JVM: the URLs that its Kafka clients may send secrets to (CVE-2025-27817); by default, none."""
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
"""What such a file may say: how to connect, and nothing else."""

_PROPERTY = re.compile(r"[a-z0-9]+([.-][a-z0-9]+)+")


@dataclass(frozen=True)
class ClientProperties:
    """What one file says. Never shown: it holds passwords."""

    security: Security = field(default_factory=Security, repr=False)
    java: Mapping[str, str] = field(default_factory=dict, repr=False)  # as it stands there
    librdkafka: Mapping[str, str] = field(default_factory=dict, repr=False)
    bootstrap: str | None = None  # if it names servers

    @classmethod
    def load(cls, path: Path) -> "ClientProperties":
        """Read and translate a file. Raises `UsageError`, which shows no value of it."""
        try:
            told = parse(path.read_text())
        except (OSError, UnicodeDecodeError) as error:
            words = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise UsageError(f"the client-config file {path} cannot be read: {words}") from error
        if strange := sorted(told.keys() - KNOWN):
            named = [name for name in strange if _PROPERTY.fullmatch(name)]
            # Lines of a key that lack their backslash, perhaps: nobody is to see them.
            if len(named) < len(strange):
                named.append("lines that are no property")
            raise UsageError(
                f"{path} says {', '.join(named)}: a client-config file says how to connect, in these properties: "
                f"{', '.join(sorted(KNOWN))}"
            )
        try:
            security = _security(told, path.parent)
        except UsageError as error:
            raise UsageError(f"{path}: {error}") from error
        java = {name: text for name, text in told.items() if name != BOOTSTRAP}
        if security.credentials is not None:
            java[LOGIN_HANDLER] = ASKS_FOR_TOKENS
        for name, file in ((_TRUST, security.ca_file), (_KEY, security.certificate_file)):
            if file is not None:
                java[f"{name}.location"] = file  # absolute: workers run elsewhere
        return cls(security, java, _librdkafka(security), told.get(BOOTSTRAP))


def _security(told: Mapping[str, str], folder: Path) -> Security:
    protocol = told.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in PROTOCOLS:
        raise UsageError(f"security.protocol must be one of {', '.join(PROTOCOLS)}")
    for store in (_TRUST, _KEY):
        kind = told.get(f"{store}.type", "JKS" if f"{store}.location" in told else "PEM")
        if kind.upper() != "PEM":
            raise UsageError(
                f"{store}.type must be PEM, which every client reads, and is {kind}: "
                "`openssl pkcs12 -in STORE.p12 -out STORE.pem` converts a PKCS12 store"
            )
    mechanism = told.get("sasl.mechanism")
    username = password = ""
    credentials = None
    if protocol.startswith("SASL_"):
        if mechanism not in MECHANISMS:
            raise UsageError(f"sasl.mechanism must be one of {', '.join(MECHANISMS)}")
        jaas = told.get("sasl.jaas.config", "")
        if mechanism == OAUTHBEARER:
            credentials = _token_credentials(told, jaas)
            username = credentials.client_id
        else:
            username, password = _credentials(jaas, mechanism)
    return Security(
        protocol=protocol,
        ca_file=_file(told, f"{_TRUST}.location", folder),
        ca_pem=told.get(f"{_TRUST}.certificates"),
        certificate_file=_file(told, f"{_KEY}.location", folder),
        key_password=told.get("ssl.key.password"),
        check_name=bool(told.get("ssl.endpoint.identification.algorithm", "https")),
        mechanism=mechanism,
        username=username,
        password=password,
        credentials=credentials,
    )


def _file(told: Mapping[str, str], name: str, folder: Path) -> str | None:
    if name not in told:
        return None
    path = (folder / Path(told[name]).expanduser()).resolve()
    if not path.is_file():
        raise UsageError(f"{name} names {path}, and there is no such file")
    return str(path)


def _credentials(jaas: str, mechanism: str) -> tuple[str, str]:
    """User and password of a login module."""
    module = "scram.ScramLoginModule" if mechanism.startswith("SCRAM") else "plain.PlainLoginModule"
    options = _login(jaas, module, "username", "password")
    return options["username"], options["password"]


def _token_credentials(told: Mapping[str, str], jaas: str) -> Credentials:
    """What a token is asked for with."""
    url = told.get(TOKEN_URL, "")
    if not re.fullmatch(r"https?://[^\s/@]+(/\S*)?", url):
        raise UsageError(f"{TOKEN_URL} must be the URL (http or https) of the server that gives tokens")
    if told.get(LOGIN_HANDLER, ASKS_FOR_TOKENS).rpartition(".")[2] != ASKS_FOR_TOKENS.rpartition(".")[2]:
        raise UsageError(f"{LOGIN_HANDLER} must be {ASKS_FOR_TOKENS}: leave it out")
    options = _login(jaas, "oauthbearer.OAuthBearerLoginModule", "clientId", "clientSecret")
    return Credentials(url, options["clientId"], options["clientSecret"], options.get("scope"))


def _login(jaas: str, module: str, *needed: str) -> dict[str, str]:
    """The options of a login module. Raises `UsageError` for another module, or where one that is needed is missing."""
    found = _JAAS.match(jaas)
    options = {
        name: re.sub(r"\\(.)", r"\1", double or single or bare)
        for name, double, single, bare in _OPTION.findall(found["options"] if found else "")
    }
    ours = found is not None and found["module"].endswith(f".{module.rpartition('.')[2]}")
    if not ours or not all(options.get(name) for name in needed):
        form = " ".join(f'{name}="..."' for name in needed)
        raise UsageError(
            f"sasl.jaas.config must be: org.apache.kafka.common.security.{module} required {form};"
        )
    return options


def _librdkafka(security: Security) -> dict[str, str]:
    """The same in librdkafka's names."""
    told = {"security.protocol": security.protocol.lower()}
    if security.tls:
        told |= {
            "ssl.ca.location": security.ca_file or "",
            "ssl.ca.pem": security.ca_pem or "",
            "ssl.certificate.location": security.certificate_file or "",
            "ssl.key.location": security.key_file or security.certificate_file or "",
            "ssl.key.password": security.key_password or "",
            "ssl.endpoint.identification.algorithm": "https" if security.check_name else "none",
        }
    if security.credentials is not None:
        told |= {
            "sasl.mechanism": OAUTHBEARER,
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.token.endpoint.url": security.credentials.url,
            "sasl.oauthbearer.client.id": security.credentials.client_id,
            "sasl.oauthbearer.client.secret": security.credentials.secret,
            "sasl.oauthbearer.scope": security.credentials.scope or "",
        }
    elif security.sasl:
        told |= {
            "sasl.mechanism": security.mechanism or "",
            "sasl.username": security.username,
            "sasl.password": security.password,
        }
    return {name: text for name, text in told.items() if text}


def parse(text: str) -> dict[str, str]:
    """A file of properties, as Java reads one: `name=value`, comments, lines that a backslash continues."""
    told: dict[str, str] = {}
    lines = iter(text.splitlines())
    for line in lines:
        logical = line.lstrip()
        if not logical or logical[0] in "#!":
            continue
        while (len(logical) - len(logical.rstrip("\\"))) % 2:
            logical = logical[:-1] + next(lines, "").lstrip()
        found = re.match(r"((?:[^\\=:\s]|\\.)*)\s*[=:\s]?\s*(.*)", logical, re.DOTALL)
        assert found is not None  # every part of it may be empty
        told[_plain(found[1])] = _plain(found[2]).rstrip()
    return told


def _plain(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), text)


_in_use: list[ClientProperties] = []


def use_client_config(path: str | Path | None) -> ClientProperties:
    """From now on every client of this process connects as that file says; None: without security."""
    _in_use[:] = [ClientProperties.load(Path(path))] if path is not None else []
    return _in_use[0] if _in_use else ClientProperties()


def librdkafka_properties() -> Mapping[str, str]:
    """What each librdkafka client of this process is given beside its own settings."""
    return _in_use[0].librdkafka if _in_use else {}


def java_properties() -> Mapping[str, str]:
    """The same for Java clients."""
    return _in_use[0].java if _in_use else {}


def jvm_properties() -> Mapping[str, str]:
    """The properties of the JVM that Java clients of this process need."""
    credentials = _in_use[0].security.credentials if _in_use else None
    return {} if credentials is None else {ALLOWED_URLS: credentials.url}
