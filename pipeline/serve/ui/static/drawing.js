// A graph on a canvas: nodes of one kind or two, edges, colours that follow the theme, places by force from a worker.
// Whoever shows it says what a node looks like; a list beside the canvas says the same to those who do not see it.
import { colour, fill, onColours, texts } from "./shell.js";
import { NotLoaded, graphology, sigma } from "./vendor.js";

const COLOURS = ["--c0", "--c1", "--c2", "--c3", "--c4", "--c5", "--c6", "--c7"];
const MANY_EDGES = 1500;
const LONGEST = 26; // characters of a name, unless it is chosen
const still = matchMedia("(prefers-reduced-motion: reduce)");

// nodes: {id, label, size, group, kind}, and {x, y, fixed: true} of one that has its place already; edges: {id, source, target, weight}. group: a number of COLOURS.
// on: {node(id), open(id), edge(id), nothing()}. Throws what whyNot tells of.
export async function drawing(place, on = {}) {
  const [Graph, Sigma] = await Promise.all([graphology(), sigma()]);
  const graph = new Graph({ multi: true });
  const theme = {};
  const chosen = { id: null, near: new Set(), over: null };
  let hidden = () => false;
  let hiddenEdge = () => false;

  function readTheme() {
    theme.ink = colour("--ink");
    theme.paper = colour("--paper");
    theme.panel = colour("--panel");
    theme.faint = colour("--rule");
    theme.pale = colour("--pale");
    theme.edge = colour("--edge");
    theme.line = between(theme.edge, theme.paper);
    theme.groups = COLOURS.map(colour);
  }
  readTheme();

  const renderer = new Sigma(graph, place, {
    allowInvalidContainer: true,
    enableEdgeEvents: Boolean(on.edge),
    labelFont: "system-ui, sans-serif",
    labelSize: 12,
    labelColor: { color: theme.ink },
    labelRenderedSizeThreshold: 7,
    labelDensity: 0.8,
    labelGridCellSize: 140,
    minCameraRatio: 0.05,
    maxCameraRatio: 4,
    stagePadding: 40,
    zIndex: true,
    defaultDrawNodeLabel: drawLabel,
    defaultDrawNodeHover: drawHover,
    nodeReducer(id, data) {
      const focused = chosen.over ?? chosen.id;
      const shown = { ...data, color: theme.groups[data.group], hidden: hidden(id, data), label: shortened(data.label) };
      if (id === chosen.id) Object.assign(shown, { label: data.label, highlighted: true, zIndex: 2, forceLabel: true });
      else if (focused && chosen.near.has(id)) Object.assign(shown, { zIndex: 1 });
      else if (focused) Object.assign(shown, { color: theme.faint, label: null });
      return shown;
    },
    edgeReducer(id, data) {
      const focused = chosen.over ?? chosen.id;
      const near = focused && graph.hasExtremity(id, focused);
      return {
        ...data,
        type: graph.size > MANY_EDGES || data.plain ? "line" : "arrow",
        color: near ? theme.pale : focused ? theme.faint : theme.line,
        zIndex: near ? 1 : 0,
        hidden: hiddenEdge(id, data) || Boolean(focused && !near && graph.size > MANY_EDGES),
      };
    },
  });

  // Whether a name that is so wide has room on the right of its node, else it stands on the left.
  const fits = (data, width) => data.x + data.size + width < renderer.getDimensions().width || data.x < width;

  function drawLabel(context, data, settings) {
    if (!data.label) return;
    context.font = `${settings.labelWeight} ${settings.labelSize}px ${settings.labelFont}`;
    context.fillStyle = theme.ink;
    const width = context.measureText(data.label).width + 6;
    const x = fits(data, width) ? data.x + data.size + 3 : data.x - data.size - width + 3;
    context.fillText(data.label, x, data.y + settings.labelSize / 3);
  }

  // A name over its node: on the paper of the theme, not on white.
  function drawHover(context, data, settings) {
    const size = settings.labelSize;
    context.font = `600 ${size}px ${settings.labelFont}`;
    const label = data.label ?? "";
    const width = label ? context.measureText(label).width + 12 : 0;
    const radius = Math.max(data.size, size / 2) + 3;
    context.fillStyle = theme.paper;
    context.strokeStyle = theme.edge;
    context.lineWidth = 1;
    context.beginPath();
    const right = fits(data, radius + width);
    if (label) context.roundRect(right ? data.x : data.x - radius - width, data.y - size / 2 - 5, radius + width, size + 10, 4);
    context.arc(data.x, data.y, radius, 0, 2 * Math.PI);
    context.fill();
    if (label) {
      context.fillStyle = theme.ink;
      context.fillText(label, right ? data.x + radius + 3 : data.x - radius - width + 9, data.y + size / 3);
    }
  }

  function near(id) {
    chosen.near = new Set(id && graph.hasNode(id) ? [id, ...graph.neighbors(id)] : []);
  }
  function hover(id) {
    chosen.over = id;
    near(id ?? chosen.id);
    place.classList.toggle("pointing", Boolean(id));
    renderer.refresh({ skipIndexation: true });
  }

  renderer.on("enterNode", ({ node }) => hover(node));
  renderer.on("leaveNode", () => hover(null));
  renderer.on("clickNode", ({ node }) => on.node?.(node));
  renderer.on("doubleClickNode", ({ node, preventSigmaDefault }) => {
    preventSigmaDefault();
    on.open?.(node);
  });
  renderer.on("clickEdge", ({ edge }) => on.edge?.(edge));
  renderer.on("clickStage", () => on.nothing?.());
  const forgetColours = onColours(() => {
    readTheme();
    renderer.setSetting("labelColor", { color: theme.ink });
  });

  const placing = placer(graph, renderer);
  const sized = new ResizeObserver(() => renderer.resize().refresh({ skipIndexation: true }));
  sized.observe(place);

  return {
    graph,
    renderer,

    // What is drawn from now on; who was there before keeps its place, others begin beside whom they are linked to.
    show(nodes, edges) {
      chosen.over = null;
      const wanted = new Map(nodes.map((node) => [node.id, node]));
      graph.forEachNode((id) => wanted.has(id) || graph.dropNode(id));
      const lines = new Set(edges.map((edge) => edge.id));
      graph.forEachEdge((id) => lines.has(id) || graph.dropEdge(id));
      const neighbour = new Map();
      for (const { source, target } of edges) {
        if (graph.hasNode(source)) neighbour.set(target, source);
        if (graph.hasNode(target)) neighbour.set(source, target);
      }
      let added = 0;
      for (const node of nodes) {
        if (graph.hasNode(node.id)) graph.mergeNodeAttributes(node.id, node);
        else {
          const at = neighbour.has(node.id) ? graph.getNodeAttributes(neighbour.get(node.id)) : { x: 0, y: 0 };
          const [x, y] = spread(node.id, graph.order);
          graph.addNode(node.id, { x: at.x + x, y: at.y + y, ...node });
          added++;
        }
      }
      for (const edge of edges) {
        if (graph.hasEdge(edge.id) || !graph.hasNode(edge.source) || !graph.hasNode(edge.target)) continue;
        graph.addEdgeWithKey(edge.id, edge.source, edge.target, { size: 1, weight: 1, ...edge });
        added++;
      }
      if (nodes.every((node) => node.fixed)) added = 0;
      if (chosen.id && !graph.hasNode(chosen.id)) chosen.id = null;
      near(chosen.id);
      if (added) placing.start();
      else placing.stop();
      renderer.refresh();
    },

    choose(id) {
      chosen.id = id && graph.hasNode(id) ? id : null;
      chosen.over = null;
      near(chosen.id);
      renderer.refresh({ skipIndexation: true });
    },

    // Into the middle, where it is not to be seen.
    reveal(id) {
      const data = renderer.getNodeDisplayData(id);
      if (!data) return;
      const { x, y } = renderer.framedGraphToViewport(data);
      const { width, height } = renderer.getDimensions();
      const seen = x > 40 && y > 40 && x < width - 40 && y < height - 40;
      if (!seen) move((camera, options) => camera.animate({ x: data.x, y: data.y }, options));
    },

    hide(node = () => false, edge = () => false) {
      [hidden, hiddenEdge] = [node, edge];
      renderer.refresh({ skipIndexation: true });
    },

    group(of) {
      graph.updateEachNodeAttributes((id, data) => ({ ...data, group: of(id, data) }), { attributes: ["group"] });
    },

    zoom: (factor) => move((camera, options) => camera.animatedZoom({ factor, ...options })),
    fit: () => move((camera, options) => camera.animatedReset(options)),
    pan: (x, y) =>
      move((camera, options) => {
        const { x: atX, y: atY, ratio } = camera.getState();
        return camera.animate({ x: atX + x * ratio, y: atY + y * ratio }, options);
      }),

    close() {
      forgetColours();
      sized.disconnect();
      placing.close();
      renderer.kill();
    },
  };

  function move(how) {
    return how(renderer.getCamera(), { duration: still.matches ? 0 : 200 });
  }
}

