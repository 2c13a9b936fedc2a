# SPDX-License-Identifier: Apache-2.0
# dashboard_page.py FILE SHOTS - opens the link of `jobctl dashboard` in Chromium and looks at the pages as a user does
import pathlib
import sys
import time

del sys.path[0]     # json.py beside this file is not the module

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

link, shots = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
options = webdriver.ChromeOptions()
options.binary_location = sys.argv[3]
for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1400,900",
             "--no-first-run", "--disable-background-networking", f"--user-data-dir={shots / 'profile'}"):
    options.add_argument(word)
options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
try:
    from selenium.webdriver.chrome.service import Service
    browser = webdriver.Chrome(service=Service(sys.argv[4]), options=options)
except Exception as e:
    print(f"Chromium does not start here: {str(e)[:200]}")
    sys.exit(77)


def until(what, condition, seconds=30):
    WebDriverWait(browser, seconds, 0.05).until(lambda b: condition(), what)


def texts(css):
    return browser.execute_script("return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)", css)


def keys(*what):
    webdriver.ActionChains(browser).send_keys(*what).perform()


def complaints():
    return [entry["message"] for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]


def look():
    # The file leads to the page, which logs in and forgets the token.
    begin = time.monotonic()
    browser.get(link.as_uri())
    until("the list of jobs", lambda: len(texts(".row.job")) == 3)
    print(f"link to list: {time.monotonic() - begin:.2f} s")
    assert "token" not in browser.current_url, browser.current_url
    assert texts(".row.job .name")[0].endswith("talks"), texts(".row.job .name")
    assert any("<img" in t for t in texts(".row.job .why")), texts(".row.job .why")
    browser.save_screenshot(str(shots / "jobs.png"))

    # By keyboard: j to the first row, Enter opens it.
    keys("j")
    keys(Keys.ENTER)
    until("the log", lambda: "onerror=alert" in "".join(texts("pre.log")))
    until("a curve", lambda: len(texts(".chart path.curve")) >= 1)
    until("why", lambda: texts(".why-text")[0] != "")
    assert "talks" in texts("h1")[0] and "running" in texts(".state.pill")[0]
    assert any("submitted" in t for t in texts(".event")), texts(".event")
    assert texts(".ledger tr"), "no ledger"
    box = browser.find_element(By.CSS_SELECTOR, ".chart path.curve").rect
    assert box["width"] > 50 and box["height"] > 20, box
    browser.save_screenshot(str(shots / "job.png"))

    # Nothing of it became markup or ran.
    found = browser.execute_script("return [document.querySelectorAll('main img, main script, main b[onclick]').length, window.hacked]")
    assert found == [0, None], found

    # A second load of the page is logged in; the file is not a login any more.
    browser.get(browser.current_url.split("#")[0])
    browser.refresh()
    until("the list again", lambda: len(texts(".row.job")) == 3)

    # Phone: no sideways scrolling.
    browser.set_window_size(500, 844)
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True})
    until("cards", lambda: browser.execute_script("return innerWidth") == 390)
    wide = browser.execute_script("return document.documentElement.scrollWidth")
    assert wide <= 390, wide
    browser.save_screenshot(str(shots / "phone.png"))
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.set_window_size(1400, 900)
    browser.find_element(By.ID, "theme").click()
    browser.save_screenshot(str(shots / "dark.png"))

    # Filters and search.
    box = browser.find_element(By.CSS_SELECTOR, "input[type=search]")
    box.send_keys("talks")
    until("one row", lambda: len(texts(".row.job")) == 1)
    box.send_keys(Keys.BACKSPACE * 5)
    until("all rows", lambda: len(texts(".row.job")) == 3)

    # Cancel asks first.
    browser.execute_script("[...document.querySelectorAll('.row.job')].find(r => r.textContent.includes('talks')).querySelector('input').click()")
    button = ".pick .btn.stop"
    until("the actions", lambda: len(texts(button)) == 1)
    browser.find_element(By.CSS_SELECTOR, button).click()
    until("the question", lambda: len(texts("dialog p")) == 1)
    browser.find_element(By.CSS_SELECTOR, "dialog .btn:not(.stop)").click()
    until("no question", lambda: not texts("dialog"))
    assert "cancelled" not in "".join(texts(".row.job .state"))
    browser.find_element(By.CSS_SELECTOR, button).click()
    browser.find_element(By.CSS_SELECTOR, "dialog .btn.stop").click()
    until("a cancelled job", lambda: "cancelled" in "".join(texts(".row.job .state")))
    seen = complaints()
    assert not seen, seen


try:
    look()
except BaseException:
    browser.save_screenshot(str(shots / "failed.png"))
    print(browser.current_url, *complaints(), sep="\n")
    raise
finally:
    browser.quit()
