from __future__ import annotations

import pytest

from app.domain.links import is_address, link_text, name_of


def test_a_link_is_one_text_and_one_name() -> None:
    assert link_text("improve-run", 'a"b') == '{"kind":"improve-run","id":"a\\"b"}'
    assert name_of(link_text("improve-run", 'a"b')) == 'improve-run:a"b'
    assert name_of(link_text("pull-request", "https://x.test/1")) == "https://x.test/1"


@pytest.mark.parametrize(
    "url", ["https://example.com/pull/7", "http://localhost:3000/x?y=1#z", "https://[::1]/x", "https://例え.jp/a"]
)
def test_addresses(url: str) -> None:
    assert is_address(url)


@pytest.mark.parametrize(
    "url",
    [
        "", "7", "/pull/7", "example.com/pull/7", "https://", "https:///x", "ftp://x.test", "javascript:alert(1)",
        "https://x.test/a b", "https://x.test/\n", "https://[::1", '"https://x.test"', "http://x.test/<script>",
    ],
)  # fmt: skip
def test_no_addresses(url: str) -> None:
    assert not is_address(url)
