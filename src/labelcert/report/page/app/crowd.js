// Annotators: what each changes alone, whom to audit next, and switches that say "this one is honest".

const crowd = {
  on: ["model", "budget", "trust", "only"],
  table: null,
  start() {
    byId("crowd").hidden = byId("crowd-link").hidden = !MODELS.some((model) => model.crowd);
    byId("audit-next").addEventListener("click", () => set({ honest: [...state.honest, current().crowd.names[this.next]] }));
    byId("audit-none").addEventListener("click", () => set({ honest: [] }));
  },
  build(model) {
    const { names, votes, sure, maybe, prices } = model.crowd;
    const alone = (a) => (sure[a].length === maybe[a].length ? number(sure[a].length) : `${number(sure[a].length)} to ${number(maybe[a].length)}`);
    const columns = [
      { title: "annotator", cell: (a) => make("button", { type: "button", className: "link", "aria-pressed": String(isOnly("person", names[a])), title: "list the predictions at risk", onclick: () => only("person", names[a]) }, named(names[a])), key: (a) => names[a] },
      { title: "votes", numeric: true, minor: "small", cell: (a) => number(votes[a]), key: (a) => votes[a] },
      { title: "changes alone", numeric: true, cell: alone, key: (a) => sure[a].length + maybe[a].length / (2 * model.n + 2),
        hint: "predictions that this one changes without anybody else" },
      { title: "secures next", numeric: true, cell: (a) => (this.risks.only.has(a) ? number(this.risks.only.get(a)) : "–"), key: (a) => this.risks.only.get(a) ?? -1,
        hint: "predictions that no other single annotator puts at risk" },
      { title: "honest", key: (a) => (prices[a] === 0 ? 2 : now().plan.people.has(a) ? 1 : 0), cell: (a) => this.toggle(model, a) },
    ];
    this.table = new PagedTable(byId("crowd-table"), { caption: "Annotators", columns, rows: () => names.map((_, a) => a), sort: [2, -1] });
  },
  toggle(model, a) {
    const known = model.crowd.prices[a] === 0;
    return make("input", { type: "checkbox", role: "switch", "aria-label": `${model.crowd.names[a]} is honest`, "data-annotator": a,
      checked: known || now().plan.people.has(a), disabled: known,
      onchange: () => set({ honest: toggled(state.honest, model.crowd.names[a]) }) });
  },
  draw(changed) {
    const model = current();
    if (changed.has("model")) byId("crowd").hidden = byId("crowd-link").hidden = !model.crowd;
    if (!model.crowd) return;
    const b = state.budget;
    this.risks = risks(model, b);
    if (changed.has("model")) this.build(model);
    this.table.draw();
    this.next = this.risks.next;
    fill(byId("audit-result"), model.plan.people.size ? `With ${plural(model.plan.people.size, "annotator", "annotators")} known to be honest, ` : "",
      make("strong", {}, between(safe(model, b), notLost(model, b), model.n)), ` of predictions survive ${amount(model, b)} each alone`,
      safe(model, b) === notLost(model, b) ? ". This is exact." : ". The ends of the interval are proved.");
    byId("audit-next").disabled = this.next < 0;
    fill(byId("audit-next"), this.next < 0 ? "Nobody is left" : ["Audit next: ", named(model.crowd.names[this.next])]);
    byId("audit-none").disabled = model.plan.people.size === 0;
  },
};

sections.push(crowd);
