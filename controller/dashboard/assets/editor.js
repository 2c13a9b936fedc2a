/* SPDX-License-Identifier: Apache-2.0 */
/* editor.js - a new job from the spec of another one: the daemon checks the text while one types */
import { get, post } from "./api.js";
import { el, put } from "./dom.js";
import { icon } from "./figures.js";
import { linesOf, listing } from "./specs.js";
import { text } from "./texts.js";

const PAUSE_MS = 300, FILE = "spec.yaml";

/* From `job` to a dialog; it opens the page of the new job. */
export async function editSpec(job) {
  const source = await get(`/v1/jobs/${job.id}/spec`, { any: 1 });
  const area = el("textarea", { class: "code", rows: "22", spellcheck: "false", autocapitalize: "off", "aria-label": text("spec"), oninput: later, onscroll: follow });
  const lines = el("div", { class: "numbers", "aria-hidden": "true" }), verdict = el("div", { class: "verdict", role: "status" });
  const create = el("button", { type: "button", class: "btn main", onclick: submit }, text("submitJob"));
  const cancel = el("button", { type: "button", class: "btn", onclick: () => dialog.close() }, text("back"));
  const dialog = el("dialog", { class: "wide", "aria-labelledby": "editor" }, el("h2", { id: "editor" }, text("newFrom", job.id)),
    el("p", { class: "hint" }, text("newFromHint", source.base)), source.set?.length ? listing(source.set) : null, el("div", { class: "edit" }, lines, area), verdict,
    el("div", { class: "choices" }, cancel, create));
  let timer = 0, asked = null, wrong = new Set();
  area.value = source.yaml || `${linesOf(source.spec).join("\n")}\n`;

  const body = (dry) => ({ spec: area.value, cwd: source.base, file: FILE, ...(source.set?.length ? { set: source.set } : {}), ...(dry ? { dry_run: true } : {}) });

  function number() {
    const n = area.value.split("\n").length;
    lines.replaceChildren(...[...Array(n).keys()].map((i) => el("span", { class: wrong.has(i + 1) ? "bad" : "" }, String(i + 1))));
    follow();
  }
  function follow() { lines.scrollTop = area.scrollTop; }

  function select(error) {
    if (!error.line) return;
    const rows = area.value.split("\n"), from = rows.slice(0, error.line - 1).reduce((n, r) => n + r.length + 1, 0);
    area.focus();
    area.setSelectionRange(from + Math.max(0, (error.column ?? 1) - 1), from + (rows[error.line - 1] ?? "").length);
  }

  function say(errors, notes) {
    wrong = new Set(errors.map((e) => e.line).filter(Boolean));
    create.disabled = errors.length > 0;
    verdict.replaceChildren(el("p", { class: `state ${errors.length ? "failed" : "succeeded"}` }, icon(errors.length ? "failed" : "succeeded"),
      errors.length ? text("mistakes", errors.length) : text("specIsGood")),
    el("ul", {}, ...errors.map((e) => el("li", {}, el("button", { type: "button", class: "link", onclick: () => select(e) }, e.line ? `${e.line}:${e.column ?? 1}` : "–"), " ", e.text)),
      ...notes.map((n) => el("li", { class: "dim" }, n))));
    number();
  }

  async function check() {
    asked?.abort();
    asked = new AbortController();
    try {
      const answer = await post("/v1/jobs", body(true), asked.signal);
      say(area.value.includes("[redacted]") ? [{ text: text("redacted") }] : [], answer.notes ?? []);
    } catch (e) {
      if (e.name === "AbortError") return;
      const found = e.document?.errors ?? (e.document?.error ? [e.document.error] : [{ text: e.message }]);
      say(found, []);
    }
  }

  function later() {
    clearTimeout(timer);
    create.disabled = true;
    put(verdict, text("checking"));
    number();
    timer = setTimeout(check, PAUSE_MS);
  }

  async function submit() {
    try {
      const answer = await post("/v1/jobs", body(false));
      dialog.close();
      location.hash = `#/job/${answer.job.id}`;
    } catch (e) { say(e.document?.errors ?? [{ text: e.message }], []); }
  }

  dialog.addEventListener("close", () => { clearTimeout(timer); asked?.abort(); dialog.remove(); });
  document.body.append(dialog);
  dialog.showModal();
  number();
  check();
}
