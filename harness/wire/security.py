"""How a connection to a broker is secured: TLS, and who it says that it is (SASL).

TLS is Python's own. The exchanges of SASL are kafka-python's, which has each mechanism as an object that says
what to send next; the connection that carries them is ours (`harness.wire.protocol`).
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
    """A broker and this client do not trust each other; asking again would not help."""


@dataclass(frozen=True)
class Security:
    """How to connect. What is secret in it is never shown."""

    protocol: str = "PLAINTEXT"  # one of PROTOCOLS
    ca_file: str | None = None  # PEM; None: the authorities that this machine trusts
    ca_pem: str | None = None  # the same, as text
    certificate_file: str | None = None  # PEM, of this client; its key may stand in the same file
    key_file: str | None = None
    key_password: str | None = field(default=None, repr=False)
    check_name: bool = True  # the certificate must be for the host that was dialed
    mechanism: str | None = None  # one of MECHANISMS
    username: str = ""
    password: str = field(default="", repr=False)
    credentials: Credentials | None = (
        None  # what a token is asked for with, where the mechanism is OAUTHBEARER
    )

    @property
    def tls(self) -> bool:
        """Whether the connection is encrypted."""
        return self.protocol in ("SSL", "SASL_SSL")

    @property
    def sasl(self) -> bool:
        """Whether the client says who it is."""
        return self.protocol.startswith("SASL_")

    def context(self) -> ssl.SSLContext:
        """For a TLS connection. Raises `NotTrusted` where a file cannot be used."""
        try:
            context = ssl.create_default_context(cafile=self.ca_file, cadata=self.ca_pem)
            context.check_hostname = self.check_name
            if self.certificate_file is not None:
                context.load_cert_chain(
                    self.certificate_file,
                    self.key_file or self.certificate_file,
                    self.key_password or (lambda: b""),  # never ask at the terminal
                )
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            files = ", ".join(str(file) for file in (self.ca_file, self.certificate_file) if file)
            raise NotTrusted(f"the certificates or the key in {files} cannot be used: {error}") from error
        return context


PLAINTEXT = Security()


def authenticate(security: Security, host: str, where: str, ask: Callable[[Any], Any]) -> None:
    """Say who we are, on a connection that is up. `ask`: sends a request there, and gives the answer.

    Raises `NotTrusted` where the broker does not take it.
    """
    steps = sasl_requests(security, host, where)
    with suppress(StopIteration):
        request = next(steps)
        while True:
            request = steps.send(ask(request))


def sasl_requests(security: Security, host: str, where: str) -> Generator[Any, Any, None]:
    """The requests by which we say who we are; each is sent its answer. Raises `NotTrusted` where it is not taken."""
    mechanism = security.mechanism or ""
    shaken = yield SaslHandshakeRequest(mechanism=mechanism, version=1)
    if shaken.error_code == UNSUPPORTED_MECHANISM:
        offered = ", ".join(shaken.mechanisms)
        raise NotTrusted(f"{where} does not take sasl.mechanism={mechanism}: it offers {offered or 'none'}")
    user = security.username
    if mechanism.startswith("SCRAM"):  # RFC 5802: a comma or an equals sign would end the name
        user = user.replace("=", "=3D").replace(",", "=2C")
    exchanged = get_sasl_mechanism(mechanism)(
        host=host,
        sasl_plain_username=user,
        sasl_plain_password=security.password,
        sasl_mechanism=mechanism,
        sasl_oauth_token_provider=token_provider(security.credentials),
    )
    who = "the client" if security.credentials else "the user"
    refused = f"{where} does not let {who} {security.username} in with {mechanism}"
    while not exchanged.is_done():
        try:
            told = exchanged.auth_bytes()
        except TokenUnavailable as error:
            raise NotTrusted(str(error)) from error
        answer = yield SaslAuthenticateRequest(auth_bytes=told, version=1)
        if answer.error_code != NO_ERROR:
            words = f" ({answer.error_message})" if answer.error_message else ""
            wrong = (
                "look at scope in sasl.jaas.config of the client-config file, and at what the brokers expect"
                if security.credentials
                else "look at username and password in sasl.jaas.config of the client-config file"
            )
            raise NotTrusted(f"{refused}{words}: {wrong}")
        try:
            exchanged.receive(answer.auth_bytes)
        except (ValueError, KeyError, KafkaError) as error:
            raise NotTrusted(f"{refused}: its answer is not what the password asks for: {error}") from error


def tls_refusal(error: ssl.SSLError, where: str) -> NotTrusted:
    """What a failed handshake means, and what helps."""
    if isinstance(error, ssl.SSLCertVerificationError):
        reason = error.verify_message.rstrip(".")
        helps = (
            "have it renewed"
            if "expired" in reason
            else "dial a name that it has, or set ssl.endpoint.identification.algorithm= in the client-config file"
            if "match" in reason.lower() or "mismatch" in reason.lower()
            else "set ssl.truststore.location in the client-config file to the authority that signed it"
        )
        return NotTrusted(f"the certificate of {where} is not accepted: {reason}; {helps}")
    told = (error.reason or str(error)).lower().replace("_", " ")
    if "wrong version number" in told or "record layer failure" in told:
        return NotTrusted(f"{where} does not speak TLS: set security.protocol in the client-config file")
    if "expired" in told:
        return NotTrusted(
            f"{where} does not accept this client's certificate, which has expired: have it renewed"
        )
    if "certificate" in told or "alert" in told:
        return NotTrusted(
            f"{where} does not accept this client's certificate: {told}; "
            "set ssl.keystore.location in the client-config file to one that it trusts"
        )
    if "eof" in told:
        return NotTrusted(
            f"{where} ended the TLS handshake: it is a plaintext listener, or does not take this client's certificate; "
            "look at security.protocol and ssl.keystore.location in the client-config file"
        )
    return NotTrusted(f"there is no TLS connection to {where}: {told}")
