// The view Graph: draws what its address names, and makes an address of what is drawn.
import { ask } from "./api.js";
import { drawing, whyNot } from "./drawing.js";
import { communityPanel, entityPanel, relationshipPanel } from "./graph_details.js";
import { GROUPS, addressOf, legend, pathOf, readAddress, together, valueOf } from "./graph_model.js";
import { filters, finder, list, press } from "./graph_side.js";
import { element, fill, state, texts } from "./shell.js";

const words = texts.graph;
const LIMIT = 250;
const AROUND = 60;
const at = (id) => document.getElementById(id);

let address = readAddress();
let base = null;
let shown = { nodes: [], edges: [] };
let chosen = null;
let picture = null;
const surroundings = new Map(); // entity -> what the server said of it
const choice = { colour: address.colour, hiddenTypes: new Set(), weight: 0, community: "", document: null };
const MENTIONED = 1000; // entities of a document that are shown

const on = {
  node: (id) => choose(id),
  open: (id) => (node(id)?.kind === "community" ? go({ community: id }) : expand(id).catch(fail)),
  edge: (id) => tell(() => relationshipPanel(id, on)),
  nothing: () => choose(null),
  found: (id) => go({ entity: [id] }),
  chosen: (id) => choose(id, true),
  entity: (id) => (node(id) ? choose(id, true) : go({ entity: [id] })),
  relationship: (id) => tell(() => relationshipPanel(id, on)),
  community: (id) => go({ community: id }),
  expand: (id) => expand(id).catch(fail),
  collapse: (id) => collapse(id),
  close: () => close(),
  filter: () => hide(),
  document: (found) => ofDocument(found).catch(fail),
  colour: (by) => {
    address.colour = choice.colour = by;
    history.replaceState(null, "", addressOf(address));
    redraw();
  },
};

const node = (id) => shown.nodes.find((found) => found.id === id);

// To another part of the graph.
function go(part) {
  address = { entity: [], community: "", document: "", entities: false, grown: [], colour: choice.colour, ...part };
  history.pushState(null, "", addressOf(address));
  const turned = ["details", "trail"].some((place) => at(place).contains(document.activeElement));
  load().then(() => turned && !chosen && at("canvas").focus({ preventScroll: true }));
}

async function load() {
  at("drawn").textContent = words.drawing;
  Object.assign(choice, { weight: 0, community: "", document: null });
  choice.hiddenTypes.clear();
  try {
    const wanted = address;
    const [found] = await Promise.all([ask(pathOf(wanted, address.entity.length ? AROUND : LIMIT)), ...wanted.grown.map(surround)]);
    if (wanted !== address) return;
    base = found;
    redraw();
    trail();
    choose(address.entity.length === 1 ? address.entity[0] : null);
    picture?.fit();
  } catch (error) {
    fail(error);
  }
}

// What the frame says already is not said twice.
async function fail(error) {
  const { problem } = await state().catch(() => ({}));
  at("drawn").replaceChildren(problem ? words.empty : element("span", { class: "bad" }, error.message));
}

async function surround(id) {
  if (!surroundings.has(id)) surroundings.set(id, await ask(pathOf({ entity: [id], community: "", document: "", entities: false }, AROUND)));
}

// What can be done with the surroundings of an entity; nothing where the address asks for them.
function turn(id) {
  if (address.grown.includes(id)) return "collapse";
  return address.entity.includes(id) ? "" : "expand";
}

async function expand(id) {
  if (turn(id) !== "expand") return;
  const wanted = address;
  await surround(id);
  if (wanted !== address) return;
  address = { ...address, grown: [...address.grown, id] };
  history.pushState(null, "", addressOf(address));
  redraw();
  choose(id);
}

function collapse(id) {
  address = { ...address, grown: address.grown.filter((one) => one !== id) };
  history.pushState(null, "", addressOf(address));
  redraw();
  choose(node(id) ? id : null);
}

// Only what a document mentions: {id, title}, or null for all.
async function ofDocument(found) {
  const part = { entity: [], community: "", entities: false };
  const mentioned = found && (await ask(pathOf({ ...part, document: found.id }, MENTIONED)));
  choice.document = found && { ...found, ids: new Set(mentioned.entities.map((entity) => entity.id)) };
  redraw();
}

// Everything anew of what is known: the drawing, the list and the filters.
function redraw() {
  const parts = [base, ...address.grown.map((id) => surroundings.get(id))];
  shown = together(parts);
  const titles = Object.assign({}, ...parts.map((part) => part.titles));
  const groups = legend(shown.nodes, choice.colour, titles, words);
  const colours = new Map(groups.map(({ value, group }) => [value, group]));
  shown.nodes.forEach((each, place) => {
    each.group = each.kind === "community" ? place % GROUPS : colours.get(valueOf(each, choice.colour));
  });
  picture?.show(shown.nodes, shown.edges);
  filters(choice, { ...shown, titles, groups, colours }, on);
  hide();
  at("drawn").textContent = summary();
}

