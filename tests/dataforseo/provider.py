"""A local server that speaks DataForSEO's search over real HTTP, counts what it is paid, and can fail."""

import json
from base64 import b64encode
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, field
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any
from urllib.parse import unquote, unquote_plus

PATH = "/v3/serp/google/organic/live/advanced"
POST = "/v3/serp/google/organic/task_post"
READY = "/v3/serp/google/organic/tasks_ready"
GET = "/v3/serp/google/organic/task_get/advanced/"
LOGIN, PASSWORD = "shop@example.com", "s3cret:é"
PRICE, QUEUED_PRICE = 0.002, 0.0006
TOP = [
    {"type": "organic", "rank_group": place, "rank_absolute": place, "domain": f"www.shop{place}.nl", "url": None}
    for place in range(1, 11)
]


@dataclass(kw_only=True)
class Call:
    """One call, and what a fault can do with its answer.

    :param search: what was asked for, as it was posted.
    :param gone: is set when the server ends: nobody waits longer.
    :param searches: all that was posted with it.
    """

    handler: BaseHTTPRequestHandler
    provider: "Provider"
    search: dict[str, Any]
    gone: Event
    searches: list[dict[str, Any]] = field(default_factory=list)

    @property
    def keyword(self) -> str:
        """What is searched, as the provider understands it."""
        return unquote_plus(self.search["keyword"])

    def pay(self) -> None:
        """Charge the search."""
        self.provider.paid[self.keyword, self.search["device"]] += 1

    def answer(self, *, cost: float = PRICE, **task: Any) -> dict[str, Any]:
        """The right answer, its task changed as told."""
        result = {
            "keyword": self.keyword,
            "location_code": self.search["location_code"],
            "language_code": self.search["language_code"],
            "items": self.provider.items.get(self.keyword, TOP),
        }
        whole = {"status_code": 20000, "status_message": "Ok.", "cost": cost, "data": self.search, "result": [result]}
        return envelope([whole | task], cost=cost)

    def send(self, body: object, status: int = 200, *, cut: bool = False) -> None:
        """Answer, whole or not."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.handler.send_response(status)
        self.handler.send_header("Content-Length", str(len(data)))
        self.handler.end_headers()
        self.handler.wfile.write(data[: len(data) // 2] if cut else data)
        self.handler.close_connection = cut


Fault = Callable[[Call], None]


@dataclass
class Queue:
    """The searches that were posted, by the provider's id.

    :param done: the keywords whose pages are ready; None means all.
    :param posts: what each call posted, refused ones too.
    :param asked: the ids that pages were asked for, in order.
    :param lists: how often the list of what is ready was asked for.
    :param paid: how often each search was paid for.
    :param post_faults: what happens to the next posts.
    :param page_faults: what happens to those who ask for a keyword's page next.
    :param list_faults: what happens to those who ask next what is ready.
    """

    tasks: dict[str, dict[str, Any]] = field(default_factory=dict)
    done: set[str] | None = None
    posts: list[list[dict[str, Any]]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    lists: int = 0
    paid: Counter[tuple[str, str]] = field(default_factory=Counter)
    post_faults: deque[Fault] = field(default_factory=deque)
    page_faults: defaultdict[str, deque[Fault]] = field(default_factory=lambda: defaultdict(deque))
    list_faults: deque[Fault] = field(default_factory=deque)

    def take(self, call: Call) -> None:
        """Take what is posted."""
        self.posts.append(call.searches)
        if self.post_faults:
            self.post_faults.popleft()(call)
        else:
            call.send(self.posted(call.searches))

    def posted(self, searches: list[dict[str, Any]]) -> dict[str, Any]:
        """Charge the searches, and give the answer to that."""
        return envelope([self._created(search) for search in searches], cost=QUEUED_PRICE * len(searches))

    def _created(self, search: dict[str, Any]) -> dict[str, Any]:
        number = f"{len(self.tasks):08}-0066"
        self.tasks[number] = search
        self.paid[unquote_plus(search["keyword"]), search["device"]] += 1
        created = {"id": number, "status_code": 20100, "status_message": "Task Created.", "cost": QUEUED_PRICE}
        return created | {"data": search, "result": None}

    def is_done(self, search: dict[str, Any]) -> bool:
        """Whether a search's page is ready."""
        return self.done is None or unquote_plus(search["keyword"]) in self.done

    def list(self, call: Call) -> None:
        """Say what is ready and was not asked for, the last one first."""
        self.lists += 1
        rows = [
            {"id": number, "tag": search["tag"]}
            for number, search in reversed(self.tasks.items())
            if self.is_done(search) and number not in self.asked
        ]
        if self.list_faults:
            self.list_faults.popleft()(call)
        else:
            call.send(envelope([{"id": "x", "status_code": 20000, "status_message": "Ok.", "cost": 0, "result": rows}]))

    def give(self, call: Call, number: str) -> None:
        """Give a page, when it is ready."""
        if number not in self.tasks:
            call.send(envelope([{"id": number, "status_code": 40401, "status_message": "No such task.", "cost": 0}]))
            return
        call.search = self.tasks[number]
        self.asked.append(number)
        if self.page_faults[call.keyword]:
            self.page_faults[call.keyword].popleft()(call)
        elif self.is_done(call.search):
            call.send(call.answer(cost=0))
        else:
            call.send(call.answer(cost=0, status_code=40602, status_message="Task In Queue.", result=None))


