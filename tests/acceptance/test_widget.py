"""The widget in a real browser: on the example page, from another origin, with a participant's token alone."""

from __future__ import annotations

import dataclasses
import runpy
import threading
from collections.abc import Callable, Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import ActionChains, Chrome, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from werkzeug.serving import WSGIRequestHandler, make_server

from app.config import Settings
from app.wsgi import create_app
from tests.client import Client
from tests.operation.machine import wait_for

pytestmark = pytest.mark.slow

EXAMPLE = Path(__file__).parents[2] / "examples" / "widget" / "server.py"
WORDS = "It should have said:\n“Friday it is.” — שישי"


class Quiet(WSGIRequestHandler):
    def log(self, type: str, message: str, *args: Any) -> None:
        pass


class LosingAnswers:
    """A network in front of the service that loses the answers to the next ``lose`` recordings: they took effect, and
    the page can't know. ``keys`` are the idempotency keys that came."""

    def __init__(self, app: Callable[..., Any]) -> None:
        self._app = app
        self.lose = 0
        self.keys: list[str] = []

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        if (environ["REQUEST_METHOD"], environ["PATH_INFO"]) != ("POST", "/v1/corrections"):
            return self._app(environ, start_response)
        self.keys.append(environ.get("HTTP_IDEMPOTENCY_KEY", ""))
        if self.lose == 0:
            return self._app(environ, start_response)
        self.lose -= 1
        answer = self._app(environ, lambda *_: None)
        b"".join(answer)
        answer.close()
        start_response("502 Bad Gateway", [("Content-Type", "text/plain")])
        return [b"lost"]


def serving(server: Any) -> Iterator[Any]:
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def page(admin: Client) -> Iterator[Any]:
    """The example's server, on an origin of its own; it is told where the service is by ``show``."""
    example = runpy.run_path(str(EXAMPLE))
    server = ThreadingHTTPServer(("127.0.0.1", 0), lambda *_: None)  # type: ignore[arg-type, return-value]

    def show(service: str) -> Any:
        shop = example["Shop"](service, admin.secret)
        shop.run_the_agent()
        server.RequestHandlerClass = example["handler_of"](shop)
        return shop

    server.show = show  # type: ignore[attr-defined]
    yield from serving(server)


@pytest.fixture
def network(settings: Settings, page: ThreadingHTTPServer) -> Iterator[tuple[str, LosingAnswers]]:
    """The service, which lets the page's origin in, behind a network that may lose answers."""
    origin = f"http://127.0.0.1:{page.server_port}"
    losing = LosingAnswers(create_app(dataclasses.replace(settings, cors_origins=(origin,))))
    for server in serving(make_server("127.0.0.1", 0, losing, threaded=True, request_handler=Quiet)):
        yield f"http://127.0.0.1:{server.server_port}", losing


class Widget:
    """The widget as its user meets it."""

    def __init__(self, browser: Chrome) -> None:
        self.browser = browser

    def named(self, name: str) -> WebElement:
        """The button, or field, that is called ``name``; it must be seen. Names follow the page a moment later."""
        wait_for(lambda: len(self._named(name)) == 1, 20)
        return self._named(name)[0]

    def _named(self, name: str) -> list[WebElement]:
        return [
            element
            for element in self.browser.find_elements(By.CSS_SELECTOR, ".corrigenda button, .corrigenda textarea")
            if element.is_displayed() and element.accessible_name == name
        ]

    @property
    def should(self) -> WebElement:
        return self.named("What should it have said?")

    @property
    def status(self) -> str:
        return self.browser.find_element(By.CSS_SELECTOR, ".corrigenda [role=status]").text

    def wait_for_status(self, start: str) -> None:
        wait_for(lambda: self.status.startswith(start), 20)

    def pressed(self) -> list[str]:
        return [e.text for e in self.browser.find_elements(By.CSS_SELECTOR, ".corrigenda [aria-pressed=true]")]

    @property
    def focused(self) -> str:
        return self.browser.switch_to.active_element.accessible_name


@pytest.fixture
def widget(browser: Chrome, page: Any, network: tuple[str, LosingAnswers], admin: Client) -> Widget:
    shop = page.show(network[0])
    browser.get(f"http://127.0.0.1:{page.server_port}/")
    widget = Widget(browser)
    widget.run_id = shop.run_id  # type: ignore[attr-defined]
    return widget


def recorded(admin: Client, widget: Any) -> list[dict[str, Any]]:
    return list(admin.get(f"/v1/corrections?runId={widget.run_id}").json["data"])


def complaints(browser: Chrome) -> list[str]:
    """What the browser says of scripts, policies and failed requests."""
    return [line["message"] for line in browser.get_log("browser")]


