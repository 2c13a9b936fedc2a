# SPDX-License-Identifier: Apache-2.0
# dashboard_hosts.py FILE SHOTS CHROMIUM DRIVER - the GPUs of two hosts on the page of machines
import pathlib
import sys

here = sys.path.pop(0)     # json.py beside this file is not the module
import json  # noqa: F401
sys.path.append(here)
from dashboard_browser import Browser

link = pathlib.Path(sys.argv[1])
page = Browser(pathlib.Path(sys.argv[2]), sys.argv[3], sys.argv[4])


def rows(host):
    return page.texts(f".node[aria-label='{host}'] .gpus > li:not(.cols)")


def look():
    page.driver.get(link.as_uri())
    page.until("the page", lambda: page.count("#nav a") == 2)
    page.go("#/machines")
    page.ready()
    page.until("the load of host one", lambda: any("97\u00a0%" in r for r in rows("one")))
    page.until("the load of host two", lambda: any("12\u00a0%" in r for r in rows("two")))
    assert "61" in rows("one")[0] and "60.0 / 80.0\u00a0GiB" in rows("one")[1], rows("one")
    assert "process 1" in rows("one")[1], rows("one")
    assert "4 GPUs" in page.texts(".head .hint")[0], page.texts(".head")
    page.shot("dashboard-hosts")
    assert not page.complaints(), page.complaints()


page.test(look)
