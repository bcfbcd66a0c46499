"""The OpenAPI file, as something to check answers against."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema

PROJECT = Path(__file__).parents[2]
API = json.loads((PROJECT / "src" / "http" / "openapi.json").read_text())
METHODS = ("get", "post", "patch", "delete")


def resolve(node):
    while isinstance(node, dict) and "$ref" in node:
        at = API
        for part in node["$ref"].removeprefix("#/").split("/"):
            at = at[part]
        node = at
    return node


def operations():
    """(method, path, operation) of all."""
    for path, item in API["paths"].items():
        for method in METHODS:
            if method in item:
                yield method.upper(), path, item[method]


def parameters(operation) -> list[dict]:
    return [resolve(p) for p in operation.get("parameters", [])]


def schema_of(operation, status: int):
    response = resolve(operation["responses"][str(status)])
    return next(iter(response.get("content", {}).values()), {}).get("schema")


def check(operation, answer) -> None:
    """The status is one of the documented, the type is, and the body has the shape."""
    documented = operation["responses"]
    assert str(answer.status) in documented, f"{answer.status} is not documented: {answer}"
    content = resolve(documented[str(answer.status)]).get("content", {})
    if not content:
        assert not answer.body
        return
    kinds = {kind.split(";")[0] for kind in content}
    assert answer.type.split(";")[0] in kinds, (answer.type, kinds)
    if answer.type == "application/json":
        schema = schema_of(operation, answer.status)
        if schema:
            full = {**schema, "components": API["components"]}
            jsonschema.validate(answer.json, full, cls=jsonschema.Draft202012Validator)
