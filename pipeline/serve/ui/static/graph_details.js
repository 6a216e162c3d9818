// What is told of one entity, relationship or community, and a person's word on names.
import { ask } from "./api.js";
import { correctEntity, correctRelationship } from "./graph_corrections.js";
import { marked } from "./marks.js";
import { passageAddress } from "./places.js";
import { element, fill, state, texts } from "./shell.js";

const words = texts.graph;
const narrow = matchMedia("(max-width: 40rem)");

// on: {entity(id), relationship(id), community(id), expand(id), collapse(id), close()}
export async function entityPanel(id, turn, on) {
  const told = await ask(`ui/graph/entity?${new URLSearchParams({ id })}`);
  const { entity, properties, relationships, communities, names } = told;
  const kind = element("p", { class: "row" },
    element("span", { class: "tag" }, typeName(entity.type)),
    element("span", { class: "quiet" }, fill(words.degree, { n: entity.degree.toLocaleString() })));
  const alone = element("a", { class: "button", href: `graph?${new URLSearchParams({ entity: id })}` }, words.alone);
  return [
    head(entity.name, on),
    kind,
    element("p", { class: "description" }, entity.description || words.no_description),
    element("div", { class: "row" },
      turn === "collapse" && element("button", { id: "collapse", onclick: () => on.collapse(id) }, words.collapse),
      turn === "expand" && element("button", { id: "expand", class: "main", onclick: () => on.expand(id) }, words.expand),
      alone),
    names && namesOf(names),
    names && (await pinForm(entity.name, names)),
    await correctEntity(entity, told.said),
    properties.length > 0 && section([words.properties], propertiesOf(properties)),
    relationships.length > 0 && section(
      [words.relationships, relationships.length < entity.degree && some(fill(words.relationships_some, { n: relationships.length }))],
      element("ul", { class: "plain" }, relationships.map((found) => relationshipRow(found, id, on))),
    ),
    communities.length > 0 && section(
      [words.communities],
      element("ul", { class: "plain" }, communities.map((found) => element("li", { class: "leads" },
        element("span", { class: "pale" }, fill(words.level, { n: found.level })), link(found.title, () => on.community(found.id))))),
    ),
    passages(told, [entity.name, ...(names?.merged ?? []).map((one) => one.name)]),
  ];
}

export async function relationshipPanel(id, on) {
  const told = await ask(`ui/graph/relationship?${new URLSearchParams({ id })}`);
  const [found] = told.relationships;
  return [
    head(`${found.source} → ${found.target}`, on),
    element("p", { class: "row" }, found.keywords.map((word) => element("span", { class: "tag" }, word)),
      element("span", { class: "quiet" }, fill(words.weight_of, { n: found.weight.toLocaleString() }))),
    element("p", { class: "description" }, found.description || words.no_description),
    element("div", { class: "row" },
      link(found.source, () => on.entity(found.source_entity_id)), link(found.target, () => on.entity(found.target_entity_id))),
    found.statements.length > 0 && section([words.stated], statementsOf(found)),
    await correctRelationship(found),
    passages(told, [found.source, found.target]),
  ];
}

export function communityPanel(node, on) {
  return [
    head(node.label, on),
    element("p", { class: "quiet" }, [
      fill(words.members, { n: node.count.toLocaleString() }), fill(words.level, { n: node.level }), node.inside > 1 && fill(words.parts, { n: node.inside }),
    ].filter(Boolean).join(" · ")),
    node.summary && element("p", { class: "description" }, node.summary),
    element("div", { class: "row" }, element("button", { id: "open", class: "main", onclick: () => on.community(node.id) }, words.open)),
  ];
}

function head(name, on) {
  return element("div", { class: "head" }, element("h2", {}, name), element("button", { id: "close-details", "aria-label": words.close, onclick: on.close }, "✕"));
}

function relationshipRow(found, id, on) {
  const out = found.source_entity_id === id;
  const [other, otherId] = out ? [found.target, found.target_entity_id] : [found.source, found.source_entity_id];
  return element("li", { class: "leads" },
    element("span", { class: "pale", "aria-hidden": "true" }, out ? "→" : "←"), element("span", { class: "hidden" }, out ? words.leads_to : words.comes_from, " "),
    element("div", {}, link(other, () => on.entity(otherId)), " ",
      element("button", { class: "link quiet", onclick: () => on.relationship(found.id), "data-relationship": found.id }, found.keywords.slice(0, 2).join(", ") || words.details),
      found.statements.length > 0 && statementsOf(found)));
}

