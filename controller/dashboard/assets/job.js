/* SPDX-License-Identifier: Apache-2.0 */
/* job.js - the page of one job: why it is as it is, its story, where its time went, what it made, its log */
import { act, possible } from "./actions.js";
import { get } from "./api.js";
import { el, put, putAttribute } from "./dom.js";
import { editSpec } from "./editor.js";
import { bytes, clock, duration, icon, known, number, percent, shape, wordOf } from "./figures.js";
import { ledger } from "./ledger.js";
import { logPanel } from "./logs.js";
import { rankPanel } from "./ranks.js";
import { samplePanel } from "./samples.js";
import { specPanel } from "./specs.js";
import { PHASES, story } from "./story.js";
import { text } from "./texts.js";
import { checkpointsOf, clockOf, incidentsOf, lanesOf, seriesOf } from "./timeline.js";

const CURVES = ["loss", "samples_per_s", "grad_norm", "lr", "step_ms", ...PHASES.map((p) => `${p}_ms`)];
const POINTS = 10000, EVENTS = 2000, SOON_MS = 250, CURVES_MS = 2000, SLOW_MS = 15000;

function figure(name, value, note = "") { return el("div", {}, el("dt", {}, text(name)), el("dd", {}, value, note ? el("small", {}, note) : null)); }

function figuresOf(job) {
  const share = job.steps && known(job.step) ? Math.min(1, job.step / job.steps) : null, lives = job.state === "running";
  const meter = el("progress", { max: "1", value: String(share ?? 0), class: job.state === "done" ? "rest" : "", "aria-label": text("progress"), hidden: share === null });
  const took = job.started_at ? ((job.ended_at ? Date.parse(job.ended_at) : Date.now()) - Date.parse(job.started_at)) / 1000 : null;
  return el("dl", { class: "figures" },
    el("div", { class: "wide" }, el("dt", {}, text("progress")), el("dd", {}, known(job.step) ? number(job.step, 12) : "—", el("small", {}, job.steps ? text("ofSteps", number(job.steps, 12)) : ""),
      share === null ? null : el("span", { class: "share" }, percent(share, 0)), meter)),
    job.state === "done" ? figure("took", duration(took)) : figure("left", lives ? duration(job.eta_s) : "—", took === null ? "" : text("ranFor", duration(took))),
    figure("speed", known(job.samples_per_s) ? `${number(job.samples_per_s)}/s` : "—", known(job.step_ms) ? text("msPerStep", number(job.step_ms)) : ""), figure("loss", number(job.loss, 4)),
    figure("goodput", percent(job.goodput)), figure("checkpoint", job.checkpoint ? number(job.checkpoint.step, 12) : "—"), figure("ranks", known(job.np) ? number(job.np, 9) : "—", job.phase ?? ""));
}

function eventRow(event) {
  return el("li", { class: "event", "data-seq": event.seq }, el("time", { datetime: event.at, title: event.at }, clock(event.at)),
    el("span", { class: "kind" }, event.kind.replaceAll("_", " ")), el("span", {}, event.text ?? ""));
}

function table(heads, rows, look = "") {
  return el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": heads.map((h) => text(h)).join(", ") },
    el("table", { class: `list ${look}` }, el("thead", {}, el("tr", {}, ...heads.map((h) => el("th", { scope: "col" }, text(h))))), el("tbody", {}, ...rows)));
}

const cells = (...values) => el("tr", {}, ...values.map((v) => el("td", {}, v)));

function checkpointRows(all) {
  return checkpointsOf(all).map((c) => el("tr", {}, el("td", { class: "num" }, number(c.step, 12)), el("td", {}, clock(c.at)), el("td", { class: "num" }, c.trust === "removed" ? "—" : bytes(c.bytes)),
    el("td", {}, el("span", { class: `trust ${c.shape}` }, icon(c.shape), text(`trust_${c.shape}`))), el("td", { class: "mono", title: c.path }, (c.digest ?? "").slice(0, 18))));
}

function attemptRows(all) {
  return all.attempts.flatMap((a) => a.generations.map((g) => cells(`${a.attempt} · ${g.generation}`, String(g.np ?? ""), g.resume_step ? text("fromStep", number(g.resume_step, 12)) : text("fromStart"),
    known(g.step) ? number(g.step, 12) : "", g.ended_at ? el("span", { title: g.text }, g.cause === "none" ? text("done") : g.cause ?? "") : el("span", { class: "state running" }, icon("running"), text("running"))))).reverse();
}

