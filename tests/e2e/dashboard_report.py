# SPDX-License-Identifier: Apache-2.0
# dashboard_report.py FILE SHOTS CHROMIUM DRIVER HOSTILE - a report opened from a file, without a daemon: all of the page of a job
import pathlib
import sys

sys.path.append(sys.path.pop(0))    # json.py beside this file is not the module
from dashboard_browser import Browser

files = [pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[5])]
page = Browser(pathlib.Path(sys.argv[2]), sys.argv[3], sys.argv[4])


def inked():        # canvases of curves with a stroke of the accent's colour
    return page.run("""return [...document.querySelectorAll('.lane.chart canvas')].filter(c => {
        const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
        for (let i = 0; i < d.length; i += 4) if (d[i + 3] > 128 && Math.abs(d[i] - d[i + 2]) > 80) return true;
        return false;
    }).length""")


def look():
    page.driver.get(files[0].as_uri())
    page.ready()
    assert "the run is complete" in page.texts(".why-text")[0], page.texts(".why-text")
    page.until("lines in the curves", lambda: inked() >= 4)
    page.until("the last pictures", lambda: page.run("return document.querySelector('.sample')?.naturalWidth > 50"))
    assert page.count(".trust.written") == 3 and len(page.texts(".events .event")) > 8
    page.until("the end of the log", lambda: page.count(".log li") > 0)
    assert page.count(".title .btn") == 2 and not page.run("return document.querySelector('.title .end').offsetParent")
    page.shot("report")
    page.driver.get(files[1].as_uri())
    page.ready()
    page.until("its log", lambda: any("<script>window.hacked = 1" in t for t in page.texts(".log .line")))
    assert not page.run("return window.hacked") and "[redacted]" in "".join(page.texts(".log .line"))
    assert not page.complaints(), page.complaints()


page.test(look)
