// The table of predictions, and one of them in detail.

const nodes = {
  on: ["model", "budget", "node", "trust", "only"],
  table: null,
  start() {
    byId("only").addEventListener("click", () => set({ only: null }));
    for (const id of ["search", "show-verdict", "show-class"]) {
      byId(id).addEventListener("input", () => { this.table.page = 0; this.table.draw(); });
    }
  },
  build(model) {
    fill(byId("nodes-title"), "Predictions");
    const others = MODELS.filter((one) => one !== model.base && sameNodes(one, model)).slice(0, 4);
    const columns = [
      { title: noun(model), cell: (t) => named(testName(model, t)), key: (t) => testName(model, t) },
      { title: "predicted", cell: (t) => named(model.classes[model.predicted[t]]), key: (t) => model.classes[model.predicted[t]] },
      { title: "score", numeric: true, minor: "minor", cell: (t) => `${model.scores[t]}`, key: (t) => model.scores[t], hint: model.classes.length > 2 ? "of the predicted class" : `positive for ${model.classes[1]}` },
      { title: "radius", numeric: true, cell: (t) => radiusText(now(), t), key: (t) => now().lower[t] + now().upper[t] / (2 * model.never),
        hint: model.unit === "cost units" ? "lowest cost of changing the prediction" : `fewest ${model.words[1]} that change the prediction` },
      { title: "verdict", cell: (t) => verdictMark(verdict(now(), t, state.budget)), key: (t) => verdict(now(), t, state.budget),
        hint: "at the chosen budget" },
      { title: "changed by", minor: "small", cell: (t) => { const pairs = witness(now(), t); return pairs === null ? "–" : pairs.length ? changeText(model, pairs) : "a tie"; },
        key: (t) => (witness(now(), t) || []).map(([i]) => labelName(model, i)).join(", ") },
    ];
    if (model.around) columns.splice(2, 0, { title: "true class", minor: "minor", key: (t) => trueClass(model, t), cell: (t) => named(trueClass(model, t)) });
    if (model.votes) columns.splice(columns.length - 2, 0, { title: model.voting ? "by votes" : "if the parts voted", numeric: true, minor: "minor", cell: (t) => `${model.votes[t]}`, key: (t) => model.votes[t],
      hint: model.voting ? "radius that follows from counting votes alone" : "radius if the same parts voted, from counting votes alone" });
    const alike = others.map((one) => ({ title: `radius, ${one.name}`, numeric: true, minor: "small", cell: (t) => radiusText(viewOf(one), t), key: (t) => viewOf(one).lower[t] }));
    columns.splice(columns.findIndex((column) => column.title === "verdict") + 1, 0, ...alike);
    fill(byId("show-class"), make("option", { value: "" }, "all classes"), model.classes.map((name, c) => make("option", { value: c }, name)));
    this.table = new PagedTable(byId("node-table"), {
      caption: "Predictions", columns, rows: () => this.rows(), sort: [columns.findIndex((c) => c.title === "radius"), 1],
      pick: (t) => set({ node: t === state.node ? null : t }), point: (t) => graphView.point("tested", t), chosen: () => state.node,
    });
  },
  rows() {
    const model = current(), wanted = byId("search").value.trim().toLocaleLowerCase();
    const word = byId("show-verdict").value, of = byId("show-class").value;
    return Array.from({ length: model.n }, (_, t) => t).filter((t) =>
      (state.only === null || FILTERS[state.only.kind].holds(model, t, state.only.value)) &&
      (of === "" || model.predicted[t] === Number(of)) &&
      (word === "" || (word === "attacked" ? curveChanges(model, state.budget, t) : verdict(model, t, state.budget) === word)) &&
      (wanted === "" || this.text(model, t).includes(wanted)));
  },
  text(model, t) {
    const labels = (witness(model, t) || []).map(([i]) => labelName(model, i));
    return [testName(model, t), model.classes[model.predicted[t]], ...labels].join(" ").toLocaleLowerCase();
  },
  draw(changed) {
    if (changed.has("model")) this.build(current());
    if (changed.has("only")) this.table.page = 0;
    if (changed.has("node") && state.node !== null) this.table.show(state.node);
    else this.table.draw();
    byId("only").hidden = state.only === null;
    if (state.only) fill(byId("only"), "Only ", FILTERS[state.only.kind].words(current(), state.only.value), " ×");
    fill(byId("detail"), detail(current(), state.node));
  },
};

