// What all sections share: the data, the state, and how the page is built from text alone.

const DATA = JSON.parse(document.getElementById("data").textContent);
const MODELS = DATA.models;
const byId = (id) => document.getElementById(id);

// Elements are made here and nowhere else; user data become text, never markup.
function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "className") element.className = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}

// Names of any writing direction keep it to themselves.
const named = (text) => make("bdi", {}, text);

const fill = (element, ...children) => element.replaceChildren(...children.flat(Infinity));

function bitsFrom(text) {
  const raw = atob(text);
  return Uint8Array.from(raw, (character) => character.charCodeAt(0));
}
const bit = (bits, k) => (bits[k >> 3] >> (k & 7)) & 1;
const ones = (bits, n) => Uint32Array.from({ length: n }, (_, k) => k).filter((k) => bit(bits, k));

const number = (value) => value.toLocaleString("en");
const plural = (count, one, many) => `${number(count)} ${count === 1 ? one : many}`;
const predictions = (count) => plural(count, "prediction", "predictions");
const range = (low, high) => (low === high ? number(low) : `${number(low)} to ${number(high)}`);

// Shares are rounded to the safe side: what survives down, what changes up.
function share(count, total, up = false) {
  const exact = total ? (1000 * count) / total : 0;
  const rounded = Math.max(0, up ? Math.ceil(exact - 1e-9) : Math.floor(exact + 1e-9)) / 10;
  return `${rounded.toFixed(1)} %`;
}
const between = (low, high, total) =>
  low === high ? share(low, total) : `${share(low, total)} to ${share(high, total, true)}`;

const amount = (model, b) => plural(b, ...model.words);
const noun = (model) => (model.around ? "node" : "row");
const testName = (model, t) => (model.testNames ? model.testNames[t] : `${noun(model)} ${t}`);
const labelName = (model, i) => (model.labelNames ? model.labelNames[i] : `label ${i}`);
// In a sentence, a bare number says what it counts.
const labelWords = (model, i) => (/^\d+$/.test(labelName(model, i)) ? `label ${labelName(model, i)}` : labelName(model, i));

function radiusText(model, t) {
  const [low, high] = [model.lower[t], model.upper[t]];
  if (low === high) return low === model.never ? "never" : `${low}`;
  return high === model.never ? `≥ ${low}` : `${low} to ${high}`;
}

// Number k of a list of relabellings: pairs of a label and the class that it becomes, or -1 where that is not listed.
function relabelling(list, k) {
  const pairs = [];
  for (let j = list.starts[k]; j < list.starts[k + 1]; j++) pairs.push([list.labels[j], list.targets[j]]);
  return pairs;
}
const becomes = (model, c) => (c < 0 ? "another class" : model.becomes[c]);

function count(length, holds) {
  let total = 0;
  for (let k = 0; k < length; k++) if (holds(k)) total++;
  return total;
}
const safe = (model, b) => count(model.n, (t) => model.lower[t] > b);
const notLost = (model, b) => count(model.n, (t) => model.upper[t] > b);

const tied = (model) => count(model.n, (t) => model.upper[t] === 0);
const undecided = (model) => count(model.n, (t) => model.lower[t] === 0 && model.upper[t] > 0);

const ROBUST = "robust", VULNERABLE = "vulnerable", OPEN = "open";
const verdict = (model, t, b) => (model.lower[t] > b ? ROBUST : model.upper[t] <= b ? VULNERABLE : OPEN);
const SIGNS = { [ROBUST]: "✓", [VULNERABLE]: "✗", [OPEN]: "?" };
const verdictMark = (word) => make("span", { className: `verdict ${word}` }, `${SIGNS[word]} ${word}`);

function changeText(model, pairs, most = 3) {
  const shown = pairs.slice(0, most).map(([i, c], k) => [
    k ? ", " : "", named(labelName(model, i)), ": ", named(model.classes[model.labels[i]]), " → ", named(becomes(model, c)),
  ]);
  return [...shown, pairs.length > most ? `, and ${pairs.length - most} more` : ""];
}

// The state that everything on the page follows. Verified labels and honest people are names: all models know them.
const state = { model: 0, budget: 0, node: null, only: null, verified: [], honest: [] };
const sections = [];
const current = () => viewOf(MODELS[state.model]);

// The chosen node in another model: the one of the same name.
function sameNode(before, after, t) {
  if (t === null || !before) return null;
  if (!before.testNames || !after.testNames) return !before.testNames && !after.testNames && before.n === after.n ? t : null;
  const found = after.testNames.indexOf(before.testNames[t]);
  return found < 0 ? null : found;
}

function set(changes) {
  const changed = new Set(Object.keys(changes).filter((key) => state[key] !== changes[key]));
  const before = MODELS[state.model];
  Object.assign(state, changes);
  if (changed.has("model")) {
    state.budget = Math.min(state.budget, MODELS[state.model].lastFlips);
    if (!("node" in changes)) state.node = sameNode(before, MODELS[state.model], state.node);
    if (!("only" in changes)) state.only = null;
    ["budget", "node", "only", "trust"].forEach((key) => changed.add(key));
  }
  if (changed.has("verified") || changed.has("honest")) changed.add("trust");
  if (changed.size) for (const section of sections) if (section.on.some((key) => changed.has(key))) section.draw(changed);
}

// Switches: a name is added to a list of the state, or leaves it.
const toggled = (list, name) => (list.includes(name) ? list.filter((one) => one !== name) : [...list, name]);

// Words that need an explanation carry it with them, for fingers as well.
const TERMS = {
  radius: "How many wrong labels it takes to change a prediction. A prediction is safe at every smaller budget.",
  "proved safe": "No choice of wrong labels within the budget changes the prediction. That is proved, not estimated.",
  "each alone": "Every prediction faces the attack that is worst for it.",
  "all at once": "One attack is chosen that changes as many predictions as possible; the others survive it.",
  "verified label": "A label that you know to be right, so that no attack can use it.",
  "worst attack": "The choice of wrong labels within the budget that changes most predictions at once.",
};
let terms = 0;
function term(word, text = word) {
  const id = `term-${terms++}`;
  const note = make("span", { className: "explained", id, role: "note", hidden: true }, TERMS[word]);
  const button = make("button", { type: "button", className: "term", "aria-expanded": "false", "aria-controls": id,
    onclick: () => { note.hidden = !note.hidden; button.setAttribute("aria-expanded", String(!note.hidden)); } }, text);
  return [button, note];
}

// Colours are looked up once, until the theme changes.
const inks = new Map();
function colour(name) {
  if (!inks.has(name)) inks.set(name, getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim());
  return inks.get(name);
}
const PALETTE = ["blue", "orange", "green", "pink", "yellow", "sky", "ink"];
const paletteColour = (k) => colour(PALETTE[k % PALETTE.length]);

// From fragile to firm, with growing lightness so that it survives grey print and every kind of colour vision.
const RAMP = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
function ramp(share) {
  const at = Math.min(0.9999, Math.max(0, share)) * (RAMP.length - 1), k = Math.floor(at), rest = at - k;
  return RAMP[k].map((value, c) => Math.round(value + rest * (RAMP[k + 1][c] - value)));
}
const radiusColour = (share) => `rgb(${ramp(share).join(",")})`;
// Beyond the largest budget, nothing is told apart.
const largestRadius = (model) => Math.max(3, Math.min(model.lastFlips + 1, model.base.lower.reduce((most, radius) => Math.max(most, radius), 0)));

async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Select it and copy by hand";
    button.after(make("pre", {}, make("code", {}, text)));
  }
}
