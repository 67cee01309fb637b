"""Lists that are spread over attributes, as OpenInference has them: ``llm.input_messages.0.message.role``."""

from __future__ import annotations

from typing import Any

from app.domain import json_text
from app.domain.otel import Attributes

_DEEPEST = 16


def listed(attributes: Attributes, prefix: str) -> list[str]:
    """The elements of the list that is spread over ``prefix.N.…``, each a JSON text."""
    tree: dict[str, Any] = {}
    for name, value in attributes.items():
        if name.startswith(prefix + "."):
            _plant(tree, name[len(prefix) + 1 :].split(".", _DEEPEST), value)
    grown = _grown(tree)
    return (
        [json_text.dump(element) for element in grown if isinstance(element, dict)] if isinstance(grown, list) else []
    )


def _plant(tree: dict[str, Any], path: list[str], value: Any) -> None:
    for step in path[:-1]:
        tree = tree.setdefault(step, {})
        if not isinstance(tree, dict):
            return
    tree.setdefault(path[-1], value)


def _grown(tree: Any) -> Any:
    """Numbered members become a list; what wraps each of its elements (``message``, ``document``, …) goes."""
    if not isinstance(tree, dict):
        return tree
    grown = {name: _grown(value) for name, value in tree.items()}
    if not grown or not all(name.isascii() and name.isdigit() for name in grown):
        return grown
    return [_unwrapped(grown[name]) for name in sorted(grown, key=lambda name: (len(name), name))]


def _unwrapped(element: Any) -> Any:
    if isinstance(element, dict) and len(element) == 1:
        (only,) = element.values()
        return only if isinstance(only, dict) else element
    return element
