"""Every address with every parameter that is wrong in every way: the promised status, a sentence that names the
parameter, and a server that goes on."""

import json
import socket
import time

import contract
import pytest
import serving

LONG = "x" * 9000
# Names that exist, so that only what is tested is wrong.
GOOD = {
    "task_id": "ab" * 24,
    "attempt_number": "0",
    "before": "20260101-000000-000-00000000",
    "after": "20260101-000000-000-00000001",
}


def bad_values(schema) -> list[str]:
    """What the schema forbids."""
    if "enum" in schema:
        return ["nonsense", "-1", "2", "true", "FLAMEGRAPH"]
    kind = schema.get("type")
    if kind in ("integer", "number"):
        values = ["abc", "1e3", "0x10", "NaN", "inf", "--1", "1,5", " 5", "9" * 30]
        if kind == "integer":
            values.append("1.5")
        if "minimum" in schema:
            values.append(str(schema["minimum"] - 1))
        if "maximum" in schema:
            values.append(str(schema["maximum"] + 1))
        return values
    if "pattern" in schema:
        return ["nonsense!", "../../etc/passwd", "a b"]
    return ["\x01", "a\nb"]


def cases():
    """(what, method, path with the fault, parameter, statuses)"""
    for method, path, operation in contract.operations():
        if method != "GET":
            continue
        every = contract.parameters(operation)
        query = [p for p in every if p["in"] == "query"]
        needed = {p["name"]: GOOD.get(p["name"], "PID") for p in query if p.get("required")}
        filled = path.replace("{node}", "self").replace("{pid}", "PID").replace("{id}", "RECORDING")

        def at(params: dict[str, str], more: str = "", where: str = filled) -> str:
            text = "&".join(f"{k}={v}" for k, v in params.items()) + more
            return where + ("?" + text.lstrip("&") if text else "")

        for p in query:
            name = p["name"]
            rest = {k: v for k, v in needed.items() if k != name}
            if p.get("required"):
                yield f"{path} {name} missing", at(rest), name, (400,)
            yield f"{path} {name} twice", at(rest, f"&{name}=1&{name}=1"), name, (400,)
            yield f"{path} {name} empty", at(rest, f"&{name}="), name, (400,)
            yield f"{path} {name} without =", at(rest, f"&{name}"), name, (400,)
            yield f"{path} {name} huge", at(rest, f"&{name}={LONG}"), None, (414,)
            yield f"{path} {name} long", at(rest, f"&{name}={'7' * 3000}"), name, (400,)
            yield f"{path} {name} not UTF-8", at(rest, f"&{name}=%ff%fe"), name, (400,)
            yield f"{path} {name} zero byte", at(rest, f"&{name}=a%00b"), name, (400,)
            yield f"{path} {name} bad escape", at(rest, f"&{name}=%zz"), name, (400,)
            for value in bad_values(p["schema"]):
                quoted = "".join(f"%{byte:02x}" for byte in value.encode())
                yield f"{path} {name}={value[:20]!r}", at(rest, f"&{name}={quoted}"), name, (400,)
        yield f"{path} unknown parameter", at(needed, "&nonsense=1"), "nonsense", (400,)
        for p in (p for p in every if p["in"] == "path"):
            for value in (
                "%ff",
                "%00",
                "%zz",
                "..%2f..%2fetc%2fpasswd",
                "%2e%2e",
                "a%0ab",
                "x" * 3000,
            ):
                where = path.replace("{" + p["name"] + "}", value)
                where = (
                    where.replace("{node}", "self")
                    .replace("{pid}", "PID")
                    .replace("{id}", "RECORDING")
                )
                yield (
                    f"{path} {{{p['name']}}}={value[:20]}",
                    at(needed, where=where),
                    None,
                    (400, 404, 414),
                )
            if p["name"] == "pid":
                for value in ("abc", "0", "-1", "9" * 20, "1.5"):
                    where = path.replace("{node}", "self").replace("{pid}", value)
                    yield f"{path} {{pid}}={value}", at(needed, where=where), "pid", (400,)


CASES = [c for c in cases() if "/healthz" not in c[0]]


@pytest.fixture(scope="module")
def recording(server, target):
    return server.record(targets=[{"pid": target.pid}], duration=0.2)


