/* SPDX-License-Identifier: Apache-2.0 */
/* main.js - which page is shown, what is around it, and its connection to the daemon */
import { listen, loggedIn, logIn, recall, Refused, remember } from "./api.js";
import { el, put, putAttribute } from "./dom.js";
import { icon } from "./figures.js";
import { jobsPage } from "./jobs.js";
import { text } from "./texts.js";

const main = document.getElementById("main");
const notice = document.getElementById("notice");
let page = null, stream = null, place = null, lostSince = null, turn = 0;

function say(message) {
  notice.hidden = !message;
  put(notice, message ?? "");
}

function showLive(on) {
  put(document.getElementById("live").lastElementChild, text(on ? "live" : "stale"));
  document.body.classList.toggle("lost", !on);
}

function answered() {
  if (lostSince) say(null);
  lostSince = null;
  showLive(true);
}

/* The daemon answers, but has not what the address names: no page, and no connection lost. */
function missing(message) {
  answered();
  if (stream) stream.close();
  page?.close?.();
  page = stream = null;
  main.replaceChildren(el("div", { class: "empty" }, el("h2", {}, message), el("p", {}, el("a", { class: "link", href: "#/" }, text("toJobs")))));
  putAttribute(main, "data-ready", "1");
}

/* What is on the page stays, and says since when it is old. */
function unanswered(e) {
  if (e instanceof Refused && e.status === 404 && !main.dataset.ready) {
    missing(e.message);
    return;
  }
  if (!page) return;
  showLive(false);
  lostSince ??= new Date().toLocaleTimeString("en-GB");
  if (e instanceof Refused) say(e.status === 401 ? text("ended") : e.message);
  else say(text("lost", lostSince));
}

/* What a page that is gone had asked for says nothing about the one that is shown. */
async function read(what) {
  const shown = page;
  try {
    await what();
    answered();
  } catch (e) {
    if (e.name !== "AbortError" && page === shown) unanswered(e);
  }
}

/* One stream for the page that is seen; none while nobody looks. */
function attend() {
  if (stream) place = stream.close();
  stream = null;
  if (document.hidden || !page?.live) return;
  const shown = page;
  stream = listen(page.live, {
    take: (kind, data) => { if (page === shown) page.take(kind, data); },
    painted: () => { if (page === shown) page.painted?.(); },
    opened: answered,
    lost: unanswered,
  }, place);
}

/* The list is there at once; what other pages need is loaded when one is opened. */
async function makePage() {
  const context = { say, read };
  const [, kind, rest] = /^#\/([a-z]+)\/?(.*)$/.exec(location.hash) ?? [];
  const name = decodeURIComponent(rest ?? "");
  if (kind === "job" && name) return (await import("./job.js")).jobPage(main, name, context);
  if (kind === "compare") return (await import("./compare.js")).comparePage(main, name.split(",").filter(Boolean), context);
  if (kind === "machines") return (await import("./machines.js")).machinesPage(main, name, context);
  return jobsPage(main, context);
}

async function show() {
  const mine = ++turn;
  page?.close?.();
  if (stream) stream.close();
  page = stream = place = null;
  say(null);
  main.removeAttribute("data-ready");
  const made = await makePage();
  scrollTo(0, 0);
  if (mine !== turn) { made.close?.(); return; }
  page = made;
  for (const a of document.querySelectorAll("#nav a")) {
    if ((a.hash === "#/machines") === location.hash.startsWith("#/machines")) a.setAttribute("aria-current", "page");
    else a.removeAttribute("aria-current");
  }
  attend();
  if (page.read) read(page.read);
}

function theme() {
  const chosen = recall("jobctl.theme");
  if (chosen) document.documentElement.dataset.theme = chosen;
}

function changeTheme() {
  const dark = document.documentElement.dataset.theme
    ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  remember("jobctl.theme", dark ? "light" : "dark");
  theme();
  page?.restyle?.();
}

function frame() {
  put(document.getElementById("skip"), text("skip"));
  document.getElementById("skip").addEventListener("click", (e) => { e.preventDefault(); main.focus(); });
  document.getElementById("brand").prepend(icon("logo"));
  const nav = document.getElementById("nav");
  nav.setAttribute("aria-label", text("pages"));
  nav.append(el("a", { href: "#/" }, text("jobs")), el("a", { href: "#/machines" }, text("machines")));
  document.getElementById("live").append(icon("dot"), el("span", {}));
  const button = document.getElementById("theme");
  button.append(icon("theme"));
  button.setAttribute("aria-label", text("theme"));
  button.addEventListener("click", changeTheme);
  document.addEventListener("keydown", (e) => page?.key?.(e));
  document.addEventListener("visibilitychange", attend);
}

/* A link that was used already is no harm in a browser that is logged in. */
async function enter() {
  let problem = null;
  try {
    await logIn();
  } catch (e) {
    problem = e.message;
  }
  if (!problem || loggedIn()) await show();
  if (problem) say(problem);
}

theme();
frame();
addEventListener("hashchange", enter);
enter();
