// Labels: what depends on each, which to verify first, and switches that say "this one is right".

const labels = {
  on: ["model", "budget", "trust"],
  table: null,
  start() {
    byId("trust-next").addEventListener("click", () => {
      current().trusted.add(this.next);
      set({ trust: true });
    });
    byId("trust-none").addEventListener("click", () => { current().trusted.clear(); set({ trust: true }); });
  },
  build(model) {
    const supports = new Float64Array(model.m);
    for (let t = 0; t < model.n; t++) for (const [i] of witness(model, t) || []) supports[i]++;
    const columns = [
      { title: "label", cell: (i) => named(labelName(model, i)), key: (i) => labelName(model, i) },
      { title: "class", cell: (i) => named(model.classes[model.labels[i]]), key: (i) => model.classes[model.labels[i]] },
      { title: "in witnesses", numeric: true, cell: (i) => number(supports[i]), key: (i) => supports[i],
        hint: "predictions whose cheapest known attack changes this label" },
      { title: this.worth.complete ? "secures alone" : "in open witnesses", numeric: true,
        cell: (i) => (model.fixed[i] || model.trusted.has(i) ? "–" : number(this.worth.alone[i])),
        // Labels that are verified stay where they can be seen, and switched off again.
        key: (i) => (model.trusted.has(i) ? model.n + 1 : this.worth.alone[i] + this.worth.promise[i] / 1e6),
        hint: this.worth.complete ? "predictions that become safe at the chosen budget if this label is verified next"
          : "predictions whose cheapest known attack within the budget changes this label, and none that is verified" },
      { title: "verified", key: (i) => (model.fixed[i] ? 2 : model.trusted.has(i) ? 1 : 0), cell: (i) => this.toggle(model, i) },
    ];
    if (model.threat.groups) columns.splice(2, 0, { title: "group", cell: (i) => named(model.threat.groups[i] ?? "–"), key: (i) => model.threat.groups[i] ?? "" });
    if (model.threat.costs) columns.splice(2, 0, { title: "cost", numeric: true, cell: (i) => number(model.threat.costs[i]), key: (i) => model.threat.costs[i] });
    this.table = new PagedTable(byId("label-table"), {
      caption: "Labels", columns, rows: () => Array.from({ length: model.m }, (_, i) => i),
      sort: [columns.findIndex((c) => c.title.startsWith(this.worth.complete ? "secures" : "in open")), -1],
    });
  },
  toggle(model, i) {
    const name = `${labelName(model, i)} is right`;
    return make("input", { type: "checkbox", role: "switch", "aria-label": name, "data-label": i,
      checked: model.fixed[i] || model.trusted.has(i), disabled: Boolean(model.fixed[i]),
      onchange: (event) => {
        if (event.target.checked) model.trusted.add(i); else model.trusted.delete(i);
        set({ trust: true });
      } });
  },
  draw(changed) {
    const model = current(), b = state.budget;
    this.worth = worth(model, b, model.trusted);
    if (changed.has("model") || this.complete !== this.worth.complete) this.build(model);
    this.complete = this.worth.complete;
    this.table.draw();
    fill(byId("trust-result"), trustWords(model, b));
    this.next = nextLabel(model, this.worth);
    byId("trust-next").disabled = this.next < 0;
    fill(byId("trust-next"), this.next < 0 ? (this.worth.complete ? "No attack is left" : "No known attack is left") : ["Verify next: ", named(labelName(model, this.next))]);
    byId("trust-none").disabled = model.trusted.size === 0;
    byId("trust-note").hidden = this.worth.complete;
  },
};

function trustWords(model, b) {
  const now = withTrust(model, b, new Set());
  const all = (found) => (model.collective || found.exact ? `, ${between(found.together[0], found.together[1], model.n)} all at once` : "");
  const shown = (found) => [make("strong", {}, between(found.alone[0], found.alone[1], model.n)), ` of predictions survive ${amount(model, b)} each alone`, all(found)];
  if (!model.trusted.size) return [...shown(now), ". Switch on the labels that you know to be right."];
  const then = withTrust(model, b, model.trusted);
  return [`With ${plural(model.trusted.size, "label", "labels")} verified, `, ...shown(then),
    ` (without: ${between(now.alone[0], now.alone[1], model.n)}). `,
    then.exact ? "This is exact." : "Approximate: not all attacks are listed, so only the ends of the interval are proved."];
}

sections.push(labels);
