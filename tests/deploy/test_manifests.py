"""deploy/ is what Kubernetes takes, and has the rights it says it has."""

import collections
import re
import subprocess
from pathlib import Path

import kubernetes_validate
import manifests
import pytest
from manifests import DEPLOY, VERSIONS, build, documents

FOLDERS = sorted(path.parent for path in DEPLOY.rglob("kustomization.yaml"))
SAMPLES = sorted((DEPLOY / "samples").glob("*.yaml"))


def one(rows, kind, name="scry"):
    (found,) = [r for r in rows if r["kind"] == kind and r["metadata"]["name"] == name]
    return found


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda f: f.name)
def test_what_kustomize_makes_has_the_shape(folder, version):
    rows = build(folder)
    assert {"Namespace", "DaemonSet", "Service", "NetworkPolicy"} <= {row["kind"] for row in rows}
    for row in rows:
        manifests.check(row, version)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("path", SAMPLES, ids=lambda p: p.stem)
def test_samples_have_the_shape(path, version):
    for row in documents(path):
        if row["apiVersion"].startswith("ray.io/"):
            # Not of Kubernetes itself; its pods are.
            spec = row["spec"]
            for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
                pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}
                manifests.check({**pod, "spec": group["template"]["spec"]}, version)
        else:
            manifests.check(row, version)


def test_a_mistake_is_found():
    row = one(build(DEPLOY / "base"), "DaemonSet")
    row["spec"]["template"]["spec"]["hostPid"] = True
    with pytest.raises(kubernetes_validate.ValidationError):
        manifests.check(row, VERSIONS[-1])


def test_the_daemon_set_sees_all_and_has_one_capability():
    spec = one(build(DEPLOY / "base"), "DaemonSet")["spec"]["template"]["spec"]
    assert spec["hostPID"] is True
    assert not spec.get("hostNetwork") and not spec["automountServiceAccountToken"]
    (container,) = spec["containers"]
    rights = container["securityContext"]
    assert rights["capabilities"] == {"drop": ["ALL"], "add": ["SYS_PTRACE"]}
    assert rights["allowPrivilegeEscalation"] is False and not rights.get("privileged")
    assert rights["readOnlyRootFilesystem"] is True


def test_everything_that_is_named_exists():
    rows = build(DEPLOY / "base")
    spec = one(rows, "DaemonSet")["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    dns = next(a for a in container["args"] if a.startswith("--peers-dns=")).partition("=")[2]
    nodes = one(rows, "Service", dns)
    assert nodes["spec"]["clusterIP"] == "None"
    labels = one(rows, "DaemonSet")["spec"]["template"]["metadata"]["labels"]
    policy = one(rows, "NetworkPolicy")["spec"]
    for selector in (nodes["spec"]["selector"], policy["podSelector"]["matchLabels"]):
        assert selector.items() <= labels.items()
    assert one(rows, "ServiceAccount", spec["serviceAccountName"])
    mounts = {m["name"] for m in container["volumeMounts"]}
    assert mounts == {v["name"] for v in spec["volumes"]}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda f: f.name)
def test_scry_takes_the_words_of_the_manifests(folder, scry, tmp_path):
    """Up to the address, which is not listened on: a port that cannot be ends it after the words were read."""
    (container,) = one(build(folder), "DaemonSet")["spec"]["template"]["spec"]["containers"]
    token = tmp_path / "token"
    words = [a.replace("/etc/scry/token", str(token)) for a in container["args"]]
    words = [a.replace("/data", str(tmp_path / "data")) for a in words] + ["--port=65536"]
    done = subprocess.run([scry, *words], capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and "--port must be" in done.stderr, done.stderr


def test_the_image_has_the_libraries_of_the_program(scry):
    if not subprocess.run(["sh", "-c", "command -v dpkg-query"], capture_output=True).stdout:
        pytest.skip("the names of packages are those of Debian")
    text = (DEPLOY / "Containerfile").read_text().rpartition("FROM ")[2]
    listed = set(re.findall(r"\b(?:lib[\w.+-]+|zlib1g)\b", text))
    files = [scry, str(Path(scry).parent / "scry-serve.so")]
    dynamic = subprocess.run(["readelf", "-d", *files], capture_output=True, text=True).stdout
    needed = set(re.findall(r"NEEDED.*\[(.+)\]", dynamic))
    needed = {n for n in needed if not re.match(r"ld-linux|lib(c|m|asan|ubsan)\.so", n)}
    found = subprocess.run(
        ["dpkg-query", "-S", *(f"*/{library}" for library in sorted(needed))],
        capture_output=True,
        text=True,
    ).stdout
    owners = collections.defaultdict(set)
    for package, path in re.findall(r"^([\w.+-]+)(?::\w+)?: (.+)$", found, re.MULTILINE):
        owners[path.rpartition("/")[2]].add(package)
    for library in sorted(needed):
        assert owners[library] & listed, f"{library}: the image has none of {owners[library]}"
