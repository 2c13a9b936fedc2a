/* SPDX-License-Identifier: Apache-2.0 */
/* main.js - which page is shown, and what is around it */
import { loggedIn, logIn, Refused } from "./api.js";
import { el, put } from "./dom.js";
import { jobsPage } from "./jobs.js";
import { jobPage } from "./job.js";
import { text } from "./texts.js";

const TICK_MS = 2000;
const main = document.getElementById("main");
const notice = document.getElementById("notice");
let page = null, timer = 0, busy = false, lostSince = null;

function say(message) {
  notice.hidden = !message;
  put(notice, message ?? "");
}

function answered() {
  lostSince = null;
  document.body.classList.remove("lost");
  put(document.getElementById("live"), text("live"));
}

function unanswered(e) {
  put(document.getElementById("live"), text("stale"));
  document.body.classList.add("lost");
  lostSince ??= new Date().toLocaleTimeString("en-GB");
  if (e instanceof Refused) say(e.status === 401 ? text("ended") : e.message);
  else say(text("lost", lostSince));
}

/* One refresh at a time; none while nobody looks, and none for a browser that is not logged in. */
async function tick() {
  clearTimeout(timer);
  if (busy || document.hidden || !page) return;
  busy = true;
  const shown = page;
  let again = true;
  try {
    await shown.refresh();
    if (lostSince) say(null);
    answered();
  } catch (e) {
    unanswered(e);
    again = !(e instanceof Refused && (e.status === 401 || e.status === 404));
  }
  busy = false;
  if (shown !== page) tick();
  else if (again) timer = setTimeout(tick, TICK_MS);
}

function show() {
  const job = /^#\/job\/([^/]+)$/.exec(location.hash);
  page?.close?.();
  say(null);
  const context = { say, refresh: tick };
  page = job ? jobPage(main, decodeURIComponent(job[1]), context) : jobsPage(main, context);
  tick();
}

function theme() {
  const chosen = localStorage.getItem("jobctl.theme");
  if (chosen) document.documentElement.dataset.theme = chosen;
}

function changeTheme() {
  const dark = document.documentElement.dataset.theme
    ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  localStorage.setItem("jobctl.theme", dark ? "light" : "dark");
  theme();
}

function frame() {
  put(document.getElementById("skip"), text("skip"));
  document.getElementById("skip").addEventListener("click", (e) => { e.preventDefault(); main.focus(); });
  const nav = document.getElementById("nav");
  nav.setAttribute("aria-label", text("pages"));
  nav.append(el("a", { href: "#/" }, text("jobs")));
  const button = document.getElementById("theme");
  button.append("◐");
  button.setAttribute("aria-label", text("theme"));
  button.addEventListener("click", changeTheme);
  document.addEventListener("keydown", (e) => page?.key?.(e));
  document.addEventListener("visibilitychange", tick);
}

/* A link that was used already is no harm in a browser that is logged in. */
async function enter() {
  let problem = null;
  try {
    await logIn();
  } catch (e) {
    problem = e.message;
  }
  if (!problem || loggedIn()) show();
  if (problem) say(problem);
}

theme();
frame();
addEventListener("hashchange", enter);
enter();
