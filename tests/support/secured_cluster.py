"""A local cluster with one client listener that requires TLS and SASL and checks ACLs."""

import subprocess
from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from harness.clients.client_properties import ALLOWED_URLS
from harness.cluster.local import LocalBroker, LocalCluster
from tests.support.token_server import AUDIENCE, ISSUER, TokenServer

LISTENER = "ENDPOINT_0"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearer"
USER, PASSWORD = "guest", "pass=wo,rd-4711"
TIMEOUT_S = 30
EC = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")

PREFIXED = ResourcePatternType.PREFIXED
TOPIC_RIGHTS = ("CREATE", "DELETE", "DESCRIBE", "READ", "WRITE")
AclRight = tuple[ResourceType, str, ResourcePatternType, AclOperation]


def rights_for_prefix(prefix: str) -> list[AclRight]:
    """The rights that the documentation requires for names with this prefix. It requires none on internal topics."""
    rights = {
        ResourceType.TOPIC: TOPIC_RIGHTS,
        ResourceType.GROUP: ("READ", "DELETE"),
        ResourceType.TRANSACTIONAL_ID: ("DESCRIBE", "WRITE"),
    }
    return [
        (kind, prefix, PREFIXED, AclOperation[right]) for kind, names in rights.items() for right in names
    ]


FENCEPOST_RIGHTS = rights_for_prefix("fencepost-")


class SecuredCluster(LocalCluster):
    """Its first client endpoint accepts only SASL_SSL. Clients of the other endpoints have all rights."""

    authority: "Authority"
    tokens: TokenServer | None = None  # brokers accept its tokens too; set it before the start

    def _make_nodes(self) -> list[LocalBroker]:
        self.authority = Authority(self._folder)
        store = self.authority.issue("broker")
        nodes = super()._make_nodes()
        for node in nodes:
            config = node.data_dir.parent / "server.properties"
            scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
            plain = (
                "org.apache.kafka.common.security.plain.PlainLoginModule required "
                f'username="x" password="x" user_{USER}="{PASSWORD}";'
            )
            prefix = f"listener.name.{LISTENER.lower()}."
            more = {
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:ANONYMOUS",
                f"{prefix}sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512,PLAIN",
                f"{prefix}scram-sha-256.sasl.jaas.config": scram,
                f"{prefix}scram-sha-512.sasl.jaas.config": scram,
                f"{prefix}plain.sasl.jaas.config": plain,
                f"{prefix}ssl.keystore.type": "PEM",
                f"{prefix}ssl.keystore.location": str(store),
            }
            if self.tokens is not None:
                more |= {
                    f"{prefix}sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512,PLAIN,OAUTHBEARER",
                    f"{prefix}oauthbearer.sasl.jaas.config": f"{OAUTH}LoginModule required;",
                    f"{prefix}oauthbearer.sasl.server.callback.handler.class": f"{OAUTH}ValidatorCallbackHandler",
                    "sasl.oauthbearer.jwks.endpoint.url": f"{self.tokens.url}/jwks",
                    "sasl.oauthbearer.expected.audience": AUDIENCE,
                    "sasl.oauthbearer.expected.issuer": ISSUER,
                }
                allowed = f"-D{ALLOWED_URLS}={self.tokens.url}/jwks"
                node.command = [node.command[0], allowed, *node.command[1:]]
            text = config.read_text().replace(f"{LISTENER}:PLAINTEXT", f"{LISTENER}:SASL_SSL")
            config.write_text(text + "".join(f"{name}={value}\n" for name, value in more.items()))
        return nodes

    def create_user(self, *rights: AclRight) -> None:
        """Create the user's SCRAM credentials and give it these rights."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        upsertions = [
            UserScramCredentialUpsertion(USER, ScramCredentialInfo(mechanism, 4096), PASSWORD.encode())
            for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
        ]
        for upsertion in upsertions:
            for future in admin.alter_user_scram_credentials([upsertion]).values():
                future.result(TIMEOUT_S)
        bindings = [
            AclBinding(kind, name, pattern, f"User:{USER}", "*", operation, AclPermissionType.ALLOW)
            for kind, name, pattern, operation in rights
        ]
        for future in admin.create_acls(bindings).values() if bindings else ():
            future.result(TIMEOUT_S)

    def client_config(
        self, path: Path, *, mechanism: str = "SCRAM-SHA-512", password: str = PASSWORD
    ) -> Path:
        """Write a file of client properties with which a client can connect."""
        module = "scram.Scram" if mechanism.startswith("SCRAM") else "plain.Plain"
        path.write_text(
            "# how to connect\n"
            "security.protocol=SASL_SSL\n"
            f"sasl.mechanism={mechanism}\n"
            f"sasl.jaas.config=org.apache.kafka.common.security.{module}LoginModule required \\\n"
            f'    username="{USER}" password="{password}";\n'
            "ssl.truststore.type=PEM\n"
            f"ssl.truststore.location={self.authority.certificate}\n"
        )
        return path


class Authority:
    """A certificate authority that uses the command `openssl`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self.certificate = folder / "ca.pem"
        self._key = folder / "ca.key"
        _openssl(
            *("req", "-x509", *EC, "-nodes", "-subj", "/CN=test authority", "-days", "2"),
            *("-keyout", str(self._key), "-out", str(self.certificate)),
        )

    def issue(self, name: str, *, days: int = 2, host: str = "IP:127.0.0.1,DNS:localhost") -> Path:
        """Write a key and its certificate to one PEM file. If `days` is below 0, the certificate has expired."""
        request, key, signed, store = (
            self._folder / f"{name}.{kind}" for kind in ("csr", "key", "crt", "pem")
        )
        extension = self._folder / f"{name}.ext"
        extension.write_text(f"subjectAltName={host}\n")
        _openssl(
            *("req", *EC, "-nodes", "-subj", f"/CN={name}"),
            *("-keyout", str(key), "-out", str(request)),
        )
        _openssl(
            *("x509", "-req", "-in", str(request), "-CA", str(self.certificate), "-CAkey", str(self._key)),
            *("-CAcreateserial", "-days", str(days), "-extfile", str(extension), "-out", str(signed)),
        )
        store.write_text(key.read_text() + signed.read_text() + self.certificate.read_text())
        return store


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)
