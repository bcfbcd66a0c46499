"""Who may ask, what may be looked into, and what the server cannot do any more."""

import json
import os
import re
import socket
import ssl
import stat
import subprocess
from pathlib import Path

import pytest
import serving

PUBLIC = ["/healthz", "/readyz", "/api/profiling_enabled", "/api/v1/openapi.json", "/"]
PROTECTED = [
    "/api/v1/info",
    "/api/v1/nodes",
    "/api/v1/processes",
    "/api/v1/recordings",
    "/api/v1/tasks",
    "/metrics",
    "/worker/traceback?pid=1",
    "/worker/cpu_profile?pid=1",
    "/task/traceback?task_id=ab&attempt_number=0",
    "/task/cpu_profile?task_id=ab&attempt_number=0",
    "/api/v1/processes/self/1/threads",
    "/api/v1/processes/self/1/top",
    "/api/v1/recordings/x/result",
    "/api/v1/diff?before=a&after=b",
]


@pytest.fixture(scope="module")
def locked(scry, tmp_path_factory):
    folder = tmp_path_factory.mktemp("locked")
    with serving.Server(scry, folder / "data", "--token-file", str(folder / "token")) as server:
        server.secret = (folder / "token").read_text().strip()
        yield server


# --- the token ---------------------------------------------------------------------------------------------


def test_a_token_is_made_for_its_owner_alone(locked):
    path = locked.folder.parent / "token"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert re.fullmatch(r"[0-9a-f]{64}", locked.secret)


@pytest.mark.parametrize("path", PROTECTED)
@pytest.mark.parametrize("token", [None, "wrong", "", "x" * 5000])
def test_without_the_token_nothing_is_told(locked, path, token):
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    answer = locked.ask("GET", path, headers=headers)
    assert answer.status == 401, answer
    assert answer.headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize("path", PUBLIC)
def test_what_is_open_to_all(locked, path):
    assert locked.get(path).status == 200


@pytest.mark.parametrize("scheme", ["Bearer", "bearer"])
def test_the_right_token_opens(locked, scheme):
    answer = locked.ask(
        "GET", "/api/v1/info", headers={"Authorization": f"{scheme} {locked.secret}"}
    )
    assert answer.status == 200 and answer.json["auth"] == "token"


def test_a_browser_gets_a_cookie_that_is_not_the_token(locked):
    answer = locked.ask("POST", "/api/v1/session", {"token": locked.secret})
    assert answer.status == 204
    cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie and locked.secret not in cookie
    headers = {"Cookie": "a=b; " + cookie.split(";")[0]}
    assert locked.ask("GET", "/api/v1/info", headers=headers).status == 200
    assert (
        locked.ask("GET", "/api/v1/info", headers={"Cookie": "scry_session=" + "0" * 64}).status
        == 401
    )
    assert locked.ask("POST", "/api/v1/session", {"token": "wrong"}).status == 401


def test_a_link_with_the_token_leads_to_the_page(locked):
    answer = locked.get("/", token=locked.secret)
    assert answer.status == 303 and answer.headers["Location"] == "./"
    assert "scry_session=" in answer.headers["Set-Cookie"]
    assert locked.get("/", token="wrong").status == 401


def test_the_token_is_not_written_to_the_log(locked):
    locked.get("/", token=locked.secret)
    locked.ask("POST", "/api/v1/session", {"token": locked.secret})
    assert locked.secret not in (locked.folder / "audit.log").read_text()


def run(scry, tmp_path, *options):
    return subprocess.run(
        [scry, "serve", "--port", "0", "--data-dir", str(tmp_path / "data"), *options],
        capture_output=True,
        text=True,
        timeout=serving.PATIENCE,
    )


def test_no_other_address_without_a_token(scry, tmp_path):
    result = run(scry, tmp_path, "--listen", "0.0.0.0")
    assert result.returncode == 2
    assert "token" in result.stderr and "--token-file" in result.stderr


@pytest.mark.parametrize(
    ("content", "mode", "words"),
    [
        ("short", 0o600, "16 to 256"),
        ("x" * 40, 0o644, "everybody"),
        ("two words but long enough", 0o600, "one word"),
    ],
)
def test_a_bad_token_file_is_refused(scry, tmp_path, content, mode, words):
    path = tmp_path / "token"
    path.write_text(content)
    path.chmod(mode)
    result = run(scry, tmp_path, "--token-file", str(path))
    assert result.returncode == 2 and words in result.stderr


