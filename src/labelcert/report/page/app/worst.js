// The worst values of the metrics that were asked for, and the attacks that come to them.

const worst = {
  on: ["model", "budget", "trust"],
  start() {
    byId("worst").hidden = byId("worst-link").hidden = !MODELS.some((model) => model.worst.rows.length);
  },
  draw() {
    const model = current(), b = state.budget, { rows, attacks } = model.worst;
    byId("worst").hidden = byId("worst-link").hidden = !rows.length;
    // A plan takes attacks away: without the one that came to a value, that value is only a bound.
    const gone = (k) => hit(attacks, k, model.plan.labels) || model.plan.people.size > 0;
    fill(byId("worst-table"), plainTable(`Worst values within ${amount(model, b)}`,
      ["metric", "with all labels right", "worst value", "labels that the worst known attack changes"],
      rows.map(({ title, values, attackOf }) => {
        const lost = gone(attackOf[b]);
        return [named(title), values[0], [make("strong", {}, values[b]), lost ? " or better" : ""], lost ? "none that is left" : changes(model, relabelling(attacks, attackOf[b]))];
      }), 1));
  },
};
const changes = (model, pairs) => (pairs.length ? changeText(model, pairs, 6) : "none");

sections.push(worst);
