"""A small model of what sequences of events lead to, written from the contract and sharing no code with the
service: it knows every verdict, walks the events in their order, and decides by the table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

ORDER = ["0.9.0", "1.0.0", "2.0.0", "3.0.0"]
"""The versions that are used, earliest first."""

UNFIXED = ("open", "being-fixed", "with-owner")


@dataclass
class Correction:
    own: str
    end_user: bool
    shown: dict[str, Any]
    """``status``, ``sortedTo``, ``sorted``, ``fixedIn``, ``reopenedIn``, as on the wire."""


@dataclass
class World:
    """One project and subject. Times are wire texts; they compare as they sort."""

    corrections: dict[str, Correction]
    latest: str | None = None
    latest_at: str = ""
    latest_resolves: set[str] = field(default_factory=set)
    version: str | None = None
    how: str = ""
    by: Any = None
    pinned: bool = False
    verdicts: dict[tuple[str, str], list[tuple[str, int, str]]] = field(default_factory=dict)

    def deploy(self, version: str, as_of: str, at: str, resolves: set[str]) -> None:
        if version == self.latest:
            if not self.pinned:
                self._decide(resolves, resolves, at)
        elif self.latest is None or as_of >= self.latest_at:
            self.latest, self.latest_at, self.latest_resolves = version, as_of, resolves
            if not self.pinned:
                self._run(version, "latest", None, at, resolves)

    def pin(self, version: str, by: Any, at: str, resolves: set[str]) -> None:
        back = self.version is not None and ORDER.index(version) < ORDER.index(self.version)
        self.pinned = True
        if version == self.version:
            self.how, self.by = "pin", by
            self._decide(resolves, resolves, at)
        else:
            self._run(version, "went-back" if back else "pin", by, at, resolves)

    def unpin(self, by: Any, at: str) -> None:
        self.pinned = False
        if self.latest == self.version:
            self.how, self.by = "unpin", by
        else:
            self._run(self.latest, "unpin", by, at, self.latest_resolves)

    def test(self, version: str, verdicts: dict[str, str], as_of: str, at: str, arrival: int) -> None:
        for name, verdict in verdicts.items():
            self.verdicts.setdefault((name, version), []).append((as_of, arrival, verdict))
        if version == self.version:
            self._decide(set(verdicts), set(), at)

    def set_status(self, name: str, status: str) -> None:
        shown = self.corrections[name].shown
        shown["status"] = status
        shown.pop("fixedIn", None)
        shown.pop("reopenedIn", None)

    def sort(self, name: str, queue: str, sorted_: Any) -> None:
        shown = self.corrections[name].shown
        shown.update(sortedTo=queue, sorted=sorted_)
        if queue == "owner" and shown["status"] in ("open", "being-fixed"):
            shown["status"] = "with-owner"
        elif queue != "owner" and shown["status"] == "with-owner":
            shown["status"] = "open"

    def _run(self, version: str | None, how: str, by: Any, at: str, resolves: set[str]) -> None:
        self.version, self.how, self.by = version, how, by
        self._decide(set(self.corrections), resolves, at)

    def _decide(self, names: set[str], resolved: set[str], at: str) -> None:
        if self.version is not None:
            for name in names:
                self._decide_on(self.corrections[name], self._verdict(name), name in resolved, at)

    def _verdict(self, name: str) -> str | None:
        known = self.verdicts.get((name, str(self.version)))
        return max(known)[2] if known else None

    def _decide_on(self, correction: Correction, verdict: str | None, resolved: bool, at: str) -> None:
        shown = correction.shown
        by = {"by": self.by} if self.by else {}
        if shown["status"] in UNFIXED:
            right = verdict == "right" and ("reopenedIn" in shown or self.version != correction.own)
            if right or (verdict is None and resolved):
                how = "pin" if self.how in ("pin", "went-back") else "latest"
                shown.pop("reopenedIn", None)
                shown.update(status="fixed", fixedIn={"version": self.version, "how": how, "at": at} | by)
        elif shown["status"] == "fixed" and verdict == "wrong":
            if "sortedTo" not in shown and not correction.end_user:
                shown.update(sortedTo="improve", sorted={"by": {"kind": "rule"}, "at": at})
            shown["status"] = "with-owner" if shown.get("sortedTo") == "owner" else "open"
            shown["reopenedIn"] = {"version": self.version, "how": self.how, "at": at} | by
