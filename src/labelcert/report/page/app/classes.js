// Who is taken over by whom, and how each class fares.

const classes = {
  on: ["model", "budget"],
  start() {},
  draw() {
    const model = current(), b = state.budget, K = model.classes.length;
    const counts = model.classes.map(() => new Array(K).fill(0));
    const fate = model.classes.map(() => ({ [ROBUST]: 0, [VULNERABLE]: 0, [OPEN]: 0 }));
    for (let t = 0; t < model.n; t++) {
      fate[model.predicted[t]][verdict(model, t, b)]++;
      if (model.upper[t] > 0 && model.upper[t] <= b && model.newClass[t] >= 0) counts[model.predicted[t]][model.newClass[t]]++;
    }
    const largest = Math.max(1, ...counts.flat());
    fill(byId("takeovers"), plainTable(model.margin ? `Within ${amount(model, b)}, predictions of the class in a row lose their margin to that of the column`
      : `Within ${amount(model, b)}, predictions of the class in a row become that of the column`,
      ["prediction", ...model.classes.map(named)],
      model.classes.map((name, c) => [named(name), ...counts[c].map((value, d) =>
        c === d ? "·" : make("span", { className: "heat", style: `--heat:${value / largest}` }, number(value)))])));
    fill(byId("fates"), plainTable("Predictions of each class", ["class", "predictions", "robust", "vulnerable", "open", "share robust"],
      model.classes.map((name, c) => {
        const total = fate[c][ROBUST] + fate[c][VULNERABLE] + fate[c][OPEN];
        return [named(name), number(total), number(fate[c][ROBUST]), number(fate[c][VULNERABLE]), number(fate[c][OPEN]), total ? share(fate[c][ROBUST], total) : "–"];
      })));
  },
};
sections.push(classes);
