"""/api/v1: every answer has the shape that the OpenAPI file promises, and does what it says."""

import json
import re
from pathlib import Path

import contract
import jsonschema
import pytest
import serving

OPERATIONS = {(method, path): operation for method, path, operation in contract.operations()}


@pytest.fixture(scope="module")
def recording(server, target):
    return server.record(
        targets=[{"pid": target.pid}], duration=1, idle=True, subprocesses=True, name="Für den Test"
    )


def check(server, method, path, template, body=None):
    answer = server.ask(method, path, body)
    contract.check(OPERATIONS[method, template], answer)
    return answer


# --- the contract ------------------------------------------------------------------------------------------


def test_the_file_is_openapi():
    assert contract.API["openapi"].startswith("3.1")
    for method, path, operation in contract.operations():
        named = set(re.findall(r"{(\w+)}", path))
        assert named == {p["name"] for p in contract.parameters(operation) if p["in"] == "path"}, (
            path
        )
        assert operation["operationId"] and operation["summary"], (method, path)


def test_the_examples_fit_their_schemas():
    for _, path, operation in contract.operations():
        for status, response in operation["responses"].items():
            for kind, content in contract.resolve(response).get("content", {}).items():
                if kind == "application/json" and "example" in content and "schema" in content:
                    full = {**content["schema"], "components": contract.API["components"]}
                    (
                        jsonschema.validate(
                            content["example"], full, cls=jsonschema.Draft202012Validator
                        ),
                        (path, status),
                    )


def test_the_server_gives_out_the_file(server):
    assert server.get("/api/v1/openapi.json").json == contract.API


def test_every_route_is_in_the_file_and_every_path_is_a_route():
    text = (contract.PROJECT / "src" / "http" / "routes.c").read_text()
    routes = set(re.findall(r'{"(GET|POST|PATCH|DELETE)", "([^"]+)"', text))
    written = {(m, re.sub(r"{\w+}", "{}", p).lstrip("/")) for m, p, _ in contract.operations()}
    assert routes == written


def test_every_route_takes_the_parameters_of_the_file():
    text = (contract.PROJECT / "src" / "http" / "routes.c").read_text()
    text = text.replace("VIEW", '" threads lines processes nodes full_filenames part "').replace(
        '" "', ""
    )
    rows = re.findall(
        r'{"(GET|POST|PATCH|DELETE)", "([^"]+)",\s*(NULL|"[^"]*")',
        re.sub(r'"\s*\n?\s*"', " ", text),
    )
    taken = {(m, p): set(params.strip('"').split()) - {"NULL"} for m, p, params in rows}
    for method, path, operation in contract.operations():
        written = {p["name"] for p in contract.parameters(operation) if p["in"] == "query"}
        assert taken[method, re.sub(r"{\w+}", "{}", path).lstrip("/")] == written, path


# --- every answer ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/info",
        "/api/v1/nodes",
        "/api/v1/nodes?timeout=0.5",
        "/api/v1/processes",
        "/api/v1/processes?sort=-cpu&limit=3&offset=1&q=python&node=self&timeout=1",
        "/api/v1/tasks",
        "/api/v1/tasks?state=RUNNING&q=x",
        "/api/v1/recordings",
        "/api/v1/recordings?state=done&limit=1&q=test&node=self",
        "/api/profiling_enabled",
        "/healthz",
        "/readyz",
        "/metrics",
    ],
)
def test_lists_have_their_shape(server, recording, path):
    answer = check(server, "GET", path, path.split("?")[0])
    assert answer.status == 200, answer


def test_a_node(server):
    node = check(server, "GET", "/api/v1/nodes/self", "/api/v1/nodes/{node}").json
    assert node["self"] and node["state"] == "up" and node["cpus"] >= 1 and node["processes"] >= 1
    assert check(server, "GET", "/api/v1/nodes/nowhere", "/api/v1/nodes/{node}").status == 404


