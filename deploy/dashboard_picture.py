# SPDX-License-Identifier: Apache-2.0
# dashboard_picture.py FILE JOB OUT - the page of a job in Chromium, as a picture; FILE is what `jobctl dashboard` printed
import pathlib
import shutil
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "tests/e2e"))    # behind json, of which it has one
from dashboard_browser import Browser

with tempfile.TemporaryDirectory() as shots:
    page = Browser(pathlib.Path(shots), shutil.which("chromium"), shutil.which("chromedriver"))
    page.size(1180, 1060)
    page.driver.get(pathlib.Path(sys.argv[1]).as_uri())
    page.until("the list of jobs", lambda: page.count(".row.job") >= 1)
    page.go("#/job/" + sys.argv[2])
    page.until("the curves", lambda: page.count(".lane.chart canvas") >= 2 and page.count(".mark") >= 2)
    page.until("why", lambda: any(page.texts(".why-text")))
    page.shot("job")
    shutil.copy(pathlib.Path(shots) / "job.png", sys.argv[3])
    page.driver.quit()
