"""A local OAuth 2.0 server: it issues tokens to Kafka clients, and brokers get its public keys from it.

The command `openssl` signs the tokens.
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
    """Issues a token to a client that sends `client_id` and the secret. The constructor starts it; `close` stops it."""

    def __init__(self, folder: Path, client_id: str, secret: str, *, audience: str = AUDIENCE) -> None:
        self._key = folder / f"tokens-{audience}.key"
        subprocess.run(["openssl", "genrsa", "-out", str(self._key), "2048"], check=True, capture_output=True)
        self.client_id, self.secret, self.audience = client_id, secret, audience
        self.requests: list[dict[str, str]] = []  # the form of each request for a token
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._respond(200, server.keys())

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"])).decode()
                form = {name: values[0] for name, values in parse_qs(body).items()}
                server.requests.append(form)
                kind, _, credentials = self.headers.get("authorization", "").partition(" ")
                known = kind == "Basic" and b64decode(credentials).decode() == f"{client_id}:{secret}"
                if known and form["grant_type"] == "client_credentials":
                    self._respond(
                        200, {"access_token": server.token(), "token_type": "Bearer", "expires_in": 120}
                    )
                else:
                    self._respond(401, {"error": "invalid_client", "error_description": "unknown client"})

            def _respond(self, status: int, answer: object) -> None:
                body = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments: object) -> None:
                """Log nothing."""

        self._server = ThreadingHTTPServer((HOST, 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self._server.server_port}"

    def keys(self) -> dict[str, object]:
        command = ["openssl", "rsa", "-in", str(self._key), "-noout", "-modulus"]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        modulus = bytes.fromhex(output.strip().partition("=")[2])
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
        """Write a file of client properties: get a token from this server, and connect with it."""
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


def _url64(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()
