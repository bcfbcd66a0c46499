"""The files of deploy/: read, put together as kustomize does it, and the schemas of Kubernetes to hold them against."""

from __future__ import annotations

import copy
from pathlib import Path

import kubernetes_validate
import yaml

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
# From the oldest that clouds still run; the newest that the package of schemas has is added.
VERSIONS = ["1.27", "1.30", kubernetes_validate.latest_version()]


def documents(path: Path) -> list[dict]:
    return [one for one in yaml.safe_load_all(path.read_text()) if one]


def add_at(node, path: str, value) -> None:
    """The operation "add" of a JSON patch; "-" is the end of a list."""
    *way, last = path.removeprefix("/").split("/")
    for step in way:
        node = node[int(step)] if isinstance(node, list) else node[step]
    if isinstance(node, list):
        node.insert(len(node) if last == "-" else int(last), value)
    else:
        node[last] = value


def apply_patch(rows: list[dict], patch: dict) -> None:
    target = patch["target"]
    chosen = [
        row
        for row in rows
        if row["kind"] == target["kind"] and row["metadata"]["name"] == target["name"]
    ]
    assert len(chosen) == 1, f"{target} means {len(chosen)} of the resources"
    for step in yaml.safe_load(patch["patch"]):
        assert step["op"] == "add", step
        add_at(chosen[0], step["path"], step["value"])


def build(folder: Path) -> list[dict]:
    """What `kustomize build` makes of a folder, as far as this project uses it."""
    (plan,) = documents(folder / "kustomization.yaml")
    known = {"apiVersion", "kind", "namespace", "resources", "patches"}
    assert set(plan) <= known, f"{set(plan) - known} is not understood here"
    rows = []
    for name in plan["resources"]:
        path = (folder / name).resolve()
        rows += build(path) if path.is_dir() else documents(path)
    rows = copy.deepcopy(rows)
    for row in rows:
        if "namespace" in plan and row["kind"] != "Namespace":
            row["metadata"]["namespace"] = plan["namespace"]
    for patch in plan.get("patches", []):
        apply_patch(rows, patch)
    return rows


def check(row: dict, version: str) -> None:
    """Against the schema of its kind, unknown fields being mistakes."""
    kubernetes_validate.validate(row, version, strict=True)
