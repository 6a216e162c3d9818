// Addresses of other views, below the page's root.
import { ROOT } from "./api.js";
import { element } from "./shell.js";

// A passage, marked in its document: the page of it that has the passage.
export function passageAddress(document, unit) {
  const at = encodeURIComponent(unit);
  return new URL(`documents/${encodeURIComponent(document)}?at=${at}#${at}`, ROOT).href;
}

// Parts for an element: what is said of an entity, as a link into Graph where the frame leads there for whoever asks.
export function inGraph(id, said) {
  if (!document.querySelector('header nav a[href$="graph"]')) return said;
  return element("a", { href: new URL(`graph?${new URLSearchParams({ entity: id })}`, ROOT).href }, said);
}
