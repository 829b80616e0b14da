"""A server of S3 on this machine, moto's, which a test can disturb."""

import contextlib
import io
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator

import boto3
import pytest
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

ERROR = '<?xml version="1.0"?><Error><Code>{}</Code><Message>{}</Message></Error>'


class Server:
    """Serves S3 on loopback. `fault` is what it does to requests: a tuple of a status, a code and a
    message; `slow`; `cut`, which closes connections; `torn`, which stores half of each object; or
    `None`.
    """

    def __init__(self):
        self.app = DomainDispatcherApplication(create_backend_app)
        self.fault: tuple[str, str, str] | str | None = None
        self.methods = ("PUT", "GET", "HEAD", "DELETE")
        self.requests = 0

    def __call__(self, environ, start_response):
        self.requests += 1
        if self.fault is None or environ["REQUEST_METHOD"] not in self.methods:
            return self.app(environ, start_response)
        size = int(environ.get("CONTENT_LENGTH") or 0)
        content = environ["wsgi.input"].read(size // 2 if self.fault == "cut" else size)
        if self.fault == "cut":
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
            raise ConnectionAbortedError
        if isinstance(self.fault, tuple):
            status, code, message = self.fault
            start_response(status, [("Content-Type", "application/xml")])
            is_head = environ["REQUEST_METHOD"] == "HEAD"  # an answer to HEAD has no body
            return [] if is_head else [ERROR.format(code, message).encode()]
        if self.fault == "slow":
            time.sleep(0.5)
        if self.fault == "torn" and "@" in environ["PATH_INFO"]:
            content = content[: size // 2]
            environ = {k: v for k, v in environ.items() if "CHECKSUM" not in k and "MD5" not in k}
        body = {"wsgi.input": io.BytesIO(content), "CONTENT_LENGTH": str(len(content))}
        return self.app(environ | body, start_response)


@contextlib.contextmanager
def serving(patch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server with the bucket `lab`, which the environment names."""
    server = Server()
    http = make_server("127.0.0.1", 0, server, threaded=True)
    http.log = lambda *_: None
    thread = threading.Thread(target=http.serve_forever)
    thread.start()
    names = {"AWS_ACCESS_KEY_ID": "me", "AWS_SECRET_ACCESS_KEY": "secret"}
    names |= {
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{http.port}",
    }
    for name, value in names.items():
        patch.setenv(name, value)
    urllib.request.urlopen(f"{names['AWS_ENDPOINT_URL']}/moto-api/reset", data=b"").close()
    boto3.client("s3").create_bucket(Bucket="lab")
    try:
        yield server
    finally:
        http.shutdown()
        thread.join()
        http.server_close()
