# SPDX-License-Identifier: Apache-2.0
# dashboard_pictures.py FILE SHOTS CHROMIUM DRIVER KEPT - compares the main pages with KEPT, a JSON that describes each
# picture: its size, the brightness of cells of 1/24 of its width (00 to ff), and the share of each colour in percent
import os
import pathlib
import sys

here = sys.path.pop(0)     # json.py beside this file is not the module
import json
sys.path.append(here)
from dashboard_browser import Browser

link, kept = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[5])
page = Browser(pathlib.Path(sys.argv[2]), sys.argv[3], sys.argv[4])

COLUMNS = 24
# The largest differences: of the height; of what is drawn, 0 the same to 1 elsewhere; of colours, 0 to 200
HEIGHT, DRAWN, COLOURS = 0.08, 0.15, 8

# Chromium itself reads the picture: canvas, in a page without a content policy.
SAY = """
const [png, columns, done] = arguments, picture = new Image();
picture.onload = () => {
  const canvas = document.createElement("canvas"), to = canvas.getContext("2d", { willReadFrequently: true });
  canvas.width = picture.width;
  canvas.height = picture.height;
  to.drawImage(picture, 0, 0);
  const { data, width, height } = to.getImageData(0, 0, picture.width, picture.height), cell = width / columns, rows = Math.floor(height / cell);
  const sums = new Float64Array(columns * rows), counts = new Float64Array(columns * rows), colours = {};
  for (let y = 0; y < height; y += 2) for (let x = 0; x < width; x += 2) {
    const i = 4 * (y * width + x), r = data[i], g = data[i + 1], b = data[i + 2], row = Math.floor(y / cell);
    if (row < rows) { const at = row * columns + Math.floor(x / cell); sums[at] += 0.3 * r + 0.6 * g + 0.1 * b; counts[at]++; }
    const bin = `${r >> 6}${g >> 6}${b >> 6}`;
    colours[bin] = (colours[bin] ?? 0) + 1;
  }
  const all = Object.values(colours).reduce((a, b) => a + b, 0), light = [];
  for (let r = 0; r < rows; r++) light.push([...sums.slice(r * columns, (r + 1) * columns)].map((s, c) => Math.floor(s / counts[r * columns + c]).toString(16).padStart(2, "0")).join(""));
  done({ size: [width, height], light, colours: Object.fromEntries(Object.entries(colours).map(([k, n]) => [k, Math.round(1000 * n / all) / 10]).filter(([, n]) => n >= 0.2).sort()) });
};
picture.src = "data:image/png;base64," + png;
"""
work = page.driver.current_window_handle


def said(name):
    png = page.driver.get_screenshot_as_base64()
    page.shot(name)
    tab = page.driver.current_window_handle
    page.driver.switch_to.window(reader)
    found = page.driver.execute_async_script(SAY, png, COLUMNS)
    page.driver.switch_to.window(tab)
    return found


def cells(f):
    return [[int(row[i:i + 2], 16) for i in range(0, len(row), 2)] for row in f["light"]]


# The cells of both, less what they show most, as far from it as they are.
def drawn(f, ground):
    return [[value - ground for value in row] for row in cells(f)]


# Each cell with those around it: a line that another font moves a little is nearly where it was.
def blurred(rows):
    def at(y, x):
        near = [rows[b][a] for b in range(max(0, y - 1), min(len(rows), y + 2)) for a in range(max(0, x - 1), min(len(rows[0]), x + 2))]
        return sum(near) / len(near)
    return [at(y, x) for y in range(len(rows)) for x in range(len(rows[0]))]


def distance(now, was):
    flat = [v for row in cells(was) for v in row]
    ground = max(set(flat), key=flat.count)
    height = min(len(now["light"]), len(was["light"]))
    a, b = (blurred(drawn(f, ground)[:height]) for f in (now, was))
    return sum(abs(x - y) for x, y in zip(a, b)) / sum(abs(x) + abs(y) for x, y in zip(a, b))


# What differs, in words; "": nothing that matters.
def unlike(now, was):
    (width, height), (was_width, was_height) = now["size"], was["size"]
    if width != was_width or abs(height - was_height) > HEIGHT * was_height:
        return f"it has {width} x {height} pixels, not {was_width} x {was_height}"
    apart = distance(now, was)
    colours = sum(abs(now["colours"].get(c, 0) - was["colours"].get(c, 0)) for c in {*now["colours"], *was["colours"]})
    print(f"{apart:.2f} {colours:.0f}", end="; ")
    if apart > DRAWN:
        return f"what is drawn differs by {apart:.2f}, more than {DRAWN}"
    return f"its colours differ by {colours:.0f}, more than {COLOURS}" if colours > COLOURS else ""


def pictures():
    found = {}
    for theme in ("light", "dark"):
        page.run("document.documentElement.dataset.theme = arguments[0]", theme)
        for name, fragment, ready in (("jobs", "#/", ".row.job"), ("job", "#/job/2", ".why-text"), ("machines", "#/machines", ".gpus .num")):
            page.go(fragment)
            page.until(name, lambda: page.count(ready) > 0)
            page.ready()
            if name == "machines":
                page.until("the load", lambda: "90\u00a0%" in page.texts(".gpus")[0])
            page.run("scrollTo(0, 0)")
            page.run("document.activeElement.blur()")
            found[f"{name}-{theme}"] = said(f"{name}-{theme}")
            if theme == "light":
                page.size(390, 844, phone=True)
                found[f"{name}-phone"] = said(f"{name}-phone")
                page.size(1280, 900)
    return found


def the_comparison_sees(found):
    was = found["jobs-light"]
    assert unlike(found["jobs-dark"], was), "dark is not seen"
    assert unlike(found["machines-light"], was), "another page is not seen"
    page.run("document.documentElement.dataset.theme = 'light'")
    page.go("#/")
    page.until("the list", lambda: page.count(".row.job") > 0)
    assert not unlike(said("jobs-again"), was), "the same page is not the same"
    page.run("document.documentElement.style.setProperty('--font', 'serif')")
    assert not unlike(said("jobs-serif"), was), "another font matters"
    page.run("document.documentElement.style.removeProperty('--font')")
    page.run("for (const s of document.styleSheets) s.disabled = true")
    assert unlike(said("jobs-bare"), was), "a page without styles is not seen"
    page.run("for (const s of document.styleSheets) s.disabled = false; document.getElementById('main').style.paddingTop = '120px'")
    assert unlike(said("jobs-shifted"), was), "a shifted page is not seen"


def look():
    global reader
    page.driver.switch_to.new_window("tab")
    reader = page.driver.current_window_handle
    page.driver.switch_to.window(work)
    page.driver.get(link.as_uri())
    page.size(1280, 900)
    page.until("the list", lambda: page.count(".row.job") == 3)
    found = pictures()
    if os.environ.get("UPDATE"):
        rows = [f'{json.dumps(n)}: {json.dumps({**f, "light": " ".join(f["light"])})}' for n, f in found.items()]
        kept.write_text("{\n" + ",\n".join(rows) + "\n}\n")
    was = {n: {**f, "light": f["light"].split(" ")} for n, f in json.loads(kept.read_text()).items()}
    assert was.keys() == found.keys(), (was.keys(), found.keys())
    wrong = [f"{name}: {words}" for name, f in found.items() if (words := unlike(f, was[name]))]
    the_comparison_sees(found)
    assert not wrong, "\n".join([*wrong, "UPDATE=1 keeps the pictures of today, after a look at them (DASHBOARD_SHOTS=DIR)"])


page.test(look)
