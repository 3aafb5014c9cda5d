"""The page in a headless Chromium, offline: it draws, fits a phone, obeys keyboard and themes."""

import itertools
import json
import shutil
from collections.abc import Callable

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

import results_file as make
from nearlab.report import page
from nearlab.report.build import contents_of, open_record

_OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--disable-quic",
    "--window-size=1280,900",
)
_SECONDS = 60  # the limit for a condition on a busy machine

_NAMES = ("nearmalloc", "glibc", "limit", "jemalloc", "rpmalloc", "tbb")
_COMPARED = 5  # the limit allocator did not complete every cell
_GROUPS = 2  # real programs and own workloads: a panel each
_POINTS = _GROUPS * _COMPARED

_MISSING = [name for name in ("chromium", "chromedriver") if not shutil.which(name)]
pytestmark = pytest.mark.skipif(bool(_MISSING), reason=f"not installed: {', '.join(_MISSING)}")


@pytest.fixture(scope="module")
def address(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("page")
    path = make.write(folder / "quick" / "20261121-100000.jsonl", make.rich_lines(_NAMES, rounds=5))
    analysis, frame = open_record(path)
    file = folder / "alone.html"
    file.write_text(page.render(analysis, frame, contents_of(analysis, frame)), encoding="utf-8")
    assert file.stat().st_size < 5_000_000
    return file.as_uri()


@pytest.fixture(scope="module")
def chromium():
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for option in _OPTIONS:
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    yield driver
    driver.quit()


@pytest.fixture
def browser(chromium, address):
    """The page, freshly opened on a light screen of 1280 pixels."""
    _screen(chromium, 1280, "light")
    for log in ("browser", "performance"):
        chromium.get_log(log)
    chromium.get(address)
    return chromium


def _screen(driver, width: int, scheme: str) -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)


def _wait(driver, condition: str | Callable):
    """Waits until a JavaScript expression or a function of the driver is true; returns it."""
    if callable(condition):
        return WebDriverWait(driver, _SECONDS).until(condition)
    return WebDriverWait(driver, _SECONDS).until(
        lambda found: found.execute_script(f"return {condition}")
    )


def _draw_all(driver) -> None:
    """Scrolls every chart into view, so that it is drawn."""
    for chart in driver.find_elements(By.CSS_SELECTOR, ".chart"):
        driver.execute_script("arguments[0].scrollIntoView()", chart)
        _wait(driver, lambda _, one=chart: one.find_elements(By.CSS_SELECTOR, "svg"))


def _marks(driver, figure: str) -> int:
    """The number of symbols and bars in a figure."""
    query = f"#{figure} svg .mark-symbol path, #{figure} svg .mark-rect.role-mark path"
    return len(driver.find_elements(By.CSS_SELECTOR, query))


def test_all_charts_are_drawn_without_a_word_on_the_console_or_a_request(browser, address):
    _draw_all(browser)
    assert _marks(browser, "time-against-memory") == _POINTS
    assert _marks(browser, "time-ratios") >= _GROUPS * (_COMPARED - 1)
    assert _marks(browser, "threadtest-speedup") >= 6 * 5
    lines = browser.find_elements(By.CSS_SELECTOR, "#fragmentation-curve svg .mark-line path")
    assert len(lines) >= 5
    assert browser.get_log("browser") == []
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [
        message["params"]["request"]["url"]
        for message in messages
        if message["method"] == "Network.requestWillBeSent"
    ]
    assert [url for url in asked if not url.startswith("data:")] == [address]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_needs_no_horizontal_scrolling(browser, address, scheme):
    _screen(browser, 360, scheme)
    browser.get(address)
    _draw_all(browser)
    widths = "[document.documentElement.scrollWidth, document.body.scrollWidth]"
    assert browser.execute_script(f"return {widths}") == [360, 360]
    heat = browser.find_element(By.CSS_SELECTOR, "#heat-map-time .scroll")
    wide = browser.execute_script("return arguments[0].scrollWidth > 360", heat)
    assert wide and heat.get_attribute("tabindex") == "0"
    browser.execute_script("arguments[0].scrollLeft = 200", heat)
    assert browser.execute_script("return arguments[0].scrollLeft", heat) == 200
    assert browser.get_log("browser") == []


def _background(driver) -> str:
    return driver.execute_script("return getComputedStyle(document.body).backgroundColor")


def _axis_color(driver) -> str:
    query = "#time-against-memory svg .role-axis-label text"
    found = driver.find_elements(By.CSS_SELECTOR, query)
    return found[0].get_attribute("fill") if found else ""


