"""A real browser: Debian's chromium with its driver, headless. Tests that need one are skipped where there is none."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver

_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--lang=en",
    "--window-size=900,700",
)


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[webdriver.Chrome]:
    """A browser with a profile of its own, whose console is read with ``get_log("browser")``."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("no browser here: install chromium and chromium-driver to test the widget in one")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for flag in (*_FLAGS, f"--user-data-dir={tmp_path / 'profile'}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(executable_path=driver)
    started = webdriver.Chrome(options=options, service=service)
    try:
        yield started
    finally:
        started.quit()
