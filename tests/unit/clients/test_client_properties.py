from pathlib import Path

import pytest

from harness.clients.client_properties import (
    ClientProperties,
    java_properties,
    jvm_properties,
    librdkafka_properties,
    parse,
    use_client_config,
)
from harness.common.errors import UsageError
from harness.wire.security import Credentials

OAUTH = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
    'clientId="ann" clientSecret="s3cr=t" scope="kafka";'
)
SCRAM = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="{}" password="{}";'


def write_properties(path: Path, **loaded: str) -> Path:
    path.write_text("".join(f"{name.replace('_', '.')}={text}\n" for name, text in loaded.items()))
    return path


def scram(tmp_path: Path, user: str = "ann", password: str = "s3cr=t,") -> Path:
    (tmp_path / "ca.pem").write_text("certificates")
    return write_properties(
        tmp_path / "client.properties",
        security_protocol="SASL_SSL",
        sasl_mechanism="SCRAM-SHA-512",
        sasl_jaas_config=SCRAM.format(user, password),
        ssl_truststore_type="PEM",
        ssl_truststore_location="ca.pem",
    )


def test_properties_are_read_as_java_reads_them() -> None:
    text = "# a comment\n! another\n\n a = b c \nlong=one,\\\n   two\nkey\\ one:v\\=1\nempty=\nspaced value\n"
    loaded = {"a": "b c", "long": "one,two", "key one": "v=1", "empty": "", "spaced": "value"}
    assert parse(text) == loaded


def test_one_file_configures_every_client(tmp_path: Path) -> None:
    loaded = ClientProperties.load(scram(tmp_path))
    assert (loaded.security.username, loaded.security.password) == ("ann", "s3cr=t,")
    assert loaded.security.tls
    assert loaded.security.sasl
    assert loaded.librdkafka == {
        "security.protocol": "sasl_ssl",
        "ssl.ca.location": str(tmp_path / "ca.pem"),
        "ssl.endpoint.identification.algorithm": "https",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "ann",
        "sasl.password": "s3cr=t,",
    }
    assert loaded.java["ssl.truststore.location"] == str(tmp_path / "ca.pem")
    assert loaded.java["sasl.jaas.config"] == SCRAM.format("ann", "s3cr=t,")


def test_a_password_may_have_characters_that_separate_options(tmp_path: Path) -> None:
    for password in ("a;b", "with space", 'qu\\\\"ote'):
        loaded = ClientProperties.load(scram(tmp_path, password=password))
        assert loaded.security.password == password.replace('\\\\"', '"')


def test_secrets_are_not_shown(tmp_path: Path) -> None:
    loaded = ClientProperties.load(scram(tmp_path))
    assert "s3cr" not in repr(loaded)
    assert "s3cr" not in repr(loaded.security)


def oauth(tmp_path: Path, **more: str) -> Path:
    loaded = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauthbearer_token_endpoint_url": "https://tokens.example/oauth",
        "sasl_jaas_config": OAUTH,
    }
    return write_properties(tmp_path / "client.properties", **(loaded | more))


def test_every_client_requests_tokens(tmp_path: Path) -> None:
    loaded = ClientProperties.load(oauth(tmp_path))
    url = "https://tokens.example/oauth"
    assert loaded.security.credentials == Credentials(url, "ann", "s3cr=t", "kafka")
    assert loaded.security.username == "ann"
    assert loaded.librdkafka == {
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": url,
        "sasl.oauthbearer.client.id": "ann",
        "sasl.oauthbearer.client.secret": "s3cr=t",
        "sasl.oauthbearer.scope": "kafka",
    }
    assert loaded.java["sasl.login.callback.handler.class"].endswith(".OAuthBearerLoginCallbackHandler")
    assert "s3cr" not in repr(loaded) + repr(loaded.security)
    try:
        assert not jvm_properties()
        use_client_config(oauth(tmp_path))
        assert jvm_properties() == {"org.apache.kafka.sasl.oauthbearer.allowed.urls": url}
    finally:
        use_client_config(None)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"sasl_oauthbearer_token_endpoint_url": "ftp://x"}, "token.endpoint.url must be the URL"),
        ({"sasl_oauthbearer_token_endpoint_url": "https://a:b@x/"}, "token.endpoint.url must be the URL"),
        ({"sasl_login_callback_handler_class": "com.example.Own"}, "callback.handler.class must be"),
        ({"sasl_jaas_config": SCRAM.format("ann", "hidden-one")}, "must be: .*OAuthBearerLoginModule"),
        ({"sasl_jaas_config": OAUTH.replace("clientSecret", "secret")}, 'clientSecret="..."'),
    ],
)
def test_the_error_names_the_property_that_prevents_a_token(
    tmp_path: Path, more: dict[str, str], message: str
) -> None:
    with pytest.raises(UsageError, match=message) as refused:
        ClientProperties.load(oauth(tmp_path, **more))
    assert not any(secret in str(refused.value) for secret in ("hidden-one", "s3cr", "a:b"))


def test_every_client_of_the_process_uses_the_file(tmp_path: Path) -> None:
    try:
        use_client_config(scram(tmp_path))
        assert librdkafka_properties()["sasl.username"] == "ann"
        assert java_properties()["sasl.mechanism"] == "SCRAM-SHA-512"
    finally:
        use_client_config(None)
    assert not librdkafka_properties()
    assert not java_properties()


@pytest.mark.parametrize(
    ("loaded", "message"),
    [
        ({"linger_ms": "5"}, "has linger.ms, but a client-config file only says how to connect"),
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
        ({"ssl_truststore_location": "ca.jks"}, "ssl.truststore.type is JKS, but it must be PEM"),
        (
            {"ssl_truststore_location": "gone", "ssl_truststore_type": "PEM"},
            "gone, but there is no such file",
        ),
    ],
)
def test_the_error_names_the_property_that_is_wrong(
    tmp_path: Path, loaded: dict[str, str], message: str
) -> None:
    with pytest.raises(UsageError, match=message) as refused:
        ClientProperties.load(write_properties(tmp_path / "client.properties", **loaded))
    assert "hidden-one" not in str(refused.value)


def test_the_lines_of_a_key_that_lack_their_backslash_are_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "c.properties"
    path.write_text(
        "ssl.keystore.key=-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0\nVTUt9Us8cKj\nlinger.ms=5\n"
    )
    with pytest.raises(
        UsageError, match=r"has linger\.ms, ssl\.keystore\.key, lines that are no property, but a"
    ) as loaded:
        ClientProperties.load(path)
    assert "MIIE" not in str(loaded.value) and "VTUt" not in str(loaded.value)


def test_a_file_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"client-config file .* cannot be read: No such file"):
        ClientProperties.load(tmp_path / "nowhere")
