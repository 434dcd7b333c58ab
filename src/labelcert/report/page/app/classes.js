// Who is taken over by whom, and how each class fares.

const classes = {
  on: ["model", "budget", "trust", "only"],
  start() {},
  draw() {
    const model = current(), b = state.budget, K = model.classes.length;
    const counts = model.classes.map(() => new Array(K).fill(0));
    const fate = model.classes.map(() => ({ [ROBUST]: 0, [VULNERABLE]: 0, [OPEN]: 0 }));
    for (let t = 0; t < model.n; t++) {
      fate[model.predicted[t]][verdict(model, t, b)]++;
      if (model.upper[t] > 0 && model.upper[t] <= b && model.newClass[t] >= 0) counts[model.predicted[t]][model.newClass[t]]++;
    }
    const largest = Math.max(1, ...counts.flat()), title = model.margin ? `Within ${amount(model, b)}, predictions of one class lose their margin to another` : `Within ${amount(model, b)}, predictions of one class become another`;
    const cell = (value, c, d) => (c === d ? "·" : make("button", { type: "button", className: "heat", style: `--heat:${value / largest}`, "aria-pressed": String(isOnly("takeover", [c, d])), onclick: () => only("takeover", [c, d]) }, number(value)));
    const matrix = () => [["prediction", ...model.classes], ...model.classes.map((name, c) => [name, ...counts[c].map((value, d) => (c === d ? "" : `${value}`))])];
    const pairs = counts.flatMap((row, c) => row.map((value, d) => [value, c, d])).filter(([value]) => value).sort((x, y) => y[0] - x[0]);
    // Many classes make a matrix that no screen holds: the largest entries say more.
    fill(byId("takeovers"), K <= 8 ? plainTable(`${title}: rows become columns`, ["prediction", ...model.classes.map(named)], model.classes.map((name, c) => [named(name), ...counts[c].map((value, d) => cell(value, c, d))]), 1, matrix)
      : plainTable(`${title}: the ${Math.min(12, pairs.length)} most frequent of ${pairs.length} pairs`, ["prediction", "becomes", "predictions"], pairs.slice(0, 12).map(([value, c, d]) => [named(model.classes[c]), named(model.classes[d]), cell(value, c, d)]), 2, matrix));
    const unknown = count(model.n, (t) => model.upper[t] > 0 && model.upper[t] <= b && model.newClass[t] < 0);
    if (unknown) byId("takeovers").append(make("p", { className: "muted" }, `${predictions(unknown)} more change to a class that is not listed in this page.`));
    fill(byId("fates"), plainTable("Predictions of each class", ["class", "predictions", "robust", "vulnerable", "open", "share robust"],
      model.classes.map((name, c) => {
        const total = fate[c][ROBUST] + fate[c][VULNERABLE] + fate[c][OPEN];
        return [make("button", { type: "button", className: "link", onclick: () => { byId("show-class").value = c; byId("show-class").dispatchEvent(new Event("input")); byId("nodes").scrollIntoView(); } }, named(name)), number(total), number(fate[c][ROBUST]), number(fate[c][VULNERABLE]), number(fate[c][OPEN]), total ? share(fate[c][ROBUST], total) : "–"];
      })));
  },
};
sections.push(classes);
