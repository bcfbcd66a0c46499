"""Three hosts: they find each other, answer for each other, and one that is cut off costs only itself."""

import contextlib
import time

import hosts
import pytest
import serving

TOKEN = "correct-horse-battery-staple"


@pytest.fixture(scope="module")
def network():
    why = hosts.missing()
    if why:
        pytest.skip(why)
    made = hosts.Network(3)
    yield made
    made.close()


@pytest.fixture(scope="module")
def cluster(scry, network, tmp_path_factory):
    """(servers, targets), one of each per host; every server is told of the others."""
    folder = tmp_path_factory.mktemp("cluster")
    token = folder / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    with contextlib.ExitStack() as stack:
        servers, targets = [], []
        for host in network.hosts:
            peers = [
                word
                for other in network.hosts
                if other is not host
                for word in ("--peer", other.ip)
            ]
            server = hosts.HostServer(
                scry, host, folder / host.name, "--token-file", str(token), *peers
            )
            servers.append(stack.enter_context(server))
            server.token = TOKEN
            targets.append(stack.enter_context(serving.Target(command=host.enter())))
        until_all_up(servers[0])
        yield servers, targets


def states(server):
    return {n["name"]: n["state"] for n in server.get("/api/v1/nodes").json["nodes"]}


def until_all_up(server):
    serving.until(lambda: list(states(server).values()) == ["up"] * 3, "all nodes are up")


def until_listed(server, target, node):
    return serving.until(
        lambda: [
            p
            for p in server.get("/api/v1/processes", q="work.py").json["processes"]
            if p["pid"] == target.pid and p["node_name"] == node
        ],
        f"process {target.pid} of {node} is listed",
    )[0]


def test_every_node_knows_all(cluster):
    for server in cluster[0]:
        until_all_up(server)
        assert set(states(server)) == {"node1", "node2", "node3"}


def test_every_node_lists_the_processes_of_all(cluster):
    servers, targets = cluster
    for server in servers:
        for number, target in enumerate(targets, 1):
            row = until_listed(server, target, f"node{number}")
            assert row["title"].endswith("work.py")


@pytest.mark.parametrize("by", ["id", "name", "address", "ip"])
def test_any_node_answers_for_any_other(cluster, by):
    servers, targets = cluster
    until_listed(servers[0], targets[2], "node3")
    node = next(n for n in servers[0].get("/api/v1/nodes").json["nodes"] if n["name"] == "node3")
    name = "10.77.0.3" if by == "ip" else node[by]
    answer = servers[0].get(f"/api/v1/processes/{name}/{targets[2].pid}/threads")
    assert answer.status == 200 and answer.json["node_name"] == "node3", answer
    where = {"ip": name} if by == "ip" else {"node_id": name}
    text = servers[0].get("/worker/traceback", pid=targets[2].pid, **where)
    assert text.status == 200 and "busy_main" in text.text
    missing = servers[0].get("/worker/traceback", pid=4194000, **where)
    assert missing.status == 404 and "4194000" in missing.text


def test_a_profile_of_another_node(cluster):
    servers, targets = cluster
    answer = servers[1].get("/worker/cpu_profile", pid=targets[0].pid, node_id="node1", duration=1)
    assert answer.status == 200 and answer.type == "image/svg+xml" and "busy_main" in answer.text
    assert answer.headers["Content-Security-Policy"].startswith("sandbox")


def place_all(servers, targets):
    return [
        {"node": f"node{number}", "pid": target.pid}
        for number, target in enumerate(targets, 1)
        if until_listed(servers[0], target, f"node{number}")
    ]


def test_one_profile_of_all_nodes(cluster):
    servers, targets = cluster
    made = servers[0].record(targets=place_all(servers, targets), duration=1)
    assert made["state"] == "done" and [t["state"] for t in made["targets"]] == ["done"] * 3, made
    assert all(t["samples"] > 10 for t in made["targets"])
    raw = (
        servers[0]
        .get(f"/api/v1/recordings/{made['id']}/result", format="raw", nodes=1, threads=1)
        .text
    )
    for number in (1, 2, 3):
        assert f"host node{number};process " in raw
    merged = (
        servers[0].get(f"/api/v1/recordings/{made['id']}/result", format="raw", processes=0).text
    )
    assert "host " not in merged and "process " not in merged and "busy_main" in merged
    tree = servers[0].get(f"/api/v1/recordings/{made['id']}/tree", nodes=1).json
    roots = {
        tree["names"][tree["frames"]["name"][f]]
        for f, p in zip(tree["nodes"]["frame"], tree["nodes"]["parent"])
        if p < 0
    }
    assert roots == {"node1", "node2", "node3"}
    # Nothing is left behind where it was recorded.
    for server in servers[1:]:
        assert made["targets"][1]["command"]
        serving.until(
            lambda s=server: s.get("/api/v1/recordings", q="work.py").json["total"] <= 1,
            "copies are removed",
        )