def test_a_process(server, target):
    template = "/api/v1/processes/{node}/{pid}"
    one = check(server, "GET", f"/api/v1/processes/self/{target.pid}", template).json
    assert one["pid"] == target.pid and one["threads"] == 2 and one["can_attach"] is True
    assert one["title"].endswith("work.py") and one["python"].startswith("3.")
    assert check(server, "GET", "/api/v1/processes/self/4194000", template).status == 404
    assert check(server, "GET", "/api/v1/processes/nowhere/1", template).status == 404


def test_a_process_that_waits_says_for_what(server):
    with serving.Target("--idle") as idle:
        row = serving.until(
            lambda: (r := server.get(f"/api/v1/processes/self/{idle.pid}").json)["wait"] and r,
            "it waits",
        )
        assert row["state"] == "sleeping"
        assert "sleep" in row["wait"] or "select" in row["wait"]


def test_threads(server, target):
    template = "/api/v1/processes/{node}/{pid}/threads"
    path = f"/api/v1/processes/self/{target.pid}/threads"
    one = check(server, "GET", path + "?locals=1", template).json
    names = {t["thread_name"] for t in one["threads"]}
    assert {"MainThread", "blocked"} <= names
    main = next(t for t in one["threads"] if t["thread_name"] == "MainThread")
    assert any(f["locals"] is not None for f in main["frames"])
    with_child = check(server, "GET", path + "?subprocesses=1", template).json
    assert {t["pid"] for t in with_child["threads"]} == {target.pid, target.child}


def test_a_traceback(server, target):
    template = "/api/v1/processes/{node}/{pid}/traceback"
    answer = check(server, "GET", f"/api/v1/processes/self/{target.pid}/traceback", template)
    assert "busy_main" in answer.text


def test_processes_can_be_searched_sorted_and_paged(server, target):
    rows = server.get("/api/v1/processes", sort="pid").json["processes"]
    assert [r["pid"] for r in rows] == sorted(r["pid"] for r in rows)
    rows = server.get("/api/v1/processes", sort="-rss").json["processes"]
    assert [r["rss"] for r in rows] == sorted((r["rss"] for r in rows), reverse=True)
    found = server.get("/api/v1/processes", q="WORK.py").json
    assert target.pid in {r["pid"] for r in found["processes"]}
    assert all("work.py" in r["command"] for r in found["processes"])
    assert server.get("/api/v1/processes", q=str(target.pid)).json["total"] >= 1
    assert server.get("/api/v1/processes", q="nobody is called so").json["processes"] == []
    page = server.get("/api/v1/processes", sort="pid", limit=1, offset=1).json
    assert [r["pid"] for r in page["processes"]] == [
        server.get("/api/v1/processes", sort="pid").json["processes"][1]["pid"]
    ]


def test_a_title_such_as_ray_gives_is_a_task(server):
    env = {"SCRY_TEST_TITLE": "ray::train_step"}
    with serving.Target("--idle", script="titled.py", env=env) as worker:
        task = serving.until(
            lambda: [
                t for t in server.get("/api/v1/tasks").json["tasks"] if t["pid"] == worker.pid
            ],
            "the task is listed",
        )[0]
        assert task["name"] == "train_step" and task["source"] == "title"
        row = server.get(f"/api/v1/processes/self/{worker.pid}").json
        assert (
            row["kind"] == "ray"
            and row["group"] == "train_step"
            and row["title"] == "ray::train_step"
        )


# --- recordings --------------------------------------------------------------------------------------------


