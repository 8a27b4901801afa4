"""Secure a connection to a broker with TLS, and authenticate with SASL.

TLS is Python's module `ssl`. The SASL mechanisms are objects of kafka-python, which make the requests.
`harness.wire.protocol` sends them.
"""

import ssl
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from kafka.errors import KafkaError
from kafka.net.sasl import get_sasl_mechanism
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from harness.common.errors import EnvironmentFailure
from harness.wire.tokens import OAUTHBEARER, Credentials, TokenUnavailable, token_provider

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", OAUTHBEARER)
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
NO_ERROR = 0
UNSUPPORTED_MECHANISM = 33


class NotTrusted(EnvironmentFailure):
    """The broker or this client does not trust the other. A retry would not help."""


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


def authenticate(security: Security, host: str, broker: str, ask: Callable[[Any], Any]) -> None:
    """Authenticate on an open connection. `ask` sends a request on it and returns the response.

    Raises `NotTrusted` if the broker refuses.
    """
    steps = sasl_requests(security, host, broker)
    with suppress(StopIteration):
        request = next(steps)
        while True:
            request = steps.send(ask(request))


def sasl_requests(security: Security, host: str, broker: str) -> Generator[Any, Any, None]:
    """Yield the requests of a SASL authentication. The caller sends the response to each into the generator.

    Raises `NotTrusted` if the broker refuses.
    """
    mechanism = security.mechanism or ""
    handshake = yield SaslHandshakeRequest(mechanism=mechanism, version=1)
    if handshake.error_code == UNSUPPORTED_MECHANISM:
        offered = ", ".join(handshake.mechanisms)
        raise NotTrusted(
            f"{broker} does not support sasl.mechanism={mechanism}: set one that it supports ({offered or 'none'}) "
            "in the client-config file"
        )
    user = security.username
    if mechanism.startswith("SCRAM"):  # RFC 5802: commas and equals signs in a name must be escaped
        user = user.replace("=", "=3D").replace(",", "=2C")
    sasl = get_sasl_mechanism(mechanism)(
        host=host,
        sasl_plain_username=user,
        sasl_plain_password=security.password,
        sasl_mechanism=mechanism,
        sasl_oauth_token_provider=token_provider(security.credentials),
    )
    role = "the client" if security.credentials else "the user"
    refusal = f"{broker} does not let {role} {security.username} in with {mechanism}"
    while not sasl.is_done():
        try:
            auth_bytes = sasl.auth_bytes()
        except TokenUnavailable as error:
            raise NotTrusted(str(error)) from error
        answer = yield SaslAuthenticateRequest(auth_bytes=auth_bytes, version=1)
        if answer.error_code != NO_ERROR:
            message = f" ({answer.error_message})" if answer.error_message else ""
            advice = (
                "check scope in sasl.jaas.config of the client-config file, and what the brokers expect"
                if security.credentials
                else "check username and password in sasl.jaas.config of the client-config file"
            )
            raise NotTrusted(f"{refusal}{message}: {advice}")
        try:
            sasl.receive(answer.auth_bytes)
        except (ValueError, KeyError, KafkaError) as error:
            raise NotTrusted(
                f"{broker} does not prove with {mechanism} that it knows {role}'s password: {error}; "
                "check the bootstrap servers"
            ) from error


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
