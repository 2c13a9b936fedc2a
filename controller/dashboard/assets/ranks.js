/* SPDX-License-Identifier: Apache-2.0 */
/* ranks.js - the ranks of a job as a grid coloured by step lag: the straggler is seen before it is read
 *
 * The numbers are those of the newest event `straggler`: own work and waiting of each rank in one step.
 */
import { el } from "./dom.js";
import { number } from "./figures.js";
import { text } from "./texts.js";

const LEVELS = [1.5, 4, 8, 12], MANY = 64;

function levelOf(lag) { return LEVELS.findIndex((limit) => lag < limit) < 0 ? 4 : LEVELS.findIndex((limit) => lag < limit); }

function cell(rank, lag, slow) {
  const percent = `+${Math.round(lag)}\u00a0%`;
  return el("li", { class: `rank lag${levelOf(lag)}${slow ? " slow" : ""}`, title: text("rankLags", rank, percent) }, el("b", {}, String(rank)), el("span", {}, percent), slow ? el("em", {}, text("slow")) : null);
}

/* Own work of each rank beyond the quickest, in percent of a step. */
export function lagsOf(body) {
  const own = body.own_ms ?? [], least = Math.min(...own), step = body.step_ms || Math.max(...own) || 1;
  return own.map((ms) => (ms - least) / step * 100);
}

function bars(body) {
  const own = body.own_ms, wait = body.wait_ms ?? [], most = Math.max(...own.map((v, i) => v + (wait[i] ?? 0)), 1);
  const slowest = own.map((v, i) => [v, i]).sort((a, b) => b[0] - a[0]).slice(0, 6).map(([, i]) => i).sort((a, b) => a - b);
  return slowest.map((r) => el("div", { class: r === body.rank ? "slow" : "" }, el("span", {}, text("rankN", r)),
    el("span", { class: "b" }, el("progress", { max: most, value: own[r], "aria-label": text("rankN", r) })), el("span", { class: "num" }, `${number(own[r])}\u00a0ms`)));
}

export function rankPanel() {
  const body = el("div", { class: "body" }), node = el("section", { class: "panel", hidden: true }, el("header", {}, el("h2", {}, text("ranksByLag")), el("span", { class: "hint" }, text("ranksByLagHint"))), body);
  let shown = 0;
  function show(job, events) {
    const last = events.findLast((e) => e.kind === "straggler" || e.kind === "generation_started");
    const told = last?.kind === "straggler" && last.body?.own_ms?.length > 1 ? last : null;
    node.hidden = !told;
    if (!told || told.seq === shown) return;
    shown = told.seq;
    const lags = lagsOf(told.body);
    body.replaceChildren(el("ol", { class: `ranks${lags.length > MANY ? " many" : ""}` }, ...lags.map((lag, r) => cell(r, lag, r === told.body.rank))),
      el("p", { class: "say-lag" }, told.text), el("div", { class: "works" }, ...bars(told.body)));
  }
  return { node, show };
}
