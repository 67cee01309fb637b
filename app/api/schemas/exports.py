"""Shapes of downloads of corrections."""

from __future__ import annotations

from app.api.schemas.base import OneOf
from app.api.schemas.corrections import CorrectionFilters


class CorrectionExport(CorrectionFilters):
    """The list's filters, and what to write."""

    format = OneOf("jsonl", "csv", load_default="jsonl")
