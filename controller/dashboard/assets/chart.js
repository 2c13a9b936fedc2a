/* SPDX-License-Identifier: Apache-2.0 */
/* chart.js - a curve over steps as SVG, with its numbers as text for who does not see it */
import { el, svg } from "./dom.js";
import { number } from "./figures.js";
import { text } from "./texts.js";

const WIDTH = 600, HEIGHT = 150, LEFT = 64, BOTTOM = 20, TOP = 8;

/* NaN and infinities are null in JSON: the curve has a gap there. A point alone is a line of no length, which has round ends. */
function path(points, x, y) {
  let pen = "M";
  return points.map(([step, value]) => {
    if (!Number.isFinite(value)) { pen = "M"; return ""; }
    const part = `${pen}${x(step).toFixed(1)} ${y(value).toFixed(1)}${pen === "M" ? "h0" : ""}`;
    pen = "L";
    return part;
  }).join("");
}

function range(values) {
  let low = Infinity, high = -Infinity;
  for (const v of values) { low = Math.min(low, v); high = Math.max(high, v); }
  return low === high ? [low - (Math.abs(low) || 1) / 2, high + (Math.abs(high) || 1) / 2] : [low, high];
}

function lines(points, values) {
  const [first, last] = range(points.map((p) => p[0])), [low, high] = range(values);
  const x = (s) => LEFT + (s - first) / (last - first) * (WIDTH - LEFT - 8);
  const y = (v) => TOP + (high - v) / (high - low) * (HEIGHT - TOP - BOTTOM);
  const label = (at, value, anchor, h) => svg("text", { x: at, y: h, "text-anchor": anchor }, value);
  return [
    ...[low, (low + high) / 2, high].flatMap((v) => [
      svg("line", { x1: LEFT, x2: WIDTH - 8, y1: y(v), y2: y(v), class: "grid" }), label(LEFT - 6, number(v), "end", y(v) + 4)]),
    label(LEFT, number(points[0][0], 9), "start", HEIGHT - 4), label(WIDTH - 8, number(points.at(-1)[0], 9), "end", HEIGHT - 4),
    svg("path", { d: path(points, x, y), class: "curve" }),
  ];
}

/* points: [[step, value], ...] in the order of steps. */
export function chart(title, points) {
  const values = points.map((p) => p[1]).filter((v) => Number.isFinite(v));
  if (values.length === 0) return el("figure", { class: "panel chart" }, el("figcaption", {}, title), el("p", { class: "hint" }, text("noPoints")));
  const last = values.at(-1), [low, high] = range(values);
  const label = `${title}: ${number(last)} (${number(low)} – ${number(high)})`;
  return el("figure", { class: "panel chart" },
    el("figcaption", {}, title, " ", el("b", {}, number(last))),
    svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label }, ...lines(points, values)));
}