def test_a_recording_from_begin_to_end(server, target):
    answer = check(
        server,
        "POST",
        "/api/v1/recordings",
        "/api/v1/recordings",
        {
            "targets": [{"node": "self", "pid": target.pid}],
            "duration": 1.5,
            "rate": 50,
            "name": "x",
        },
    )
    assert answer.status == 202
    begun = answer.json["recordings"][0]
    assert answer.headers["Location"].endswith(begun["id"])
    seen = list(server.events(f"/api/v1/recordings/{begun['id']}/events"))
    assert [name for name, _ in seen][-1] == "end" and len(seen) >= 2
    for _, data in seen:
        contract.check(
            OPERATIONS["GET", "/api/v1/recordings/{id}"],
            serving.Answer(200, {"Content-Type": "application/json"}, json.dumps(data).encode()),
        )
    end = seen[-1][1]
    assert end["state"] == "done" and 30 <= end["samples"] <= 80 and end["size"] > 0
    progress = [data["samples"] for _, data in seen]
    assert progress == sorted(progress)


@pytest.mark.parametrize(
    "form",
    [
        "flamegraph",
        "html",
        "raw",
        "speedscope",
        "chrometrace",
        "gecko",
        "pprof",
        "callgrind",
        "json",
        "scry",
    ],
)
def test_a_result_in_every_format(server, recording, form):
    answer = server.get(f"/api/v1/recordings/{recording['id']}/result", format=form, download=1)
    assert answer.status == 200, answer
    info = next(f for f in server.get("/api/v1/info").json["formats"] if f["name"] == form)
    assert answer.type == info["content_type"]
    assert f'.{info["extension"]}"' in answer.headers["Content-Disposition"]
    if not info["binary"]:
        assert "busy_main" in answer.text


def test_result_options_take_effect(server, recording):
    def raw(**options):
        return server.get(
            f"/api/v1/recordings/{recording['id']}/result", format="raw", **options
        ).text

    assert "process " in raw() and "process " not in raw(processes=0)
    assert "thread (" not in raw() and "thread (" in raw(threads=1)
    assert "host " not in raw() and "host " in raw(nodes=1)
    assert re.search(r"work\.py:\d", raw()) and not re.search(r"work\.py:\d", raw(lines="none"))
    assert "(work.py:" in raw() and "/targets/work.py:" in raw(full_filenames=1)


def test_the_tree_adds_up(server, recording):
    path = f"/api/v1/recordings/{recording['id']}/tree?nodes=1&processes=1&threads=1"
    tree = check(server, "GET", path, "/api/v1/recordings/{id}/tree").json
    nodes, frames = tree["nodes"], tree["frames"]
    kinds = {frames["kind"][f] for f in nodes["frame"]}
    assert {"node", "process", "thread", "python"} <= kinds
    totals = list(nodes["self"])
    for i in reversed(range(len(totals))):
        assert nodes["parent"][i] < i
        if nodes["parent"][i] >= 0:
            totals[nodes["parent"][i]] += totals[i]
    assert totals == nodes["total"]
    assert sum(t for t, p in zip(totals, nodes["parent"]) if p < 0) == tree["total"]
    assert "busy_main" in tree["names"]


def test_the_difference_of_two(server, recording, target):
    other = server.record(targets=[{"pid": target.child}], duration=1)
    ask = {"before": recording["id"], "after": other["id"]}
    picture = server.get("/api/v1/diff", **ask)
    assert picture.type == "image/svg+xml" and "child_work" in picture.text
    table = server.get("/api/v1/diff", **ask, format="json").json
    assert "busy_main" in json.dumps(table)
    assert "child_work" in server.get("/api/v1/diff", **ask, format="text").text
    assert server.get("/api/v1/diff", before=recording["id"], after="nothing").status == 404


def test_the_history_can_be_searched_named_and_kept(server, recording):
    path = f"/api/v1/recordings/{recording['id']}"
    assert recording["name"] == "Für den Test"
    changed = check(
        server, "PATCH", path, "/api/v1/recordings/{id}", {"name": "Needle", "pinned": True}
    )
    assert changed.json["name"] == "Needle" and changed.json["pinned"] is True
    found = server.get("/api/v1/recordings", q="needle").json
    assert [r["id"] for r in found["recordings"]] == [recording["id"]]
    assert server.get("/api/v1/recordings", q="in no haystack").json["recordings"] == []


