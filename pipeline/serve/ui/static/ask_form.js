// What is asked beside the question: mode, filters, limits; and the address that keeps them. A question is in no address.
import { element, texts } from "./shell.js";

const words = texts.ask;
const NUMBERS = ["top_k", "chunk_top_k", "max_total_tokens", "max_entity_tokens", "max_relation_tokens", "community_level", "max_calls", "min_score"];
const NAMES = ["mode", ...NUMBERS, "response_type", "language", "user_prompt", "model"];
const at = (id) => document.getElementById(id);

// What differs from the page's own state, as the server takes it.
export function options() {
  const given = {};
  for (const name of NAMES) {
    const value = at(name)?.value.trim();
    if (value && (name !== "model" || at("model").length > 1)) given[name] = NUMBERS.includes(name) ? Number(value) : value;
  }
  const where = conditions();
  if (Object.keys(where).length) given.where = where;
  return given;
}

// Conditions on documents, as QueryRequest.where has them.
function conditions() {
  const where = Object.create(null); // a field may be called __proto__
  for (const row of at("conditions").children) {
    const [field, sign, value] = [...row.querySelectorAll("input, select")].map((control) => control.value.trim());
    if (!field || (!value && sign !== "exists")) continue;
    (where[field] ??= {})[sign] = { in: () => value.split(",").map((item) => item.trim()).filter(Boolean), exists: () => value !== "false" }[sign]?.() ?? value;
  }
  return where;
}

function addCondition(field = "", sign = "=", value = "") {
  const row = element("li", { class: "condition" },
    element("input", { list: "fields", value: field, "aria-label": words.filter_field, placeholder: words.filter_field, oninput: changed }),
    element("select", { "aria-label": words.filter_is, onchange: changed },
      Object.entries(words.operators).map(([name, said]) => element("option", { value: name, selected: name === sign }, said))),
    element("input", { value, "aria-label": words.filter_value, placeholder: words.filter_value, oninput: changed }),
    element("button", { type: "button", "aria-label": words.filter_remove, onclick: () => { row.remove(); changed(); } }, "✕"));
  at("conditions").append(row);
  return row;
}

// The fields of the documents that were found so far, to choose among.
export function offerFields(chunks) {
  const known = new Set([...at("fields").options].map((option) => option.value));
  for (const { metadata } of chunks) {
    for (const name of Object.keys(metadata ?? {})) {
      if (!known.has(name)) at("fields").append(element("option", { value: name }));
      known.add(name);
    }
  }
}

function changed() {
  const n = Object.keys(conditions()).length;
  at("filters-count").textContent = n ? `(${n})` : "";
  const asked = new URLSearchParams();
  for (const [name, value] of Object.entries(options())) {
    const usual = at(name)?.querySelector("option[selected]")?.value;
    if (name === "where") asked.set("where", JSON.stringify(value));
    else if (String(value) !== usual) asked.set(name, value);
  }
  history.replaceState(history.state, "", asked.size ? `?${asked}` : location.pathname);
}

export function prepare() {
  const asked = new URLSearchParams(location.search);
  for (const name of NAMES) {
    const place = at(name);
    if (place && asked.has(name)) {
      place.value = asked.get(name);
      unfold(place);
    }
    if (place?.tagName === "SELECT" && place.selectedIndex < 0) place.value = place.querySelector("option[selected]")?.value ?? place.options[0]?.value;
    place?.addEventListener("input", changed);
  }
  for (const [field, condition] of Object.entries(readWhere(asked.get("where")))) {
    for (const [sign, value] of Object.entries(condition)) addCondition(field, sign, Array.isArray(value) ? value.join(", ") : String(value));
  }
  at("filters").open = at("conditions").children.length > 0;
  at("add-condition").addEventListener("click", () => addCondition().querySelector("input").focus());
  changed();
}

// What an address brings along is seen before it is asked.
function unfold(place) {
  for (let folded = place.closest("details"); folded; folded = folded.parentElement.closest("details")) folded.open = true;
}

function readWhere(text) {
  try {
    const where = JSON.parse(text ?? "{}");
    return Object.fromEntries(Object.entries(where).filter(([, condition]) => condition && typeof condition === "object"));
  } catch {
    return {};
  }
}