def test_every_address_with_every_bad_parameter(server, target, recording):
    """One test for some thousand cases: what is wrong in any of them is listed."""
    assert len(CASES) > 1000
    wrong = []
    connection = server.connect()
    for what, path, parameter, statuses in CASES:
        path = path.replace("PID", str(target.pid)).replace("RECORDING", recording["id"])
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read().decode()
        if response.status not in statuses:
            wrong.append(f"{what}: {response.status} {body[:100]}")
        elif parameter and response.status == 400 and parameter not in body:
            wrong.append(f"{what}: the answer does not name the parameter: {body[:100]}")
        elif "json" in response.headers["Content-Type"]:
            assert set(json.loads(body)["error"]) == {"code", "message", "hint", "parameter"}
        if response.will_close:
            connection = server.connect()
    connection.close()
    assert not wrong, f"{len(wrong)} of {len(CASES)}:\n" + "\n".join(wrong[:40])
    assert server.get("/healthz").text == "ok\n"


BODIES = [
    (b"", None),
    (b"not json", None),
    (b"[]", None),
    (b"{}", "targets"),
    (b'{"targets": []}', "targets"),
    (b'{"targets": {}}', "targets"),
    (b'{"targets": [5]}', "targets"),
    (b'{"targets": [{}]}', "pid"),
    (b'{"targets": [{"pid": "5"}]}', "pid"),
    (b'{"targets": [{"pid": -5}]}', "pid"),
    (b'{"targets": [{"pid": 1.5}]}', "pid"),
    (b'{"targets": [{"pid": 1e30}]}', "pid"),
    (b'{"targets": [{"pid": PID, "x": 1}]}', "x"),
    (b'{"targets": [{"pid": PID, "node": 5}]}', "node"),
    (b'{"targets": [{"pid": PID}], "duration": 0}', "duration"),
    (b'{"targets": [{"pid": PID}], "duration": 61}', "duration"),
    (b'{"targets": [{"pid": PID}], "duration": "5"}', "duration"),
    (b'{"targets": [{"pid": PID}], "rate": 0}', "rate"),
    (b'{"targets": [{"pid": PID}], "rate": 1001}', "rate"),
    (b'{"targets": [{"pid": PID}], "mode": "none"}', "mode"),
    (b'{"targets": [{"pid": PID}], "mode": 5}', "mode"),
    (b'{"targets": [{"pid": PID}], "idle": "yes"}', "idle"),
    (b'{"targets": [{"pid": PID}], "idle": true, "mode": "cpu"}', "idle"),
    (b'{"targets": [{"pid": PID}], "gil": true, "mode": "cpu"}', "gil"),
    (b'{"targets": [{"pid": PID}], "name": "\\u0001"}', "name"),
    (b'{"targets": [{"pid": PID}], "name": "a\\u0000b"}', None),
    (b'{"targets": [{"pid": PID}], "name": "' + b"x" * 300 + b'"}', "name"),
    (b'{"targets": [{"pid": PID}], "nonsense": 1}', "nonsense"),
    (b'{"targets": [{"pid": PID}], "targets": []}', None),
    (b'{"targets": [{"pid": PID}], "name": "\xff"}', None),
    (b"[" * 5000, None),
]


@pytest.mark.parametrize(("body", "parameter"), BODIES)
def test_a_recording_asked_for_wrongly(server, target, body, parameter):
    body = body.replace(b"PID", str(target.pid).encode())
    answer = server.ask("POST", "/api/v1/recordings", body, {"Content-Type": "application/json"})
    assert answer.status == 400, answer
    assert answer.json["error"]["parameter"] == parameter, answer


@pytest.mark.parametrize(
    ("targets", "status", "code"),
    [
        ([{"pid": 4194000}], 404, "no_process"),
        ([{"pid": 1, "node": "nowhere"}], 404, "no_node"),
    ],
)
def test_a_recording_of_what_is_not_there(server, targets, status, code):
    answer = server.ask("POST", "/api/v1/recordings", {"targets": targets})
    assert (answer.status, answer.json["error"]["code"]) == (status, code)


def test_a_body_must_be_json_and_small(server):
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert server.ask("POST", "/api/v1/recordings", b"a=1", form).status == 415
    kind = {"Content-Type": "application/json"}
    assert server.ask("POST", "/api/v1/recordings", b" " * 600_000, kind).status == 413
    assert server.get("/healthz").status == 200


def raw(server, request: bytes, half_close: bool = False) -> bytes:
    with socket.create_connection((server.host, server.port), timeout=serving.PATIENCE) as one:
        one.sendall(request)
        if half_close:
            one.shutdown(socket.SHUT_WR)
        answer = b""
        while chunk := one.recv(65536):
            answer += chunk
        return answer


