// The view Corrections: what is decided and pending, the run that applies it, and suspects with one key for each decision.
import { ask } from "./api.js";
import { lineOf } from "./graph_corrections.js";
import { whatWasSaid } from "./said.js";
import { element, fill, texts } from "./shell.js";

const words = texts.corrections;
const EVERY = 1000;
const at = (id) => document.getElementById(id);
const [list, told, asking, answer] = ["suspects", "told", "asking", "answer"].map(at);

// ---- decided

const inWords = (waiting) => Object.entries(waiting).map(([step, count]) => `${step} ${count}`).join(", ");

function stateOf(one) {
  if (one.kind === "keep") return words.state_kept;
  if (one.pending) return words.state_pending;
  if (one.records === null) return "";
  return one.records ? fill(words.state_applied, { records: one.records, units: one.text_units }) : words.state_none;
}

async function showDecided() {
  const found = await ask("ui/corrections");
  const { corrections, undone, pending } = found;
  at("pending").textContent = pending ? fill(words.pending, { n: pending }) : corrections.length ? words.nothing_pending : words.none;
  const takeBack = (id) => async () => {
    try {
      await ask("ui/correct/undo", { id });
      await Promise.all([showDecided(), showSuspects()]);
    } catch (error) {
      say(at("applying"), error.message, "bad");
    }
  };
  at("decided").replaceChildren(
    ...corrections.toReversed().map((one) => element("li", { "data-id": one.id, class: one.pending && "pending" }, lineOf(one), " ",
      element("span", { class: one.pending ? "tag" : "quiet" }, stateOf(one)), " ",
      element("button", { type: "button", class: "link", onclick: takeBack(one.id) }, words.undo))),
    ...undone.map((one) => element("li", { class: "pending" }, lineOf(one), " ", element("span", { class: "tag" }, words.undone))));
  return found;
}

// ---- applied

const say = (place, text, kind = "quiet") => Object.assign(place, { textContent: text, className: kind });

async function follow(run) {
  for (;;) {
    const far = await ask(`ui/runs/${run}`);
    if (!far) return;
    say(at("applying"), far.step ? fill(words.under_way, { step: far.step }) : words.under_way_before);
    await new Promise((resolve) => setTimeout(resolve, EVERY));
  }
}

async function apply() {
  at("apply").disabled = true;
  try {
    say(at("applying"), words.beginning);
    const { run } = await ask("ui/corrections/apply", {});
    if (!run) return say(at("applying"), words.under_way_before);
    await follow(run);
    const { last } = await showDecided();
    await showSuspects();
    if (!last || last.run !== run || last.exit_code) throw new Error(fill(words.not_applied, { why: last?.message ?? "" }));
    const waiting = inWords(last.waiting);
    say(at("applying"), waiting ? fill(words.applied_waiting, { waiting }) : words.applied, "good");
  } catch (error) {
    say(at("applying"), error.message, "bad");
  } finally {
    at("apply").disabled = false;
  }
}

// ---- suspects

let suspects = [];
let chosen = 0;
const done = []; // what was decided here, for undo: {suspect, id, what}
const types = new Set();

function row(suspect, place) {
  const decided = suspect.decided;
  return element("li", {
    role: "option", id: `suspect-${place}`, "aria-selected": String(place === chosen), class: decided && "decided",
    onclick: () => { choose(place); list.focus(); },
  },
    element("span", { class: "tag" }, words.kinds[suspect.kind]), element("strong", { class: "name" }, suspect.name),
    element("span", { class: "quiet" }, suspect.type || words.untyped), element("span", {}, suspect.why),
    suspect.other && element("span", {}, fill(words.perhaps, { name: suspect.other })),
    element("span", { class: "quiet" }, fill(words.frequency, { n: suspect.frequency })),
    decided && element("strong", { class: "good" }, decided));
}

function draw() {
  list.replaceChildren(...suspects.map(row));
  if (suspects.length) list.setAttribute("aria-activedescendant", `suspect-${chosen}`);
  else list.removeAttribute("aria-activedescendant");
  list.children[chosen]?.scrollIntoView({ block: "nearest" });
}

function choose(place) {
  chosen = Math.max(0, Math.min(place, suspects.length - 1));
  at("said").replaceChildren();
  draw();
}

async function showSuspects() {
  const before = suspects[chosen]?.name;
  const found = await ask("ui/corrections/suspects");
  suspects = found.suspects;
  done.length = 0;
  for (const type of found.types) types.add(type);
  const all = Object.values(found.counts).reduce((sum, count) => sum + count, 0);
  const some = suspects.length < all ? [fill(words.suspects_of, { n: suspects.length, all })] : [];
  say(told, [...(suspects.length ? some : [words.suspects_none]), ...found.notes].join(" "));
  // The list may be shorter now: a place in the old one would choose another suspect, which a key then decides on.
  choose(suspects.findIndex((one) => one.name === before));
}

