"""The security settings of a connection to a broker, and TLS with Python's module `ssl`.

`harness.wire.protocol` authenticates. Every process of a run reads the settings, and must start quickly, so this module
imports no client library.
"""

import ssl
from dataclasses import dataclass, field

from harness.common.errors import EnvironmentFailure

OAUTHBEARER = "OAUTHBEARER"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", OAUTHBEARER)
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class NotTrusted(EnvironmentFailure):
    """The broker or this client does not trust the other. A retry would not help."""


@dataclass(frozen=True)
class Credentials:
    """The client credentials for requesting tokens from a token endpoint."""

    url: str
    client_id: str
    secret: str = field(repr=False)
    scope: str | None = None


@dataclass(frozen=True)
class Security:
    """The security settings of a connection. Secrets are not in its `repr`."""

    protocol: str = "PLAINTEXT"  # one of PROTOCOLS
    ca_file: str | None = None  # PEM; None: the authorities that this machine trusts
    ca_pem: str | None = None  # the authorities as text
    certificate_file: str | None = None  # PEM of this client's certificate; may also contain its key
    key_file: str | None = None
    key_password: str | None = field(default=None, repr=False)
    check_name: bool = True  # whether the broker's certificate must be for the host of its address
    mechanism: str | None = None  # one of MECHANISMS
    username: str = ""
    password: str = field(default="", repr=False)
    credentials: Credentials | None = None  # for OAUTHBEARER: to request tokens

    @property
    def tls(self) -> bool:
        """Return whether the connection is encrypted."""
        return self.protocol in ("SSL", "SASL_SSL")

    @property
    def sasl(self) -> bool:
        """Return whether the client authenticates with SASL."""
        return self.protocol.startswith("SASL_")

    def context(self) -> ssl.SSLContext:
        """Return the context of a TLS connection. Raises `NotTrusted` if a file cannot be used."""
        try:
            context = ssl.create_default_context(cafile=self.ca_file, cadata=self.ca_pem)
            context.check_hostname = self.check_name
            if self.certificate_file is not None:
                context.load_cert_chain(
                    self.certificate_file,
                    self.key_file or self.certificate_file,
                    self.key_password or (lambda: b""),  # otherwise OpenSSL prompts on the terminal
                )
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            files = ", ".join(str(file) for file in (self.ca_file, self.certificate_file) if file)
            raise NotTrusted(f"the certificates or the key in {files} cannot be used: {error}") from error
        return context


PLAINTEXT = Security()


def tls_refusal(error: ssl.SSLError, broker: str) -> NotTrusted:
    """Return an error that says why a TLS handshake failed, and what to do."""
    if isinstance(error, ssl.SSLCertVerificationError):
        reason = error.verify_message.rstrip(".")
        advice = (
            "have it renewed"
            if "expired" in reason
            else "use a host name that it has, or set ssl.endpoint.identification.algorithm= in the client-config file"
            if "match" in reason.lower() or "mismatch" in reason.lower()
            else "set ssl.truststore.location in the client-config file to the authority that signed it"
        )
        return NotTrusted(f"the certificate of {broker} is not accepted: {reason}; {advice}")
    message = (error.reason or str(error)).lower().replace("_", " ")
    if "wrong version number" in message or "record layer failure" in message:
        return NotTrusted(f"{broker} does not speak TLS: set security.protocol in the client-config file")
    if "expired" in message:
        return NotTrusted(
            f"{broker} does not accept this client's certificate, which has expired: have it renewed"
        )
    if "certificate" in message or "alert" in message:
        return NotTrusted(
            f"{broker} does not accept this client's certificate: {message}; "
            "set ssl.keystore.location in the client-config file to one that it trusts"
        )
    if "eof" in message:
        return NotTrusted(
            f"{broker} ended the TLS handshake: it is a plaintext listener, or does not accept this client's "
            "certificate; check security.protocol and ssl.keystore.location in the client-config file"
        )
    return NotTrusted(f"the TLS connection to {broker} failed: {message}")
