# SPDX-License-Identifier: Apache-2.0
# dashboard_machines.py FILE SHOTS CHROMIUM DRIVER - the page of a machine with four GPUs
import pathlib
import sys

here = sys.path.pop(0)     # json.py beside this file is not the module
import json  # noqa: F401
sys.path.append(here)
from dashboard_browser import Browser, Keys

link = pathlib.Path(sys.argv[1])
page = Browser(pathlib.Path(sys.argv[2]), sys.argv[3], sys.argv[4])


def saying():
    return page.texts(".saying")[0]


def look():
    page.driver.get(link.as_uri())
    page.until("the page", lambda: page.count("#nav a") == 2)
    page.go("#/machines")
    page.ready()
    assert "4 GPUs" in page.texts(".head .hint")[0], page.texts(".head")
    rows = page.texts(".gpus > li:not(.cols)")
    assert "process 1" in rows[2] and page.count(".gpus .out") == 1, rows
    page.until("the load", lambda: "97\u00a0%" in page.texts(".gpus > li:not(.cols)")[0])
    rows = page.texts(".gpus > li:not(.cols)")
    assert "60.0 / 80.0\u00a0GiB" in rows[2] and "61" in rows[0], rows
    assert page.texts(".gpus a.link") == ["job 1 ring", "job 1 ring"], rows
    assert "job 2" in page.texts(".node")[0] and "next in queue" in page.texts(".node")[0], page.texts(".node")
    assert page.count(".matrix .cell.nv") >= 2
    page.until("what NCCL took", lambda: page.count(".matrix .took.shm") == 2)
    assert "host memory" in page.texts(".legend")[0], page.texts(".legend")
    assert "Job ring, not as planned" in page.texts(".nccl")[0] and "NVLink" in page.texts(".nccl")[0], page.texts(".nccl")
    page.run("document.querySelector('.matrix').focus()")
    page.keys(Keys.ARROW_RIGHT)
    page.until("the link of 0 and 1", lambda: "4 NVLinks" in saying() and "NCCL used SHM/direct/direct" in saying())
    page.keys(Keys.ARROW_RIGHT)
    page.until("the link of 0 and 2", lambda: "host" in saying() or "PCIe" in saying())
    page.shot("dashboard-machines")
    assert not page.complaints(), page.complaints()


page.test(look)
