"""What is seen, as the OpenAPI document describes it: made from the views of browse, so that the two agree."""

from functools import cache
from types import GenericAlias
from typing import Any, get_args, get_origin, get_type_hints

from pydantic import BaseModel, create_model

from mayfly.jobs.browse import Capped


@cache
def model_of(view: type[Any]) -> type[BaseModel]:
    """The shape of a view's `facts()`: a capped number is followed by whether it is; views may hold others."""
    fields: dict[str, Any] = {}
    for name, hint in get_type_hints(view).items():
        if hint is Capped:
            fields |= {name: (int, ...), f"{name}_is_capped": (bool, ...)}
        else:
            fields[name] = (_described(hint), ...)
    return create_model(view.__name__, **fields)


def _described(hint: Any) -> Any:
    members = get_args(hint)
    if get_origin(hint) is tuple and hasattr(members[0], "_fields"):
        return GenericAlias(list, (model_of(members[0]),))
    return hint


def list_of(name: str, view: Any) -> type[BaseModel]:
    """An object with the list under a name, so that something may be added beside it."""
    fields: dict[str, Any] = {name: (GenericAlias(list, (model_of(view),)), ...)}
    return create_model(f"{view.__name__}s", **fields)