# --- other sites -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    ["localhost", "127.0.0.1", "127.0.0.1:1234", "localhost.", "[::1]:80", socket.gethostname()],
)
def test_names_of_this_server(server, host):
    assert server.ask("GET", "/api/v1/info", headers={"Host": host}).status == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "192.0.2.1",
        "",
        "a b",
        "[::1",
    ],
)
def test_a_name_that_was_bent_to_point_here_is_refused(server, host):
    """DNS rebinding: the browser believes it talks to evil.example."""
    answer = server.ask("GET", "/api/v1/processes", headers={"Host": host})
    assert answer.status == 421
    assert answer.json["error"]["code"] == "wrong_host"


def test_further_names_can_be_given(start):
    server = start("--host-name", "scry.example.org", "--host-name", "*.cluster.example")
    for host, status in (
        ("scry.example.org", 200),
        ("a.cluster.example:80", 200),
        ("cluster.example", 421),
        ("x.org", 421),
    ):
        assert server.ask("GET", "/api/v1/info", headers={"Host": host}).status == status, host


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://localhost:1"])
def test_pages_of_other_sites_are_refused(server, origin):
    for method, path in (
        ("GET", "/api/v1/processes"),
        ("POST", "/api/v1/recordings"),
        ("GET", "/worker/traceback?pid=1"),
    ):
        assert server.ask(method, path, headers={"Origin": origin}).status == 403
    own = f"http://{server.host}:{server.port}"
    assert server.ask("GET", "/api/v1/processes", headers={"Origin": own}).status == 200


def test_what_changes_something_must_come_from_the_page(server):
    headers = {"Sec-Fetch-Site": "cross-site"}
    assert server.ask("DELETE", "/api/v1/recordings/x", headers=headers).status == 403
    assert (
        server.ask(
            "DELETE", "/api/v1/recordings/x", headers={"Sec-Fetch-Site": "same-origin"}
        ).status
        == 404
    )


def test_no_answer_invites_other_sites(server):
    answer = server.ask("OPTIONS", "/api/v1/recordings", headers={"Origin": "http://evil.example"})
    assert not [name for name in answer.headers if name.lower().startswith("access-control")]


# --- texts from the target ---------------------------------------------------------------------------------


def test_names_from_the_target_are_data(server):
    """Titles with markup, quotes and bytes that are no text come out as JSON strings, and nowhere as headers."""
    env = {"SCRY_TEST_TITLE": '"><script>alert(1)</script>\\\n\x1b[31m'}
    with serving.Target("--idle", script="titled.py", env=env) as odd:
        row = server.get(f"/api/v1/processes/self/{odd.pid}")
        assert row.type == "application/json" and row.headers["X-Content-Type-Options"] == "nosniff"
        assert "<script>" in row.json["command"]
        text = server.get("/worker/traceback", pid=odd.pid)
        assert text.type.startswith("text/plain") and "\x1b" not in text.text
        picture = server.get("/worker/cpu_profile", pid=odd.pid, duration=1, idle=1)
        assert picture.status == 200 and "<script>alert" not in picture.text


# --- policy ------------------------------------------------------------------------------------------------


def test_only_the_users_that_are_allowed(start, target):
    server = start("--allow-user", "nobody")
    row = server.get(f"/api/v1/processes/self/{target.pid}").json
    assert (
        row["can_attach"] is False and row["reason"] == "policy" and "--allow-user" in row["remedy"]
    )
    for answer in (
        server.get("/worker/traceback", pid=target.pid),
        server.get("/worker/cpu_profile", pid=target.pid),
        server.get(f"/api/v1/processes/self/{target.pid}/threads"),
        server.get(f"/api/v1/processes/self/{target.pid}/top"),
        server.ask("POST", "/api/v1/recordings", {"targets": [{"pid": target.pid}]}),
    ):
        assert answer.status == 403 and "permission" in answer.text, answer
    own = start("--allow-user", str(os.getuid()), folder="own")
    assert own.get("/worker/traceback", pid=target.pid).status == 200


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a process of another user")
def test_descendants_of_another_user_are_not_looked_into_either(start):
    with serving.Target(script="other_user.py") as both:
        open_, bound = start(), start("--allow-user", "root", folder="bound")
        for server, child_too in ((open_, True), (bound, False)):
            stacks = server.get("/worker/traceback", pid=both.pid, subprocesses=1)
            profile = server.get(
                "/worker/cpu_profile", pid=both.pid, subprocesses=1, duration=2, format="raw"
            )
            for answer in (stacks, profile):
                assert answer.status == 200 and "busy_parent" in answer.text, answer
                assert ("busy_child" in answer.text) == child_too, answer.text
            events = server.events(f"/api/v1/processes/self/{both.pid}/top?subprocesses=1")
            rows = next(data for name, data in events if name == "top" and data["functions"])
            assert "busy_parent" in json.dumps(rows)
            assert child_too or "busy_child" not in json.dumps(rows)
            events.close()


