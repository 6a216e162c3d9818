// What an answer rests on, in tabs: passages, entities, relationships, reports, the graph of these, and the account.
import { ask } from "./api.js";
import { drawing, whyNot } from "./drawing.js";
import { legend, together } from "./graph_model.js";
import { excerpt, marked, wordsOf } from "./marks.js";
import { inGraph, passageAddress } from "./places.js";
import { element, fill, texts } from "./shell.js";

const words = texts.ask;
const at = (id) => document.getElementById(id);
const round = (number, digits = 2) => Number(number.toFixed(digits)).toLocaleString();
const SHOWN = 260; // characters of a passage
let open = "passages";
let picture = null;
let current = null; // the turn whose evidence is there

// turn: {question, found, done}: what the stream has told so far.
export function showEvidence(turn) {
  const { found, done } = turn;
  const [same, above, focused] = [turn === current, at("evidence").scrollTop, at("tabs").contains(document.activeElement)];
  current = turn;
  document.querySelector(".asking").classList.toggle("told", Boolean(found));
  if (!found) return at("shown").replaceChildren();
  const panels = {
    passages: [found.chunks?.length ?? 0, passages],
    entities: [found.entities?.length ?? 0, entities],
    relationships: [found.relationships?.length ?? 0, relationships],
    ...(found.reports ? { reports: [found.reports.length, reports] } : {}),
    graph: [null, graph],
    ...(done ? { account: [null, account] } : {}),
  };
  if (!panels[open]) open = "passages";
  const select = (name, focus = false) => {
    open = name;
    for (const tab of at("tabs").children) {
      const on = tab.dataset.tab === name;
      tab.setAttribute("aria-selected", String(on));
      tab.tabIndex = on ? 0 : -1;
      if (on && focus) tab.focus();
    }
    picture?.close();
    picture = null;
    const panel = element("div", { role: "tabpanel", id: `panel-${name}`, "aria-labelledby": `tab-${name}`, tabindex: 0 });
    at("shown").replaceChildren(panel);
    panels[name][1](panel, turn);
  };
  const names = Object.keys(panels);
  at("tabs").replaceChildren(...names.map((name) =>
    element("button", { type: "button", role: "tab", id: `tab-${name}`, "data-tab": name, onclick: () => select(name) },
      words.tabs[name], panels[name][0] === null ? "" : ` ${panels[name][0]}`)));
  at("tabs").onkeydown = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step) select(names.at((names.indexOf(open) + step) % names.length), true);
  };
  select(open, focused);
  at("evidence").scrollTop = same ? above : 0; // who reads it while the answer is written goes on where they are
}

const numbers = (found) => new Map(found.references.map((entry) => [entry.chunk_id, entry]));

function passages(panel, { found, done, question }) {
  const known = numbers(found);
  const cited = new Set(done?.cited ?? []);
  const asked = wordsOf(question);
  panel.append(found.chunks?.length
    ? element("ol", { class: "passages" }, found.chunks.map((chunk) => passage(chunk, known.get(chunk.id), cited, asked)))
    : element("p", { class: "pale" }, words.passage_none));
}

function passage(chunk, reference, cited, asked) {
  const part = excerpt(chunk.content, asked, SHOWN);
  const text = element("p", { class: "text" }, marked(part, asked));
  const whole = element("button", { type: "button", class: "link", onclick: () => { text.replaceChildren(...marked(chunk.content, asked)); whole.remove(); } }, words.whole);
  const facts = [
    chunk.page && fill(words.page, { n: chunk.page }),
    chunk.lane && fill(words.lane, { lane: words.lanes[chunk.lane] ?? chunk.lane, place: chunk.place }),
    chunk.frequency > 1 && fill(words.often, { n: chunk.frequency }),
    chunk.score !== null && chunk.score !== undefined && fill(words.score, { n: round(chunk.score) }),
    chunk.rerank_score !== null && chunk.rerank_score !== undefined && fill(words.rerank, { n: round(chunk.rerank_score) }),
  ].filter(Boolean);
  return element("li", { id: `source-${reference?.id ?? chunk.id}`, "data-chunk": chunk.id },
    element("div", { class: "title" },
      reference && citation(reference, asked),
      element("b", {}, reference?.title || chunk.source),
      reference && cited.has(reference.id) && element("span", { class: "tag" }, words.cited)),
    element("p", { class: "found-by quiet" }, facts.join(" · ")),
    text,
    element("div", { class: "row" }, chunk.content.length > SHOWN && whole, element("a", { href: passageAddress(chunk.document_id, chunk.id) }, words.in_document)));
}

