"""docs/reference/http-api.md, from the OpenAPI document of the console."""

from collections.abc import Iterator, Mapping
from typing import Any

from console.server import openapi_document
from scripts.reference.markdown import GENERATED, paragraph, table

HEAD = f"""# HTTP API

{GENERATED}
[HTTP API](../how-to/pull-workers.md) explains tokens, errors and workers. The server has this document as OpenAPI at
`/api/v1/openapi.json`. Errors are problem details (RFC 9457).

"""
PROBLEM = "[Problem](#problem)"
Schema = Mapping[str, Any]


def page(_current: str) -> str:
    document = openapi_document()
    operations = [
        (method.upper(), path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    overview = table(("operation", ""), [(f"`{verb} {path}`", _summary(found)) for verb, path, found in operations])
    schemas = document["components"]["schemas"]
    return HEAD + overview + "".join(_chapter(*each) for each in operations) + "\n" + "".join(_models(schemas))


def _summary(operation: Schema) -> str:
    return str(operation.get("description") or operation.get("summary") or "").split("\n\n")[0]


def _chapter(method: str, path: str, operation: Schema) -> str:
    return f"\n## {method} {path}\n\n" + "\n".join(_parts(operation))


def _parts(operation: Schema) -> Iterator[str]:
    yield f"{operation.get('description') or operation.get('summary') or ''}\n"
    if parameters := operation.get("parameters"):
        rows = [
            (f"`{each['name']}`", each["in"], _type(each["schema"]), each.get("description", ""))
            for each in parameters
        ]
        yield table(("parameter", "in", "type", "meaning"), rows)
    for media_type, content in operation.get("requestBody", {}).get("content", {}).items():
        yield f"Body (`{media_type}`): {_type(content['schema'])}\n"
    responses = sorted(operation["responses"].items())
    answers = [(status, found) for status, found in responses if _body(found) != PROBLEM]
    yield table(("status", "body", ""), [(f"`{status}`", _body(found), _meaning(found)) for status, found in answers])
    if errors := [f"`{status}` {_meaning(found).lower()}" for status, found in responses if _body(found) == PROBLEM]:
        yield paragraph(f"Errors: {', '.join(errors)}.") + "\n"


def _meaning(response: Schema) -> str:
    return str(response.get("description", "")).replace("Successful Response", "")


def _body(response: Schema) -> str:
    return ", ".join(_type(each.get("schema", {})) for each in response.get("content", {}).values())


def _models(schemas: Mapping[str, Schema]) -> Iterator[str]:
    yield "## Models\n"
    for name, schema in sorted(schemas.items()):
        required = schema.get("required", [])
        rows = [
            (f"`{field}`", _type(found), "required" if field in required else "", found.get("description", ""))
            for field, found in schema.get("properties", {}).items()
        ]
        description = schema.get("description", "")
        yield f"\n### {name}\n" + (f"\n{description}\n" if description else "")
        if rows:
            yield "\n" + table(("field", "type", "", "meaning"), rows)


def _type(schema: Schema) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        return f"[{name}](#{name.lower()})"
    if alternatives := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(_type(each) for each in alternatives)
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if "enum" in schema:
        return ", ".join(f"`{each}`" for each in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    return str(schema.get("format") or schema.get("type") or "any")
