// Several models side by side.

const comparison = {
  on: ["model", "budget", "trust"],
  charts: [null, null],
  start() {
    byId("compare-section").hidden = MODELS.length < 2;
    byId("compare-link").hidden = MODELS.length < 2;
  },
  draw(changed) {
    if (MODELS.length < 2) return;
    const b = state.budget, furthest = Math.max(...MODELS.map((model) => model.lastFlips));
    if (changed.has("model") || changed.has("trust")) {
      // Different predictions do not go into one chart.
      const shown = MODELS.filter((model) => sameNodes(model, MODELS[state.model])).map(viewOf);
      const kinds = [["Each prediction alone", aloneLine, shown], ["All predictions at once", togetherLine, shown.filter((model) => model.collective)]];
      this.charts = kinds.map(([title, line, models], k) => {
        if (this.charts[k]) { drawn.delete(this.charts[k]); this.charts[k].remove(); }
        return models.length ? replaceCurves(null, byId(k ? "compare-together" : "compare-alone"), {
          title, xLabel: new Set(models.map(budgetLabel)).size === 1 ? budgetLabel(models[0]) : "budget", height: 240,
          lines: models.map((model) => line(model, model.name, () => paletteColour(MODELS.indexOf(model.base)), DASHES[MODELS.indexOf(model.base) % DASHES.length], Math.min(model.maxFlips, furthest))),
          chosen: () => state.budget, choose: (wanted) => set({ budget: Math.min(wanted, current().lastFlips) }),
        }) : null;
      });
      fill(byId("compare-left-out"), shown.length < MODELS.length ? `Not drawn, since certified on other predictions: ${MODELS.filter((model) => !shown.some((one) => one.base === model)).map((model) => model.name).join(", ")}.` : "");
    } else this.charts.forEach((chart) => chart && chart.redraw());
    const covered = (model) => b <= model.maxFlips;
    const rows = MODELS.map(viewOf).map((model) => [
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