// Each fact with the document that states it; the server bounds their number.
function statementsOf({ statements }) {
  return element("ul", { class: "plain statements" }, statements.map((one) => element("li", {},
    one.type && element("span", { class: "tag" }, one.type), " ", one.description, " ",
    element("a", { class: "quiet", href: passageAddress(one.document_id, one.text_unit_id) }, one.title || one.document_id))));
}

// Each value with the documents that give it, the newest first; the server bounds their number.
function propertiesOf(properties) {
  const named = new Map();
  for (const one of properties) {
    const value = `${one.value} ${one.unit}`.trim();
    const values = named.get(one.name) ?? new Map();
    values.set(value, [...(values.get(value) ?? []), one]);
    named.set(one.name, values);
  }
  const shown = (value, given) => element("dd", {}, value, given.flatMap((one) => [
    " ", element("a", { class: "quiet", href: passageAddress(one.document_id, one.text_unit_id) }, one.title || one.document_id),
    one.date !== "" && element("span", { class: "quiet" }, ` (${one.date})`)]));
  return element("dl", { class: "properties" }, [...named].flatMap(([name, values]) => [
    element("dt", {}, name), ...[...values].map(([value, given]) => shown(value, given))]));
}

function namesOf({ merged, apart }) {
  const rows = (said, those) => those.length && [
    element("h3", {}, said),
    element("ul", { class: "plain" }, those.map(({ name, by, rule }) => element("li", {}, name, " ", element("span", { class: "quiet" }, fill(words.by_rule, { by, rule })))))];
  return [rows(words.names, merged), rows(words.apart, apart)];
}

// A name as the server compares it, nearly: without case and punctuation.
const spelling = (name) => name.normalize("NFKC").toLowerCase().replace(/[^\p{L}\p{M}\p{N}+#&@/]+/gu, " ").trim();

// Nothing for who may not change anything.
async function pinForm(name, { merged, apart }) {
  if (!(await state()).editor) return null;
  const known = new Set([...merged, ...apart].map((one) => one.name));
  const other = element("input", { id: "pin-name", required: true, maxlength: 1000, list: "pin-names", autocomplete: "off" });
  const result = element("p", { role: "status", class: "quiet" });
  const pin = (decision) => async (event) => {
    event.preventDefault();
    if (!other.reportValidity()) return;
    try {
      const { done, unknown, then } = await ask("ui/pin", { decision, a: name, b: other.value.trim() });
      known.add(other.value.trim());
      usable();
      result.className = "good";
      result.textContent = `${fill(words.pinned, { done, a: name, b: other.value.trim(), then })}${unknown.length ? ` ${fill(words.pin_unknown, { names: unknown.join(", ") })}` : ""}`;
    } catch (error) {
      result.className = "bad";
      result.textContent = error.message;
    }
  };
  const same = element("button", { type: "button", id: "pin-same", onclick: pin("same") }, words.same);
  const different = element("button", { type: "button", id: "pin-different", onclick: pin("different") }, words.different);
  const undo = merged.length > 0 && element("button", { type: "button", id: "pin-undo", onclick: pin("undo") }, words.undo);
  // A decision that the server would refuse has no button: of a name with itself, and what nobody has decided.
  function usable() {
    const given = other.value.trim();
    const itself = given !== "" && spelling(given) === spelling(name);
    same.disabled = different.disabled = itself;
    if (undo) undo.disabled = !known.has(given);
    result.className = "quiet";
    result.textContent = itself ? words.pin_itself : "";
  }
  other.addEventListener("input", usable);
  usable();
  return element("form", { id: "pin", onsubmit: (event) => event.preventDefault() },
    element("h3", {}, words.pin),
    element("datalist", { id: "pin-names" }, [...known].map((value) => element("option", { value }))),
    element("label", { class: "quiet", for: "pin-name" }, words.pin_name),
    element("div", { class: "row" }, other, same, different, undo),
    element("p", { class: "quiet" }, words.pin_about), result);
}

function passages({ said, passages: of }, names) {
  if (!said.length) return null;
  return section(
    [words.said, said.length < of && some(fill(words.said_some, { n: said.length, of: of.toLocaleString() }))],
    said.map((unit) => element("div", { class: "passage" },
      element("a", { href: passageAddress(unit.document_id, unit.id) }, unit.title || unit.document_id),
      element("blockquote", {}, marked(unit.text, names)))),
  );
}

// Folded where the panel stands below the drawing, not beside it.
function section(said, ...parts) {
  return element("details", { class: "section", open: !narrow.matches }, element("summary", {}, element("h3", {}, said)), parts.flat());
}

const some = (said) => element("span", { class: "quiet" }, ` ${said}`);

const typeName = (type) => type.toLowerCase().replaceAll("_", " ") || words.untyped;

function link(said, onclick) {
  return element("button", { class: "link", onclick }, said);
}