def test_a_chunked_body_without_end_is_cut_off(server):
    head = b"POST /api/v1/recordings HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    with socket.create_connection((server.host, server.port), timeout=serving.PATIENCE) as one:
        one.sendall(head)
        with pytest.raises(OSError):
            for _ in range(10000):
                one.sendall(b"10000\r\n" + b" " * 65536 + b"\r\n")
            raise AssertionError("it took half a gigabyte")
    assert server.get("/healthz").status == 200


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("POST", "/api/v1/info", "GET"),
        ("PUT", "/api/v1/recordings", "POST, GET"),
        ("DELETE", "/worker/traceback", "GET"),
        ("GET", "/api/v1/session", "POST, DELETE"),
        ("POST", "/", "GET"),
        ("BREW", "/api/v1/info", "GET"),
    ],
)
def test_a_wrong_method_is_405_and_says_which(server, method, path, allowed):
    answer = server.ask(method, path)
    assert answer.status == 405
    assert answer.headers["Allow"] == allowed


@pytest.mark.parametrize(
    "path",
    [
        "/../../../../etc/passwd",
        "/assets/../../../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/assets/..%2f..%2fetc%2fpasswd",
        "/api/v1/recordings/..%2f..%2fscry.db/result",
        "/api/v1/recordings/%2e%2e/result",
        "//etc/passwd",
        "/index.html/",
        "/assets/",
        "/a/b/c/d/e/f/g/h/i/j",
        "/api",
        "/api/v1",
        "/api/v2/info",
        "/worker",
    ],
)
def test_no_way_out_of_the_page(server, path):
    head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
    status = int(raw(server, head).split()[1])
    assert status in (400, 404, 405, 414), path


def test_headers_that_are_too_large(server):
    head = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 100_000 + b"\r\n\r\n"
    answer = raw_or_reset(server, head)
    assert answer == b"" or answer.split()[1] == b"431", answer[:200]
    assert server.get("/healthz").status == 200


def raw_or_reset(server, request: bytes) -> bytes:
    try:
        return raw(server, request)
    except ConnectionError:
        return b""


@pytest.mark.parametrize(
    "request_",
    [
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    ],
)
def test_what_is_no_http_is_refused(server, request_):
    answer = (
        raw_or_reset(server, request_ + b"\r\n\r\n")
        if b"\x16" not in request_
        else half_sent(server, request_)
    )
    assert not answer or answer.split()[1][:1] in (b"4", b"5"), answer[:100]
    assert server.get("/healthz").status == 200


def half_sent(server, request: bytes) -> bytes:
    try:
        return raw(server, request, half_close=True)
    except ConnectionError:
        return b""


def test_half_closed_connections_get_their_answer(server, target):
    for path in ("/healthz", "/api/v1/info", "/api/v1/processes"):
        head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
        assert half_sent(server, head).startswith(b"HTTP/1.1 200")


def test_clients_that_never_finish_do_not_keep_others_out(start, target):
    server = start("--connections", "64")
    slow = []
    for _ in range(40):
        one = socket.create_connection((server.host, server.port))
        one.sendall(b"GET /healthz HTTP/1.1\r\nHost: local")
        slow.append(one)
    assert server.get("/healthz").status == 200
    # They are cut off, although they go on sending now and then.
    cut = 0
    deadline = time.monotonic() + serving.PATIENCE
    while slow and time.monotonic() < deadline:
        for one in list(slow):
            try:
                one.sendall(b"h")
                one.setblocking(False)
                if one.recv(1) == b"":
                    raise ConnectionError
            except BlockingIOError:
                one.setblocking(True)
            except OSError:
                slow.remove(one)
                cut += 1
        time.sleep(0.1)
    assert cut == 40


def test_too_many_connections_are_told_to_come_back(start):
    server = start("--connections", "8")
    held = [socket.create_connection((server.host, server.port)) for _ in range(20)]
    answer = serving.until(lambda: (a := server.get("/healthz")).status == 503 and a, "it is full")
    assert answer.headers["Retry-After"]
    for one in held:
        one.close()
    serving.until(lambda: server.get("/healthz").status == 200, "it is free again")


def test_a_full_queue_is_429(start):
    server = start("--jobs", "1", "--queue", "2")
    with serving.Target() as busy:
        ask = {"targets": [{"pid": busy.pid}], "duration": 30}
        answers = [server.ask("POST", "/api/v1/recordings", ask) for _ in range(6)]
        assert [a.status for a in answers[:2]] == [202, 202]
        assert answers[-1].status == 429 and answers[-1].headers["Retry-After"]
        assert answers[-1].json["error"]["code"] == "busy"
        assert server.get("/readyz").status == 503