def test_the_history_comes_in_pages(server, target):
    made = [
        server.record(targets=[{"pid": target.pid}], duration=0.2, name="paged")["id"]
        for _ in range(3)
    ]
    seen, before = [], {}
    while True:
        page = server.get("/api/v1/recordings", q="paged", limit=1, **before).json
        assert page["total"] == 3
        seen += [r["id"] for r in page["recordings"]]
        if not page["next"]:
            break
        before = {"before": page["next"]}
    assert seen == made[::-1]


def test_a_recording_can_be_removed(server, target):
    made = server.record(targets=[{"pid": target.pid}], duration=0.2)
    path = f"/api/v1/recordings/{made['id']}"
    assert check(server, "DELETE", path, "/api/v1/recordings/{id}").status == 204
    assert check(server, "GET", path, "/api/v1/recordings/{id}").status == 404
    assert not list(Path(server.folder).glob(f"recordings/{made['id']}*"))


def test_a_cancelled_recording_keeps_what_it_has(server, target):
    begun = server.ask(
        "POST", "/api/v1/recordings", {"targets": [{"pid": target.pid}], "duration": 60}
    ).json
    name = begun["recordings"][0]["id"]
    path = f"/api/v1/recordings/{name}"
    serving.until(lambda: server.get(path).json["samples"] > 10, "there are samples")
    template = "/api/v1/recordings/{id}/cancel"
    assert check(server, "POST", path + "/cancel", template).status == 202
    ended = server.until_ended(name)
    assert ended["state"] == "cancelled" and ended["size"] > 0
    assert "busy_main" in server.get(path + "/result", format="raw").text
    assert check(server, "POST", path + "/cancel", template).status == 409


def test_a_result_before_the_end_is_409(server, target):
    begun = server.ask(
        "POST", "/api/v1/recordings", {"targets": [{"pid": target.pid}], "duration": 30}
    ).json
    path = f"/api/v1/recordings/{begun['recordings'][0]['id']}"
    answer = server.get(path + "/result")
    assert answer.status == 409 and answer.json["error"]["code"] == "not_finished"
    assert answer.headers["Retry-After"]
    assert server.ask("DELETE", path).status == 204


def test_many_processes_merged_or_apart(server, target):
    both = [{"pid": target.pid}, {"pid": target.child}]
    merged = server.record(targets=both, duration=1)
    assert [t["state"] for t in merged["targets"]] == ["done", "done"]
    text = server.get(f"/api/v1/recordings/{merged['id']}/result", format="raw").text
    assert "busy_main" in text and "child_work" in text
    part = server.get(f"/api/v1/recordings/{merged['id']}/result", format="raw", part=1).text
    assert "busy_main" not in part and "child_work" in part
    answer = server.ask(
        "POST", "/api/v1/recordings", {"targets": both, "duration": 0.3, "merge": False}
    )
    assert len(answer.json["recordings"]) == 2


def test_a_process_that_cannot_be_recorded_costs_only_itself(server, target):
    made = server.record(targets=[{"pid": target.pid}, {"pid": 4194000}], duration=0.5)
    assert made["state"] == "done"
    assert [t["state"] for t in made["targets"]] == ["done", "failed"]
    assert made["targets"][1]["error"]["code"] == "no_process"
    assert any("missing" in w for w in made["warnings"])


def test_one_recording_per_process_at_a_time(server):
    with serving.Target() as busy:
        ask = {"targets": [{"pid": busy.pid}], "duration": 1}
        names = [
            server.ask("POST", "/api/v1/recordings", ask).json["recordings"][0]["id"]
            for _ in range(3)
        ]
        ended = [server.until_ended(name) for name in names]
        assert [r["state"] for r in ended] == ["done"] * 3
        times = sorted((r["started"], r["ended"]) for r in ended)
        for (_, end), (begin, _) in zip(times, times[1:]):
            assert begin >= end


