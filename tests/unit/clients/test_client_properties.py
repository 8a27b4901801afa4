from pathlib import Path

import pytest

from harness.clients.client_properties import ClientProperties, connect_with, of_java, of_librdkafka, parse
from harness.errors import UsageError

SCRAM = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="{}" password="{}";'


def written(path: Path, **told: str) -> Path:
    path.write_text("".join(f"{name.replace('_', '.')}={text}\n" for name, text in told.items()))
    return path


def scram(tmp_path: Path, user: str = "ann", password: str = "s3cr=t,") -> Path:
    (tmp_path / "ca.pem").write_text("certificates")
    return written(
        tmp_path / "client.properties",
        security_protocol="SASL_SSL",
        sasl_mechanism="SCRAM-SHA-512",
        sasl_jaas_config=SCRAM.format(user, password),
        ssl_truststore_type="PEM",
        ssl_truststore_location="ca.pem",
    )


def test_properties_are_read_as_java_reads_them() -> None:
    text = "# a comment\n! another\n\n a = b c \nlong=one,\\\n   two\nkey\\ one:v\\=1\nempty=\nspaced value\n"
    told = {"a": "b c", "long": "one,two", "key one": "v=1", "empty": "", "spaced": "value"}
    assert parse(text) == told


def test_one_file_tells_every_client(tmp_path: Path) -> None:
    told = ClientProperties.load(scram(tmp_path))
    assert (told.security.username, told.security.password) == ("ann", "s3cr=t,")
    assert told.security.tls
    assert told.security.sasl
    assert told.librdkafka == {
        "security.protocol": "sasl_ssl",
        "ssl.ca.location": str(tmp_path / "ca.pem"),
        "ssl.endpoint.identification.algorithm": "https",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "ann",
        "sasl.password": "s3cr=t,",
    }
    assert told.java["ssl.truststore.location"] == str(tmp_path / "ca.pem")
    assert told.java["sasl.jaas.config"] == SCRAM.format("ann", "s3cr=t,")


def test_a_password_may_hold_what_the_file_or_the_module_would_end_at(tmp_path: Path) -> None:
    for password in ("a;b", "with space", 'qu\\\\"ote'):
        told = ClientProperties.load(scram(tmp_path, password=password))
        assert told.security.password == password.replace('\\\\"', '"')


def test_what_is_secret_is_not_shown(tmp_path: Path) -> None:
    told = ClientProperties.load(scram(tmp_path))
    assert "s3cr" not in repr(told)
    assert "s3cr" not in repr(told.security)


def test_every_client_of_the_process_connects_so(tmp_path: Path) -> None:
    try:
        connect_with(scram(tmp_path))
        assert of_librdkafka()["sasl.username"] == "ann"
        assert of_java()["sasl.mechanism"] == "SCRAM-SHA-512"
    finally:
        connect_with(None)
    assert not of_librdkafka()
    assert not of_java()


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"linger_ms": "5"}, "says linger.ms: a client-config file says how to connect"),
        ({"security_protocol": "TLS"}, "security.protocol must be one of PLAINTEXT"),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "GSSAPI"},
            "sasl.mechanism must be one of PLAIN,",
        ),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN"},
            "sasl.jaas.config must be: .*PlainLogin",
        ),
        (
            {
                "security_protocol": "SASL_SSL",
                "sasl_mechanism": "PLAIN",
                "sasl_jaas_config": SCRAM.format("ann", "hidden-one"),
            },
            "sasl.jaas.config must be: .*PlainLogin",
        ),
        ({"ssl_truststore_location": "ca.jks"}, "ssl.truststore.type must be PEM"),
        (
            {"ssl_truststore_location": "gone", "ssl_truststore_type": "PEM"},
            "gone, and there is no such file",
        ),
    ],
)
def test_a_file_that_cannot_be_used_is_told_in_one_sentence(
    tmp_path: Path, told: dict[str, str], words: str
) -> None:
    with pytest.raises(UsageError, match=words) as refused:
        ClientProperties.load(written(tmp_path / "client.properties", **told))
    assert "hidden-one" not in str(refused.value)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"client-config file .* cannot be read: No such file"):
        ClientProperties.load(tmp_path / "nowhere")
