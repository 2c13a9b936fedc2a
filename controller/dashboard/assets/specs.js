/* SPDX-License-Identifier: Apache-2.0 */
/* specs.js - what a job was asked to do: its spec, its plan with reasons, what changed between attempts, its code */
import { el } from "./dom.js";
import { text } from "./texts.js";

const isMap = (v) => v !== null && typeof v === "object" && !Array.isArray(v);

/* A tree as lines of YAML, for people; empty maps and nulls are left out. */
export function linesOf(value, indent = "") {
  return Object.entries(value).flatMap(([key, v]) => {
    if (v === null || (isMap(v) && !Object.keys(v).length) || (Array.isArray(v) && !v.length) || v === "") return [];
    if (isMap(v)) return [`${indent}${key}:`, ...linesOf(v, `${indent}  `)];
    if (typeof v === "string" && v.includes("\n")) return [`${indent}${key}: |`, ...v.trimEnd().split("\n").map((line) => `${indent}  ${line}`)];
    return [`${indent}${key}: ${typeof v === "string" ? v : JSON.stringify(v)}`];
  });
}

export function listing(lines, lookOf = () => "") {
  return el("div", { class: "spec", tabindex: "0", role: "group", "aria-label": text("spec") },
    ...lines.flatMap((line, i) => [el("span", { "aria-hidden": "true" }, String(i + 1)), el("code", { class: lookOf(line, i) }, line)]));
}

function reasons(entries) {
  return el("dl", { class: "reasons" }, ...entries.flatMap(([name, why]) => [el("dt", {}, name), el("dd", {}, why)]));
}

const show = (v) => (typeof v === "string" ? v : JSON.stringify(v));

function planOf(plan) {
  if (!plan) return [el("p", { class: "hint" }, text("noPlan"))];
  const list = (plan.env ?? []).map((v) => [`${v.name}=${v.value ?? ""}`, [v.why, v.fact].filter(Boolean).join(" · ")]);
  return [el("p", {}, [plan.why, plan.expects].filter(Boolean).map(show).join(" ")), reasons(list), reasons((plan.notes ?? []).map((n) => [text("note"), show(n)]))];
}

function changesOf(attempts) {
  const found = attempts.filter((a) => a.plan?.changes?.length).map((a) => el("section", {}, el("h3", {}, text("changedIn", a.attempt)),
    el("ul", { class: "sentences" }, ...a.plan.changes.map((c) => el("li", {}, show(c))))));
  return found.length ? found : [el("p", { class: "hint" }, text("noChanges"))];
}

function codeOf(code, set) {
  const facts = Object.entries(code ?? {}).filter(([, v]) => v !== null && v !== false && !(Array.isArray(v) && !v.length));
  return [...(set?.length ? [el("h3", {}, text("overrides")), listing(set)] : []), facts.length ? reasons(facts.map(([k, v]) => [k.replaceAll("_", " "), show(v)]))
    : el("p", { class: "hint" }, text("noCode"))];
}

export function specPanel() {
  const names = ["spec", "plan", "changes", "code"], body = el("div", { class: "body" });
  let shown = "spec", facts = null, has = "";
  const buttons = names.map((n) => el("button", { type: "button", "aria-pressed": String(n === shown), onclick: () => { shown = n; paint(); } }, text(n)));
  const node = el("section", { class: "panel" }, el("header", {}, el("h2", {}, text("specAndPlan")), el("span", { class: "end" }, el("span", { class: "seg" }, ...buttons))), body);

  function paint() {
    names.forEach((n, i) => buttons[i].setAttribute("aria-pressed", String(n === shown)));
    const { spec, plan, attempts, code, set } = facts;
    body.replaceChildren(...(shown === "spec" ? [listing(linesOf(spec))] : shown === "plan" ? planOf(plan) : shown === "changes" ? changesOf(attempts) : codeOf(code, set)));
  }
  function show1(all) {
    const now = JSON.stringify([all.spec, all.attempts.length, all.attempts.at(-1)?.plan, Boolean(all.plan), all.code]);
    if (now === has) return;
    has = now;
    facts = all;
    paint();
  }
  return { node, show: show1 };
}
