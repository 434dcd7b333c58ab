// The graph, drawn by force-graph on a canvas: positions come with the data, so nothing moves by itself.

const SPREAD = 1000;
const graphView = {
  on: ["model", "budget", "node", "trust", "only"],
  view: null,
  nodes: [],
  pointed: -1,
  front: [],
  start() {
    fill(byId("graph-export"), exporter("graph", { rows: () => [["node", "class", "what", "x", "y"], ...this.nodes.map((node) => [node.name,
      node.t >= 0 ? current().classes[current().predicted[node.t]] : node.i >= 0 ? current().classes[current().labels[node.i]] : "",
      node.shape === "cross" ? "changed label" : node.shape === "triangle" ? "changed prediction" : node.t >= 0 ? "prediction" : node.i >= 0 ? "label" : "", `${Math.round(node.fx)}`, `${Math.round(node.fy)}`])], svg: graphSvg }));
    const place = byId("graph");
    byId("graph-section").hidden = !MODELS.some((model) => model.around);
    byId("graph-colour").addEventListener("input", () => this.paint());
    byId("graph-hops").addEventListener("input", () => this.rebuild());
    const zoom = (factor) => this.view && this.view.zoom(this.view.zoom() * factor, 150);
    byId("graph-in").addEventListener("click", () => zoom(1.4));
    byId("graph-out").addEventListener("click", () => zoom(1 / 1.4));
    byId("graph-fit").addEventListener("click", () => this.fit());
    place.addEventListener("keydown", (event) => {
      if (!this.view) return;
      const step = 80 / this.view.zoom(), { x, y } = this.view.centerAt();
      const moves = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] };
      if (moves[event.key]) this.view.centerAt(x + moves[event.key][0], y + moves[event.key][1]);
      else if (event.key === "+" || event.key === "=") zoom(1.4);
      else if (event.key === "-") zoom(1 / 1.4);
      else if (event.key === "0") this.fit();
      else if (event.key === "Escape") set({ node: null });
      else return;
      event.preventDefault();
    });
    new ResizeObserver(() => this.view && this.view.width(place.clientWidth)).observe(place);
  },
  // From the places of nodes, which are known before the first frame is drawn.
  fit() {
    if (!this.view || !this.nodes.length) return;
    const range = (values) => [values.reduce((a, b) => Math.min(a, b)), values.reduce((a, b) => Math.max(a, b))];
    const [left, right] = range(this.nodes.map((node) => node.fx)), [top, bottom] = range(this.nodes.map((node) => node.fy));
    this.middle = (left + right) / 2;
    const wide = (byId("graph").clientWidth - 50) / Math.max(right - left, 1), high = 410 / Math.max(bottom - top, 1);
    this.view.centerAt((left + right) / 2, (top + bottom) / 2).zoom(Math.min(wide, high, 4));
  },
  draw(changed) {
    const model = current();
    byId("graph-section").hidden = !model.around;
    if (!model.around) return;
    const large = DATA.graphs[model.around.graph].x === null, hops = byId("graph-hops");
    hops.options[0].disabled = large;
    if (large && hops.value === "0") hops.value = "1";
    byId("graph-large").hidden = !(large && state.node === null);
    if (changed.has("model") || (changed.has("node") && this.isLocal())) this.rebuild();
    else this.paint();
  },
  isLocal() { return byId("graph-hops").value !== "0"; },
  rebuild() {
    const model = current(), graph = DATA.graphs[model.around.graph];
    if (!this.view) {
      this.view = new ForceGraph(byId("graph"))
        .width(byId("graph").clientWidth).height(460).autoPauseRedraw(true).enableNodeDrag(false).cooldownTicks(0).warmupTicks(0)
        // The wheel and one finger scroll the page; with Ctrl, or two fingers, they zoom.
        .enableZoomInteraction((event) => event.type !== "wheel" || event.ctrlKey || event.metaKey)
        .enablePanInteraction((event) => !event.touches || event.touches.length > 1)
        .nodeLabel(null).linkLabel(null).minZoom(0.01).maxZoom(40).nodeId("id")
        .nodeCanvasObject((node, context, scale) => paintNode(node, context, scale))
        .nodePointerAreaPaint((node, ink, context, scale) => { context.fillStyle = ink; context.beginPath(); context.arc(node.x, node.y, 7 / Math.min(scale, 1.5), 0, 7); context.fill(); })
        .linkColor((link) => (link.near ? colour("ink") : colour("edge"))).linkWidth((link) => (link.near ? 1.5 : 0.6))
        .onRenderFramePost((context, scale) => this.front.forEach((node) => paintNode(node, context, scale)))
        .onNodeClick((node) => { if (node.t >= 0) set({ node: node.t === state.node ? null : node.t }); })
        .onBackgroundClick(() => set({ node: null }))
        .onNodeHover((node) => { byId("graph-hover").textContent = node ? describe(current(), node) : ""; });
      this.view.d3Force("charge", null); this.view.d3Force("link", null); this.view.d3Force("center", null);
    }
    if (!graph.neighbours) graph.neighbours = neighbours(graph);
    const wanted = this.members(model, graph);
    const role = roles(model, graph);
    const shown = wanted ?? graph.names.map((_, v) => v);
    const at = graph.x === null ? circleLayout(shown) : null;
    const data = shown.map((v) => ({ id: v, name: graph.names[v], ...role[v], fx: at ? at.get(v)[0] : (graph.x[v] / 5000 - 1) * SPREAD, fy: at ? at.get(v)[1] : (graph.y[v] / 5000 - 1) * SPREAD * 0.7 }));
    const inside = wanted === null ? null : new Set(wanted);
    const links = [];
    for (let e = 0; e < graph.edges.length; e += 2) {
      const [source, target] = [graph.edges[e], graph.edges[e + 1]];
      if (inside === null || (inside.has(source) && inside.has(target))) links.push({ source, target });
    }
    this.nodes = data;
    this.front = [];
    this.view.graphData({ nodes: data, links });
    this.paint();
    this.fit();
  },
  // Nodes within some steps of the chosen one and of the labels that change it; null: all.
  members(model, graph) {
    const hops = Number(byId("graph-hops").value);
    if (hops === 0) return null;
    if (state.node === null) return graph.x === null ? [] : null;
    const inside = new Set([model.around.tested[state.node], ...(witness(model, state.node) ?? []).map(([i]) => model.around.labeled[i])]);
    let front = [model.around.tested[state.node]];
    for (let step = 0; step < hops; step++) {
      front = front.flatMap((v) => graph.neighbours[v]).filter((v) => !inside.has(v) && inside.add(v));
    }
    return [...inside];
  },
  // What a row of a table is about gets a ring, as long as the pointer is on it.
  point(places, k) {
    this.pointed = k === null || !current().around ? -1 : current().around[places][k];
    if (this.view && current().around) this.paint();
  },
  // Everything that a frame needs is put into the nodes first.
  paint() {
    const model = current(), b = state.budget, mode = byId("graph-colour").value;
    const attack = model.strongest(b), about = state.node === null && state.only?.kind === "label" ? state.only.value : null;
    const hitBy = (t) => (about === null ? attack.changes(t) : FILTERS.label.holds(model, t, about));
    const flips = new Map(state.node !== null ? witness(model, state.node) ?? [] : about !== null ? [[model.keys.get(about), -1]] : model.finds ? attack.pairs : []);
    const many = model.m > 100;
    const chosen = state.node === null ? -1 : model.around.tested[state.node];
    const near = new Set(chosen < 0 ? [] : DATA.graphs[model.around.graph].neighbours[chosen]);
    const largest = largestRadius(model);
    for (const node of this.nodes) {
      const { t, i } = node;
      node.shape = i >= 0 ? "square" : t >= 0 ? "circle" : "dot";
      node.ink = colour(i >= 0 ? "sky" : "node");
      if (mode === "class") node.ink = t >= 0 ? paletteColour(model.predicted[t]) : i >= 0 ? paletteColour(model.labels[i]) : colour("node");
      else if (mode === "radius") node.ink = t >= 0 ? radiusColour(Math.min(model.lower[t], largest) / largest) : colour("node");
      else if (t >= 0 && (state.node === null ? hitBy(t) : t === state.node && model.upper[t] <= b)) { node.ink = colour("orange"); node.shape = "triangle"; }
      if (i >= 0 && (model.plan.labels.has(i) || model.fixed[i])) node.ink = colour("green");
      node.said = node.id === chosen ? node.name : null;
      if (i >= 0 && flips.has(i)) {
        node.shape = "cross";
        node.ink = colour("ink");
        node.said = about !== null ? node.name : `${node.name}: ${model.classes[model.labels[i]]} → ${becomes(model, flips.get(i))}`;
      }
      node.ring = node.id === chosen || node.id === this.pointed ? colour("accent") : null;
      node.dim = chosen >= 0 && node.id !== chosen && !near.has(node.id) && node.shape !== "cross";
      node.faint = many && node.shape === "square";
      node.edge = colour("ink");
      node.big = node.shape === "cross" || node.id === chosen || (i >= 0 && !many) || node.shape === "triangle";
    }
    const few = this.nodes.filter((node) => node.shape === "triangle");
    if (few.length <= 5) for (const node of few) node.said ??= node.name;
    // What matters is painted last: changed predictions, then changed labels and the chosen node with their names.
    const rank = (node) => (node.said || node.ring ? 2 : 1);
    this.front = this.nodes.filter((node) => node.shape === "triangle" || node.said || node.ring).sort((x, y) => rank(x) - rank(y));
    const { links } = this.view.graphData();
    for (const link of links) {
      const [a, z] = [link.source.id ?? link.source, link.target.id ?? link.target];
      link.near = chosen >= 0 && (a === chosen || z === chosen);
    }
    this.small = this.nodes.length > 400;
    this.named = this.nodes.length <= 60;
    this.view.linkColor(this.view.linkColor()).nodeCanvasObject(this.view.nodeCanvasObject());
    byId("graph").setAttribute("aria-label", `The graph: ${number(this.nodes.length)} nodes, ${number(links.length)} edges. ` +
      "Arrow keys move it, plus and minus zoom, zero shows all of it. The table of nodes says the same in words.");
    fill(byId("legend"), legend(model, mode));
  },
};

