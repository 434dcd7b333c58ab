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

for (const model of MODELS) {
  model.curve.changed = model.curve.changed.map(bitsFrom);
  if (model.listed) model.listed.rows = model.listed.rows.map((text) => (text ? ones(bitsFrom(text), model.n) : null));
  model.trusted = new Set();
  if (model.crowd) for (const part of ["sure", "maybe"]) model.crowd[part] = model.crowd[part].map((text) => ones(bitsFrom(text), model.n));
  model.honest = new Set();
}

const number = (value) => value.toLocaleString("en");
const plural = (count, one, many) => `${number(count)} ${count === 1 ? one : many}`;

// Shares are rounded to the safe side: what survives down, what changes up.
function share(count, total, up = false) {
  const exact = total ? (1000 * count) / total : 0;
  const rounded = Math.max(0, up ? Math.ceil(exact - 1e-9) : Math.floor(exact + 1e-9)) / 10;
  return `${rounded.toLocaleString("en")} %`;
}
const between = (low, high, total) =>
  low === high ? share(low, total) : `${share(low, total)} to ${share(high, total, true)}`;

const UNITS = {
  flips: ["wrong label", "wrong labels"], labels: ["wrong or removed label", "wrong or removed labels"], removals: ["removed label", "removed labels"],
  annotators: ["dishonest annotator", "dishonest annotators"], "cost units": ["cost unit", "cost units"],
};
const amount = (model, b) => plural(b, ...UNITS[model.unit]);
const testName = (model, t) => (model.testNames ? model.testNames[t] : `node ${t}`);
const labelName = (model, i) => (model.labelNames ? model.labelNames[i] : `label ${i}`);

function radiusText(model, t) {
  const [low, high] = [model.lower[t], model.upper[t]];
  if (low === high) return low === model.never ? "never" : `${low}`;
  return high === model.never ? `≥ ${low}` : `${low} to ${high}`;
}

// Number k of a list of relabellings: pairs of a label and the class that it becomes.
function relabelling(list, k) {
  const pairs = [];
  for (let j = list.starts[k]; j < list.starts[k + 1]; j++) pairs.push([list.labels[j], list.targets[j]]);
  return pairs;
}
const witness = (model, t) => (model.upper[t] < model.never ? relabelling(model.witness, t) : null);
const curveAttack = (model, b) => relabelling(model.curve.attacks, model.curve.attackOf[b]);
const curveChanges = (model, b, t) => bit(model.curve.changed[model.curve.attackOf[b]], t);

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
    k ? ", " : "", named(labelName(model, i)), " → ", named(model.becomes[c]),
  ]);
  return [...shown, pairs.length > most ? `, and ${pairs.length - most} more` : ""];
}

// State and those who show it. A section is told what has changed, and draws itself anew if that concerns it.
const state = { model: 0, budget: 0, node: null };
const sections = [];
const current = () => MODELS[state.model];

// The chosen node in another model: the one of the same name.
function sameNode(before, after, t) {
  if (t === null || !before) return null;
  if (!before.testNames || !after.testNames) return !before.testNames && !after.testNames && before.n === after.n ? t : null;
  const found = after.testNames.indexOf(before.testNames[t]);
  return found < 0 ? null : found;
}

function set(changes) {
  const changed = new Set(Object.keys(changes).filter((key) => key === "trust" || state[key] !== changes[key]));
  delete changes.trust;
  const before = MODELS[state.model];
  Object.assign(state, changes);
  if (changed.has("model")) {
    state.budget = Math.min(state.budget, current().lastFlips);
    state.node = sameNode(before, current(), state.node);
    ["budget", "node", "trust"].forEach((key) => changed.add(key));
  }
  if (changed.size) for (const section of sections) if (section.on.some((key) => changed.has(key))) section.draw(changed);
}

// Colours are looked up once, until the theme changes.
const inks = new Map();
function colour(name) {
  if (!inks.has(name)) inks.set(name, getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim());
  return inks.get(name);
}
const PALETTE = ["blue", "orange", "green", "pink", "yellow", "sky", "ink"];
const paletteColour = (k) => colour(PALETTE[k % PALETTE.length]);
