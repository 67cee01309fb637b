"""Bodies of which parts stay the text that they were."""

from __future__ import annotations

import hashlib
from typing import Any

from marshmallow import ValidationError

from app.api.schemas.base import JsonText, Kept, Shape
from app.api.schemas.issues import load
from app.domain import json_text


class Fingerprinted(Shape):
    """A shape whose loaded value has ``content_sha256`` too: of each field but ``id`` as sent, white space aside."""


def read(shape: Shape, text: str) -> dict[str, Any]:
    """The JSON of ``text`` as ``shape`` reads it.

    :raises NotJson: if ``text`` isn't JSON.
    :raises BadInput: if it isn't of that shape.
    """
    if not any(isinstance(field, JsonText) for field in shape.fields.values()):
        return load(shape, json_text.parse(text))
    members = {name: json_text.compact(value) for name, value in json_text.members(text).items()}
    loaded = load(shape, _values(shape, members))
    return loaded | {"content_sha256": _fingerprint(members)} if isinstance(shape, Fingerprinted) else loaded


def _values(shape: Shape, members: dict[str, str]) -> dict[str, Any]:
    kept = {field.data_key for field in shape.fields.values() if isinstance(field, JsonText)}
    return {
        name: Kept(text) if name in kept and text != "null" else json_text.parse(text) for name, text in members.items()
    }


def _fingerprint(members: dict[str, str]) -> bytes:
    digest = hashlib.sha256()
    for name, text in sorted(members.items()):
        if name != "id":
            digest.update(f"{name}:{len(text)}:{text}".encode())
    return digest.digest()


def loaded_elements(shape: Shape, text: str, low: int, high: int) -> list[Any]:
    """The ``low`` to ``high`` elements of the array in ``text``, each as ``shape`` reads it.

    :raises ValidationError: with the issues of each element by its position.
    """
    elements = json_text.elements(text)
    if not low <= len(elements) <= high:
        raise ValidationError(f"must have {low} to {high} entries")
    loaded, issues = [], dict[int, Any]()
    for at, element in enumerate(elements):
        try:
            loaded.append(_loaded_element(shape, element))
        except ValidationError as error:
            issues[at] = error.messages
    if issues:
        raise ValidationError(issues)
    return loaded


def _loaded_element(shape: Shape, element: str) -> Any:
    if not element.startswith("{"):
        raise ValidationError("must be a JSON object")
    return shape.load(_values(shape, json_text.members(element)))


class KeptListOf(JsonText):
    """A JSON array that is stored as it came, once each of its elements was checked by ``shape``."""

    def __init__(self, shape: type[Shape], **more: Any) -> None:
        super().__init__("[", **more)
        self.shape = shape()

    def _deserialize(self, value: Any, attr: str | None, data: Any, **more: Any) -> Kept:
        text = super()._deserialize(value, attr, data, **more)
        checked = ((at, self._issues(element)) for at, element in enumerate(json_text.elements(text)))
        issues = {at: found for at, found in checked if found}
        if issues:
            raise ValidationError(issues)
        return text

    def _issues(self, element: str) -> Any:
        if not element.startswith("{"):
            return ["must be a JSON object"]
        return self.shape.validate(_values(self.shape, json_text.members(element)))