const next = (from) => {
  const later = suspects.findIndex((one, place) => place > from && !one.decided);
  return later < 0 ? from : later;
};

// Fields of the correction, and how it is said. Who wants to decide twice on one takes the first decision back.
const DECISIONS = {
  d: { what: "delete", fields: (one) => ({ kind: "delete_entity", entity: one.name }) },
  m: { what: "merge", asks: (one) => !one.other, fields: (one, to) => ({ kind: "rename", entity: one.name, to }) },
  t: { what: "type", asks: () => true, fields: (one, to) => ({ kind: "set_type", entity: one.name, to }) },
  r: { what: "rename", asks: () => true, fields: (one, to) => ({ kind: "rename", entity: one.name, to }) },
  k: { what: "keep", fields: (one) => ({ kind: "keep", entity: one.name, ...(one.kind === "duplicate" && { other: one.other }) }) },
};

async function decide(key) {
  const suspect = suspects[chosen];
  if (!suspect) return;
  if (suspect.decided) return void say(told, fill(words.decided_before, suspect), "warn");
  const { what, asks, fields } = DECISIONS[key];
  const to = asks?.(suspect) ? await askFor(what, suspect) : suspect.other;
  if (to === null) return;
  const { id, notes } = await ask("ui/correct", fields(suspect, to));
  suspect.decided = fill(words.done[what], { to });
  done.push({ suspect, id });
  if (what === "type") types.add(to);
  // A note is a warning, such as a type that the ontology lacks: in the colour of success it is overlooked.
  say(told, [`${suspect.name}: ${suspect.decided}.`, ...notes].join(" "), notes.length ? "warn" : "good");
  choose(next(chosen));
  await showDecided();
}

async function undo() {
  const last = done.at(-1);
  if (!last) return void say(told, words.nothing_to_undo);
  await ask("ui/correct/undo", { id: last.id });
  done.pop();
  delete last.suspect.decided;
  say(told, words.undone_last, "good");
  choose(suspects.indexOf(last.suspect));
  await showDecided();
}

async function showSaid() {
  const suspect = suspects[chosen];
  if (suspect) at("said").replaceChildren(element("h3", {}, words.said), await whatWasSaid(suspect.name));
}

// The answer to a question beside the list; null where it is left.
function askFor(what, suspect) {
  asking.hidden = false;
  asking.querySelector("label").textContent = fill(words[`ask_${what}`], suspect);
  at("answers").replaceChildren(...(what === "type" ? [...types].sort() : []).map((value) => element("option", { value })));
  answer.value = what === "rename" ? suspect.name : "";
  answer.focus();
  answer.select();
  return new Promise((resolve) => {
    const leave = () => end(null);
    const end = (value) => {
      list.removeEventListener("pointerdown", leave);
      asking.hidden = true;
      Object.assign(asking, { onsubmit: null, onkeydown: null });
      list.focus();
      resolve(value);
    };
    asking.onsubmit = (event) => { event.preventDefault(); end(answer.value.trim() || null); };
    // Braces: a handler that returns false would keep every other key from the field.
    asking.onkeydown = (event) => { if (event.key === "Escape") leave(); };
    at("leave").onclick = leave;
    list.addEventListener("pointerdown", leave);
  });
}

// One after the other, however fast they are typed: a key means what is chosen after those before it.
let work = Promise.resolve();
const then = (doing) => (work = work.then(doing).catch((error) => say(told, error.message, "bad")));

const KEYS = {
  ...Object.fromEntries(Object.keys(DECISIONS).map((key) => [key, () => decide(key)])),
  u: undo,
  Enter: showSaid,
  ArrowDown: () => choose(chosen + 1),
  ArrowUp: () => choose(chosen - 1),
  Home: () => choose(0),
  End: () => choose(suspects.length - 1),
};

list.addEventListener("keydown", (event) => {
  const doing = KEYS[event.key];
  if (!doing || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  then(doing);
});

const named = [...Object.entries(DECISIONS).map(([key, { what }]) => [key, words[what]]), ["u", words.undo_last], ["Enter", words.what_was_said]];
at("actions").replaceChildren(...named.map(([key, said]) => element("button", { type: "button", "aria-keyshortcuts": key, onclick: () => { list.focus(); then(KEYS[key]); } },
  said, " ", element("kbd", {}, key === "Enter" ? "↵" : key))));
at("apply").addEventListener("click", apply);

const begun = await showDecided().catch((error) => void say(at("applying"), error.message, "bad"));
if (begun?.under_way) say(at("applying"), words.under_way_before);
await showSuspects().catch((error) => say(told, error.message, "bad"));
// Keys decide from the first one on, unless somebody has gone elsewhere meanwhile.
if (suspects.length && document.activeElement === document.body) list.focus({ preventScroll: true });
