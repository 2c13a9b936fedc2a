# SPDX-License-Identifier: Apache-2.0
# dashboard_slow.py FILE SHOTS CHROMIUM DRIVER OVER - a failed job, a job that hung, and both over a slow network; the file
# OVER ends the second one
import pathlib
import sys

here = sys.path.pop(0)     # json.py beside this file is not the module
import json  # noqa: F401
sys.path.append(here)
from dashboard_browser import Browser, By

link, over = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[5])
page = Browser(pathlib.Path(sys.argv[2]), sys.argv[3], sys.argv[4])
page.expected = ["404 (Not Found)"]

# Requests that are under way, without streams; the most at a time, the most of one path at a time, and how many there were.
COUNT = """
const real = window.fetch, now = new Map();
window.requests = { most: 0, same: 0, all: 0 };
window.fetch = async (where, how) => {
  const path = String(where).split("?")[0];
  if (path.endsWith("/live")) return real(where, how);
  const seen = window.requests;
  now.set(path, (now.get(path) ?? 0) + 1);
  seen.all++;
  seen.most = Math.max(seen.most, [...now.values()].reduce((a, b) => a + b, 0));
  seen.same = Math.max(seen.same, now.get(path));
  try { return await real(where, how); } finally { now.set(path, now.get(path) - 1); }
};
"""


def evidence():
    if not page.run("return document.querySelector('details').open"):
        page.click("details summary")
    return page.texts("details li")


def failed():
    page.go("#/job/1")
    page.ready()
    assert "failed" in page.texts(".state.pill")[0], page.texts(".state.pill")
    page.until("why", lambda: "exit code 7" in page.texts(".why-text")[0] or "exited with code 7" in page.texts(".why-text")[0])
    assert any("ValueError: a tensor of another shape" in t for t in [page.texts(".why-text")[0], *evidence()]), evidence()
    page.until("its log", lambda: "ValueError" in "".join(page.texts(".log li")))
    assert page.count(".mark.warn") == 1 and page.count(".span.gen") == 1, page.texts(".lane")
    rows = [t for t in page.texts(".list tbody tr") if "user_exit" in t]
    assert rows, page.texts(".list tbody tr")
    labels = page.texts(".title .btn")
    assert "Retry" in labels and "Cancel" not in labels, labels
    page.shot("failed-job")


def hung():
    page.go("#/job/2")
    page.until("the page of the other job", lambda: page.texts("h1")[:1] == ["hangs"] or "hangs" in "".join(page.texts("h1")))
    page.ready()
    page.until("the mark of the hang", lambda: page.count(".mark.hang") >= 1)
    page.until("two generations", lambda: page.count(".span.gen, .span.alive-gen") == 2)
    words = page.run("return document.querySelector('.mark.hang').getAttribute('aria-label')")
    assert "no progress" in words or "hang" in words, words
    page.run("document.querySelector('.mark.hang').click()")
    page.until("its words", lambda: words.split("\n")[0] in page.texts("#story .saying")[0])
    assert "generation 2" in page.texts(".why-text")[0], page.texts(".why-text")
    assert any("hang" in t for t in page.texts(".list tbody tr")), page.texts(".list tbody tr")
    page.shot("hung-job")


def slow(on):
    conditions = {"offline": False, "latency": 500 if on else 0, "downloadThroughput": 30000 if on else -1, "uploadThroughput": 30000 if on else -1}
    page.driver.execute_cdp_cmd("Network.enable", {})
    page.driver.execute_cdp_cmd("Network.emulateNetworkConditions", conditions)


def step():
    return int("".join(c for c in page.texts(".figures dd")[0].split("of")[0] if c.isdigit()) or 0)


def over_a_slow_network():
    page.run(COUNT)
    slow(True)
    page.go("#/")
    page.until("the list", lambda: page.count(".row.job") == 2)
    page.go("#/job/2")
    page.until("the page of the job", lambda: page.count(".figures dd") > 0)
    # Three pictures of a job that makes 20 steps a second, while somebody looks.
    for i in range(3):
        before = step()
        page.until("new steps", lambda: step() > before)
    assert "live" in page.texts("#live")[0] and not page.run("return document.body.classList.contains('lost')")
    page.shot("slow")
    before = page.run("return window.requests")
    assert before["most"] <= 12 and before["same"] <= 2, before
    # It reacts at once to what needs no request.
    page.driver.find_element(By.CSS_SELECTOR, ".panel header input[type=search]").send_keys("step 5")
    page.until("the lines found", lambda: page.count(".log mark") >= 1)
    # The end of the job arrives.
    over.touch()
    page.until("the end", lambda: "succeeded" in "".join(page.texts(".state.pill")), 60)
    slow(False)
    # Back and forth between pages leaves nothing under way for pages that are gone.
    for i in range(5):
        page.go("#/job/1")
        page.until("the failed job", lambda: "fails" in "".join(page.texts("h1")))
        page.go("#/job/2")
        page.until("the other job", lambda: "hangs" in "".join(page.texts("h1")))
    page.ready()
    seen = page.run("return window.requests")
    print(f"slow network: at most {seen['most']} requests at a time, {seen['same']} of one path, {seen['all']} in all")
    assert seen["most"] <= 24 and seen["same"] <= 4, seen


# The daemon answers, so the connection is not lost.
def no_such_job():
    page.go("#/job/999")
    page.until("a sentence", lambda: "job 999 does not exist" in "".join(page.texts(".empty")))
    assert "live" in page.texts("#live")[0] and page.count("main .panel") == 0, page.texts("#live")
    page.click(".empty a")
    page.until("the list again", lambda: page.count(".row.job") == 2)


def look():
    page.driver.get(link.as_uri())
    page.until("the list", lambda: page.count(".row.job") == 2)
    no_such_job()
    failed()
    hung()
    over_a_slow_network()
    assert not page.complaints(), page.complaints()


page.test(look)
