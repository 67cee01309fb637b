"""Shapes of OTLP, as far as its specification leaves them to be told."""

from __future__ import annotations

from marshmallow import fields

from app.api.schemas.base import ListOf, Nested, Shape, Text


class ExportTraceServiceRequestShape(Shape):
    """An OTLP export request: in protobuf, or in OTLP's JSON."""

    resource_spans = fields.List(fields.Dict())


class PartialSuccessShape(Shape):
    """Spans that were turned away, and why. They are not to be sent again."""

    rejected_spans = Text()
    error_message = Text()


class ExportTraceServiceResponseShape(Shape):
    """OTLP's answer: empty when all spans were taken."""

    partial_success = Nested(PartialSuccessShape)


class StatusShape(Shape):
    """OTLP's error, a `google.rpc.Status`: the message begins with our error's code and a colon."""

    message = Text(required=True)
    details = ListOf(fields.Dict())