def test_an_attached_recording_ends_with_its_watchers(server):
    with serving.Target() as busy:
        ask = {"targets": [{"pid": busy.pid}], "duration": 60, "attached": True}
        name = server.ask("POST", "/api/v1/recordings", ask).json["recordings"][0]["id"]
        for event, data in server.events(f"/api/v1/recordings/{name}/events"):
            if event == "progress" and data["samples"] > 5:
                break
        # Asking for it by its name would be watching, too.
        serving.until(
            lambda: server.get("/api/v1/recordings", pid=busy.pid, state="cancelled").json["total"],
            "it is cancelled",
        )


# --- live --------------------------------------------------------------------------------------------------


def test_live_top(server, target):
    path = f"/api/v1/processes/self/{target.pid}/top?interval=0.3&limit=5&subprocesses=1"
    seen = []
    for name, data in server.events(path):
        assert name == "top"
        schema = {
            **contract.API["components"]["schemas"]["Top"],
            "components": contract.API["components"],
        }
        jsonschema.validate(data, schema, cls=jsonschema.Draft202012Validator)
        seen.append(data)
        if len(seen) == 4:
            break
    last = seen[-1]
    assert last["pid"] == target.pid and last["processes"] == 2 and last["threads"] >= 3
    assert any("busy" in f["name"] or "child" in f["name"] for f in last["functions"])
    assert len(last["functions"]) <= 5
    assert {t["name"] for t in last["top_threads"]} >= {"MainThread", "blocked"}


def test_live_top_ends_with_its_process(server):
    with serving.Target() as ending:
        names = []
        for name, data in server.events(f"/api/v1/processes/self/{ending.pid}/top?interval=0.3"):
            names.append(name)
            if len(names) == 1:
                ending.process.kill()
            if name == "end":
                assert "ended" in data["reason"]
        assert names[0] == "top" and names[-1] == "end"


def test_live_top_leaves_nobody_behind(server, target):
    for _, _ in server.events(f"/api/v1/processes/self/{target.pid}/top?interval=0.3"):
        break
    serving.until(
        lambda: "scry_event_streams 0" in server.get("/metrics").text, "the stream is let go"
    )


# --- the page ----------------------------------------------------------------------------------------------


def test_the_page_is_there_with_its_headers(server):
    answer = server.get("/")
    assert answer.status == 200 and answer.type == "text/html; charset=utf-8"
    assert "default-src 'self'" in answer.headers["Content-Security-Policy"]
    assert "script-src" not in answer.headers["Content-Security-Policy"]
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    again = server.ask("GET", "/", headers={"If-None-Match": answer.headers["ETag"]})
    assert again.status == 304 and not again.body
    packed = server.ask("GET", "/", headers={"Accept-Encoding": "gzip"})
    if packed.headers["Content-Encoding"]:
        import gzip

        assert gzip.decompress(packed.body) == answer.body


@pytest.mark.parametrize("form", ["flamegraph", "html"])
def test_a_document_runs_apart_from_the_page(server, recording, form):
    answer = server.get(f"/api/v1/recordings/{recording['id']}/result", format=form)
    assert answer.status == 200
    assert answer.headers["Content-Security-Policy"].startswith(
        "sandbox allow-scripts; default-src 'none'"
    )


def test_answers_are_packed_for_those_who_take_it(server, recording):
    import gzip

    packed = server.ask("GET", "/api/v1/info", headers={"Accept-Encoding": "gzip"})
    assert packed.headers["Content-Encoding"] == "gzip"
    assert json.loads(gzip.decompress(packed.body)) == server.get("/api/v1/info").json


def test_metrics_are_for_prometheus(server, recording):
    text = server.get("/metrics").text
    for line in text.splitlines():
        assert re.fullmatch(r"# (HELP|TYPE) \w+ .+|\w+({\w+=\"[^\"]*\"})? [0-9.e+-]+", line), line
    assert 'scry_recordings_total{state="done"}' in text
