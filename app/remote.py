"""A running service, as its callers see it: over HTTP, with a token."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self

import httpx

from app.failure import Failure

_TRIES = 8
_LONGEST_WAIT = 15.0
_PASSING = frozenset({429, 502, 503, 504})
_TIMEOUT = httpx.Timeout(10, read=300)


class Remote:
    """The service at ``url``, as ``token`` may use it. Once met, it is tried again for a while when away or busy."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url.rstrip("/")
        self._met = False
        headers = {"Authorization": f"Bearer {token}"}
        try:
            known = httpx.URL(self.url).scheme in ("http", "https")
            self._client = httpx.Client(base_url=self.url, headers=headers, timeout=_TIMEOUT, trust_env=False)
        except (httpx.InvalidURL, ValueError) as error:
            raise Failure(_no_address(url)) from error
        if not known:
            raise Failure(_no_address(url))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def send(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        params: Any = None,
    ) -> httpx.Response:
        """One request, sent again while the service can't take it: only what may safely be sent twice.

        :raises Failure: if it stays away, or refuses the token.
        """
        for attempt in range(1, _TRIES + 1):
            try:
                answer = self._client.request(method, path, json=json, content=content, headers=headers, params=params)
            except httpx.TransportError as error:
                problem, wait = str(error) or type(error).__name__, 0.0
                if not self._met:
                    break
            else:
                self._met = True
                if answer.status_code not in _PASSING:
                    return self._admitted(answer)
                problem, wait = error_of(answer), _seconds(answer.headers.get("Retry-After"))
            if attempt < _TRIES:
                time.sleep(min(max(wait, 0.25 * 2**attempt), _LONGEST_WAIT))
        raise Failure(f"{self.url} can't be reached: {problem}")

    def get(self, path: str, **params: Any) -> Any:
        """The JSON that is at ``path``."""
        return accepted(self.send("GET", path, params=params)).json()

    @contextmanager
    def streamed(self, path: str, params: Any) -> Iterator[Iterator[bytes]]:
        """The body that is at ``path``, piece by piece."""
        try:
            with self._client.stream("GET", path, params=params) as answer:
                if not answer.is_success:
                    answer.read()
                accepted(self._admitted(answer))
                yield answer.iter_bytes()
        except httpx.ConnectError as error:
            raise Failure(f"{self.url} can't be reached: {error}") from error
        except httpx.TransportError as error:
            raise Failure(f"{self.url} broke off: {error or type(error).__name__}") from error

    def _admitted(self, answer: httpx.Response) -> httpx.Response:
        if answer.status_code == 401:
            raise Failure(f"{self.url} refuses the token: {error_of(answer)}")
        return answer


def accepted(answer: httpx.Response) -> httpx.Response:
    """``answer``, if it isn't an error.

    :raises Failure: with what the service says.
    """
    if not answer.is_success:
        raise Failure(f"{answer.request.method} {answer.request.url.path}: {error_of(answer)}")
    return answer


def error_of(answer: httpx.Response) -> str:
    """What an answer says went wrong: ``code: message``."""
    try:
        error = answer.json()["error"]
        return f"{error['code']}: {error['message']}"
    except (ValueError, KeyError, TypeError):
        return f"HTTP status {answer.status_code}, and not an answer of Corrigenda"


def _no_address(url: str) -> str:
    return f"{url} isn't an address such as http://127.0.0.1:8400."


def _seconds(text: str | None) -> float:
    return float(text) if text is not None and text.isdigit() else 0.0
