// Addresses of other views, below the page's root.
import { ROOT } from "./api.js";

// A passage, marked in its document: the page of it that has the passage.
export function passageAddress(document, unit) {
  const at = encodeURIComponent(unit);
  return new URL(`documents/${encodeURIComponent(document)}?at=${at}#${at}`, ROOT).href;
}

export const entityAddress = (id) => new URL(`graph?${new URLSearchParams({ entity: id })}`, ROOT).href;