function entities(panel, { found }) {
  panel.append(table(["name", "type", "description"], (found.entities ?? []).map((entity) => [
    inGraph(entity.id, entity.name), entity.type.toLowerCase().replaceAll("_", " "), clip(entity.description)])));
}

function relationships(panel, { found }) {
  panel.append(table(["source", "target", "description", "weight"], (found.relationships ?? []).map((link) => [
    inGraph(link.source_entity_id, link.source), inGraph(link.target_entity_id, link.target),
    clip(link.description || link.keywords.join(", ")), round(link.weight)])));
}

function reports(panel, { found }) {
  panel.append(...found.reports.map((report) => element("details", {},
    element("summary", {}, `${report.number}. ${report.title}`), element("p", {}, report.summary), element("p", { class: "pale" }, report.content))));
}

// The entities and relationships that were found, as a graph.
async function graph(panel, { found }) {
  const ends = (found.relationships ?? []).flatMap((link) => [
    { id: link.source_entity_id, name: link.source, type: "", degree: 1 }, { id: link.target_entity_id, name: link.target, type: "", degree: 1 }]);
  const told = (found.entities ?? []).map(({ id, name, type, degree }) => ({ id, name, type, degree: degree ?? 1 }));
  const { nodes, edges } = together([{
    entities: [...told, ...ends], memberships: {}, communities: [], between: [],
    relationships: (found.relationships ?? []).map((link) => ({ ...link, keyword: link.keywords[0] })),
  }]);
  if (!nodes.length) return panel.append(element("p", { class: "pale" }, words.graph_none));
  const groups = legend(nodes, "type", {}, texts.graph);
  const colours = new Map(groups.map(({ value, group }) => [value, group]));
  for (const node of nodes) node.group = colours.get(node.entityType);
  const canvas = element("div", { id: "evidence-canvas", role: "img", "aria-label": fill(words.graph_of, { n: nodes.length, m: edges.length }) });
  const chosen = element("p", { role: "status" });
  panel.append(element("p", { class: "quiet" }, fill(words.graph_of, { n: nodes.length, m: edges.length })), canvas, chosen);
  try {
    const made = await drawing(canvas, {
      node: (id) => {
        made.choose(id);
        const { label } = nodes.find((node) => node.id === id);
        chosen.replaceChildren(inGraph(id, label));
      },
      nothing: () => (made.choose(null), chosen.replaceChildren()),
    });
    if (!panel.isConnected) return made.close();
    picture = made;
    made.show(nodes, edges);
  } catch (error) {
    canvas.replaceWith(element("p", { class: "notice warn" }, whyNot(error, words)));
  }
}

