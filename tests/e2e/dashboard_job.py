# SPDX-License-Identifier: Apache-2.0
# dashboard_job.py FILE SHOTS CHROMIUM DRIVER AXE - the pages of jobs, machines and a comparison, as different users see
# them
import pathlib
import sys

here = sys.path.pop(0)     # json.py beside this file is not the module
import json
sys.path.append(here)
from dashboard_browser import Browser, By, Keys, webdriver

link, axe = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[5]).read_text()
page = Browser(pathlib.Path(sys.argv[2]), sys.argv[3], sys.argv[4])
page.expected = ["400 (Bad Request)"]       # the mistakes in a spec


problems = []


def clean(what):
    found = json.loads(page.axe(axe))
    problems.extend(f"{what}: {one}" for one in found)


def narrow(what):
    page.size(390, 844, phone=True)
    wide = page.run("return document.documentElement.scrollWidth")
    assert wide <= 390, (what, wide)
    page.shot(what + "-phone")
    clean(what + " on a phone")
    page.size(1400, 1000)


def drawn():
    return int(page.run("return document.getElementById('story')?.dataset.drawn ?? '0'"))


def spans():
    return page.run("return [...document.querySelectorAll('.span.gen, .span.alive-gen')].map(e => Math.round(e.getBoundingClientRect().width))")


def story():
    page.until("two generations", lambda: len(spans()) == 2)
    page.until("points", lambda: drawn() >= 3)
    assert page.texts(".lane.chart .tag")[0].startswith("loss") and page.count(".lane.chart canvas") >= 2
    assert page.count(".mark.warn") >= 1, "no incident"
    edges = page.run("return [...document.querySelectorAll('.lane .plot')].map(e => [Math.round(e.getBoundingClientRect().left), Math.round(e.getBoundingClientRect().right)].join())")
    assert len(set(edges)) == 1, edges
    before = spans()
    over = page.driver.find_elements(By.CSS_SELECTOR, ".lane.chart .u-over")[0]
    width = over.rect["width"]
    webdriver.ActionChains(page.driver).move_to_element_with_offset(over, int(width / 4), 0).click_and_hold().move_by_offset(int(width / 8), 0).release().perform()
    page.until("a zoom of all", lambda: page.run("return document.getElementById('story').dataset.range") and spans() != before)
    webdriver.ActionChains(page.driver).double_click(over).perform()
    page.until("all again", lambda: not page.run("return document.getElementById('story').dataset.range"))
    page.run("document.querySelector('.story').focus()")
    page.keys("+")
    page.until("a zoom by keyboard", lambda: page.run("return document.getElementById('story').dataset.range"))
    page.keys(Keys.ESCAPE)
    page.until("all", lambda: not page.run("return document.getElementById('story').dataset.range"))


def logs():
    page.until("the lines of both ranks", lambda: set(page.texts(".log .rk")) == {"0", "1"})
    assert page.count(".log .wrn") >= 1
    find = page.driver.find_element(By.CSS_SELECTOR, ".panel header input[type=search]")
    find.send_keys("/rank \\d/")
    page.until("the line that matches", lambda: page.run("return [...document.querySelectorAll('.log li:not([hidden])')].every(e => e.textContent.includes('from rank 1'))") and page.count(".log mark") >= 1)
    find.send_keys(Keys.BACKSPACE * 9)
    page.until("all lines", lambda: page.count(".log li[hidden]") == 0)
    page.run("const s = document.querySelector('select'); s.value = '1'; s.dispatchEvent(new Event('change'))")
    page.until("the lines of rank 1", lambda: set(page.texts(".log .rk")) == {"1"})


def editor():
    page.run("[...document.querySelectorAll('.title .btn')].find(b => b.textContent.startsWith('New')).click()")
    page.until("a valid spec", lambda: "valid" in "".join(page.texts(".verdict")))
    area = page.driver.find_element(By.CSS_SELECTOR, "dialog textarea")
    page.run("const a = arguments[0]; a.value = a.value.replace('grace: 0s', 'grace: 0s\\nnonsense: 1').replace('two-ranks', 'edited'); a.dispatchEvent(new Event('input'))", area)
    page.until("the mistake with its line", lambda: "nonsense" in "".join(page.texts(".verdict")) and page.count(".numbers .bad") == 1)
    assert page.run("return document.querySelector('dialog .btn.main').disabled")
    page.shot("editor")
    clean("the editor")
    page.run("const a = arguments[0]; a.value = a.value.replace('nonsense: 1\\n', '').replace('sleep 600', 'true'); a.dispatchEvent(new Event('input'))", area)
    page.until("a good spec again", lambda: page.count(".numbers .bad") == 0 and not page.run("return document.querySelector('dialog .btn.main').disabled"))
    page.click("dialog .btn.main")
    page.until("the page of the new job", lambda: "edited" in page.texts("h1")[0])