def test_a_node_cut_off_in_the_middle_costs_only_itself(cluster, network):
    servers, targets = cluster
    ask = {"targets": place_all(servers, targets), "duration": 4}
    name = servers[0].ask("POST", "/api/v1/recordings", ask).json["recordings"][0]["id"]
    for _, data in servers[0].events(f"/api/v1/recordings/{name}/events"):
        if all(t["samples"] > 10 for t in data["targets"]):
            break
    network.pull(network.hosts[2])
    try:
        # The first listing may wait for it, no later one does.
        servers[0].get("/api/v1/processes")
        time.sleep(1.1)
        begin = time.monotonic()
        rows = servers[0].get("/api/v1/processes").json
        took = time.monotonic() - begin
        assert took < 1.0, f"a dead node delayed the list by {took:.1f} s"
        assert {n["name"]: n["state"] for n in rows["nodes"]}["node3"] in ("slow", "down")
        assert {p["node_name"] for p in rows["processes"]} >= {"node1", "node2"}
        answer = servers[0].get("/worker/traceback", pid=targets[2].pid, node_id="node3")
        assert answer.status in (502, 504) and "node3" in answer.text
        ended = servers[0].until_ended(name)
        assert ended["state"] == "done", ended
        assert [t["state"] for t in ended["targets"]] == ["done", "done", "failed"]
        assert "node3" in " ".join(ended["warnings"])
        raw = servers[0].get(f"/api/v1/recordings/{name}/result", format="raw", nodes=1).text
        assert "host node1" in raw and "host node2" in raw
    finally:
        network.plug(network.hosts[2])
    until_all_up(servers[0])
    again = servers[0].record(targets=ask["targets"], duration=0.5)
    assert [t["state"] for t in again["targets"]] == ["done"] * 3
    # What the node recorded for one who never came back for it has ended.
    serving.until(
        lambda: servers[2].get("/api/v1/recordings", state="recording").json["total"] == 0,
        "it has ended",
    )


def test_a_wrong_token_between_nodes_is_told(scry, network, cluster, tmp_path):
    """Who refuses is a node of the cluster."""
    token = tmp_path / "token"
    token.write_text("another-token-than-the-others")
    token.chmod(0o600)
    server = hosts.HostServer(
        scry,
        network.hosts[1],
        tmp_path / "data",
        "--token-file",
        str(token),
        "--peer",
        "10.77.0.1:8266",
    )
    server.port = 8300
    with server:
        server.token = token.read_text()
        node = serving.until(
            lambda: [
                n
                for n in server.get("/api/v1/nodes").json["nodes"]
                if "token" in (n["error"] or "")
            ],
            "the refusal is shown",
        )[0]
        assert node["state"] == "down"


def test_nodes_are_found_by_a_name_that_changes(scry, network, tmp_path):
    """As behind a headless Service: addresses come and go."""
    names = tmp_path / "hosts"
    names.write_text("127.0.0.1 localhost\n10.77.0.2 scry.test\n")
    host = network.hosts[1]
    host.run("mount", "--bind", str(names), "/etc/hosts")
    token = tmp_path / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    try:
        server = hosts.HostServer(
            scry,
            host,
            tmp_path / "data",
            "--token-file",
            str(token),
            "--peers-dns",
            "scry.test:8266",
        )
        server.port = 8301
        with server:
            server.token = TOKEN
            with names.open("a") as file:
                file.write("10.77.0.1 scry.test\n10.77.0.9 scry.test\n")
            nodes = serving.until(
                lambda: (
                    (n := {x["address"]: x for x in server.get("/api/v1/nodes").json["nodes"]})
                    and "10.77.0.1:8266" in n
                    and "10.77.0.9:8266" in n
                    and n
                ),
                "the new addresses are there",
            )
            assert nodes["10.77.0.1:8266"]["sources"] == ["dns"]
    finally:
        host.run("umount", "/etc/hosts")