def test_what_was_typed_survives_a_failure_and_is_recorded_once(
    widget: Any, network: tuple[str, LosingAnswers], admin: Client
) -> None:
    _, losing = network
    losing.lose = 2
    widget.named("Wrong").click()
    assert widget.focused == "What should it have said?"
    widget.should.send_keys(WORDS)
    widget.named("Send").click()
    widget.wait_for_status("That didn’t get through.")
    assert widget.should.get_property("value") == WORDS
    assert widget.pressed() == []
    widget.named("Try again").click()
    wait_for(lambda: losing.lose == 0)
    widget.wait_for_status("That didn’t get through.")
    assert widget.should.get_property("value") == WORDS
    widget.named("Try again").click()
    widget.wait_for_status("Thank you. Recorded: the answer was wrong.")
    assert (widget.pressed(), widget.focused) == (["Wrong"], "Wrong")
    (correction,) = recorded(admin, widget)
    assert (correction["answer"], correction["shouldSay"]) == ("wrong", WORDS)
    assert correction["participantId"]
    assert "supersededBy" not in str(correction)
    assert len(losing.keys) == 3
    assert len(set(losing.keys)) == 1


def test_a_double_click_is_one_press(
    widget: Any, network: tuple[str, LosingAnswers], admin: Client, browser: Chrome
) -> None:
    press = "arguments[0].dispatchEvent(new MouseEvent('click', {bubbles: true, detail: arguments[1]}))"
    browser.execute_script(press, widget.named("Right"), 1)
    widget.wait_for_status("Thank you. Recorded: the answer was right.")
    browser.execute_script(press, widget.named("Right"), 2)
    ActionChains(browser).double_click(widget.named("Wrong")).perform()
    assert widget.focused == "What should it have said?"
    assert widget.should.is_displayed()
    assert widget.status == "Thank you. Recorded: the answer was right."
    assert (len(recorded(admin, widget)), len(network[1].keys)) == (1, 1)


def test_one_may_change_ones_mind_by_keyboard_alone(widget: Any, admin: Client, browser: Chrome) -> None:
    def press(*keys: str) -> None:
        browser.switch_to.active_element.send_keys(*keys)

    press(Keys.TAB)
    assert widget.focused == "Right"
    press(Keys.ENTER)
    widget.wait_for_status("Thank you. Recorded: the answer was right.")
    press(Keys.TAB)
    press(Keys.SPACE)
    press(Keys.TAB, Keys.TAB)
    assert widget.focused == "Send"
    press(Keys.ENTER)
    widget.wait_for_status("Please fill in one of the two.")
    assert widget.focused == "What should it have said?"
    press("Friday.")
    press(Keys.TAB)
    press("It is late.")
    press(Keys.TAB)
    press(Keys.ENTER)
    widget.wait_for_status("Thank you. Recorded: the answer was wrong.")
    assert (widget.pressed(), widget.focused) == (["Wrong"], "Wrong")
    (live,) = recorded(admin, widget)
    assert (live["answer"], live["shouldSay"], live["why"]) == ("wrong", "Friday.", "It is late.")
    assert complaints(browser) == []


def test_who_comes_back_sees_what_they_said(widget: Any, browser: Chrome) -> None:
    widget.named("Wrong").click()
    browser.execute_script("arguments[0].value = ' Friday.\\0\\ud800 '", widget.should)
    widget.named("Send").click()
    widget.wait_for_status("Thank you.")
    browser.refresh()
    wait_for(lambda: widget.pressed() == ["Wrong"])
    widget.named("Wrong").click()
    assert widget.should.get_property("value") == "Friday."


def test_an_expired_token_is_told_and_nothing_is_lost(widget: Any, browser: Chrome) -> None:
    browser.execute_script("document.querySelector('[data-corrigenda]').dataset.token = 'cgp_old'")
    widget.named("Wrong").click()
    widget.should.send_keys("Friday.")
    widget.named("Send").click()
    widget.wait_for_status("This page was open for too long.")
    assert widget.should.get_property("value") == "Friday."


def test_a_page_renews_tokens_and_says_it_in_its_own_words(widget: Any, admin: Client, browser: Chrome) -> None:
    browser.execute_script(
        """
        const old = document.querySelector("[data-corrigenda]");
        const element = document.createElement("div");
        Object.assign(element.dataset, { textRight: "نعم", textWrong: "لا", lang: "ar", dir: "rtl" });
        old.replaceWith(element);
        const tokens = ["cgp_old", "cgp_old", old.dataset.token];
        const token = async () => tokens.length > 1 ? tokens.shift() : tokens[0];
        Corrigenda.mount(element, { run: old.dataset.run, token });
        """
    )
    root = browser.find_element(By.CSS_SELECTOR, ".corrigenda")
    assert (root.get_attribute("lang"), root.get_attribute("dir")) == ("ar", "rtl")
    right, wrong = widget.named("نعم"), widget.named("لا")
    assert right.location["x"] > wrong.location["x"]
    right.click()
    widget.wait_for_status("Thank you.")
    assert [row["answer"] for row in recorded(admin, widget)] == ["right"]


def test_the_page_holds_no_other_token_and_its_policy_is_kept(widget: Any, admin: Client, browser: Chrome) -> None:
    wait_for(lambda: len(browser.find_elements(By.CSS_SELECTOR, ".corrigenda")) == 1)
    assert admin.secret is not None
    assert admin.secret not in browser.page_source
    rounded = browser.find_element(By.CSS_SELECTOR, ".corrigenda-right").value_of_css_property("border-radius")
    assert rounded != "0px", "the widget's own style applies under the page's policy"
    assert browser.find_elements(By.CSS_SELECTOR, "style, .corrigenda [style]") == []
    assert complaints(browser) == []
