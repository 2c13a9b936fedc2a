/* SPDX-License-Identifier: Apache-2.0 */
/* ledger.js - where the time went: buckets that sum to rank_s, to the tenth; their names are those of docs/GLOSSARY.md */
import { el, svg } from "./dom.js";
import { number, percent } from "./figures.js";
import { text } from "./texts.js";

const BUCKETS = ["productive", "replayed", "init", "data", "checkpoint", "disk", "hang", "restart", "queued", "paused"];
const WIDTH = 1000;

function parts(names, goodput, whole, y, height) {
  let x = 0;
  return names.filter((b) => goodput[b] > 0).flatMap((b) => {
    const w = goodput[b] / whole * WIDTH, at = x;
    x += w;
    const box = (look) => svg("rect", { x: at.toFixed(2), y, width: Math.max(0.7, w - 1).toFixed(2), height, class: look });
    return b === "replayed" || b === "paused" ? [box(`c-${b}`), box("c-hatch")] : [box(`c-${b}`)];
  });
}

/* Above all of it, below what is not productive, enlarged. */
function bars(goodput) {
  const whole = goodput.rank_s, rest = whole - goodput.productive, edge = goodput.productive / whole * WIDTH;
  const hatch = svg("defs", {}, svg("pattern", { id: "hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    svg("rect", { width: 2.5, height: 6, class: "hatch-line" })));
  const lower = rest > 0 ? [svg("path", { d: `M${edge} 20L0 36H${WIDTH}V20Z`, class: "widens" }), ...parts(BUCKETS.slice(1), goodput, rest, 36, 20)] : [];
  return svg("svg", { viewBox: `0 0 ${WIDTH} 56`, preserveAspectRatio: "none", class: "bar100", role: "img",
    "aria-label": text("ledgerSays", percent(goodput.productive / whole), number(rest, 6)) }, hatch, ...parts(BUCKETS, goodput, whole, 0, 20), ...lower);
}

const seconds = (s) => `${s.toLocaleString("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 })}\u00a0s`;

function row(name, means, value, share, look) {
  return el("tr", {}, el("th", { scope: "row" }, look ? el("i", { class: `key c-${look}` }) : null, name), el("td", { class: "means" }, means),
    el("td", { class: "num" }, seconds(value)), el("td", { class: "num dim" }, share));
}

export function ledger(goodput) {
  const whole = goodput.rank_s;
  const rows = BUCKETS.filter((b) => b !== "disk" || goodput.disk > 0).map((b) =>
    row(b, text(`means_${b}`), goodput[b], whole ? `${(goodput[b] / whole * 100).toFixed(goodput[b] / whole > 0.1 ? 1 : 2)}\u00a0%` : "", b));
  return [whole > 0 ? bars(goodput) : null, el("table", { class: "ledger" }, el("tbody", {}, ...rows, row(text("sum"), "", whole, "100\u00a0%", null)))];
}
