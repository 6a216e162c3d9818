// Beside the drawing: entities found, filters and colours, and the list that says what the drawing shows.
import { ask } from "./api.js";
import { element, fill, texts } from "./shell.js";

const words = texts.graph;
const STEP = 100;
const at = (id) => document.getElementById(id);

// Something else in a place; who had turned to a part of it stays with what is called so now, else with its first.
function anew(place, ...parts) {
  const turned = place.contains(document.activeElement) ? document.activeElement.id : null;
  place.replaceChildren(...parts);
  if (turned !== null) (at(turned) ?? place.querySelector("button, input, select, summary"))?.focus({ preventScroll: true });
}

// on.found(id): an entity was chosen among those found.
export function finder(on) {
  let asked = 0;
  at("find").addEventListener("submit", async (event) => {
    event.preventDefault();
    const text = at("wanted").value.trim();
    if (!text) return;
    const mine = ++asked;
    const by = new FormData(at("find")).get("by");
    try {
      const { entities } = await ask("ui/graph/find", { text, by });
      if (mine !== asked) return;
      at("found").replaceChildren(
        element("p", { class: "quiet" }, entities.length ? fill(words.found_some, { n: entities.length }) : words.found_none),
        element("ul", { class: "plain" }, entities.map((found) => element("li", {}, entry(found.name, found.degree, () => on.found(found.id), { "data-entity": found.id })))),
      );
    } catch (error) {
      at("found").replaceChildren(element("p", { class: "notice bad" }, error.message));
    }
  });
}

// choice: {colour, hiddenTypes, weight, community}; on.filter() after a change, on.colour(by).
export function filters(choice, { nodes, edges, titles, groups, colours }, on) {
  const place = at("filters");
  const communities = nodes.some((node) => node.kind === "community");
  const weights = [...new Set(edges.map((edge) => edge.weight))].sort((a, b) => a - b);
  const parts = [];
  if (!communities && Object.keys(titles).length) {
    parts.push(field(words.colour_by, "colour-by", element("select", { id: "colour-by", onchange: (event) => on.colour(event.target.value) },
      Object.entries(words.colours).map(([value, said]) => element("option", { value, selected: value === choice.colour }, said)))));
  }
  if (!communities) parts.push(types(choice, nodes, colours, on));
  if (!communities && choice.colour === "community") {
    parts.push(element("ul", { class: "plain quiet" }, groups.slice(0, 8).map((group) => element("li", { class: "check" },
      element("span", { class: `key c${group.group}` }), group.group === 7 ? words.others : group.label))));
  }
  if (weights.length > 1) {
    const about = () => fill(communities ? words.between : words.weight, { n: round(Math.max(choice.weight, weights[0])) });
    const said = element("label", { class: "quiet", for: "weight" }, about());
    const step = (event) => {
      choice.weight = weights[event.target.value];
      said.textContent = about();
      on.filter();
    };
    parts.push(element("div", { class: "field" }, said, element("input", { id: "weight", type: "range", min: 0, max: weights.length - 1, value: Math.max(0, weights.indexOf(choice.weight)), oninput: step })));
  }
  if (!communities && Object.keys(titles).length > 1) {
    const select = element("select", { id: "of-community", onchange: (event) => { choice.community = event.target.value; on.filter(); } },
      element("option", { value: "" }, words.all_communities),
      Object.entries(titles).sort((a, b) => a[1].localeCompare(b[1])).map(([id, title]) => element("option", { value: id, selected: id === choice.community }, title)));
    parts.push(field(words.community, "of-community", select));
  }
  if (!communities && nodes.length) parts.push(documentFilter(choice, on));
  anew(place, place.querySelector("summary"), ...parts);
  place.hidden = !parts.length;
}

// Only what a document mentions: it is looked for by its title. on.document(id, title), or nothing for all.
function documentFilter(choice, on) {
  if (choice.document) {
    return element("div", { class: "field" }, element("span", { class: "quiet" }, words.document),
      element("div", { class: "row together" }, element("span", { class: "chip" }, choice.document.title),
        element("button", { type: "button", "aria-label": words.document_all, onclick: () => on.document(null) }, "✕")));
  }
  const found = element("ul", { class: "plain", role: "status" });
  let asked = 0;
  const look = async (event) => {
    event.preventDefault();
    const text = event.target.elements.title.value.trim();
    if (!text) return;
    const mine = ++asked;
    try {
      const { documents } = await ask("ui/graph/documents", { text });
      if (mine !== asked) return;
      found.replaceChildren(...(documents.length ? documents.map((one) => element("li", {},
        element("button", { type: "button", class: "entry", onclick: () => on.document(one), "data-document": one.id }, one.title))) : [element("li", { class: "quiet" }, words.document_none)]));
    } catch (error) {
      found.replaceChildren(element("li", { class: "notice bad" }, error.message));
    }
  };
  return element("form", { class: "field", id: "by-document", onsubmit: look }, element("label", { class: "quiet", for: "document-title" }, words.document),
    element("div", { class: "row together" }, element("input", { id: "document-title", name: "title", type: "text", maxlength: 500, placeholder: words.document_title, autocomplete: "off" }), element("button", {}, words.find_button)), found);
}

function types(choice, nodes, colours, on) {
  const counts = Map.groupBy(nodes, (node) => node.entityType);
  const ranked = [...counts].sort((a, b) => b[1].length - a[1].length || (a[0] < b[0] ? -1 : 1));
  const row = ([type, those]) => {
    const change = (event) => {
      choice.hiddenTypes[event.target.checked ? "delete" : "add"](type);
      on.filter();
    };
    return element("li", {}, element("label", { class: "check" },
      element("input", { type: "checkbox", checked: !choice.hiddenTypes.has(type), onchange: change, "data-type": type }),
      choice.colour === "type" && element("span", { class: `key c${colours.get(type) ?? 7}` }),
      element("span", {}, type.toLowerCase().replaceAll("_", " ") || words.no_type),
      element("span", { class: "number" }, those.length.toLocaleString())));
  };
  return element("fieldset", { class: "plain" }, element("legend", { class: "quiet" }, words.types), element("ul", { class: "plain" }, ranked.map(row)));
}

// The nodes that are shown, the most linked first.
export function list(nodes, chosen, on) {
  let shown = STEP;
  const draw = () => {
    at("listed-count").textContent = nodes.length.toLocaleString();
    anew(at("nodes"), ...nodes.slice(0, shown).map((node) =>
      element("li", {}, entry(node.label, node.count, () => on.chosen(node.id), {
        id: `listed-${node.id}`, "aria-pressed": String(node.id === chosen), "data-node": node.id,
        ondblclick: () => on.open(node.id),
      }, node.group))));
    const left = nodes.length - shown;
    at("more-nodes").hidden = left <= 0;
    at("more-nodes").textContent = fill(words.more, { n: Math.min(left, STEP) });
  };
  at("more-nodes").onclick = () => {
    shown += STEP;
    draw();
  };
  draw();
}

export function press(chosen) {
  for (const button of at("nodes").querySelectorAll("[data-node]")) {
    button.setAttribute("aria-pressed", String(button.dataset.node === chosen));
  }
}

function entry(name, count, onclick, attributes = {}, group = null) {
  return element("button", { type: "button", class: "entry", onclick, ...attributes },
    group !== null && element("span", { class: `key c${group}` }),
    element("span", {}, name), element("span", { class: "number" }, count.toLocaleString()));
}

function field(said, id, control) {
  return element("div", { class: "field" }, element("label", { class: "quiet", for: id }, said), control);
}

const round = (weight) => Number(weight.toFixed(2)).toLocaleString();
