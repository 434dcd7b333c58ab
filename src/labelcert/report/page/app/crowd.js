// Annotators: what each changes alone, whom to audit next, and switches that say "this one is honest".

// Predictions that survive budget b once some annotators are known to be honest, each alone, as a proved interval. Where
// the budget pays for no two of the others, what single ones do decides. Beyond that, what survives anyway is safe for
// sure, and what a known attack of the others changes is lost for sure.
function withHonest(model, b) {
  const { n, crowd } = model;
  const free = crowd.names.map((_, a) => a).filter((a) => crowd.prices[a] > 0 && !model.honest.has(a));
  const paid = free.filter((a) => crowd.prices[a] <= b);
  const [least, next] = free.map((a) => crowd.prices[a]).sort((x, y) => x - y);
  const singles = next === undefined || b < least + next;
  const lost = new Uint8Array(n), perhaps = new Uint8Array(n);
  for (const a of paid) {
    for (const t of crowd.sure[a]) lost[t] = 1;
    if (singles) for (const t of crowd.maybe[a]) perhaps[t] = 1;
  }
  const others = (owners) => owners !== null && !owners.some((a) => model.honest.has(a));
  for (let t = 0; t < n; t++) {
    if (model.upper[t] === 0 || (model.upper[t] <= b && others(crowd.owners[t]))) lost[t] = 1;
    if (model.lower[t] === 0 || !singles) perhaps[t] = 1;
  }
  for (let a = 0; a <= b; a++) {
    if (!others(crowd.together[a])) continue;
    for (let t = 0; t < n; t++) if (curveChanges(model, a, t)) lost[t] = 1;
  }
  const low = count(n, (t) => model.lower[t] > b || (!perhaps[t] && !lost[t]));
  return { free, paid, singles, low, high: Math.max(low, n - count(n, (t) => lost[t])) };
}

// For each annotator: how many predictions nobody else puts at risk, so that they become safe if this one is honest.
function securedBy(model, { paid }) {
  const by = new Map(paid.map((a) => [a, 0])), risks = new Uint32Array(model.n), whose = new Int32Array(model.n);
  for (const a of paid) for (const t of crowdRisk(model, a)) { risks[t]++; whose[t] = a; }
  for (let t = 0; t < model.n; t++) if (risks[t] === 1) by.set(whose[t], by.get(whose[t]) + 1);
  return by;
}
const crowdRisk = (model, a) => [...model.crowd.maybe[a]].filter((t) => model.lower[t] > 0);

const crowd = {
  on: ["model", "budget", "trust"],
  table: null,
  start() {
    byId("crowd").hidden = byId("crowd-link").hidden = !MODELS.some((model) => model.crowd);
    byId("audit-next").addEventListener("click", () => { current().honest.add(this.next); set({ trust: true }); });
    byId("audit-none").addEventListener("click", () => { current().honest.clear(); set({ trust: true }); });
  },
  build(model) {
    const { names, votes, sure, maybe, prices } = model.crowd;
    const alone = (a) => (sure[a].length === maybe[a].length ? number(sure[a].length) : `${number(sure[a].length)} to ${number(maybe[a].length)}`);
    const columns = [
      { title: "annotator", cell: (a) => named(names[a]), key: (a) => names[a] },
      { title: "votes", numeric: true, cell: (a) => number(votes[a]), key: (a) => votes[a] },
      { title: "changes alone", numeric: true, cell: alone, key: (a) => sure[a].length + maybe[a].length / (2 * model.n + 2),
        hint: "predictions that this one changes without anybody else" },
      { title: "secures next", numeric: true, cell: (a) => (this.secures.has(a) ? number(this.secures.get(a)) : "–"), key: (a) => this.secures.get(a) ?? -1,
        hint: "predictions that no other single annotator puts at risk" },
      { title: "honest", key: (a) => (prices[a] === 0 ? 2 : model.honest.has(a) ? 1 : 0), cell: (a) => this.toggle(model, a) },
    ];
    this.table = new PagedTable(byId("crowd-table"), { caption: "Annotators", columns, rows: () => names.map((_, a) => a), sort: [2, -1] });
  },
  toggle(model, a) {
    const known = model.crowd.prices[a] === 0;
    return make("input", { type: "checkbox", role: "switch", "aria-label": `${model.crowd.names[a]} is honest`, "data-annotator": a,
      checked: known || model.honest.has(a), disabled: known,
      onchange: (event) => {
        if (event.target.checked) model.honest.add(a); else model.honest.delete(a);
        set({ trust: true });
      } });
  },
  draw(changed) {
    const model = current();
    if (changed.has("model")) byId("crowd").hidden = byId("crowd-link").hidden = !model.crowd;
    if (!model.crowd) return;
    const found = withHonest(model, state.budget);
    this.secures = securedBy(model, found);
    if (changed.has("model")) this.build(model);
    this.table.draw();
    const worth = (a) => this.secures.get(a) * (model.n + 1) + model.crowd.maybe[a].length;
    this.next = found.paid.reduce((best, a) => (best < 0 || worth(a) > worth(best) ? a : best), -1);
    const survives = [make("strong", {}, between(found.low, found.high, model.n)), ` of predictions survive ${amount(model, state.budget)} each alone`];
    fill(byId("audit-result"), model.honest.size ? `With ${plural(model.honest.size, "annotator", "annotators")} known to be honest, ` : "", ...survives,
      found.low === found.high ? ". This is exact." : ". The ends of the interval are proved.");
    byId("audit-next").disabled = this.next < 0;
    fill(byId("audit-next"), this.next < 0 ? "Nobody is left" : ["Audit next: ", named(model.crowd.names[this.next])]);
    byId("audit-none").disabled = model.honest.size === 0;
  },
};

sections.push(crowd);
