# SPDX-License-Identifier: Apache-2.0
# dashboard_many.py FILE SHOTS CHROMIUM DRIVER ID - the list of 10,000 jobs, live, without its daemon, and in two tabs
import pathlib
import subprocess
import sys

here = sys.path.pop(0)     # json.py beside this file is not the module
import json  # noqa: F401
sys.path.append(here)
from dashboard_browser import Browser, By, Keys

link, live = pathlib.Path(sys.argv[1]), sys.argv[5]
page = Browser(pathlib.Path(sys.argv[2]), sys.argv[3], sys.argv[4])
page.expected = ["Failed to load resource", "ERR_"]      # of the lost daemon


def jobctl(*words):
    return subprocess.run(["jobctl", *words], check=True, capture_output=True, text=True).stdout


def names():
    return page.texts(".row.job .name")


def list_of_many():
    page.driver.get(link.as_uri())
    page.until("the list", lambda: page.count(".row.job") > 5)
    page.ready("1")
    shown = page.run("return performance.now()")
    page.ready("2")
    print(f"first rows after {shown:.0f} ms, all after {page.run('return performance.now()'):.0f} ms")
    rows, total = page.count(".row"), int(page.run("return document.querySelector('.jobs').getAttribute('aria-rowcount')"))
    assert total >= 10003 and rows < 60, (total, rows)
    assert "10,003" in page.texts(".facet")[0], page.texts(".facet")
    page.size(1280, 800)
    page.until("its curve", lambda: page.count(".spark[points]:not([points=''])") >= 1)
    page.shot("dashboard-jobs")
    page.size(1400, 1000)

    # A second load, with what the browser has: this is the time of the page itself.
    page.driver.refresh()
    page.until("the list again", lambda: page.count(".row.job") > 5)
    shown = page.run("return performance.now()")
    print(f"loaded again: {shown:.0f} ms")
    page.ready("2")

    page.run("scrollTo(0, 1e9)")
    page.until("the oldest job", lambda: "one" in names())
    assert page.count(".row") < 60
    page.run("scrollTo(0, 0)")
    box = page.driver.find_element(By.CSS_SELECTOR, "input[type=search]")
    box.send_keys("old-777")
    page.until("those that match", lambda: len(names()) == 11 and "old-7777" in names())
    box.send_keys(Keys.BACKSPACE * 7)
    page.until("all", lambda: page.count(".row.job") > 5)

    # A sweep is one row until it is unfolded.
    box.send_keys("grid")
    page.until("one row", lambda: names() == ["grid"])
    box.send_keys(Keys.BACKSPACE * 4)
    page.run("scrollTo(0, 1e9)")
    page.until("the sweep", lambda: "grid" in names() and page.count(".row.member") == 0)
    page.click(".row.job[data-id='2'] .fold")
    page.until("its members", lambda: page.count(".row.member") == 2)
    assert "LR 1e-3" in names(), names()
    page.run("scrollTo(0, 0)")


def step():
    return page.run("return document.querySelector('.row.job[data-id=\"' + arguments[0] + '\"] .progress .two')?.textContent ?? ''", live)


def changes():
    page.until("the running job", lambda: "live" in names() and "/" in step())
    first = step()
    asked = page.run("return performance.getEntriesByType('resource').length")
    page.until("another step", lambda: step() != first)
    mine = page.run("return performance.getEntriesByType('resource').slice(arguments[0]).map(e => e.name).filter(n => !n.includes('/metrics'))", asked)
    assert not mine, mine       # by the stream, not by requests

    # Two tabs see the same, and one that is hidden has no stream.
    first_tab = page.driver.current_window_handle
    address = page.driver.current_url
    page.driver.switch_to.new_window("tab")
    page.driver.get(address)
    page.until("the list in the second tab", lambda: page.count(".row.job") > 5)
    jobctl("submit", "-q", "--hold", "--set", "name=second", "one.yaml")
    page.until("a new job, by itself", lambda: "second" in names())
    page.driver.close()
    page.driver.switch_to.window(first_tab)
    page.until("it in the first tab as well", lambda: "second" in names())

    # A refresh of rows keeps the selection and the focus.
    page.run("document.activeElement.blur()")
    page.keys("j")
    page.keys("x")
    page.until("the actions", lambda: page.count(".pick .btn") >= 1)
    before = step()
    page.until("a step more", lambda: step() != before)
    assert page.run("return document.activeElement.closest('.row')?.dataset.id") == live
    assert page.count(".row.picked") == 1
    page.keys("x")


