// Your plan: what is to be verified, what that is worth, and how to take it along.

const plan = {
  on: ["model", "budget", "trust"],
  start() {
    byId("plan-none").addEventListener("click", () => set({ verified: [], honest: [] }));
    byId("plan-command").addEventListener("click", (event) => copy(planCommand(current()), event.target));
    byId("plan-csv").addEventListener("click", () => download("plan.csv", csv(planRows(current(), state.budget)), "text/csv"));
  },
  draw() {
    const model = current(), b = state.budget, given = givenPlan(model), before = given.before;
    const [labels, people] = [[...given.labels, ...[...model.plan.labels].map((i) => labelName(model, i))], [...given.people, ...[...model.plan.people].map((a) => model.crowd.names[a])]];
    byId("plan").hidden = !labels.length && !people.length;
    if (!byId("plan").hidden) this.tell(model, b, before, labels, people);
    // What a link leads to is not to be below the bar.
    document.documentElement.style.scrollPaddingTop = `${byId("toolbar").offsetHeight + 16}px`;
  },
  tell(model, b, before, labels, people) {
    const what = [labels.length ? `Verify ${labels.join(", ")}` : "", people.length ? `audit ${people.join(", ")}` : ""].filter((text) => text).join(" and ");
    const a = Math.min(b, before.lastFlips), [from, to] = [range(safe(before, a), notLost(before, a)), range(safe(model, b), notLost(model, b))];
    fill(byId("plan-words"), `${what[0].toUpperCase()}${what.slice(1)}: `, make("strong", {}, `${from} → ${to}`), ` of ${number(model.n)} safe`);
    fill(byId("plan-note"), safe(model, b) === notLost(model, b) ? `Exact, against ${amount(model, b)}.` : `Not all attacks with ${amount(model, b)} are listed in this page: the ends of the intervals are proved.`);
    byId("plan-none").hidden = model === model.base;
    byId("plan-command").textContent = "Copy as a command";
  },
};

const exactAt = (model, b) => safe(model, b) === notLost(model, b) && (!model.collective || model.curve.lower[b] === model.curve.upper[b]);

// What a later certificate of the page knows to be right, and the first one does not.
function givenPlan(model) {
  const first = MODELS[0], same = model.base !== first && first.m === model.m && first.n === model.n && String(first.labelNames) === String(model.labelNames);
  const labels = same ? model.fixed.flatMap((fixed, i) => (fixed && !first.fixed[i] ? [labelName(model, i)] : [])) : [];
  const people = same && model.crowd && first.crowd ? model.crowd.names.filter((name, a) => model.crowd.prices[a] === 0 && first.crowd.prices[first.crowd.names.indexOf(name)] > 0) : [];
  return { labels, people, before: labels.length || people.length ? first : model.base };
}

function planCommand(model) {
  const trusted = [...model.fixed.flatMap((fixed, i) => (fixed ? [i] : [])), ...model.plan.labels];
  const honest = model.crowd ? model.crowd.names.filter((_, a) => model.crowd.prices[a] === 0 || model.plan.people.has(a)) : [];
  if (/^labelcert certify\b/.test(model.command) && model.labelNames && !honest.length) return `${model.command} --trusted ${quoted(trusted.map((i) => labelName(model, i)).join(","))}`;
  const parts = [trusted.length && `trusted=numpy.isin(range(${model.m}), ${JSON.stringify(trusted)})`, honest.length && `trusted_annotators=${JSON.stringify(honest)}`];
  return `threat=labelcert.Threat(${parts.filter((part) => part).join(", ")})`;
}
const quoted = (text) => (/^[\w,.-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`);

// One row for each step, with what is safe after it.
function planRows(model, b) {
  const steps = [...state.verified.filter((name) => model.keys.has(name)).map((name) => ["verify", name]), ...state.honest.map((name) => ["audit", name])];
  const rows = [["step", "do", "what", "safe", "safe, not excluded", "of", model.unit]];
  for (let k = 0; k <= steps.length; k++) {
    const [labels, people] = ["verify", "audit"].map((verb) => steps.slice(0, k).filter(([word]) => word === verb).map(([, name]) => name));
    const then = withPlan(model.base, labels, people);
    rows.push([`${k}`, ...(k ? steps[k - 1] : ["", ""]), `${safe(then, b)}`, `${notLost(then, b)}`, `${model.n}`, `${b}`]);
  }
  return rows;
}

sections.push(plan);

// An attack story: the budget grows step by step, and everything on the page follows.
const story = {
  on: ["budget", "model", "trust"],
  timer: null,
  start() {
    byId("play").addEventListener("click", () => (this.timer ? this.stop() : this.play()));
  },
  play() {
    const last = current().lastFlips;
    if (state.budget >= last) set({ budget: 0 });
    byId("play").textContent = "❚❚ Stop";
    byId(current().around ? "graph-section" : "strip-title").scrollIntoView({ block: "nearest" });
    this.timer = setInterval(() => {
      const model = current(), done = state.budget >= model.lastFlips || model.curve.lower[state.budget] >= model.n;
      if (done) this.stop();
      else set({ budget: state.budget + 1 });
    }, 1300);
  },
  stop() {
    clearInterval(this.timer);
    this.timer = null;
    byId("play").textContent = "▶ Play it, budget by budget";
  },
  draw() {
    const model = current(), b = state.budget, { pairs, people } = model.strongest(b);
    const turned = people && model.unit === "annotators" ? people.map((a) => `${model.crowd.names[a]} lies`) : [];
    fill(byId("story"), `${amount(model, b)}: `, turned.length ? turned.join(", ") : pairs.length && model.finds ? changeText(model, pairs, 4) : "no attack is known to do anything",
      "; ", make("strong", {}, predictions(model.curve.lower[b])), model.margin ? " without margin." : " changed.");
  },
};
sections.push(story);
