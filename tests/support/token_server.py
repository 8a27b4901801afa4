"""A server that gives tokens to clients and keys to brokers, on this machine: OAuth 2.0 as Kafka's brokers and clients
use it. Tokens are signed by openssl.
"""

import json
import subprocess
import threading
import time
from base64 import b64decode, urlsafe_b64encode
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs

HOST = "127.0.0.1"
ISSUER, AUDIENCE = "https://tokens.example", "kafka"


class TokenServer:
    """Gives a token for `client_id` to whoever knows the secret. Started when it is made; `close` ends it."""

    def __init__(self, folder: Path, client_id: str, secret: str, *, audience: str = AUDIENCE) -> None:
        self._key = folder / f"tokens-{audience}.key"
        subprocess.run(["openssl", "genrsa", "-out", str(self._key), "2048"], check=True, capture_output=True)
        self.client_id, self.secret, self.audience = client_id, secret, audience
        self.asked: list[dict[str, str]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._say(200, server.keys())

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"])).decode()
                form = {name: values[0] for name, values in parse_qs(body).items()}
                server.asked.append(form)
                kind, _, told = self.headers.get("authorization", "").partition(" ")
                known = kind == "Basic" and b64decode(told).decode() == f"{client_id}:{secret}"
                if known and form["grant_type"] == "client_credentials":
                    self._say(
                        200, {"access_token": server.token(), "token_type": "Bearer", "expires_in": 120}
                    )
                else:
                    self._say(401, {"error": "invalid_client", "error_description": "unknown client"})

            def _say(self, status: int, told: object) -> None:
                body = json.dumps(told).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *words: object) -> None:
                """Nothing."""

        self._server = ThreadingHTTPServer((HOST, 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self._server.server_port}"

    def keys(self) -> dict[str, object]:
        command = ["openssl", "rsa", "-in", str(self._key), "-noout", "-modulus"]
        told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        modulus = bytes.fromhex(told.strip().partition("=")[2])
        key = {"kty": "RSA", "kid": "one", "use": "sig", "alg": "RS256"}
        return {"keys": [{**key, "n": _url64(modulus), "e": _url64((65537).to_bytes(3))}]}

    def token(self) -> str:
        now = int(time.time())
        claims = {
            "iss": ISSUER,
            "aud": self.audience,
            "sub": self.client_id,
            "scope": "kafka",
            "iat": now - 5,
            "exp": now + 120,
        }
        parts = ({"alg": "RS256", "typ": "JWT", "kid": "one"}, claims)
        signed = ".".join(_url64(json.dumps(part).encode()) for part in parts)
        command = ["openssl", "dgst", "-sha256", "-sign", str(self._key)]
        signature = subprocess.run(command, input=signed.encode(), check=True, capture_output=True).stdout
        return f"{signed}.{_url64(signature)}"

    def client_config(self, path: Path, authority: Path, *, secret: str | None = None) -> Path:
        """A file with which a client gets a token here, and connects with it."""
        path.write_text(
            "security.protocol=SASL_SSL\n"
            "sasl.mechanism=OAUTHBEARER\n"
            f"sasl.oauthbearer.token.endpoint.url={self.url}/token\n"
            "sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required \\\n"
            f'    clientId="{self.client_id}" clientSecret="{secret or self.secret}" scope="kafka";\n'
            "ssl.truststore.type=PEM\n"
            f"ssl.truststore.location={authority}\n"
        )
        return path

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _url64(told: bytes) -> str:
    return urlsafe_b64encode(told).rstrip(b"=").decode()