function neighbours(graph) {
  const lists = graph.names.map(() => []);
  for (let e = 0; e < graph.edges.length; e += 2) {
    lists[graph.edges[e]].push(graph.edges[e + 1]);
    lists[graph.edges[e + 1]].push(graph.edges[e]);
  }
  return lists;
}

// Which prediction and which label each node of the graph has.
function roles(model, graph) {
  const all = graph.names.map(() => ({ t: -1, i: -1 }));
  model.around.tested.forEach((v, t) => { all[v].t = t; });
  model.around.labeled.forEach((v, i) => { all[v].i = i; });
  return all;
}

// Graphs that are too large to be drawn as a whole: the chosen node in the middle, the others around it.
function circleLayout(shown) {
  const places = new Map();
  shown.forEach((v, k) => {
    const ring = k === 0 ? 0 : 1 + Math.floor(Math.log2(1 + k / 24));
    places.set(v, [ring * 160 * Math.cos(2.4 * k), ring * 160 * Math.sin(2.4 * k)]);
  });
  return places;
}

function paintNode(node, context, scale) {
  const size = (node.said ? 7 : graphView.small ? (node.big ? 5 : 3) : 6) / Math.min(Math.max(scale, 0.35), 2.5);
  context.globalAlpha = node.faint ? 0.45 : node.dim ? 0.6 : 1;
  context.fillStyle = node.ink;
  context.strokeStyle = node.edge;
  context.lineWidth = 0.8 / Math.max(scale, 0.5);
  context.beginPath();
  const { x, y } = node;
  if (node.shape === "dot") context.arc(x, y, 0.45 * size, 0, 6.2832);
  else if (node.shape === "circle") context.arc(x, y, size, 0, 6.2832);
  else if (node.shape === "square") context.rect(x - size, y - size, 2 * size, 2 * size);
  else if (node.shape === "triangle") { context.moveTo(x, y - 1.2 * size); context.lineTo(x + 1.1 * size, y + size); context.lineTo(x - 1.1 * size, y + size); context.closePath(); }
  else {
    const arm = 1.3 * size;
    context.moveTo(x - arm, y - arm); context.lineTo(x + arm, y + arm);
    context.moveTo(x + arm, y - arm); context.lineTo(x - arm, y + arm);
    for (const [ink, width] of [[colour("paper"), 1.5], [node.ink, 0.8]]) {
      context.strokeStyle = ink;
      context.lineWidth = width * size;
      context.stroke();
    }
    saidName(node, context, scale, size);
    context.globalAlpha = 1;
    return;
  }
  context.fill();
  if (!graphView.small || node.big) context.stroke();
  if (node.said) saidName(node, context, scale, size);
  else if (graphView.named) {
    context.fillStyle = node.edge;
    context.font = `${11 / Math.max(scale, 0.5)}px system-ui, sans-serif`;
    context.fillText(shortened(node.name), x + 1.4 * size, y - 0.9 * size);
  }
  if (node.ring) {
    context.strokeStyle = node.ring;
    context.lineWidth = 3 / Math.max(scale, 0.5);
    context.beginPath(); context.arc(x, y, 1.9 * size, 0, 6.2832); context.stroke();
  }
  context.globalAlpha = 1;
}