# Of a job that is over, whose bars move by zoom alone.
def zoom_of_a_finished_job():
    page.until("its bar", lambda: len(spans()) == 1)
    before = spans()
    page.run("document.querySelector('.story').focus()")
    page.keys("+")
    page.until("a longer bar", lambda: spans() != before)
    page.keys(Keys.ESCAPE)
    page.until("all of it", lambda: spans() == before)


def drawn_loss():
    return page.run("return document.querySelector('[data-curve=loss] .plot').plot.data.map(d => [...d])")


# What is drawn are the numbers; an average is drawn over them if one asks for it, from the first number on.
def curves_are_raw():
    page.until("points of the loss", lambda: len(drawn_loss()[1]) > 1)
    raw = drawn_loss()
    assert len(raw) == 2, len(raw)
    slide = "const s = document.querySelector('#story input[type=range]'); s.value = arguments[0]; s.dispatchEvent(new Event('input'))"
    page.run(slide, "0.9")
    smooth = drawn_loss()
    assert len(smooth) == 3 and smooth[1] == raw[1] and abs(smooth[2][0] - raw[1][0]) < 1e-9, (len(smooth), smooth[2][:2], raw[1][:2])
    assert "smoothed" in page.texts(".lane[data-curve=loss] .read small")[0]
    page.shot("smoothed")
    page.run("document.querySelector('#story input[type=checkbox]').click()")
    assert page.run("return document.querySelector('[data-curve=loss] .plot').plot.scales.y.distr") == 3
    page.run(slide, "0")
    page.run("document.querySelector('#story input[type=checkbox]').click()")
    assert len(drawn_loss()) == 2


def samples():
    page.go("#/job/1")
    page.ready()
    zoom_of_a_finished_job()
    curves_are_raw()
    page.until("the phases of a step", lambda: page.count(".lane[data-curve=phases] canvas") == 1)
    phases = [float(t) for t in page.texts(".phases b")]
    assert len(phases) == 5 and phases[1] > 0 and phases[2] > 0 and phases[4] > 0, page.texts(".phases")
    step = float(page.texts(".lane[data-curve=step_ms] .read b")[0].replace(",", ""))
    assert sum(phases) < 20 * step + 20, (phases, step)
    page.until("the pictures", lambda: page.run("return document.querySelector('.sample')?.naturalWidth > 50"))
    first = page.run("return document.querySelector('.sample').src")
    slider = page.driver.find_element(By.CSS_SELECTOR, ".panel:not(#story) input[type=range]")
    slider.send_keys(Keys.ARROW_LEFT)
    page.until("the pictures before", lambda: page.run("return document.querySelector('.sample').src") != first and page.texts(".panel header .hint[role=status]")[0] == "step 0")
    assert page.count(".trust.written") == 2 and page.count(".trust.removed") >= 2, page.texts(".trust")
    assert any("xxh3:" in t for t in page.texts(".list.ck td"))
    for panel, word in (("plan", "OMP_NUM_THREADS"), ("changes", "first attempt"), ("code", "code"), ("spec", "preset: tiny")):
        page.run("[...document.querySelectorAll('.seg button')].find(b => b.textContent === arguments[0]).click()", panel)
        page.until(panel, lambda: word in "".join(page.texts(".panel .body")))
    buckets = [float(t.split("\u00a0")[0].replace(",", "")) for t in page.texts(".ledger td.num:nth-child(3)")]
    assert abs(sum(buckets[:-1]) - buckets[-1]) < 0.51, buckets


def look():
    page.driver.get(link.as_uri())
    page.until("the list", lambda: page.count(".row.job") == 2)
    clean("the list")
    narrow("jobs")
    page.go("#/job/2")
    page.ready()
    story()
    logs()
    clean("a job")
    page.run("scrollTo(0, 0)")
    page.size(1280, 1060)
    page.shot("dashboard-job")
    page.size(1400, 1000)
    narrow("job")
    page.ready()
    editor()
    samples()
    page.run("scrollTo(0, 0)")
    page.shot("job", whole=True)
    page.size(1400, 1000)
    page.click("#theme")
    clean("a job in the dark")
    page.shot("job-dark", whole=True)
    page.size(1400, 1000)
    page.click("#theme")
    page.go("#/compare/1,2")
    page.ready()
    page.until("curves over each other", lambda: page.count("figure.chart canvas") >= 2)
    assert page.count(".two-specs .del") >= 1 and page.count(".two-specs .add") >= 1
    clean("a comparison")
    page.shot("compare")
    narrow("compare")
    page.go("#/machines")
    page.ready()
    page.until("this machine", lambda: page.count(".node") >= 1 and "up" in page.texts(".node .state")[0])
    clean("machines")
    page.shot("machines")
    narrow("machines")
    found = page.run("return [document.querySelectorAll('main img:not(.sample), main script').length, window.hacked ?? null]")
    assert found == [0, None], found
    assert not problems, "\n".join(problems)
    assert not page.complaints(), page.complaints()


page.test(look)
