// The questions of this browser, kept in it alone, until someone signs out (shell.js) or has them forgotten.
import { KEPT, element } from "./shell.js";

const MOST = 50;
const at = (id) => document.getElementById(id);

function read() {
  try {
    const kept = JSON.parse(localStorage.getItem(KEPT) ?? "[]");
    return Array.isArray(kept) ? kept.filter((one) => typeof one === "string") : [];
  } catch {
    return [];
  }
}

// Nothing where the browser has no room, or is to keep nothing.
export function remember(question) {
  try {
    localStorage.setItem(KEPT, JSON.stringify([question, ...read().filter((one) => one !== question)].slice(0, MOST)));
  } catch {}
}

// on(question): one of them is to be asked again.
export function showEarlier(on) {
  const kept = read();
  at("earlier-none").hidden = kept.length > 0;
  at("forget").hidden = !kept.length;
  at("forget").onclick = () => {
    localStorage.removeItem(KEPT);
    showEarlier(on);
  };
  at("earlier-list").replaceChildren(...kept.map((question) => element("li", {}, element("button", { type: "button", onclick: () => on(question) }, question))));
}