@dataclass
class Provider:
    """What the server knows and has seen.

    :param items: the elements of a keyword's page; without any, ten shops.
    :param faults: what happens to the next calls for a keyword, one each; those that follow are answered right.
    :param paid: how often each search was paid for.
    :param calls: what was posted, in order; refused calls too.
    :param peers: the other ends of the connections that they came by.
    :param queue: for those who do not ask at once.
    :param port: where it listens.
    """

    items: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    faults: defaultdict[str, deque[Fault]] = field(default_factory=lambda: defaultdict(deque))
    paid: Counter[tuple[str, str]] = field(default_factory=Counter)
    calls: list[dict[str, Any]] = field(default_factory=list)
    peers: set[Any] = field(default_factory=set)
    queue: Queue = field(default_factory=Queue)
    password: str = PASSWORD
    port: int = 0

    @property
    def due(self) -> Decimal:
        """What the customer owes."""
        return self.paid.total() * Decimal(str(PRICE)) + self.queue.paid.total() * Decimal(str(QUEUED_PRICE))

    def fails(self, keyword: str, *faults: Fault) -> None:
        """Let the next calls for a keyword fail so."""
        self.faults[keyword].extend(faults)

    def route(self, call: Call) -> None:
        """Give one call to whom it is for."""
        path = call.handler.path
        account = b64encode(f"{LOGIN}:{self.password}".encode()).decode()
        if call.handler.headers["Authorization"] != f"Basic {account}":
            call.send(envelope(None, code=40100, words="You are not authorized."), 401)
        elif path == POST:
            self.queue.take(call)
        elif path == READY:
            self.queue.list(call)
        elif path.startswith(GET):
            self.queue.give(call, unquote(path.removeprefix(GET)))
        elif path != PATH:
            call.send(envelope(None, code=40402, words="Invalid Path."), 404)
        elif len(call.searches) > 1:
            call.send(envelope([{"status_code": 40000, "cost": 0}] * len(call.searches)))
        else:
            self.respond(call)

    def respond(self, call: Call) -> None:
        """Answer one search at once."""
        self.calls.append(call.search)
        self.peers.add(call.handler.client_address)
        if self.faults[call.keyword]:
            self.faults[call.keyword].popleft()(call)
        else:
            call.pay()
            call.send(call.answer())


def envelope(
    tasks: list[dict[str, Any]] | None, *, code: int = 20000, words: str = "Ok.", cost: object = 0
) -> dict[str, Any]:
    """An answer as the provider wraps it."""
    return {"version": "0.1", "status_code": code, "status_message": words, "cost": cost, "tasks": tasks}


@contextmanager
def served(provider: Provider) -> Iterator[Provider]:
    """Open a provider's server."""
    gone = Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            """Take one call that posts."""
            self.take(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def do_GET(self) -> None:
            """Take one that asks."""
            self.take([])

        def take(self, searches: list[dict[str, Any]]) -> None:
            """Answer."""
            search = searches[0] if searches else {}
            call = Call(handler=self, provider=provider, search=search, searches=searches, gone=gone)
            with suppress(ConnectionError):  # whoever waited may have left
                provider.route(call)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        provider.port = server.server_port
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield provider
        finally:
            gone.set()
            server.shutdown()
            thread.join()


# What can happen to a call that is not paid for.


def http(status: int) -> Fault:
    """An HTTP status instead of an answer."""
    return lambda call: call.send(b"<html>sorry</html>", status)


def refused(code: int, words: str = "No.") -> Fault:
    """The provider's code for the whole answer."""
    return lambda call: call.send(envelope(None, code=code, words=words))


def failed(code: int, words: str = "No.", *, cost: float = 0) -> Fault:
    """The provider's code for the search, and what it costs all the same."""

    def fault(call: Call) -> None:
        if cost:
            call.pay()
        call.send(call.answer(cost=cost, status_code=code, status_message=words, result=None))

    return fault


# And to one that is.


def silent(call: Call) -> None:
    """Search, and never answer."""
    call.pay()
    call.gone.wait(30)


def cut(call: Call) -> None:
    """The connection ends in the middle of the body."""
    call.pay()
    call.send(call.answer(), cut=True)


def dropped(call: Call) -> None:
    """The connection ends before the answer's first byte."""
    call.pay()
    call.handler.close_connection = True


def spoken(status: int) -> Fault:
    """A proxy's word for an answer that it did not pass on."""

    def fault(call: Call) -> None:
        call.pay()
        call.send(b"", status)

    return fault


def garbled(body: bytes) -> Fault:
    """Something that is no answer of the provider."""

    def fault(call: Call) -> None:
        call.pay()
        call.send(body)

    return fault


def changed(change: Callable[[dict[str, Any]], object]) -> Fault:
    """The right answer, changed in place."""

    def fault(call: Call) -> None:
        call.pay()
        answer = deepcopy(call.answer())
        change(answer)
        call.send(answer)

    return fault
