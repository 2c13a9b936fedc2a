# SPDX-License-Identifier: Apache-2.0
# dashboard_page.py FILE SHOTS - opens the link of `jobctl dashboard` in Chromium and checks the pages as a user sees
# them
import pathlib
import sys
import time

here = sys.path.pop(0)     # json.py beside this file is not the module
import json  # noqa: F401
sys.path.append(here)
from dashboard_browser import Browser, By, Keys, webdriver

link, shots = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
page = Browser(shots, sys.argv[3], sys.argv[4])
browser, until, texts, keys, complaints = page.driver, page.until, page.texts, page.keys, page.complaints


def look():
    # The file leads to the page, which logs in and forgets the token.
    begin = time.monotonic()
    browser.get(link.as_uri())
    until("the list of jobs", lambda: len(texts(".row.job")) == 3)
    print(f"link to list: {time.monotonic() - begin:.2f} s")
    assert "token" not in browser.current_url, browser.current_url
    assert texts(".row.job .name") == ["fails", "talks", "waits"], texts(".row.job .name")
    assert [t.split(" ")[0] for t in texts(".row.band")] == ["Needs", "Active", "Waiting"], texts(".row.band")
    assert any("<img" in t for t in texts(".row.job .why")), texts(".row.job .why")
    browser.save_screenshot(str(shots / "jobs.png"))

    # By keyboard: j to the second row, Enter opens it.
    keys("j")
    keys("j")
    keys(Keys.ENTER)
    until("the log", lambda: "onerror=alert" in "".join(texts(".log li")))
    until("a curve", lambda: page.run("return document.querySelectorAll('.lane.chart canvas').length") >= 1)
    until("why", lambda: texts(".why-text")[0] != "")
    assert "talks" in texts("h1")[0] and "running" in texts(".state.pill")[0]
    assert any("submitted" in t for t in texts(".event")), texts(".event")
    assert texts(".ledger tr"), "no ledger"
    browser.save_screenshot(str(shots / "job.png"))

    # Nothing of it became markup or ran.
    found = browser.execute_script("return [document.querySelectorAll('main img:not(.sample), main script, main b[onclick]').length, window.hacked]")
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


page.test(look)
