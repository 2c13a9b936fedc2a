# SPDX-License-Identifier: Apache-2.0
# dashboard_browser.py - Chromium for the tests of the dashboard: Browser(SHOTS, CHROMIUM, CHROMEDRIVER)
import os
import sys
import tempfile

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import WebDriverWait
except ImportError:
    print("python3-selenium is not installed")
    sys.exit(77)

WORDS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--window-size=1400,1000")


class Browser:
    def __init__(self, shots, chromium, driver):
        self.shots = shots
        self.expected = []      # parts of what the console may say
        options = webdriver.ChromeOptions()
        options.binary_location = chromium
        for word in (*WORDS, "--user-data-dir=" + tempfile.mkdtemp(dir=shots)):
            options.add_argument(word)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        try:
            self.driver = webdriver.Chrome(service=Service(driver), options=options)
        except Exception as e:
            print(f"Chromium does not start here: {str(e)[:200]}")
            sys.exit(77)

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def until(self, what, condition, seconds=30):
        seconds *= int(os.environ.get("TEST_PATIENCE", "1"))
        WebDriverWait(self.driver, seconds, 0.05).until(lambda b: condition(), what)

    def texts(self, css):
        return self.run("return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)", css)

    def count(self, css):
        return self.run("return document.querySelectorAll(arguments[0]).length", css)

    def click(self, css):
        self.driver.find_element(By.CSS_SELECTOR, css).click()

    def keys(self, *what):
        webdriver.ActionChains(self.driver).send_keys(*what).perform()

    def go(self, fragment):
        self.run("location.hash = arguments[0]", fragment)

    def ready(self, value="1"):
        self.until("the page", lambda: self.run("return document.getElementById('main').dataset.ready ?? ''") >= value)

    def size(self, width, height, phone=False):
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": phone}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        self.until("the size", lambda: self.run("return innerWidth") == width)

    def shot(self, name, whole=False):
        if whole:
            width = self.run("return innerWidth")
            self.size(width, min(4000, self.run("return document.documentElement.scrollHeight")))
        self.driver.save_screenshot(str(self.shots / (name + ".png")))

    # What axe-core finds, by rule and place; it is injected beside the content policy.
    def axe(self, source):
        cdp = self.driver.execute_cdp_cmd
        world = cdp("Page.createIsolatedWorld", {"frameId": cdp("Page.getFrameTree", {})["frameTree"]["frame"]["id"], "worldName": "axe"})
        cdp("Runtime.evaluate", {"expression": source, "contextId": world["executionContextId"]})
        done = cdp("Runtime.evaluate", {"expression": """axe.run(document, {resultTypes: ['violations']}).then(r => JSON.stringify(
            r.violations.map(v => v.id + ': ' + v.nodes.slice(0, 4).map(n => n.html.slice(0, 160) + ' ' + (n.any[0]?.message ?? n.all[0]?.message ?? '')).join(' | '))))""",
            "contextId": world["executionContextId"], "awaitPromise": True, "returnByValue": True})
        return done["result"].get("value", str(done))

    def complaints(self):
        found = [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]
        return [m for m in found if not any(part in m for part in self.expected)]

    def test(self, look):
        try:
            look()
        except BaseException:
            self.shot("failed")
            print(self.driver.current_url, *self.complaints(), sep="\n")
            raise
        finally:
            self.driver.quit()
