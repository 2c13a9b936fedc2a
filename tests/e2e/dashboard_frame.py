# SPDX-License-Identifier: Apache-2.0
# dashboard_frame.py FILE SHOTS CHROMIUM DRIVER LINK PORT - the page in frames of http://localhost:PORT, which is named, and of
# http://127.0.0.1:PORT, which is not
import pathlib
import sys

here = sys.path.pop(0)     # json.py beside this file is not the module
import json  # noqa: F401
sys.path.append(here)
from dashboard_browser import Browser

tab, link, port = pathlib.Path(sys.argv[1]).resolve(), sys.argv[5], sys.argv[6]
page = Browser(pathlib.Path(sys.argv[2]), sys.argv[3], sys.argv[4])
page.expected = ["frame-ancestors", "Framing", "404", "favicon", "401", "X-Frame-Options"]
url, token = link.split("#")
root = url.removesuffix("frame")


def embed(host, what, fragment=""):
    page.driver.switch_to.default_content()
    page.driver.get("about:blank")
    page.driver.get(f"http://{host}:{port}/index.html?{what}#{fragment}")
    page.until("the cell", lambda: page.count("#cell") == 1)
    page.driver.switch_to.frame("cell")


def is_refused():
    return page.run("return !document.getElementById('main') && document.documentElement.textContent.includes('refused')")


def look():
    # The page of tabs in no frame, logged in or not; the frame page not in that of a site that was not named.
    page.driver.get(tab.as_uri())
    page.until("the page", lambda: page.count("#nav a") == 2)
    for host, what in [("localhost", root), ("127.0.0.1", root), ("127.0.0.1", url)]:
        embed(host, what)
        page.until(f"no {what} in {host}", is_refused)

    # The named site has the page, but without the token not the session that this browser has in its tab.
    embed("localhost", url)
    page.until("a page without a session", lambda: "not logged in" in "".join(page.texts("#notice")))
    assert page.count(".row.job") == 0

    # With the token it works, follows events, and has stored nothing; the token is gone from the address.
    embed("localhost", url, token)
    page.until("the job in the frame", lambda: page.texts(".row.job .name") == ["framed"])
    page.until("the stream", lambda: "live" in page.texts("#live")[0])
    assert "token" not in page.run("return location.href"), "token in the address"
    assert page.run("return document.cookie + Object.keys(localStorage).join()") == "", "stored"
    page.click("#theme")
    page.go("#/job/1")
    page.ready()
    assert "framed" in page.texts("h1")[0], page.texts("h1")
    page.driver.switch_to.default_content()
    page.shot("frame")

    # Loaded again it has no session: the key was in memory, and the token is used up.
    embed("localhost", url, token)
    page.until("a link that was used", lambda: "used already" in "".join(page.texts("#notice")))
    assert page.count(".row.job") == 0
    assert not page.complaints(), page.complaints()


page.test(look)
