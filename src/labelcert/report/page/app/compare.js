// Several models side by side.

const comparison = {
  on: ["model", "budget"],
  charts: [null, null],
  start() {
    byId("compare-section").hidden = MODELS.length < 2;
    byId("compare-link").hidden = MODELS.length < 2;
  },
  draw(changed) {
    if (MODELS.length < 2) return;
    const b = state.budget, furthest = Math.max(...MODELS.map((model) => model.lastFlips));
    if (this.charts[0] === null) {
      const kinds = [["Each prediction alone", aloneLine, MODELS], ["All predictions at once", togetherLine, MODELS.filter((model) => model.collective)]];
      this.charts = kinds.map(([title, line, models], k) => models.length ? replaceCurves(null, byId(k ? "compare-together" : "compare-alone"), {
        title, xLabel: new Set(MODELS.map(budgetLabel)).size === 1 ? budgetLabel(MODELS[0]) : "budget", height: 240,
        lines: models.map((model) => line(model, model.name, () => paletteColour(MODELS.indexOf(model)), DASHES[MODELS.indexOf(model) % DASHES.length], Math.min(model.maxFlips, furthest))),
        chosen: () => state.budget, choose: (wanted) => set({ budget: Math.min(wanted, current().lastFlips) }),
      }) : undefined);
    } else this.charts.forEach((chart) => chart && chart.redraw());
    const covered = (model) => b <= model.maxFlips;
    const rows = MODELS.map((model) => [
      named(model.name), number(model.n), number(model.m), correct(model) === null ? "–" : share(correct(model), model.n),
      covered(model) ? between(safe(model, b), notLost(model, b), model.n) : "not asked for",
      covered(model) && model.collective ? between(model.n - model.curve.upper[b], model.n - model.curve.lower[b], model.n) : "not asked for",
      correct(model) === null || !covered(model) ? "–" : share(correct(model, (t) => model.lower[t] > b), model.n),
      `${model.seconds.toLocaleString("en", { maximumFractionDigits: 1 })} s`, model.state,
    ]);
    fill(byId("compare-table"), plainTable(`All models at budget ${b}`,
      ["model", "predictions", "labels", "accuracy", "survive alone", "survive at once", "right and robust", "time", "certificate"], rows));
    fill(byId("compare-notes"), DATA.notes.map((note) => make("li", {}, note)));
  },
};

// Predictions that are right (and more); null where the truth is not known for all of them.
function correct(model, also = () => true) {
  if (!model.around || model.around.truth.some((code) => code < 0)) return null;
  return count(model.n, (t) => model.upper[t] > 0 && model.allClasses[model.around.truth[t]] === model.classes[model.predicted[t]] && also(t));
}
sections.push(comparison);