const shortened = (name) => (name.length > 40 ? `${name.slice(0, 39)}…` : name);

// The name of a node that the story is about, readable on whatever lies behind it.
function saidName(node, context, scale, size) {
  // Towards the middle, so that nothing is cut off.
  const side = node.fx > graphView.middle ? -1 : 1, x = node.x + side * 1.7 * size, y = node.y - 1.1 * size;
  context.textAlign = side < 0 ? "right" : "left";
  context.font = `600 ${13 / Math.max(scale, 0.05)}px system-ui, sans-serif`;
  context.lineWidth = 4 / Math.max(scale, 0.05);
  context.strokeStyle = colour("paper");
  context.strokeText(shortened(node.said), x, y);
  context.fillStyle = colour("ink");
  context.fillText(shortened(node.said), x, y);
  context.textAlign = "left";
}

// The same as a picture to be saved.
function graphSvg() {
  const { nodes } = graphView, { links } = graphView.view.graphData(), [width, height] = [900, 640];
  const [xs, ys] = [nodes.map((node) => node.fx), nodes.map((node) => node.fy)], least = (values) => values.reduce((a, b) => Math.min(a, b), Infinity), most = (values) => values.reduce((a, b) => Math.max(a, b), -Infinity);
  const zoom = Math.min((width - 120) / Math.max(1, most(xs) - least(xs)), (height - 100) / Math.max(1, most(ys) - least(ys)));
  const at = (node) => [40 + (node.fx - least(xs)) * zoom, 60 + (node.fy - least(ys)) * zoom].map((value) => Math.round(10 * value) / 10);
  const ends = new Map(nodes.map((node) => [node.id, node]));
  const shape = (node) => {
    const [x, y] = at(node), r = graphView.small ? (node.big ? 5 : 2.5) : 6;
    if (node.shape === "square") return tag("rect", { x: x - r, y: y - r, width: 2 * r, height: 2 * r, fill: node.ink });
    if (node.shape === "triangle") return tag("path", { d: `M${x},${y - r}L${x + r},${y + r}H${x - r}Z`, fill: node.ink });
    if (node.shape === "cross") return tag("path", { d: `M${x - r},${y - r}L${x + r},${y + r}M${x + r},${y - r}L${x - r},${y + r}`, stroke: node.ink, "stroke-width": 3 });
    return tag("circle", { cx: x, cy: y, r: node.shape === "dot" ? r / 2 : r, fill: node.ink });
  };
  const title = answers(current(), state.budget)[1];
  return svgPage(width, height, title, [svgText(20, 28, shortened(title) === title ? title : `${title.slice(0, 110)}`, { "font-weight": 600 }),
    ...links.map((link) => { const [a, z] = [link.source, link.target].map((end) => at(ends.get(end.id ?? end))); return tag("path", { d: `M${a}L${z}`, stroke: colour("edge"), "stroke-width": 0.6 }); }),
    ...nodes.filter((node) => !graphView.front.includes(node)).map(shape), ...graphView.front.map(shape),
    ...graphView.front.filter((node) => node.said).map((node) => { const [x, y] = at(node); return svgText(x + 9, y - 6, node.said, { "font-weight": 600, stroke: colour("paper"), "stroke-width": 3, "paint-order": "stroke" }); })]);
}