function summary() {
  const { communities, within, of, relationships, entities } = base;
  const n = shown.nodes.length.toLocaleString();
  if (!shown.nodes.length) return words.empty;
  if (communities.length) return fill(within.length ? words.drawn_parts : words.drawn_communities, { n });
  const values = { n, m: shown.edges.length.toLocaleString(), of: of?.toLocaleString() };
  return fill(of > entities.length && shown.edges.length === relationships.length ? words.drawn_of : words.drawn_entities, values);
}

function hide() {
  const out = (each) =>
    choice.hiddenTypes.has(each.entityType) ||
    Boolean(choice.community && each.community !== choice.community) ||
    Boolean(choice.document && !choice.document.ids.has(each.id));
  const gone = new Set(shown.nodes.filter(out).map((each) => each.id));
  picture?.hide((id) => gone.has(id), (_, edge) => edge.weight < choice.weight);
  list(shown.nodes.filter((each) => !gone.has(each.id)), chosen, on);
}

// Where one is: the whole, the communities around, what is drawn of them.
function trail() {
  const steps = [step(words.whole, () => go({}))];
  for (const found of base.within) steps.push(step(found.title, () => go({ community: found.id })));
  const last = base.within.at(-1);
  if (last && base.communities.length) steps.push(step(words.as_entities, () => go({ community: last.id, entities: true })));
  else if (last && address.entities && last.parts > 1) steps.push(step(words.as_parts, () => go({ community: last.id })));
  if (address.entity.length) {
    const names = address.entity.map((id) => node(id)?.label ?? "").join(", ");
    steps.push(element("span", {}, fill(words.around, { name: names })));
  }
  if (address.document) steps.push(element("span", {}, fill(words.in_document, { name: base.document || words.one_document })));
  at("trail").replaceChildren(...steps);
}

function step(said, onclick) {
  return element("span", {}, element("button", { onclick }, said));
}

// reveal: it was chosen elsewhere than in the drawing.
function choose(id, reveal = false) {
  chosen = id;
  picture?.choose(id);
  press(id);
  if (!id) return tell(null);
  if (reveal) picture?.reveal(id);
  const found = node(id);
  if (!found) return tell(null);
  return tell(() => (found.kind === "community" ? communityPanel(found, on) : entityPanel(id, turn(id), on)));
}

// Back to where it was chosen by the keyboard.
function close() {
  const listed = chosen && at(`listed-${chosen}`);
  choose(null);
  (listed ?? at("canvas")).focus({ preventScroll: true });
}

let telling = 0;
async function tell(what) {
  const mine = ++telling;
  const place = at("details");
  place.parentElement.classList.toggle("told", Boolean(what));
  if (!what) return place.replaceChildren(element("p", { class: "quiet" }, words.nothing_chosen));
  place.setAttribute("aria-busy", "true");
  try {
    const parts = await what();
    if (mine !== telling) return;
    const turned = place.contains(document.activeElement) || at("nodes").contains(document.activeElement);
    place.replaceChildren(...parts.flat(3).filter(Boolean));
    if (turned) place.focus();
  } catch (error) {
    if (mine === telling) place.replaceChildren(element("p", { class: "notice bad" }, error.message));
  }
  place.removeAttribute("aria-busy");
  place.scrollTop = 0;
}

const KEYS = {
  "+": () => picture.zoom(1.5), "=": () => picture.zoom(1.5), "-": () => picture.zoom(1 / 1.5), 0: () => picture.fit(),
  ArrowLeft: () => picture.pan(-0.1, 0), ArrowRight: () => picture.pan(0.1, 0),
  ArrowUp: () => picture.pan(0, 0.1), ArrowDown: () => picture.pan(0, -0.1),
};

async function begin() {
  finder(on);
  addEventListener("popstate", () => {
    address = readAddress();
    choice.colour = address.colour;
    load();
  });
  at("details").addEventListener("keydown", ({ key, target }) => key === "Escape" && !target.matches("input") && close());
  const loaded = load();
  try {
    picture = await drawing(at("canvas"), on);
  } catch (error) {
    at("canvas").replaceChildren(element("p", { class: "notice warn" }, whyNot(error, words)));
    return;
  }
  at("zoom-in").onclick = KEYS["+"];
  at("zoom-out").onclick = KEYS["-"];
  at("fit").onclick = KEYS[0];
  at("canvas").addEventListener("keydown", (event) => {
    if (!KEYS[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    KEYS[event.key]();
  });
  await loaded;
  if (base) {
    redraw();
    choose(chosen);
  }
}

begin();
