/* SPDX-License-Identifier: Apache-2.0 */
/* actions.js - what can be done to jobs, each after a question */
import { post } from "./api.js";
import { el } from "./dom.js";
import { text } from "./texts.js";

const sure = { cancel: "sureCancel", hold: "sureHold", release: "sureRelease", retry: "sureRetry", checkpoint: "sureCheckpoint" };

export function possible(job) {
  if (job.state === "done") return ["retry"];
  const more = job.state === "pending" ? [job.held ? "release" : "hold"] : job.state === "running" ? ["checkpoint"] : [];
  return [...more, "cancel"];
}

function confirm(question, action) {
  return new Promise((resolve) => {
    const button = (word, look) => el("button", { class: look, type: "button", onclick: () => dialog.close(word) }, text(word));
    const no = button("back", "btn"), yes = button(action, action === "cancel" ? "btn stop" : "btn main");
    const dialog = el("dialog", { "aria-labelledby": "question" }, el("p", { id: "question" }, question), el("div", { class: "choices" }, no, yes));
    dialog.addEventListener("close", () => { dialog.remove(); resolve(dialog.returnValue === action); });
    document.body.append(dialog);
    dialog.showModal();
    no.focus();
  });
}

/* The answers of the daemon to those that it refused, one per line; null: not asked for after all. */
export async function act(action, jobs) {
  const which = jobs.length === 1 ? `${jobs[0].id} ${jobs[0].name}` : text("sureMany", jobs.length);
  if (!(await confirm(text(sure[action], which), action))) return null;
  const refused = [];
  for (const job of jobs) {
    try {
      await post(`/v1/jobs/${job.id}/${action}`, action === "cancel" ? { reason: "from the dashboard" } : {});
    } catch (e) {
      refused.push(text("notDone", job.id, e.message));
    }
  }
  return refused.join("\n");
}