const now = current;

const sameNodes = (a, b) => a.n === b.n && String(a.testNames) === String(b.testNames);

// What the table can be narrowed down to by clicks elsewhere on the page.
const FILTERS = {
  radius: { holds: (model, t, key) => Math.min(model.lower[t], model.lastFlips + 1) + (model.lower[t] !== model.upper[t] && model.lower[t] <= model.lastFlips ? 0.5 : 0) === key,
    words: (model, key) => `radius ${key === Math.floor(key) ? key : `at least ${Math.floor(key)}`}` },
  label: { holds: (model, t, key) => (witness(model, t) ?? []).some(([i]) => labelKey(model, i) === key), words: (model, key) => ["changed by ", named(key)] },
  person: { holds: (model, t, who) => model.crowd !== null && [...model.crowd.maybe[model.crowd.names.indexOf(who)] ?? []].includes(t), words: (model, who) => ["at risk from ", named(who)] },
  takeover: { holds: (model, t, [from, to]) => model.predicted[t] === from && model.newClass[t] === to && model.upper[t] > 0 && model.upper[t] <= state.budget,
    words: (model, [from, to]) => [named(model.classes[from]), " that become ", named(model.classes[to])] },
};
const isOnly = (kind, value) => state.only !== null && state.only.kind === kind && String(state.only.value) === String(value);
const only = (kind, value) => set({ only: isOnly(kind, value) ? null : { kind, value } });

const trueClass = (model, t) => (model.around.truth[t] < 0 ? "–" : model.allClasses[model.around.truth[t]]);

function underAttack(model, b, t) {
  if (curveChanges(model, b, t)) return model.margin ? "loses its margin" : "changes";
  return model.finds && model.lower[t] > 0 ? "stays" : "not known";
}

function detail(model, t) {
  if (t === null) return [make("p", { className: "muted" }, model.around ? "Choose a node in the table or in the graph to see what changes it." : "Choose a row of the table to see what changes it.")];
  const pairs = witness(model, t), b = state.budget;
  const facts = [
    ["prediction", named(model.classes[model.predicted[t]])],
    ...(model.around && model.around.truth[t] >= 0 ? [["true class", named(trueClass(model, t))]] : []),
    ["score", `${model.scores[t]}`],
    ["radius", radiusText(model, t)],
    [`with ${amount(model, b)}`, verdictMark(verdict(model, t, b))],
    ["under the strongest known attack", underAttack(model, b, t)],
    ...(model.provedBy[t] ? [["proved by", model.provedBy[t]]] : []),
  ];
  const change = pairs === null ? ["No attack on it is known."]
    : pairs.length === 0 ? ["Its highest score is shared (or within the margin): it counts as changed at every budget."]
      : [model.margin ? "It loses its margin" : "It changes", model.newClass[t] >= 0 ? [model.margin ? " towards " : " to ", named(model.classes[model.newClass[t]])] : "", " if"];
  return [
    make("h3", {}, named(testName(model, t))),
    make("dl", {}, facts.flatMap(([key, value]) => [make("dt", {}, key), make("dd", {}, value)])),
    make("p", {}, change.flat()),
    pairs && pairs.length ? make("ul", {}, pairs.map(([i, c]) =>
      make("li", {}, named(labelName(model, i)), c < model.classes.length ? " becomes " : " is ", named(becomes(model, c)), " instead of ", named(model.classes[model.labels[i]])))) : "",
  ];
}

sections.push(nodes);
