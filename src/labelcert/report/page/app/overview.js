// The first screen: what holds, in words and as curves.

const overview = {
  on: ["model", "budget"],
  curves: null,
  start() {
    const slider = byId("budget");
    slider.addEventListener("input", () => set({ budget: Number(slider.value) }));
    const picker = byId("model");
    fill(picker, MODELS.map((model, k) => make("option", { value: k }, model.name)));
    picker.addEventListener("change", () => set({ model: Number(picker.value) }));
    byId("model-choice").hidden = MODELS.length < 2;
  },
  draw(changed) {
    const model = current(), b = state.budget, slider = byId("budget");
    if (changed.has("model")) {
      byId("model").value = state.model;
      slider.max = model.lastFlips;
      fill(byId("headline"), named(model.name), `: ${model.headline}`);
      fill(byId("threat"), model.threat.words.map((line) => make("li", {}, line)));
      fill(byId("exactness"), model.exactness.map((line) => make("li", {}, line)));
      byId("warning").hidden = !model.warning;
      fill(byId("warning"), model.warning);
      this.curves = replaceCurves(this.curves, byId("curves"), {
        title: model.trusts ? "Predictions that survive, if the solver is right" : "Predictions that provably survive", xLabel: budgetLabel(model),
        lines: [aloneLine(model, "each alone", () => colour("blue")),
          ...(model.collective ? [togetherLine(model, "all at once", () => colour("orange"), [8, 5])] : [])],
        chosen: () => state.budget, choose: (wanted) => set({ budget: wanted }),
      });
      fill(byId("curve-numbers"), plainTable("Predictions that survive, in per cent",
        [UNITS[model.unit][1], "each alone", "all at once"],
        budgets(model).map((a) => [number(a), between(safe(model, a), notLost(model, a), model.n),
          model.collective ? between(model.n - model.curve.upper[a], model.n - model.curve.lower[a], model.n) : "not asked for"])));
    } else {
      this.curves.redraw();
    }
    slider.value = b;
    slider.setAttribute("aria-valuetext", amount(model, b));
    fill(byId("budget-text"), amount(model, b));
    fill(byId("sentence"), sentence(model, b));
    fill(byId("attack"), attackSentence(model, b));
  },
};

function sentence(model, b) {
  const [low, high] = [safe(model, b), notLost(model, b)];
  const start = b === 0 ? "With all labels right" : `With up to ${amount(model, b)}`;
  const sure = model.trusts ? "safe one by one, if the solver is right" : "provably safe one by one";
  const words = [`${start}, `, make("strong", {}, share(low, model.n)), ` of ${plural(model.n, "prediction", "predictions")} ` +
    `(${number(low)}) ${low === 1 ? "is" : "are"} ${sure}${model.margin ? " and keep their margin" : ""}`];
  if (high > low) words.push(`; ${number(high - low)} more ${high - low === 1 ? "is" : "are"} open`);
  if (model.collective) {
    const [least, most] = [model.curve.lower[b], model.curve.upper[b]];
    words.push(`, and one attack ${acts(model)} at most `, make("strong", {}, share(most, model.n, true)), ` (${number(most)})`);
    if (least < most) words.push(`; the strongest attack that is known ${acts(model)} ${number(least)}`);
  }
  words.push(".");
  if (tied(model)) words.push(` ${plural(tied(model), "prediction is a tie", "predictions are ties")}` +
    `${model.margin ? " or within the margin" : ""}, which count as changed at every budget.`);
  return words;
}

// With a margin, an attack need not change a prediction to count.
const acts = (model) => (model.margin ? "takes the margin of" : "changes");

function attackSentence(model, b) {
  const pairs = model.finds ? curveAttack(model, b) : [];
  if (!pairs.length) return ["No attack within this budget is known to do anything."];
  return [`It ${acts(model)} ${plural(model.curve.lower[b], "prediction", "predictions")}: `, ...changeText(model, pairs, 6), "."];
}

sections.push(overview);
