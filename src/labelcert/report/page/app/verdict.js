// The answer first: how many are safe, what the worst attack does, what to do next; and a strip of all predictions.

const verdicts = {
  on: ["model", "budget", "trust", "only"],
  start() {
    const slider = byId("budget");
    slider.addEventListener("input", () => set({ budget: Number(slider.value) }));
    const picker = byId("model");
    fill(picker, MODELS.map((model, k) => make("option", { value: k }, model.name)));
    picker.addEventListener("change", () => set({ model: Number(picker.value) }));
    byId("model-choice").hidden = MODELS.length < 2;
    fill(byId("safe-title"), "How many are ", term("proved safe", "safe"), "?");
    fill(byId("worst-attack-title"), "What does the ", term("worst attack"), " do?");
    fill(byId("strip-title"), "All predictions, by ", term("radius"));
  },
  draw(changed) {
    const model = current(), base = model.base, b = state.budget, slider = byId("budget");
    if (changed.has("model")) {
      byId("model").value = state.model;
      slider.max = model.lastFlips;
      fill(byId("headline"), named(model.name), `: ${model.headline}`);
      fill(byId("threat"), model.threat.words.map((line) => make("li", {}, line)));
      byId("warning").hidden = !model.warning;
      fill(byId("warning"), model.warning);
    }
    const listed = base.listed ? `exact up to ${amount(model, Math.min(base.listed.flips, model.lastFlips))}, whose attacks are all listed in this page, and proved intervals beyond` : "proved intervals, since not all attacks are listed in this page";
    fill(byId("exactness"), model.exactness.map((line) => make("li", {}, line)), model === base ? "" : make("li", {}, `With your plan, figures are ${listed}.`));
    slider.value = b;
    slider.setAttribute("aria-valuetext", amount(model, b));
    fill(byId("budget-text"), amount(model, b));

    const [told, planless] = [answers(model, b), model === base];
    const low = safe(model, b), high = notLost(model, b), nothing = model.provedNothing && planless;
    // Where nothing was proved, whatever would look like a result is left out.
    document.documentElement.toggleAttribute("data-nothing", nothing);
    fill(byId("safe-figure"), nothing ? "–" : [make("strong", {}, range(low, high)), ` of ${number(model.n)}`]);
    fill(byId("safe-words"), told[0]);
    fill(byId("safe-before"), planless ? "" : `Without your plan: ${range(safe(base, b), notLost(base, b))}.`);
    const [least, most] = [model.curve.lower[b], model.curve.upper[b]];
    fill(byId("worst-figure"), nothing ? "–" : [make("strong", {}, range(least, most)), model.margin ? " lose their margin" : " change"]);
    fill(byId("worst-words"), told[1]);
    fill(byId("worst-before"), planless ? "" : `Without your plan: ${range(base.curve.lower[b], base.curve.upper[b])}.`);
    byId("play").hidden = nothing || !model.finds || model.lastFlips === 0;
    fill(byId("next-words"), commandsIn(told[2]));
    const step = nextStep(model, b);
    byId("do-next").hidden = step === null;
    fill(byId("do-next"), step === null ? "" : [step.verb, " ", named(step.name)]);
    byId("do-next").onclick = step && step.act;
    this.strip(model, b);
  },
  // One piece for each radius, as wide as its predictions are many.
  strip(model, b) {
    const most = largestRadius(model), counts = new Map();
    for (let t = 0; t < model.n; t++) {
      const open = model.lower[t] !== model.upper[t] && model.lower[t] <= model.lastFlips;
      const key = Math.min(model.lower[t], model.lastFlips + 1) + (open ? 0.5 : 0);
      counts.set(key, (counts.get(key) ?? 0) + 1);
    }
    const keys = [...counts.keys()].sort((x, y) => x - y);
    fill(byId("strip"), keys.map((key) => {
      const radius = Math.floor(key), open = key !== radius, ink = ramp(Math.min(radius, most) / most), chosen = isOnly("radius", key);
      const what = open ? `at least ${radius}` : radius > model.lastFlips ? `${radius} or more` : `${radius}`;
      const words = `radius ${what}: ${predictions(counts.get(key))}, ${share(counts.get(key), model.n)}${radius > b ? ", proved safe" : ""}`;
      return make("button", { type: "button", className: `piece${radius > b ? " kept" : ""}${open ? " open" : ""}${chosen ? " chosen" : ""}`, title: words, "aria-label": words, "aria-pressed": String(chosen),
        style: `flex-grow:${counts.get(key)};background-color:rgb(${ink.join(",")});color:${light(ink) ? "#000" : "#fff"}`,
        onclick: () => set({ only: chosen ? null : { kind: "radius", value: key } }), onmouseenter: () => fill(byId("strip-text"), words), onfocus: () => fill(byId("strip-text"), words) },
      make("span", { "aria-hidden": "true" }, open ? `≥${radius}` : radius > model.lastFlips ? `${radius}+` : `${radius}`));
    }));
    byId("strip").onmouseleave = () => fill(byId("strip-text"), told);
    const told = `${number(safe(model, b))} of ${number(model.n)} have a radius above ${b}, and are proved safe. A click on a piece lists its predictions.`;
    fill(byId("strip-text"), told);
  },
};
const light = ([red, green, blue]) => {
  const [r, g, b] = [red, green, blue].map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179;
};

// Without a plan, the sentences are those that labelcert says everywhere; with one, they are put together alike.
function answers(model, b) {
  return model === model.base ? model.answers[b] : [safeSentence(model, b), worstSentence(model, b), nextSentence(model, b)];
}
const isAre = (value) => (value === 1 ? "is" : "are");