def lost():
    page.until("the list", lambda: "live" in names())
    jobctl("daemon", "stop")
    page.until("that the connection is lost", lambda: page.run("return document.body.classList.contains('lost')"))
    assert "connection lost" in page.texts("#live")[0] and "has not answered since" in page.texts("#notice")[0]
    assert "live" in names()        # what was read stays
    page.shot("lost")
    port = page.driver.current_url.split(":")[2].split("/")[0]
    jobctl("dashboard", "--port", port)
    page.until("that this page is not logged in there", lambda: "not logged in" in page.texts("#notice")[0])
    page.driver.get(link.as_uri())
    page.until("the list of the new daemon", lambda: page.count(".row.job") > 5 and not page.run("return document.body.classList.contains('lost')"))
    page.ready("2")


DAY = """
const real = window.fetch;
window.until = 0;
window.fetch = (where, how) => {
  if (!String(where).endsWith("/v1/live")) return real(where, how);
  let n = 0;
  const row = (i) => ({ id: 1 + i % 40, name: "job", state: "running", result: null, reason: "step " + i, held: false, priority: 0, step: i,
    steps: 100000, loss: 1 / i, samples_per_s: i % 9, goodput: 0.5, eta_s: 1, np: 1, submitted_at: "2026-11-23T15:00:00.000Z" });
  const body = new ReadableStream({ async pull(out) {
    while (n >= window.until) await new Promise((done) => setTimeout(done, 20));
    let part = n ? "" : "id: 1-0\\nevent: reset\\ndata: {}\\n\\n";
    for (let i = 0; i < 200; i++) part += `event: job\\ndata: ${JSON.stringify(row(++n))}\\n\\n`;
    out.enqueue(new TextEncoder().encode(part));
    window.seen = n;
    await new Promise((done) => setTimeout(done));
  } });
  return Promise.resolve(new Response(body, { headers: { "Content-Type": "text/event-stream" } }));
};
"""


def memory(messages):
    page.run("window.until = arguments[0]", messages)
    page.until("the messages", lambda: page.run("return window.seen ?? 0") >= messages, 60)
    page.until("the last of them", lambda: page.run("return [...document.querySelectorAll('.job .why')].some(e => Number(e.textContent.split(' ')[1]) > arguments[0])", messages - 400))
    page.driver.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
    found = {m["name"]: m["value"] for m in page.driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]}
    return found["JSHeapUsedSize"] / 1e6, found["Nodes"]


# A tab that is open for a day gets a row a second: 86,400 messages of 40 jobs.
def day():
    page.driver.execute_cdp_cmd("Performance.enable", {})
    script = page.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": DAY})
    page.driver.refresh()
    page.until("the stream", lambda: page.run("return window.until === 0"))
    early, late = memory(10000), memory(86400)
    print(f"after 10,000 messages {early[0]:.1f} MB and {early[1]} nodes, after 86,400 {late[0]:.1f} MB and {late[1]} nodes")
    assert late[0] < early[0] * 1.3 + 2 and late[1] < early[1] + 500, (early, late)
    page.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", {"identifier": script["identifier"]})


def look():
    list_of_many()
    changes()
    day()
    page.driver.refresh()
    lost()
    assert not page.complaints(), page.complaints()


page.test(look)