def test_the_dark_scheme_changes_page_and_charts(browser):
    light = _background(browser)
    _wait(browser, lambda driver: _axis_color(driver) == "#1b1f24")
    _screen(browser, 1280, "dark")
    _wait(browser, lambda driver: _background(driver) != light)
    _wait(browser, lambda driver: _axis_color(driver) == "#e8ebef")


def test_the_button_changes_the_theme_and_says_so(browser):
    button = browser.find_element(By.ID, "theme")
    light = _background(browser)
    assert button.get_attribute("aria-pressed") == "false"
    button.send_keys(Keys.ENTER)
    assert button.get_attribute("aria-pressed") == "true" and _background(browser) != light
    _wait(browser, lambda driver: _axis_color(driver) == "#e8ebef")
    button.click()
    assert button.get_attribute("aria-pressed") == "false" and _background(browser) == light


def test_an_allocator_can_be_hidden_everywhere(browser):
    _wait(browser, lambda driver: _marks(driver, "time-against-memory") == _POINTS)
    box = browser.find_element(By.CSS_SELECTOR, "#filter input[data-name=tbb]")
    box.send_keys(Keys.SPACE)
    _wait(browser, lambda driver: _marks(driver, "time-against-memory") == _POINTS - _GROUPS)
    heads = browser.find_elements(By.CSS_SELECTOR, "#heat-map-time thead th")
    assert [one.text for one in heads if not one.is_displayed()] != []
    assert "tbb" not in [one.text for one in heads if one.is_displayed()]
    browser.find_element(By.ID, "everyone").click()
    _wait(browser, lambda driver: _marks(driver, "time-against-memory") == _POINTS)
    assert box.is_selected()


def test_tab_reaches_every_control_in_order(browser):
    reached = []
    for _ in range(24):
        browser.switch_to.active_element.send_keys(Keys.TAB)
        active = browser.switch_to.active_element
        reached.append(
            active.get_attribute("id") or active.get_attribute("data-name") or active.text
        )
        outline = browser.execute_script(
            "return getComputedStyle(arguments[0]).outlineStyle", active
        )
        assert outline != "none", f"no focus is to be seen on {reached[-1]}"
    assert reached[:2] == ["Skip to the report", "theme"]
    wanted = ["Verdict", "nearmalloc", "glibc", "tbb", "everyone"]
    places = [reached.index(name) for name in wanted]
    assert places == sorted(places)


def test_the_structure_serves_who_cannot_see_it(browser):
    _draw_all(browser)
    script = """return {
      headings: [...document.querySelectorAll("h1, h2, h3, h4")].map((one) => +one.tagName[1]),
      charts: [...document.querySelectorAll(".chart")].filter(
        (one) => !one.closest("[role=img]")?.getAttribute("aria-label")).length,
      bare: [...document.querySelectorAll("figure")].filter(
        (one) => !one.querySelector("details table") || !one.querySelector("figcaption")).length,
      ids: [...document.querySelectorAll("[id]")].map((one) => one.id),
      broken: [...document.querySelectorAll("a")].filter(
        (one) => !document.getElementById(one.hash.slice(1))).length,
      language: document.documentElement.lang,
    }"""
    found = browser.execute_script(script)
    levels = found["headings"]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(b <= a + 1 for a, b in itertools.pairwise(levels))
    assert (found["charts"], found["bare"], found["broken"]) == (0, 0, 0)
    assert found["language"] == "en"
    ids = [name for name in found["ids"] if not name.startswith("clip")]
    assert len(ids) == len(set(ids))


def test_failures_and_doubts_are_told(browser):
    text = browser.find_element(By.ID, "doubts").text
    for words in ("ended by SIGSEGV", "timed out", "no package", "not built", "insensitive"):
        assert words in text
    cell = browser.find_element(By.CSS_SELECTOR, "#heat-map-time td.none[title*='realloc, tbb']")
    assert cell.text == "failed"
    assert browser.find_elements(By.CSS_SELECTOR, "#heat-map-time td[title*='noisy']")


def test_the_numbers_can_be_saved(browser):
    text = browser.find_element(By.ID, "csv-time-against-memory").get_attribute("textContent")
    header, *rows = text.strip().splitlines()
    assert header.startswith("cell,allocator,metric,unit") and len(rows) == 2 * _POINTS
    details = browser.find_element(By.CSS_SELECTOR, "#time-against-memory summary")
    details.send_keys(Keys.ENTER)
    assert browser.find_element(By.CSS_SELECTOR, "#time-against-memory .csv").is_displayed()
