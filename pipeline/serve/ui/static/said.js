// What the model said of an entity or of two, before any correction: records with their passages.
import { ask } from "./api.js";
import { marked } from "./marks.js";
import { passageAddress } from "./places.js";
import { element, fill, texts } from "./shell.js";

const words = texts.corrections;

export async function whatWasSaid(entity, target = "") {
  const { said, records } = await ask(`ui/corrections/said?${new URLSearchParams({ entity, ...(target && { target }) })}`);
  if (!said.length) return element("p", { class: "quiet" }, words.said_none);
  const rows = said.map((one) => element("li", {},
    element("p", {},
      element("strong", {}, one.name || fill(words.said_statement, one)), " ",
      [one.type, ...one.keywords].filter(Boolean).map((word) => [element("span", { class: "tag" }, word), " "]).flat(),
      one.description, " ",
      element("a", { class: "quiet", href: passageAddress(one.document_id, one.text_unit_id) }, one.title || one.document_id)),
    element("blockquote", {}, marked(one.passage, [one.name, one.source, one.target].filter(Boolean)))));
  return element("div", { class: "said" },
    said.length < records && element("p", { class: "quiet" }, fill(words.said_some, { n: said.length, of: records.toLocaleString() })),
    element("ul", { class: "plain" }, rows));
}