function describe(model, node) {
  const name = DATA.graphs[model.around.graph].names[node.id];
  if (node.i >= 0) return `${name}: labelled ${model.classes[model.labels[node.i]]}`;
  if (node.t >= 0) return `${name}: predicted ${model.classes[model.predicted[node.t]]}, radius ${radiusText(model, node.t)}`;
  return `${name}: neither labelled nor tested`;
}

function legend(model, mode) {
  const item = (ink, sign, text) => make("li", {}, make("span", { className: "sign", style: `color:${ink}`, "aria-hidden": "true" }, sign), ` ${text}`);
  const untested = model.around.tested.length + model.around.labeled.length < DATA.graphs[model.around.graph].names.length
    ? [item(colour("node"), "·", "neither labelled nor tested")] : [];
  const attack = state.node === null ? "label that the strongest known attack changes" : "label that changes for the chosen prediction";
  const common = [item(colour("ink"), "✕", attack), ...untested];
  if (mode === "class") return [...model.classes.map((name, c) => item(paletteColour(c), "●", name)), ...common];
  if (mode === "radius") {
    const most = largestRadius(model), steps = [...new Set([0, 0.25, 0.5, 0.75, 1].map((share) => Math.round(share * most)))];
    return [...steps.map((radius) => item(radiusColour(radius / most), "●", `radius ${radius}${radius > model.lastFlips ? " or more" : ""}`)), ...common];
  }
  const stays = state.node === null && model.exact ? "prediction that stays" : "other prediction";
  return [item(colour("sky"), "■", "label"), item(colour("green"), "■", "verified label"),
    item(colour("orange"), "▲", model.margin ? "prediction that loses its margin" : "prediction that changes"),
    item(colour("node"), "●", stays), ...common];
}

sections.push(graphView);