// Why there is no drawing: a library did not come, or it found nothing to draw with.
export function whyNot(error, words) {
  return error instanceof NotLoaded ? fill(texts.shell.not_loaded, { what: error.message }) : words.no_webgl;
}

// Halfway from one colour to another: one that lets the paper shine through would add up to white on white.
function between(one, other) {
  const [from, to] = [one, other].map((colour) => colour.match(/[\d.]+/g).map(Number));
  return `rgb(${[0, 1, 2].map((part) => Math.round((from[part] + to[part]) / 2)).join(", ")})`;
}

const shortened = (label) => (label.length > LONGEST ? `${label.slice(0, LONGEST)}…` : label);

// Positions from the worker, each slice drawn as it comes.
function placer(graph, renderer) {
  const worker = new Worker(new URL("layout.js", import.meta.url));
  let job = 0;
  worker.addEventListener("message", ({ data }) => {
    if (data.job !== job || (still.matches && !data.done)) return;
    let at = 0;
    graph.updateEachNodeAttributes(
      (_, attributes) => {
        attributes.x = data.places[at++];
        attributes.y = data.places[at++];
        return attributes;
      },
      { attributes: ["x", "y"] },
    );
  });
  return {
    start() {
      const nodes = graph.mapNodes((id, { x, y, size, fixed }) => [id, x, y, size, fixed]);
      const edges = graph.mapEdges((_, { weight }, source, target) => [source, target, weight]);
      worker.postMessage({ job: ++job, nodes, edges });
    },
    stop: () => job++,
    close: () => worker.terminate(),
  };
}

// Where a node begins that nothing says a place of: the same each time, near the middle.
function spread(id, count) {
  let hash = 2166136261;
  for (let at = 0; at < id.length; at++) hash = Math.imul(hash ^ id.charCodeAt(at), 16777619);
  const angle = ((hash >>> 0) / 2 ** 32) * 2 * Math.PI;
  const radius = 1 + Math.sqrt(count);
  return [radius * Math.cos(angle), radius * Math.sin(angle)];
}
