"""Webhooks: signed, delivered until the receiver takes them, dead letters after the last attempt.

Needs `pip install holdfast`. Run it with `python examples/webhooks.py`: it starts a receiver of its own, which is out
of order at first. DATABASE_URL may name another database than a new SQLite file.
"""

import hashlib
import hmac
import json
import os
import tempfile
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

from holdfast import App, DeadLetter, Retry, SyncContext

URL = os.environ.get("DATABASE_URL") or f"sqlite:///{tempfile.mkdtemp()}/hooks.db"
SECRET = b"known to both sides"  # one per receiver, from your configuration; not a part of the job's input
app = App(URL, auto_migrate=True)


def sign(sent_at: str, body: bytes) -> str:
    """The time is signed too, so that the receiver can refuse what somebody has recorded and sends again."""
    return hmac.new(SECRET, sent_at.encode() + b"." + body, hashlib.sha256).hexdigest()


# In production: Retry(max_attempts=12, initial=5, maximum=3600), some nine hours.
@app.job(queue="webhooks", retry=Retry(max_attempts=4, initial=0.1), timeout=30)
def deliver(ctx: SyncContext, url: str, event: dict[str, Any]) -> int:
    body = json.dumps(event).encode()
    sent_at = str(int(time.time()))
    headers = {
        "Content-Type": "application/json",
        "Webhook-Id": ctx.job.id,  # the same in every attempt: what the receiver tells repetitions by
        "Webhook-Timestamp": sent_at,
        "Webhook-Signature": sign(sent_at, body),
    }
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 410:  # gone: whoever it was does not want it any more
                raise DeadLetter("the receiver has gone") from None
            raise  # anything else is tried again


class Receiver(BaseHTTPRequestHandler):
    """/orders works from the third request on, /broken never, /gone is gone."""

    requests: ClassVar[list[tuple[str, str, int]]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        expected = sign(self.headers["Webhook-Timestamp"], body)
        seen = sum(path == self.path for path, _, _ in self.requests)
        if not hmac.compare_digest(expected, self.headers["Webhook-Signature"]):
            status = 401
        elif self.path == "/orders":
            status = 200 if seen >= 2 else 503
        else:
            status = 410 if self.path == "/gone" else 503
        self.requests.append((self.path, self.headers["Webhook-Id"], status))
        self.send_response(status)
        self.end_headers()

    def log_message(self, *_: Any) -> None: ...


def main() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server, app.client() as client:
        threading.Thread(target=server.serve_forever).start()
        address = f"http://127.0.0.1:{server.server_port}"
        event = {"order": 9182, "state": "paid"}
        chains = [client.enqueue(deliver.call(f"{address}/{path}", event)) for path in ("orders", "broken", "gone")]
        app.run_worker(until_idle=True)
        server.shutdown()
        for path, _, status in Receiver.requests:
            print(f"{path}: {status}")
        for chain in chains:
            job = client.get_job(chain)
            print(f"{job.input['url'].removeprefix(address)} is {job.status} after {job.attempt} attempts")


if __name__ == "__main__":
    main()
