/* SPDX-License-Identifier: Apache-2.0 */
/* samples.js - the pictures that a training drew, by step: a slider, and the first ones while the button is held */
import { getBlob } from "./api.js";
import { el, put } from "./dom.js";
import { number } from "./figures.js";
import { text } from "./texts.js";

const KEPT = 12;

export function samplePanel(path) {
  const picture = el("img", { class: "sample", alt: "" }), atStep = el("span", { class: "hint", role: "status" });
  const slider = el("input", { type: "range", min: "0", value: "0", step: "1", "aria-label": text("sampleStep"), oninput: () => show(Number(slider.value)) });
  const hold = el("button", { type: "button", class: "btn quiet", onpointerdown: first, onpointerup: back, onpointerleave: back,
    onkeydown: (e) => e.key === " " && first(), onkeyup: back }, text("holdFirst"));
  const ticks = el("div", { class: "ticks", "aria-hidden": "true" });
  const node = el("section", { class: "panel", hidden: true }, el("header", {}, el("h2", {}, text("samples")), atStep, el("span", { class: "end" }, hold)),
    el("div", { class: "body fill" }, picture, el("div", { class: "slide" }, el("span", {}, text("before")), el("div", {}, slider, ticks), el("span", {}, text("now")))));
  const pictures = new Map();
  let steps = [], wish = null;

  async function load(step) {
    if (!pictures.has(step)) {
      pictures.set(step, URL.createObjectURL(await getBlob(`${path}/sample?step=${step}`)));
      for (const [old, url] of pictures) if (pictures.size > KEPT && old !== steps[0]) { URL.revokeObjectURL(url); pictures.delete(old); break; }
    }
    return pictures.get(step);
  }

  async function draw(step) {
    wish = step;
    put(atStep, text("atStep", number(step, 12)));
    slider.setAttribute("aria-valuetext", atStep.textContent);
    try {
      const url = await load(step);
      if (wish !== step) return;
      picture.src = url;
      picture.alt = text("sampleOf", number(step, 12));
    } catch (e) { put(atStep, `${text("atStep", number(step, 12))}: ${e.message}`); }
  }

  function show(i) { if (steps.length) draw(steps[Math.max(0, Math.min(steps.length - 1, i))]); }
  function first() { if (steps.length) draw(steps[0]); }
  function back() { show(Number(slider.value)); }

  /* Those of a step made again replace the earlier ones. */
  function setSteps(next) {
    if (next.join() === steps.join()) return;
    const atEnd = Number(slider.value) >= steps.length - 1;
    steps = next;
    node.hidden = steps.length === 0;
    slider.max = String(steps.length - 1);
    ticks.replaceChildren(...[...new Set([0, Math.floor((steps.length - 1) / 2), steps.length - 1])].map((i) => el("span", {}, number(steps[i], 12))));
    if (!atEnd) return;
    slider.value = String(steps.length - 1);
    show(steps.length - 1);
  }

  return { node, setSteps, close: () => { for (const url of pictures.values()) URL.revokeObjectURL(url); } };
}
