"""Lets spans join the runs of their traces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from app.domain import otel
from app.domain.joining import Joined, KnownTrace, closed, frozen
from app.domain.model import RunContent
from app.domain.otel import Span
from app.domain.otel_folding import fold
from app.domain.otel_reading import ACTORS, conversation_id, role_of
from app.store import runs
from app.store import spans as store
from app.store.engine import Db, busy
from app.store.running import acquaint
from app.store.spans import NewSpan, Trace

PATIENCE_MINUTES = 15
"""So long nothing comes of a trace before a span that was to come, and is in no batch, counts as one that won't."""


def join(tx: Db, trace: Trace, spans: Sequence[Span]) -> Joined:
    """Keep ``spans`` of one trace and make its run anew. The caller has write on the project.

    Batches of one trace wait for each other; the same span again changes nothing.
    """
    store.lock(tx, trace)
    known = store.known(tx, trace)
    if why := closed(known, trace.project_id):
        return Joined(len(spans), why)
    kept = store.some(tx, trace, {span.id for span in spans})
    news = otel.news(kept, spans)
    if turned_away := frozen(known, news):
        return turned_away
    if news:
        new = {id: _new(otel.span_of(trace.id, id, text), text) for id, text in news.items()}
        store.keep(tx, trace, new)
        _make(tx, trace, known)
    return Joined()


def _new(span: Span, text: str) -> NewSpan:
    return NewSpan(text, conversation_id(span), role_of(span) in ACTORS)


def settle_next(tx: Db) -> bool:
    """Make the run of a trace whose outermost span waits for one that doesn't come; true if there may be more."""
    trace = store.next_waiting(tx, PATIENCE_MINUTES)
    if trace is None:
        return False
    known = replace(store.known(tx, trace), patient=False)
    if known.corrected or closed(known, trace.project_id):
        store.made(tx, trace, known.content_sha256, waits=False, patient=False)
    else:
        _make(tx, trace, known)
    return True


def _make(tx: Db, trace: Trace, known: KnownTrace) -> None:
    spans = [otel.span_of(trace.id, id, text) for id, text in store.of_trace(tx, trace).items()]
    folded = fold(spans, trace.project_id, patient=known.patient)
    run = folded.run
    if run is not None and (known.run is None or known.run.content_sha256 != run.content_sha256):
        _write(tx, trace, known, run)
    sha256 = run.content_sha256 if run is not None else known.content_sha256
    store.made(tx, trace, sha256, waits=folded.waits, patient=known.patient)


def _write(tx: Db, trace: Trace, known: KnownTrace, run: RunContent) -> None:
    if known.run is None:
        written = runs.add(tx, trace.tenant_id, trace.id, run)
    else:
        written = runs.replace(tx, trace.tenant_id, trace.id, run, known.run)
    if not written:
        raise busy()  # a PUT of this id came between: the next try finds its run
    acquaint(tx, trace.tenant_id, run.project_id, run.subject)