def test_only_the_pid_namespace_that_is_allowed(start, target):
    assert (
        start("--allow-pid-namespace", "self").get("/worker/traceback", pid=target.pid).status
        == 200
    )
    unshare = ("unshare", "--fork", "--pid", "--mount-proc")
    if subprocess.run([*unshare, "true"], capture_output=True).returncode != 0:
        pytest.skip("this machine does not let us make a pid namespace")
    with serving.Target("--idle", command=unshare) as inside:
        child = int(
            Path(f"/proc/{inside.process.pid}/task/{inside.process.pid}/children")
            .read_text()
            .split()[0]
        )
        server = start("--allow-pid-namespace", "self", folder="other")
        answer = server.get("/worker/traceback", pid=child)
        assert answer.status == 403 and "namespace" in answer.text
        os.kill(child, 9)


# --- what it has given up ----------------------------------------------------------------------------------


def status_of(pid, name):
    return re.search(rf"^{name}:\s*(\S+)", Path(f"/proc/{pid}/status").read_text(), re.M)[1]


def test_capabilities_are_dropped_and_calls_filtered(server):
    allowed = sum(
        1 << bit for bit in (19, 2, 40, 38)
    )  # SYS_PTRACE, DAC_READ_SEARCH, CHECKPOINT_RESTORE, PERFMON
    for name in ("CapEff", "CapPrm", "CapInh", "CapAmb"):
        assert int(status_of(server.process.pid, name), 16) & ~allowed == 0, name
    if os.getuid() == 0:
        assert int(status_of(server.process.pid, "CapBnd"), 16) & ~allowed == 0
    assert status_of(server.process.pid, "NoNewPrivs") == "1"
    assert status_of(server.process.pid, "Seccomp") == "2"


def test_children_are_bound_by_the_same(server, target):
    server.ask("POST", "/api/v1/recordings", {"targets": [{"pid": target.pid}], "duration": 5})
    children = serving.until(
        lambda: [
            int(pid)
            for task in Path(f"/proc/{server.process.pid}/task").iterdir()
            for pid in (task / "children").read_text().split()
        ],
        "there is a child",
    )
    assert status_of(children[0], "Seccomp") == "2"
    assert status_of(children[0], "NoNewPrivs") == "1"


def test_an_audit_line_per_request(start, target):
    server = start()
    server.get("/worker/traceback", pid=target.pid)
    server.get("/worker/traceback", pid="abc")
    server.ask("POST", "/api/v1/recordings", {"targets": [{"pid": 4194000}]})
    server.get("/healthz")
    lines = [json.loads(line) for line in (server.folder / "audit.log").read_text().splitlines()]
    assert [line["status"] for line in lines] == [200, 400, 404]
    assert (
        lines[0]["target"] == f"/worker/traceback?pid={target.pid}"
        and lines[0]["client"] == "127.0.0.1"
    )
    assert "4194000" in lines[2]["body"]
    assert stat.S_IMODE((server.folder / "audit.log").stat().st_mode) == 0o600


# --- TLS ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
        ]
        + ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
        + ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")],
        check=True,
        capture_output=True,
    )
    return folder


def test_tls(start, certificate, target):
    server = start("--cert", str(certificate / "cert.pem"), "--key", str(certificate / "key.pem"))
    assert server.url.startswith("https://")
    import http.client

    context = ssl.create_default_context(cafile=certificate / "cert.pem")
    connection = http.client.HTTPSConnection(
        "localhost", server.port, context=context, timeout=serving.PATIENCE
    )
    connection.request("GET", f"/worker/traceback?pid={target.pid}")
    response = connection.getresponse()
    assert response.status == 200 and b"busy_main" in response.read()
    connection.close()


def test_a_certificate_without_its_key_is_refused(scry, tmp_path, certificate):
    result = run(scry, tmp_path, "--cert", str(certificate / "cert.pem"))
    assert result.returncode == 2 and "--key" in result.stderr


# --- one data folder, one server ---------------------------------------------------------------------------


def test_a_data_folder_belongs_to_one_server(scry, server):
    result = run(scry, server.folder, "--data-dir", str(server.folder))
    assert result.returncode == 1 and "another server" in result.stderr