function safeSentence(model, b) {
  const low = safe(model, b), open = notLost(model, b) - low;
  const among = `${number(low)} of ${predictions(model.n)} (${share(low, model.n)}) ${isAre(low)}`, still = open ? `; ${number(open)} more ${isAre(open)} open` : "";
  if (b === 0) return `${among} settled with all labels right${still}.`;
  const proved = model.trusts ? "safe, if the solver is right," : "proved safe";
  return `${among} ${proved} from up to ${amount(model, b)}${model.margin ? " and keep their margin" : ""}${still}.`;
}

function listing(words) {
  const shown = words.length > 3 ? [...words.slice(0, 3), `${words.length - 3} more`] : words;
  return shown.length < 2 ? shown.join("") : `${shown.slice(0, -1).join(", ")} and ${shown[shown.length - 1]}`;
}

const ifRight = (model) => (model.trusts ? ", if the solver is right" : "");

function worstSentence(model, b) {
  const { pairs, people } = model.strongest(b), [least, most] = [model.curve.lower[b], model.curve.upper[b]];
  const steps = people && model.unit === "annotators" ? listing(people.map((a) => model.crowd.names[a]))
    : listing(pairs.map(([i, c]) => `${labelWords(model, i)} (${model.classes[model.labels[i]]} → ${becomes(model, c)})`));
  if (!steps || !model.finds) {
    if (most <= tied(model) && model.collective) return b ? `No attack with up to ${amount(model, b)} changes a prediction${ifRight(model)}.` : "Nothing changes while all labels are right.";
    return `No attack is known${most < model.n ? `; one could change at most ${predictions(most)}${ifRight(model)}` : ""}.`;
  }
  const others = least === most || most === model.n ? "" : model.collective ? `; no attack can do so to more than ${number(most)}${ifRight(model)}` : "; whether another one does more was not asked";
  const byWhom = people && model.unit === "annotators", takes = model.margin ? "and takes the margin of" : byWhom ? "and changes" : pairs.length > 1 ? "and with them" : "and with it";
  return `${least === most && !model.trusts ? "The worst attack" : "The strongest attack known"} ${byWhom ? "is by" : "changes"} ${steps}, ${takes} ${predictions(least)}${others}.`;
}

function nextSentence(model, b) {
  if (model.unit === "annotators") {
    const { alone, only, next, part } = risks(model, b);
    if (next < 0) return "Nobody has to be audited: no attack is known.";
    const name = model.crowd.names[next];
    if (part) return `Audit ${name} first: ${name} takes part in the cheapest known attack on ${predictions(part)}.`;
    return `Audit ${name} first: ${name} alone puts ${predictions(alone.get(next))} at risk${only.get(next) ? `, ${number(only.get(next))} of which nobody else does` : ""}.`;
  }
  if (safe(model, b) === model.n - tied(model)) return `Nothing has to be verified against ${amount(model, b)}${ifRight(model)}.`;
  const found = worth(model, b), best = nextLabel(model, found);
  if (best < 0) return "No known attack is left; what is open needs more time to be proved.";
  const name = labelWords(model, best);
  if (!found.complete) return `Check ${name} first: the cheapest known attack on ${predictions(found.alone[best])} needs it.`;
  return found.alone[best] ? `Verify ${name} first: that alone makes ${predictions(found.alone[best])} safe.` : `Verify ${name} first: no label takes part in more of the attacks.`;
}

// What the button of the third tile does; null where there is nothing to do.
function nextStep(model, b) {
  if (model.unit === "annotators" && model.crowd) {
    const { next } = risks(model, b);
    return next < 0 ? null : { verb: "Audit", name: model.crowd.names[next], act: () => set({ honest: [...state.honest, model.crowd.names[next]] }) };
  }
  const best = nextLabel(model, worth(model, b));
  return best < 0 ? null : { verb: "Verify", name: labelName(model, best), act: () => set({ verified: [...state.verified, labelKey(model, best)] }) };
}

// Commands in a sentence can be copied.
function commandsIn(text) {
  return text.split("`").map((part, k) => (k % 2 === 0 ? part : [make("code", {}, part), " ",
    make("button", { type: "button", className: "save", onclick: (event) => copy(part, event.target) }, "Copy")]));
}

sections.push(verdicts);

const overview = {
  on: ["model", "budget", "trust"],
  curves: null,
  start() {},
  draw(changed) {
    if (!changed.has("model") && !changed.has("trust")) { this.curves.redraw(); return; }
    const model = current(), base = model.base, planless = model === base;
    const grey = () => colour("muted");
    this.curves = replaceCurves(this.curves, byId("curves"), {
      title: model.trusts ? "Predictions that survive, if the solver is right" : "Predictions that provably survive", xLabel: budgetLabel(model),
      lines: [aloneLine(model, "each alone", () => colour("blue")),
        ...(model.collective ? [togetherLine(model, "all at once", () => colour("orange"), [8, 5])] : []),
        ...(planless ? [] : [{ ...aloneLine(base, "each alone, before", grey, [2, 4]), ghost: true }]),
        ...(planless || !model.collective ? [] : [{ ...togetherLine(base, "all at once, before", grey, [8, 3, 2, 3]), ghost: true }])],
      chosen: () => state.budget, choose: (wanted) => set({ budget: Math.min(wanted, current().lastFlips) }),
    });
    fill(byId("curve-numbers"), plainTable("Predictions that survive",
      [model.words[1], "each alone", "all at once"],
      budgets(model).map((a) => [number(a), between(safe(model, a), notLost(model, a), model.n),
        model.collective ? between(model.n - model.curve.upper[a], model.n - model.curve.lower[a], model.n) : "not asked for"])));
  },
};
sections.push(overview);
