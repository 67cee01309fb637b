from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from app.domain import wording
from app.domain.messages import DIGEST, EVENTS, FIXED, PARKED, REOPENED, TEST, WITH_OWNER, Word, message

NOW = datetime(2026, 1, 31, 12, 0, 0, 123999, tzinfo=UTC)


def data(**over: Any) -> dict[str, Any]:
    return {
        "correctionId": "c-1",
        "projectId": "p",
        "runId": "r-1",
        "subject": {"kind": "agent", "id": "support", "version": "1.0.0"},
        "status": "with-owner",
    } | over


def word(type: str = WITH_OWNER, about: str = "c-1", **over: Any) -> Word:
    return Word(type, about, "1", NOW, "p", (), data(correctionId=about, **over))


def digest(count: int, total: int | None = None) -> dict[str, Any]:
    bodies = [word(about=f"c-{n}").body for n in range(count)]
    parsed: dict[str, Any] = json.loads(message(WITH_OWNER, bodies, total or count, NOW).body)
    return parsed


def test_one_word_comes_as_itself() -> None:
    alone = message(FIXED, [word(FIXED).body], 1, NOW)
    assert alone.type == FIXED
    assert json.loads(alone.body) == {"type": FIXED, "timestamp": "2026-01-31T12:00:00.123Z", "data": data()}


def test_many_come_as_a_digest_that_shows_a_hundred_and_counts_all() -> None:
    several = digest(3)
    assert (several["type"], several["data"]["total"]) == (DIGEST, 3)
    assert [event["data"]["correctionId"] for event in several["data"]["events"]] == ["c-0", "c-1", "c-2"]
    assert several["data"]["events"][0]["type"] == WITH_OWNER
    many = digest(100, 4321)
    assert (many["data"]["total"], len(many["data"]["events"])) == (4321, 100)
    assert len(digest(120)["data"]["events"]) == 100


def test_words_are_told_apart_by_type_thing_and_time() -> None:
    words = [word(), word(FIXED), word(about="c-2"), Word(WITH_OWNER, "c-1", "2", NOW, "p", ())]
    assert len({one.sha256 for one in words}) == 4
    assert word().sha256 == word(status="other").sha256


def test_mail_says_what_happened_with_a_link() -> None:
    mail = wording.mail(json.loads(word(FIXED, fixedIn={"version": "1.1.0"}).body), "https://c.example/")
    assert mail.subject == "[Corrigenda] A correction of agent support 1.0.0 in project p is fixed in version 1.1.0."
    assert "https://c.example/v1/corrections/c-1" in mail.plain
    assert '<a href="https://c.example/v1/corrections/c-1">' in mail.html
    assert "http" not in wording.mail(json.loads(word().body), "").plain, "no address of ours, no link"


def test_a_digest_as_mail_lists_a_hundred_and_says_how_many_more() -> None:
    mail = wording.mail(digest(100, 200), "https://c.example")
    assert mail.subject == "[Corrigenda] 200 notifications"
    assert mail.html.count("<li>") == 100
    assert mail.plain.count("waits for its owner") == 100
    assert "and 100 more" in mail.plain
    assert "and 100 more" in mail.html


def test_slack_shows_the_first_of_many() -> None:
    text = wording.slack(digest(100, 4321), "https://c.example")
    assert len(text.splitlines()) == 21
    assert text.endswith("… and 4301 more.")
    assert text.startswith("• <https://c.example/v1/corrections/c-0|A correction of agent support 1.0.0")


def test_parked_reopened_and_test_have_words_of_their_own() -> None:
    def says(type: str, **over: Any) -> str:
        return wording.lines_of(json.loads(word(type, **over).body), "")[0].text

    assert says(PARKED, attempt=5).endswith("is parked: 5 attempts to work on it came to nothing.")
    assert says(REOPENED, reopenedIn={"version": "2"}).endswith("was reopened in version 2.")
    test = {"type": TEST, "timestamp": "x", "data": {"endpointId": "e"}}
    assert wording.lines_of(test, "https://c.example") == [wording.Line("This is a test message from Corrigenda.")]


anything = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=60)


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        assert [name for name, _ in attrs] in ([], ["href"])


@given(anything, anything, anything, st.sampled_from(EVENTS))
def test_no_id_breaks_out_of_its_line(subject_id: str, version: str, project: str, type: str) -> None:
    over = {"subject": {"kind": "flow", "id": subject_id, "version": version}, "projectId": project}
    parsed = json.loads(word(type, **over).body)
    mail = wording.mail(parsed, "https://c.example")
    assert set(Tags(mail.html).tags) <= {"ul", "li", "a"}
    assert not re.search(r"[\x00-\x1f\x7f\u2028\u2029\u202a-\u202e]", mail.subject)
    slack = wording.slack(parsed, "https://c.example")
    assert "\n" not in slack
    assert slack.count("<") == slack.count(">") == (0 if type == TEST else 1)
    assert not re.search(r"&(?!amp;|lt;|gt;)", slack)
