// Labels: what depends on each, which to verify first, and switches that say "this one is right".

const labels = {
  on: ["model", "budget", "trust", "only"],
  table: null,
  start() {
    byId("trust-next").addEventListener("click", () => set({ verified: [...state.verified, labelKey(current(), this.next)] }));
    byId("trust-none").addEventListener("click", () => set({ verified: [] }));
  },
  build(model) {
    const columns = [
      { title: "label", cell: (i) => make("button", { type: "button", className: "link", "aria-pressed": String(isOnly("label", labelKey(model, i))), title: "list the predictions that it changes", onclick: () => only("label", labelKey(model, i)) }, named(labelName(model, i))), key: (i) => labelName(model, i) },
      { title: "class", cell: (i) => named(model.classes[model.labels[i]]), key: (i) => model.classes[model.labels[i]] },
      { title: "in witnesses", numeric: true, minor: "small", cell: (i) => number(this.supports[i]), key: (i) => this.supports[i],
        hint: "predictions whose cheapest known attack changes this label" },
      { title: this.worth.complete ? "secures alone" : "in open witnesses", numeric: true,
        cell: (i) => (model.fixed[i] || now().plan.labels.has(i) ? "–" : number(this.worth.alone[i])),
        // Labels that are verified stay where they can be seen, and switched off again.
        key: (i) => (now().plan.labels.has(i) ? model.n + 1 : this.worth.alone[i] + this.worth.promise[i] / 1e6),
        hint: this.worth.complete ? "predictions that become safe at the chosen budget if this label is verified next"
          : "predictions whose cheapest known attack within the budget changes this label, and none that is verified" },
      { title: "verified", key: (i) => (model.fixed[i] ? 2 : now().plan.labels.has(i) ? 1 : 0), cell: (i) => this.toggle(model, i) },
    ];
    if (model.threat.groups) columns.splice(2, 0, { title: "group", cell: (i) => named(model.threat.groups[i] ?? "–"), key: (i) => model.threat.groups[i] ?? "" });
    if (model.threat.costs) columns.splice(2, 0, { title: "cost", numeric: true, cell: (i) => number(model.threat.costs[i]), key: (i) => model.threat.costs[i] });
    this.table = new PagedTable(byId("label-table"), {
      caption: "Labels", columns, point: (i) => graphView.point("labeled", i), rows: () => Array.from({ length: model.m }, (_, i) => i),
      sort: [columns.findIndex((c) => c.title.startsWith(this.worth.complete ? "secures" : "in open")), -1],
    });
  },
  toggle(model, i) {
    const name = `${labelName(model, i)} is right`;
    return make("input", { type: "checkbox", role: "switch", "aria-label": name, "data-label": i,
      checked: model.fixed[i] || now().plan.labels.has(i), disabled: Boolean(model.fixed[i]),
      onchange: () => set({ verified: toggled(state.verified, labelKey(model, i)) }) });
  },
  draw(changed) {
    const model = current(), b = state.budget;
    this.worth = worth(model, b);
    this.supports = new Float64Array(model.m);
    for (let t = 0; t < model.n; t++) for (const [i] of witness(model, t) ?? []) this.supports[i]++;
    if (changed.has("model") || this.complete !== this.worth.complete) this.build(model);
    this.complete = this.worth.complete;
    this.table.draw();
    fill(byId("trust-result"), trustWords(model, b));
    this.next = nextLabel(model, this.worth);
    byId("trust-next").disabled = this.next < 0;
    fill(byId("trust-next"), this.next < 0 ? (this.worth.complete ? "No attack is left" : "No known attack is left") : ["Verify next: ", named(labelName(model, this.next))]);
    byId("trust-none").disabled = model.plan.labels.size === 0;
    byId("trust-note").hidden = this.worth.complete;
  },
};

function trustWords(model, b) {
  const shown = (one) => [make("strong", {}, between(safe(one, b), notLost(one, b), one.n)), ` of predictions survive ${amount(one, b)} each alone`,
    one.collective || one !== one.base ? `, ${between(one.n - one.curve.upper[b], one.n - one.curve.lower[b], one.n)} all at once` : ""];
  if (!model.plan.labels.size) return [...shown(model), ". Switch on the labels that you know to be right."];
  return [`With ${plural(model.plan.labels.size, "label", "labels")} verified, `, ...shown(model),
    ` (without: ${between(safe(model.base, b), notLost(model.base, b), model.n)}). `,
    exactAt(model, b) ? "This is exact." : "Approximate: not all attacks are listed, so only the ends of the interval are proved."];
}

sections.push(labels);
