"""TLS connections to a server of the test: which certificates are refused, and the errors."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse

from harness.wire.protocol import Address, WireError, send_request
from harness.wire.security import NotTrusted, Security
from tests.support.secured_cluster import Authority

pytestmark = pytest.mark.processes

CLIENTS = r"has expired|this client's certificate"
"""Either message is right, because the server's alert may be lost with the connection."""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@contextmanager
def server(store: Path, authority: Authority | None = None) -> Iterator[int]:
    """Run a broker that answers only ApiVersions, on one connection. Yield its port.

    With `authority`, the client must have a certificate.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(store)
    if authority is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(authority.certificate)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            plain, _ = listener.accept()
            with plain, suppress(OSError), context.wrap_socket(plain, server_side=True) as connection:
                for correlation in (1, 2):
                    connection.recv(1024)
                    kind = ApiVersionsResponse.ApiVersion
                    known = [kind(api_key=18, min_version=0, max_version=4)]
                    response = ApiVersionsResponse(error_code=0, api_keys=known, version=0)
                    response.with_header(correlation)
                    connection.sendall(response.encode(header=True, framed=True))

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        thread.join(10)


def request_versions(port: int, security: Security, host: str = "127.0.0.1") -> int:
    answer = send_request(Address(host, port, security), ApiVersionsRequest(version=0), 10)
    return int(answer.error_code)


def security_with(authority: Authority, client: Path | None = None) -> Security:
    return Security(
        "SSL",
        ca_file=str(authority.certificate),
        certificate_file=str(client) if client else None,
    )


def test_a_server_with_a_trusted_authority_is_accepted(authority: Authority) -> None:
    with server(authority.issue("right")) as port:
        assert request_versions(port, security_with(authority)) == 0


def test_a_client_sends_its_certificate(authority: Authority) -> None:
    with server(authority.issue("right"), authority) as port:
        assert request_versions(port, security_with(authority, authority.issue("client"))) == 0


def test_the_error_of_a_client_without_a_certificate_says_what_to_set(authority: Authority) -> None:
    with (
        server(authority.issue("right"), authority) as port,
        pytest.raises(NotTrusted, match=r"ssl\.keystore"),
    ):
        request_versions(port, security_with(authority))


def test_the_error_names_an_expired_certificate_of_the_client(authority: Authority) -> None:
    client = authority.issue("old-client", days=-1)
    with server(authority.issue("right"), authority) as port, pytest.raises(NotTrusted, match=CLIENTS):
        request_versions(port, security_with(authority, client))


def test_the_error_names_an_expired_certificate_of_the_server(authority: Authority) -> None:
    with (
        server(authority.issue("old", days=-1)) as port,
        pytest.raises(NotTrusted, match="certificate has expired; have it renewed"),
    ):
        request_versions(port, security_with(authority))


def test_the_error_of_an_unknown_authority_says_what_to_set(authority: Authority) -> None:
    with (
        server(authority.issue("right")) as port,
        pytest.raises(NotTrusted, match=r"set ssl\.truststore\.location"),
    ):
        request_versions(port, Security("SSL"))


def test_a_certificate_for_another_host_is_refused_unless_the_check_is_off(
    authority: Authority, tmp_path: Path
) -> None:
    store = Authority(tmp_path).issue("other", host="DNS:elsewhere.example")
    ca = str(tmp_path / "ca.pem")
    with server(store) as port, pytest.raises(NotTrusted, match="use a host name that it has"):
        request_versions(port, Security("SSL", ca_file=ca))
    with server(store) as port:
        assert request_versions(port, Security("SSL", ca_file=ca, check_name=False)) == 0


def test_the_error_names_a_file_that_is_no_certificate(tmp_path: Path, authority: Authority) -> None:
    no_certificate = tmp_path / "nothing.pem"
    no_certificate.write_text("not a certificate")
    with pytest.raises(NotTrusted, match=r"nothing\.pem cannot be used"):
        Security("SSL", ca_file=str(no_certificate)).context()


def test_the_error_of_an_unsupported_request_has_the_required_version(authority: Authority) -> None:
    with server(authority.issue("right")) as port:
        address = Address("127.0.0.1", port, security_with(authority))
        request = ApiVersionsRequest(version=4)
        object.__setattr__(request, "_version", 9)
        with pytest.raises(
            WireError, match=r"in versions 0 to 4, but Fencepost sends version 9: .* Kafka 3\.0"
        ):
            send_request(address, request, 10)