function account(panel, { done }) {
  const dropped = Object.entries(done.dropped ?? {}).filter(([, n]) => n);
  const { calls = 0, input_tokens = 0, output_tokens = 0 } = done.usage;
  const cost = done.cost === null ? words.price_none : done.cost.toLocaleString(undefined, { maximumSignificantDigits: 3 });
  const keywords = [...done.keywords.low, ...done.keywords.high].filter((word) => word !== done.question);
  panel.append(
    element("h3", {}, words.dropped),
    dropped.length
      ? element("ul", {}, dropped.map(([what, n]) => element("li", {}, fill(words.dropped_of, { n: n.toLocaleString(), what: words.parts[what] ?? what, limit: words.limits[what] ?? "" }))))
      : element("p", { class: "pale" }, words.dropped_none),
    ...(done.removed_citations ? [element("p", { class: "warn" }, fill(words.removed, { n: done.removed_citations }))] : []),
    element("h3", {}, words.tokens), shares(done.tokens, "prompt", words.parts, (n) => n.toLocaleString()),
    element("h3", {}, words.time), shares(done.timings_ms, "total", words.times, (n) => fill(words.milliseconds, { n: round(n, n < 10 ? 1 : 0) })),
    element("h3", {}, words.price),
    element("p", {}, calls ? fill(words.price_of, { cost, calls, input: input_tokens.toLocaleString(), output: output_tokens.toLocaleString() }) : done.cost ? cost : words.price_nothing),
    element("p", { class: "quiet" }, fill(words.question_id, { id: done.question_id })),
    ...(keywords.length ? [element("h3", {}, words.keywords), element("p", {}, keywords.join(", "))] : []),
    ...(done.notes.length ? [element("h3", {}, words.notes), element("ul", {}, done.notes.map((note) => element("li", {}, note)))] : []),
  );
}

// Each part of a whole, with a bar as long as its share.
function shares(parts, whole, said, shown) {
  const most = Math.max(parts[whole] ?? 0, 1);
  const rows = Object.entries(parts).sort((a, b) => (b[0] === whole) - (a[0] === whole) || b[1] - a[1]);
  return element("table", {}, element("tbody", {}, rows.map(([name, number]) => {
    const bar = element("span", { class: "share" });
    bar.style.width = `${Math.min(100, (100 * number) / most)}%`;
    return element("tr", {}, element("th", { scope: "row" }, said[name] ?? name), element("td", { class: "number" }, shown(number)), element("td", { class: "shares" }, bar));
  })));
}

function table(columns, rows) {
  if (!rows.length) return element("p", { class: "pale" }, words.graph_none);
  return element("div", { class: "scroll" }, element("table", {},
    element("thead", {}, element("tr", {}, columns.map((name) => element("th", { scope: "col", class: name === "weight" && "number" }, words.columns[name])))),
    element("tbody", {}, rows.map((row) => element("tr", {}, row.map((cell, place) => element("td", { class: columns[place] === "weight" && "number" }, cell)))))));
}

// The number of a source, which opens it with these words marked; grey if the passage does not support what cites it.
export function citation(reference, asked, supported = true) {
  const source = fill(words.cite, { n: reference.id, title: reference.title || reference.source });
  const said = supported ? source : `${source}. ${words.cite_unsupported}`;
  return element("button", { type: "button", class: supported ? "cite" : "cite unsupported", "data-cite": reference.id, title: said, "aria-label": said, onclick: () => openPassage(reference, asked) }, String(reference.id));
}

const clip = (text) => element("div", { class: "clip", title: text.length > 160 && text }, text);

let opened = null;

// The passage of a citation, marked in what stands around it in its document.
async function openPassage(reference, asked) {
  const dialog = at("passage");
  opened = reference;
  at("passage-title").textContent = reference.title || reference.source;
  const place = [reference.source, reference.page && fill(words.page, { n: reference.page })].filter(Boolean).join(" · ");
  at("passage-place").replaceChildren(place, " · ", element("a", { href: passageAddress(reference.document_id, reference.chunk_id) }, words.in_document));
  at("passage-body").replaceChildren(element("p", { class: "pale" }, words.searching));
  if (!dialog.open) dialog.showModal();
  try {
    const { units } = await ask(`ui/passage?${new URLSearchParams({ unit: reference.chunk_id })}`);
    if (opened !== reference) return; // another one was opened since
    at("passage-body").replaceChildren(
      ...units.map((unit) => (unit.id === reference.chunk_id ? element("mark", { id: "cited-passage" }, marked(unit.content, asked)) : element("div", { class: "around" }, unit.content))));
    at("cited-passage")?.scrollIntoView({ block: "nearest" });
  } catch (error) {
    if (opened === reference) at("passage-body").replaceChildren(element("p", { class: "notice bad" }, error.message));
  }
}
