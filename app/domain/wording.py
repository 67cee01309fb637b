"""Messages as people read them, in mail and in Slack. Ids may hold any characters, so everything is escaped."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from typing import Any

from app.domain import messages

_MOST_LINES_IN_SLACK = 20
_UNPRINTABLE = re.compile(r"[\x00-\x20\x7f-\xa0\u2028\u2029\u202a-\u202e\u2066-\u2069]+")


@dataclass(frozen=True, slots=True)
class Line:
    """One event in one sentence, with the address of what it is about, if that can be linked to."""

    text: str
    url: str | None = None


@dataclass(frozen=True, slots=True)
class Mail:
    subject: str
    plain: str
    html: str


def correction_url(base_url: str, correction_id: str) -> str:
    """Where the correction is read, with a token. ``base_url`` is the service's own, as people reach it."""
    return f"{base_url.rstrip('/')}/v1/corrections/{correction_id}"


def lines_of(message: dict[str, Any], base_url: str) -> list[Line]:
    """The events in ``message`` (the parsed body), each as one line."""
    events = message["data"]["events"] if message["type"] == messages.DIGEST else [message]
    return [_line(event["type"], event["data"], base_url) for event in events]


def mail(message: dict[str, Any], base_url: str) -> Mail:
    """``message`` as a mail: plain text and HTML that say the same."""
    lines, more = lines_of(message, base_url), _more(message, messages.MOST_IN_DIGEST)
    subject = lines[0].text if message["type"] != messages.DIGEST else f"{message['data']['total']} notifications"
    plain = "\n\n".join([*(f"{line.text}\n{line.url}" if line.url else line.text for line in lines), *more])
    items = "".join(f"<li>{_anchor(line)}</li>" for line in lines)
    rest = "".join(f"<p>{html.escape(text)}</p>" for text in more)
    return Mail(f"[Corrigenda] {subject}"[:200], f"{plain}\n", f"<!doctype html><ul>{items}</ul>{rest}\n")


def slack(message: dict[str, Any], base_url: str) -> str:
    """``message`` as Slack's mrkdwn."""
    lines = lines_of(message, base_url)[:_MOST_LINES_IN_SLACK]
    return "\n".join([*map(_mrkdwn, lines), *_more(message, _MOST_LINES_IN_SLACK)])


def _more(message: dict[str, Any], shown: int) -> list[str]:
    total = message["data"]["total"] if message["type"] == messages.DIGEST else 1
    return [f"… and {total - shown} more."] if total > shown else []


def _line(type: str, data: dict[str, Any], base_url: str) -> Line:
    if type == messages.TEST:
        return Line("This is a test message from Corrigenda.")
    correction_id = data.get("correctionId")
    url = correction_url(base_url, correction_id) if base_url and correction_id else None
    about = f"A correction of {_subject(data)} in project {_one_line(data['projectId'])}"
    return Line(f"{about} {_says(type, data)}", url)


def _says(type: str, data: dict[str, Any]) -> str:
    if type == messages.WITH_OWNER:
        return "waits for its owner."
    if type == messages.FIXED:
        return f"is fixed{_in_version(data.get('fixedIn'))}."
    if type == messages.REOPENED:
        return f"was reopened{_in_version(data.get('reopenedIn'))}."
    if type == messages.SUPERSEDED:
        return "was superseded by a newer one."
    if type == messages.PARKED:
        return f"is parked: {data.get('attempt', 'too many')} attempts to work on it came to nothing."
    return f"has news: {type}."


def _in_version(stamp: dict[str, Any] | None) -> str:
    return f" in version {_one_line(stamp['version'])}" if stamp and "version" in stamp else ""


def _subject(data: dict[str, Any]) -> str:
    subject = data["subject"]
    words = [subject["kind"], subject["id"], subject.get("version", "")]
    return " ".join(_one_line(word) for word in words if word)


def _one_line(text: str) -> str:
    """``text`` without line breaks and what turns the reading direction, cut at 80 characters."""
    text = _UNPRINTABLE.sub(" ", text).strip()
    return text if len(text) <= 80 else text[:79] + "…"


def _anchor(line: Line) -> str:
    text = html.escape(line.text)
    return f'<a href="{html.escape(line.url)}">{text}</a>' if line.url else text


def _mrkdwn(line: Line) -> str:
    text = _slack_escape(line.text)
    return f"• <{_slack_escape(line.url)}|{text}>" if line.url else f"• {text}"


def _slack_escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
