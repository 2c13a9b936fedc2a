/* SPDX-License-Identifier: Apache-2.0 */
/* virtual.js - a list of any length of which only the rows in sight exist; the page itself scrolls */
const SPARE = 10, BAND = 32;

/* how: make(item) and fill(row, item) give {node}; key(item) says which row is the item's; row() is the height of one. */
export function virtualList(body, how) {
  const rows = new Map();
  let items = [], tops = [0], height = how.row(), frame = 0;

  function measure() {
    height = how.row();
    tops = [0];
    for (const item of items) tops.push(tops.at(-1) + (item.band ? BAND : height));
    body.style.height = `${tops.at(-1)}px`;
  }

  /* The first item that ends below y. */
  function at(y) {
    let low = 0, high = items.length;
    while (low < high) {
      const mid = (low + high) >> 1;
      if (tops[mid + 1] > y) high = mid;
      else low = mid + 1;
    }
    return low;
  }

  function rowOf(item) {
    const key = how.key(item);
    if (!rows.has(key)) rows.set(key, how.make(item));
    return rows.get(key);
  }

  function place(i) {
    const row = rowOf(items[i]);
    row.node.style.transform = `translateY(${tops[i]}px)`;
    row.node.setAttribute("aria-rowindex", String(i + 2));
    how.fill(row, items[i]);
    return row.node;
  }

  function paint() {
    frame = 0;
    const top = -body.getBoundingClientRect().top;
    const from = Math.max(0, at(top) - SPARE), to = Math.min(items.length, at(top + innerHeight) + SPARE + 1);
    const wanted = new Set();
    let next = body.firstElementChild;
    for (let i = from; i < to; i++) {
      const node = place(i);
      wanted.add(how.key(items[i]));
      if (node === next) next = next.nextElementSibling;
      else body.insertBefore(node, next);
    }
    for (const [key, row] of rows) {
      if (wanted.has(key) || row.node.contains(document.activeElement)) continue;
      row.node.remove();
      rows.delete(key);
    }
  }

  function soon() { frame ||= requestAnimationFrame(paint); }
  function resized() { measure(); soon(); }
  addEventListener("scroll", soon, { passive: true });
  addEventListener("resize", resized);

  return {
    items: () => items,
    show(list) { items = list; measure(); paint(); },
    /* Fills those in sight again; each(item) may put another job into the item. */
    repaint(each) { if (each) items.forEach(each); paint(); },
    reveal(i) {
      const top = body.getBoundingClientRect().top + tops[i];
      if (top < 90) scrollBy(0, top - 90);
      else if (top + height > innerHeight - 16) scrollBy(0, top + height - innerHeight + 16);
      paint();
      return rows.get(how.key(items[i]))?.node;
    },
    close() { cancelAnimationFrame(frame); removeEventListener("scroll", soon); removeEventListener("resize", resized); },
  };
}
