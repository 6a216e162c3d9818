// A worker that places nodes by force: ForceAtlas2 in slices, so that a drawing can follow it, then apart where they
// overlap. Gets {job, nodes: [[id, x, y, size, fixed]], edges: [[source, target, weight]]}; sends {job, places, done}, places
// being x and y of each node in turn.
self.DOMParser = self.Document = self.XMLSerializer = class {}; // the library names them as it loads, for what is not used here
importScripts("vendor/graphology.umd.min.js", "vendor/graphology-library.min.js");

const { layoutForceAtlas2, layoutNoverlap } = graphologyLibrary;
let newest = 0;

addEventListener("message", async ({ data: { job, nodes, edges } }) => {
  newest = job;
  const graph = new graphology({ multi: true });
  for (const [id, x, y, size, fixed] of nodes) graph.addNode(id, { x, y, size, fixed });
  for (const [source, target, weight] of edges) graph.addEdge(source, target, { weight });
  const settings = {
    ...layoutForceAtlas2.inferSettings(graph),
    barnesHutOptimize: graph.order > 300,
    strongGravityMode: false,
    gravity: 1,
    edgeWeightInfluence: 0.5,
    linLogMode: graph.order < 600,
    outboundAttractionDistribution: true,
  };
  const slices = graph.order > 1000 ? 10 : 16;
  for (let slice = 0; slice < slices; slice++) {
    layoutForceAtlas2.assign(graph, { iterations: graph.order > 1000 ? 16 : 25, settings, getEdgeWeight: "weight" });
    send(job, graph, false);
    await new Promise((resolve) => setTimeout(resolve)); // a newer job may have come
    if (newest !== job) return;
  }
  if (graph.order <= 800 && !nodes.some(([, , , , fixed]) => fixed)) layoutNoverlap.assign(graph, { maxIterations: 40, settings: { margin: 3, ratio: 1 } });
  send(job, graph, true);
});

function send(job, graph, done) {
  const places = new Float32Array(2 * graph.order);
  let at = 0;
  graph.forEachNode((_, { x, y }) => {
    places[at++] = x;
    places[at++] = y;
  });
  postMessage({ job, places, done }, [places.buffer]);
}
