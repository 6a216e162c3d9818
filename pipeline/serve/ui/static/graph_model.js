// What the server says of the graph, put together: the part that the address names and what was expanded since.

export const GROUPS = 8;
const MOST = 20;
const EXTENT = 1000; // of a layout that the workflow has made, to either side, as the worker's own come to be

// The page's own address: what is drawn, what is expanded, how it is coloured.
export function readAddress() {
  const asked = new URLSearchParams(location.search);
  return {
    entity: asked.getAll("entity"),
    community: asked.get("community") ?? "",
    document: asked.get("document") ?? "",
    entities: asked.get("entities") === "true",
    grown: asked.getAll("with").slice(0, MOST),
    colour: asked.get("colour") === "community" ? "community" : "type",
  };
}

export function addressOf({ entity, community, document, entities, grown, colour }) {
  const asked = new URLSearchParams();
  for (const id of entity) asked.append("entity", id);
  if (community) asked.set("community", community);
  if (document) asked.set("document", document);
  if (entities) asked.set("entities", "true");
  for (const id of grown.slice(-MOST)) asked.append("with", id);
  if (colour !== "type") asked.set("colour", colour);
  return `graph${asked.size ? `?${asked}` : ""}`;
}

// What the server is asked for that part.
export function pathOf({ entity, community, document, entities }, limit) {
  const asked = new URLSearchParams(addressOf({ entity, community, document, entities, grown: [], colour: "type" }).split("?")[1]);
  asked.set("limit", limit);
  return `ui/graph?${asked}`;
}

// Parts of the graph as one: nodes and edges as drawing.js takes them.
export function together(parts) {
  const nodes = new Map();
  const edges = new Map();
  for (const part of parts) {
    for (const { id, name, type, degree, x, y } of part.entities) {
      const community = part.memberships[id] ?? "";
      const place = typeof x === "number" && typeof y === "number" && { x: EXTENT * x, y: EXTENT * y, fixed: true };
      if (!nodes.has(id)) nodes.set(id, { id, kind: "entity", label: name, entityType: type, count: degree, community, ...place });
    }
    for (const { id, title, level, size, parts: inside, summary } of part.communities) {
      nodes.set(id, { id, kind: "community", label: title, level, entityType: "", count: size, community: id, inside, summary });
    }
    for (const { id, source_entity_id: source, target_entity_id: target, keyword, weight } of part.relationships) {
      edges.set(id, { id, source, target, keyword, weight, size: Math.min(1 + Math.log2(1 + weight) / 2, 4) });
    }
    for (const { one_id: source, other_id: target, relationships } of part.between) {
      const id = `${source} ${target}`;
      edges.set(id, { id, source, target, weight: relationships, plain: true, size: Math.min(1 + Math.log2(relationships) / 3, 5) });
    }
  }
  const most = Math.max(1, ...[...nodes.values()].map((node) => node.count));
  for (const node of nodes.values()) {
    const share = Math.sqrt(node.count / most);
    node.size = node.kind === "community" ? 6 + 20 * share : 4 + 14 * share;
  }
  return { nodes: [...nodes.values()].sort((a, b) => b.count - a.count), edges: [...edges.values()] };
}

// What nodes are coloured by, the most frequent first: [{value, label, number, group}].
export function legend(nodes, by, titles, words) {
  const counts = new Map();
  for (const node of nodes) {
    const value = valueOf(node, by);
    counts.set(value, (counts.get(value) ?? 0) + 1);
  }
  const ranked = [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
  return ranked.map(([value, number], place) => ({
    value,
    number,
    label: (by === "type" ? value : titles[value]) || words.others,
    group: Math.min(place, GROUPS - 1),
  }));
}

export const valueOf = (node, by) => (by === "type" ? node.entityType : node.community);