export function jobPage(main, name, context) {
  const path = `/v1/jobs/${encodeURIComponent(name)}`;
  const title = el("h1", {}), state = el("span", {}), buttons = el("div", { class: "end" }), facts = el("p", { class: "facts" });
  const why = el("p", { class: "why-text" }), evidence = el("ol", {}), proof = el("details", { class: "proof" }, el("summary", {}, icon("chev"), text("evidence")), evidence);
  const figures = el("section", { class: "panel" }), time = el("div", { class: "body" }), events = el("ol", { class: "events", tabindex: "0", "aria-label": text("events") });
  const saves = el("div", {}), tries = el("div", {}), savesPanel = el("section", { class: "panel" }, el("header", {}, el("h2", {}, text("checkpoints"))), saves, el("header", { class: "mid" }, el("h2", {}, text("attempts"))), tries);
  const tale = story(), log = logPanel(path), samples = samplePanel(path), spec = specPanel(), lag = rankPanel();
  const panel = (key, ...inside) => el("section", { class: "panel" }, el("header", {}, el("h2", {}, text(key))), ...inside);
  const list = [], steps = new Map(), curves = new Map();
  let all = null, row = null, word = null, timer = 0, slow = 0, drawn = "", curvesAt = 0, ended = false, generation = "", reading = null, wanted = false, closed = false;

  main.replaceChildren(el("div", { class: "title" }, el("nav", { class: "crumbs", "aria-label": text("path") }, el("a", { href: "#/" }, text("jobs")), ` / ${name}`),
    el("div", { class: "head" }, title, state, buttons), facts),
  el("div", { class: "top" }, panel("why", el("div", { class: "body" }, why, proof)), figures), tale.node, lag.node,
  el("div", { class: "cells" }, panel("time", time), samples.node, savesPanel, spec.node), panel("events", events), log.node);

  async function run(action, job) {
    const refused = await act(action, [job]);
    if (refused === null) return;
    context.say(refused);
    later();
  }

  /* ---- what is known at once: the row ---- */

  function paintHead(job) {
    put(title, job.name);
    document.title = `${job.name} · jobctl`;
    const now = `${wordOf(job)} ${possible(job)}`;
    if (now === word) return;
    word = now;
    state.className = `state pill ${wordOf(job)}`;
    state.replaceChildren(shape(wordOf(job)), text(wordOf(job)));
    const button = (action, look, press) => el("button", { type: "button", class: look, onclick: press }, text(action));
    buttons.replaceChildren(button("newFromThis", "btn", () => context.read(() => editSpec(job))),
      ...possible(job).map((a) => button(a, a === "cancel" ? "btn stop" : "btn", () => run(a, row))));
  }

  function paintFacts() {
    const nodes = all.attempts.at(-1)?.nodes?.map((n) => n.name) ?? [], r = all.job;
    const parts = [text("jobN", r.id), nodes.length ? text("onNodes", text(r.np === 1 ? "ranks1" : "ranksN", r.np ?? "—"), nodes.join(", ")) : null, text("submittedAt", new Date(r.submitted_at).toLocaleString("en-GB")),
      r.attempt ? text("attemptOf", r.attempt, r.generation) : null, all.attempts.at(-1)?.plan?.hash ? text("planOf", all.attempts.at(-1).plan.hash) : null,
      all.code?.commit ? text("codeOf", all.code.commit.slice(0, 10)) : null, r.retry_of ? text("retryOf", r.retry_of) : null];
    facts.replaceChildren(...parts.filter(Boolean).map((p) => el("span", {}, p)));
  }

  function paintRow(job) {
    row = job;
    paintHead(job);
    figures.replaceChildren(figuresOf(job));
    log.setRanks(Math.max(1, job.np ?? 1));
    if (job.attempt && !(ended && job.state === "done")) context.read(log.refresh);
    ended = job.state === "done";
  }

  /* ---- what is asked for ---- */

  function paintWhy(answer) {
    put(why, answer.text);
    proof.hidden = !answer.evidence?.length;
    const lines = (answer.evidence ?? []).map((e) => (typeof e === "string" ? e : e.text ?? JSON.stringify(e)));
    if (evidence.dataset.has === lines.join("\n")) return;
    evidence.dataset.has = lines.join("\n");
    evidence.replaceChildren(...lines.map((line) => el("li", {}, line)));
  }

  async function readCurves() {
    const stamp = `${all.job.attempt} ${all.job.generation}`;
    if (stamp !== generation) curves.clear();
    generation = stamp;
    const names = [...CURVES, "time"], had = Math.max(-1, ...names.map((n) => curves.get(n)?.at(-1)?.[0] ?? -1)), most = Math.max(0, ...names.map((n) => curves.get(n)?.length ?? 0));
    const again = most > 2 * EVENTS, found = (await get(`${path}/metrics`, { names: names.join(), limit: POINTS, after: again ? -1 : had })).curves;
    for (const name of names) curves.set(name, again ? found[name] : [...(curves.get(name) ?? []), ...found[name]]);
  }

  function paintStory() {
    const now = all.job.ended_at ? Date.parse(all.job.ended_at) / 1000 : Date.now() / 1000;
    const when = clockOf(all, curves.get("time") ?? []);
    const marks = (m) => ({ second: m.at, shape: m.shape, words: `${clock(new Date(m.at * 1000).toISOString())} ${m.text}` });
    tale.show({
      from: Date.parse(all.job.submitted_at) / 1000, to: now, ...lanesOf(all, now, text), incidents: incidentsOf(list).map(marks),
      checkpoints: checkpointsOf(all).sort((a, b) => a.second - b.second).map((c) => ({ second: c.second, shape: c.shape, words: text("checkpointAt", number(c.step, 12), text(`trust_${c.shape}`)) })),
      curves: Object.fromEntries(CURVES.map((c) => [c, seriesOf(all, curves.get(c) ?? [], when)])),
    });
  }

  /* One at a time: over a slow network the next one begins when this one has ended. */
  function read() {
    wanted = Boolean(reading);
    reading ??= readAll().finally(() => {
      reading = null;
      if (wanted && !closed) later();
    });
    return reading;
  }

  async function readAll() {
    const [found, reason] = await Promise.all([get(path, { plan: 1 }), get(`${path}/why`)]);
    all = found;
    paintRow(all.job);
    paintFacts();
    paintWhy(reason);
    time.replaceChildren(...ledger(all.goodput).filter(Boolean));
    saves.replaceChildren(all.checkpoints.length ? table(["step", "at", "size", "trust", "digest"], checkpointRows(all), "ck") : el("p", { class: "body hint" }, text("noCheckpoints")));
    tries.replaceChildren(all.attempts.length ? table(["attempt", "ranks", "from", "toStep", "endedBy"], attemptRows(all)) : el("p", { class: "body hint" }, text("noAttempts")));
    spec.show(all);
    samples.setSteps([...steps.keys()].sort((a, b) => a - b));
    lag.show(all.job, list);
    const stamp = `${all.job.step} ${generation} ${list.length}`;
    if (stamp !== drawn || all.job.state !== "done") {
      await readCurves();
      drawn = stamp;
      curvesAt = Date.now();
      paintStory();
    }
    if (!closed) putAttribute(main, "data-ready", "1");
  }

  /* Soon after an event, at most every two seconds while steps are made, and now and then for the sums of time. */
  function later(wait = SOON_MS) {
    clearTimeout(timer);
    timer = setTimeout(() => context.read(read), wait);
    slow = Date.now() + wait;
  }

  function take(kind, data) {
    if (kind === "event") {
      list.push(data);
      if (list.length > EVENTS) list.splice(1, list.length - EVENTS);
      events.prepend(eventRow(data));
      if (events.childElementCount > EVENTS) events.lastElementChild.remove();
      if (data.kind === "sample" && known(data.body?.step)) steps.set(data.body.step, data.seq);
      if (slow < Date.now()) later();
    } else if (kind === "job") {
      const step = row?.step;
      paintRow(data);
      if (slow < Date.now() && step !== data.step) later(Math.max(SOON_MS, curvesAt + CURVES_MS - Date.now()));
      else if (slow + SLOW_MS < Date.now()) later();
    } else if (kind === "gone") {
      context.say(text("unknownJob", name));
    }
  }

  function key(e) {
    if (e.key !== "Escape" || document.querySelector("dialog[open]") || e.target.matches?.("input, textarea, select")) return;
    location.hash = "#/";
  }

  return { live: `${path}/live`, take, read, key, restyle: () => tale.restyle(), close: () => { closed = true; clearTimeout(timer); tale.close(); samples.close(); } };
}
