// Addresses of other views, below the page's root.
import { ROOT } from "./api.js";

// A passage, marked in its document. order: its place there, if known.
export function passageAddress(document, unit) {
  return new URL(`documents?${new URLSearchParams({ id: document, unit })}`, ROOT).href;
}

export const entityAddress = (id) => new URL(`graph?${new URLSearchParams({ entity: id })}`, ROOT).href;
