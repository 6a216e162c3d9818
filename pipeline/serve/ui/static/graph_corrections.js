// An editor's corrections of an entity or a relationship: lines that every run follows.
import { ask } from "./api.js";
import { whatWasSaid } from "./said.js";
import { element, fill, state, texts } from "./shell.js";

const words = texts.graph;

// Nothing for who may not change anything.
export async function correctEntity(entity, said) {
  if (!(await state()).editor) return null;
  const name = element("input", { id: "correct-name", maxlength: 1000, value: entity.name, autocomplete: "off" });
  const type = element("input", { id: "correct-type", maxlength: 1000, value: entity.type, autocomplete: "off" });
  const description = element("textarea", { id: "correct-description", maxlength: 1500, rows: 3 }, entity.description);
  const property = element("input", { id: "correct-property", maxlength: 1000, autocomplete: "off" });
  const value = element("input", { id: "correct-value", maxlength: 500, autocomplete: "off" });
  const document = element("select", { id: "correct-document" }, element("option", { value: "" }, words.everywhere),
    [...new Map(said.map((unit) => [unit.document_id, unit.title || unit.document_id]))].map(([id, title]) => element("option", { value: id }, title)));
  const quote = element("input", { id: "correct-quote", maxlength: 1000, autocomplete: "off" });
  const target = element("input", { id: "correct-target", maxlength: 1000, autocomplete: "off" });
  const stated = element("input", { id: "correct-stated", maxlength: 1000, autocomplete: "off" });
  const fact = element("textarea", { id: "correct-fact", maxlength: 1500, rows: 2 });
  // Decisions that may hold for one document, or for the passages with a quoted phrase.
  const scope = () => ({ ...(document.value && { document: document.value }), ...(quote.value.trim() && { quote: quote.value.trim() }) });
  const of = (kind, more = () => ({})) => () => ({ kind, entity: entity.name, ...more() });
  const addition = () => ({
    kind: "add_statement", source: entity.name, target: target.value.trim(), description: fact.value.trim(),
    ...(stated.value.trim() && { type: stated.value.trim() }), ...scope(),
  });
  return form([entity.name], entity.name, "", [
    field(words.correct_name, name, button(words.rename, "rename", of("rename", () => ({ to: name.value.trim(), ...scope() })))),
    field(words.correct_type, type, button(words.set_type, "set-type", of("set_type", () => ({ to: type.value.trim() })))),
    field(words.correct_description, description, button(words.describe, "describe", of("describe_entity", () => ({ description: description.value.trim() })))),
    field(words.correct_property, property),
    field(words.correct_value, value, button(words.set_property, "set-property", of("set_property", () => ({ property: property.value.trim(), value: value.value.trim(), ...scope() })))),
    button(words.delete_property, "delete-property", of("delete_property", () => ({ property: property.value.trim(), ...scope() }))),
    button(words.delete_entity, "delete", of("delete_entity", scope)),
    field(words.correct_target, target),
    field(words.correct_stated, stated),
    field(words.correct_fact, fact, button(words.add_statement, "add-statement", addition)),
    field(words.correct_document, document),
    field(words.correct_quote, quote),
  ]);
}

export async function correctRelationship(found) {
  if (!(await state()).editor) return null;
  const of = (kind) => () => ({ kind, source: found.source, target: found.target });
  return form([found.source, found.target], found.source, found.target, [
    button(words.turn_statement, "turn", of("turn_statement")),
    button(words.delete_statement, "delete", of("delete_statement")),
  ]);
}

const button = (said, id, fields) => ({ said, id, fields });

const field = (said, input, one) => ({ ...one, label: said, input });

async function form(names, entity, target, parts) {
  const why = element("input", { id: "correct-why", maxlength: 1500, autocomplete: "off" });
  const result = element("p", { role: "status", class: "quiet" });
  const decided = element("div");
  // Beneath what was pressed: at the end of a form longer than the window nobody sees the result.
  const tell = async (work, place) => {
    place.after(result);
    result.textContent = "";
    try {
      const { said, kind } = await work();
      // The list comes first: whoever reads that it is done must find the corrections of now beneath.
      await list();
      result.textContent = said;
      result.className = kind;
    } catch (error) {
      result.className = "bad";
      result.textContent = error.message;
    }
    result.scrollIntoView({ block: "nearest" });
  };
  const correct = (fields) => (event) => tell(async () => {
    const reason = why.value.trim();
    const { records, text_units: units, notes, then } = await ask("ui/correct", { ...fields(), ...(reason && { why: reason }) });
    const said = [fill(words.corrected, { records: records ?? 0, units: units ?? 0, then }), ...notes].join(" ");
    // A note is a warning, such as a type that the ontology lacks.
    return { said, kind: notes.length ? "warn" : "good" };
  }, event.currentTarget.parentElement);
  const undo = (id) => () => tell(async () => {
    const { then } = await ask("ui/correct/undo", { id });
    return { said: fill(words.undone, { then }), kind: "good" };
  }, about);
  const about = element("p", { class: "quiet" }, words.correct_about);
  const list = async () => {
    const { corrections } = await ask("ui/corrections");
    const theirs = corrections.filter((one) => [one.entity, one.to, one.source, one.target, one.a, one.b].some((name) => name && names.includes(name)));
    decided.replaceChildren(...(theirs.length ? [element("h4", {}, words.decided), element("p", {}, element("a", { href: "corrections" }, words.apply_there)), element("ul", { class: "plain" }, theirs.map((one) => element("li", { class: one.pending && "pending" },
      lineOf(one), " ", one.pending && [element("span", { class: "tag" }, words.pending), " "], element("button", { type: "button", class: "link", onclick: undo(one.id) }, words.undo_correction))))] : []));
  };
  await list();
  const rows = parts.map(({ said, id, fields, label, input }) => element("div", { class: "row" },
    label && element("label", { class: "quiet", for: input.id }, label), input,
    id && element("button", { type: "button", id: `correct-${id}-now`, onclick: correct(fields) }, said)));
  const beneath = element("div");
  const said = element("details", { class: "section", id: "model-said" }, element("summary", {}, element("h3", {}, words.model_said)), beneath);
  said.addEventListener("toggle", async () => {
    if (!said.open || beneath.hasChildNodes()) return;
    beneath.replaceChildren(await whatWasSaid(entity, target).catch((error) => element("p", { class: "bad" }, error.message)));
  });
  const correcting = element("details", { class: "section", id: "correct" }, element("summary", {}, element("h3", {}, words.correct)),
    element("form", { onsubmit: (event) => event.preventDefault() }, rows,
      element("div", { class: "row" }, element("label", { class: "quiet", for: why.id }, words.correct_why), why),
      about, result, decided));
  return element("div", {}, correcting, said);
}

export const lineOf = (one) => [one.kind.replaceAll("_", " "), one.entity, one.source, one.target, one.a, one.b, one.other, one.type, one.to, one.description, one.property, one.value, one.document && words.in_one_document, one.quote && fill(words.where_said, one), one.by && `(${one.by})`].filter(Boolean).join(" · ");
