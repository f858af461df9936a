"""An S3 server in this process, which fails as often as it is told."""

from __future__ import annotations

import random
import threading
from typing import Any

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server


class FaultyServer:
    """`rate` of the requests fail: answered by 500 or 503, or cut in the middle of their body."""

    def __init__(self) -> None:
        self._app = DomainDispatcherApplication(create_backend_app)
        self.rate = 0.0
        self.faults = 0
        self.requests: list[tuple[str, int]] = []
        """Method and bytes of each request's body."""
        self._random = random.Random(7)
        self._server = make_server("127.0.0.1", 0, self._answer, threaded=True)
        self.url = f"http://127.0.0.1:{self._server.port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()

    def _answer(self, environ: Any, start_response: Any) -> Any:
        self.requests.append((environ["REQUEST_METHOD"], int(environ.get("CONTENT_LENGTH") or 0)))
        if self._random.random() >= self.rate:
            return self._app(environ, start_response)
        self.faults += 1
        kind = self._random.choice(["500", "503", "cut"])
        if kind != "cut" or environ["REQUEST_METHOD"] != "GET":
            # Read, so that the connection stays in step.
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            status = "503 Slow Down" if kind == "503" else "500 Internal Server Error"
            start_response(status, [("Content-Length", "0")])
            return [b""]
        body = b"".join(self._app(environ, start_response))
        return [body[: len(body) // 2]]
