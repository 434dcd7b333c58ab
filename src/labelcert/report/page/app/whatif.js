// What if some labels are verified, and some people honest? Each model as it is then, for all sections alike: radii, curve
// and known attacks. What is shown is exact as far as all attacks are listed in the page, and a proved interval beyond.

for (const model of MODELS) {
  model.base = model;
  model.plan = { labels: new Set(), people: new Set() };
  model.keys = new Map(model.labels.map((_, i) => [model.labelNames ? model.labelNames[i] : String(i), i]));
  model.curve.changed = model.curve.changed.map(bitsFrom);
  if (model.listed) model.listed.rows = model.listed.rows.map((text) => (text ? ones(bitsFrom(text), model.n) : null));
  if (model.crowd) for (const part of ["sure", "maybe"]) model.crowd[part] = model.crowd[part].map((text) => ones(bitsFrom(text), model.n));
  model.cheapest = (t) => (model.upper[t] < model.never ? relabelling(model.witness, t) : null);
  model.strongest = (b) => curveAttack(model, b);
  model.worths = new Map();
}
const labelKey = (model, i) => (model.labelNames ? model.labelNames[i] : String(i));
const indexes = (names, find) => new Set(names.map(find).filter((i) => i !== undefined && i >= 0));

function viewOf(model) {
  const key = JSON.stringify([state.verified, state.honest]);
  if (model.seen !== key) {
    model.seen = key;
    model.view = withPlan(model, state.verified, state.honest);
  }
  return model.view;
}

function withPlan(model, verified, honest) {
  const labels = indexes(verified, (name) => model.keys.get(name)), people = indexes(honest, (name) => (model.crowd ? model.crowd.names.indexOf(name) : -1));
  for (const i of labels) if (model.fixed[i]) labels.delete(i);
  for (const a of people) if (model.crowd.prices[a] === 0) people.delete(a);
  return labels.size || people.size ? planned(model, { labels, people }) : model;
}

const hit = (list, k, labels) => {
  for (let j = list.starts[k]; j < list.starts[k + 1]; j++) if (labels.has(list.labels[j])) return true;
  return false;
};

// The attack behind the curve of a certificate.
function curveAttack(model, b) {
  const k = model.curve.attackOf[b], bits = model.curve.changed[k];
  return { pairs: model.finds ? relabelling(model.curve.attacks, k) : [], people: model.crowd ? model.crowd.together[b] : null,
    count: model.curve.lower[b], changes: (t) => Boolean(bit(bits, t)) };
}

function planned(model, plan) {
  const { n, m, listed, curve, crowd, never } = model, { labels, people } = plan;
  const [ties, open, last] = [tied(model), undecided(model), curve.upper.length - 1];
  const others = (owners) => !people.size || (owners !== null && !owners.some((a) => people.has(a)));
  const left = (t) => model.upper[t] > 0 && model.upper[t] < never && !hit(model.witness, t, labels) && (!crowd || others(crowd.owners[t]));
  const leftAt = (b) => !hit(curve.attacks, curve.attackOf[b], labels) && (!crowd || others(crowd.together[b]));

  // The cheapest attacks that are left: those that are listed, those of the certificate, and those of its curve.
  const cost = new Float64Array(n).fill(Infinity), by = new Int32Array(n).fill(-1), heaviest = [];
  for (let k = 0; listed && k < listed.costs.length; k++) {
    if (hit(listed, k, labels)) continue;
    const c = listed.costs[k];
    if (heaviest[c] === undefined || listed.strongest[k] > listed.strongest[heaviest[c]]) heaviest[c] = k;
    for (const t of listed.rows[k] ?? []) if (c < cost[t]) { cost[t] = c; by[t] = k; }
  }
  const lower = [...model.lower], upper = model.upper.map((radius, t) => (radius === 0 || left(t) ? radius : never));
  for (let b = 1; b <= last; b++) {
    if (!leftAt(b)) continue;
    const bits = curve.changed[curve.attackOf[b]];
    for (let t = 0; t < n; t++) if (upper[t] > b && bit(bits, t)) upper[t] = b;
  }
  const spendable = mostSpent(model, plan), crowded = people.size ? byPeople(model, plan) : null;
  for (let t = 0; t < n; t++) {
    if (model.lower[t] === 0) continue;
    upper[t] = Math.min(upper[t], cost[t], crowded && !labels.size ? crowded.upper[t] : never);
    if (listed) lower[t] = Math.max(lower[t], Math.min(cost[t], listed.flips + 1));
    if (crowded) lower[t] = Math.max(lower[t], crowded.lower[t]);
    if (lower[t] > spendable) lower[t] = upper[t] = never;
  }

  // The curve: the strongest attack that is left, and the most that any could do.
  const least = [], most = [], strongest = [];
  let best = { count: ties, changes: (t) => upper[t] === 0, pairs: [], people: [] }, bound = ties + open;
  const better = (candidate) => { if (candidate.count > best.count) best = candidate; };
  for (let b = 0; b <= last; b++) {
    if (leftAt(b)) {
      const attack = curveAttack(model, b);
      better({ ...attack, count: count(n, attack.changes) });
    }
    const k = heaviest[b];
    if (k !== undefined) {
      bound = Math.max(bound, listed.strongest[k] + ties + open);
      let bits = null;
      better({ count: listed.strongest[k] + ties, pairs: pairsOf(model, k), people: null,
        changes: (t) => { bits ??= bitsFrom(listed.atOnce[k]); return upper[t] === 0 || Boolean(bit(bits, t)); } });
    }
    if (best.count === ties) {
      const t = upper.findIndex((radius) => radius > 0 && radius <= b);
      if (t >= 0) better({ count: ties + 1, pairs: cheapest(t) ?? [], people: crowd ? crowd.owners[t] : null, changes: (other) => other === t || upper[other] === 0 });
    }
    const complete = listed !== null && b <= listed.flips;
    strongest.push(best);
    least.push(best.count);
    most.push(Math.max(best.count, b > spendable ? most[b - 1] : Math.min(curve.upper[b], complete ? bound : count(n, (t) => lower[t] <= b))));
  }
  function cheapest(t) {
    if (upper[t] >= never) return null;
    if (upper[t] === 0 || (left(t) && model.upper[t] === upper[t])) return relabelling(model.witness, t);
    if (by[t] >= 0 && cost[t] === upper[t]) return pairsOf(model, by[t]);
    const b = curve.attackOf.findIndex((_, a) => a <= last && a >= 1 && leftAt(a) && bit(curve.changed[curve.attackOf[a]], t));
    return b < 0 ? null : relabelling(curve.attacks, curve.attackOf[b]);
  }
  // What the other class is, is known of two; of more, for the attacks of the certificate.
  const newClass = model.newClass.map((c, t) => (upper[t] >= never ? -1 : model.classes.length === 2 ? 1 - model.predicted[t] : left(t) ? c : -1));
  return Object.assign(Object.create(model), { plan, lower, upper, newClass, cheapest, worths: new Map(), strongest: (b) => strongest[b], curve: { ...curve, lower: least, upper: most },
    exact: lower.every((low, t) => low === upper[t] || low > model.maxFlips) && least.every((value, b) => value === most[b]) });
}

// The labels of a listed attack; what they become is known where there is one other class.
function pairsOf(model, k) {
  const { listed } = model, pairs = [];
  const other = (i) => (model.unit === "removals" ? model.classes.length : model.unit === "labels" || model.classes.length > 2 ? -1 : 1 - model.labels[i]);
  for (let j = listed.starts[k]; j < listed.starts[k + 1]; j++) pairs.push([listed.labels[j], other(listed.labels[j])]);
  return pairs;
}

// No attack costs more than all labels that are left, or all people.
function mostSpent(model, { labels, people }) {
  if (model.crowd) return model.crowd.prices.reduce((sum, price, a) => sum + (people.has(a) ? 0 : price), 0);
  if (model.threat.costs) return Infinity;
  return model.m - labels.size - model.fixed.filter(Boolean).length;
}

// Radii once some people are known to be honest. Where the budget pays for no two of the others, what single ones do
// decides; beyond that, what the certificate says.
function byPeople(model, { people }) {
  const { n, crowd, never } = model;
  const free = crowd.names.map((_, a) => a).filter((a) => crowd.prices[a] > 0 && !people.has(a));
  const [least, next] = free.map((a) => crowd.prices[a]).sort((x, y) => x - y);
  const pair = next === undefined ? Infinity : least + next;
  const lower = new Array(n).fill(Math.min(never, pair)), upper = new Array(n).fill(never);
  for (const a of free) {
    for (const t of crowd.maybe[a]) lower[t] = Math.min(lower[t], crowd.prices[a]);
    for (const t of crowd.sure[a]) upper[t] = Math.min(upper[t], crowd.prices[a]);
  }
  return { lower, upper };
}

const witness = (model, t) => model.cheapest(t);
const curveChanges = (model, b, t) => model.strongest(b).changes(t);

// For each label: how many of the predictions that are not safe now have all their attacks through it, so that verifying
// it alone makes them safe; and, among equals, how much of the attacks on each prediction it takes part in. Where not all
// attacks are listed, it is how many cheapest known attacks change it, which says less.
function worth(model, b) {
  if (!model.worths.has(b)) model.worths.set(b, worthOf(model, b));
  return model.worths.get(b);
}

function worthOf(model, b) {
  const { n, m, listed, plan } = model;
  const alone = new Float64Array(m), promise = new Float64Array(m);
  if (listed === null || b > listed.flips) {
    for (let t = 0; t < n; t++) {
      if (model.upper[t] === 0 || model.upper[t] > b) continue;
      for (const [i] of witness(model, t) ?? []) { alone[i]++; promise[i]++; }
    }
    return { alone, promise, complete: false };
  }
  const attacks = new Float64Array(n), through = new Uint32Array(n * m);
  for (let k = 0; k < listed.costs.length; k++) {
    if (listed.costs[k] > b || !listed.rows[k] || hit(listed, k, plan.labels)) continue;
    for (const t of listed.rows[k]) {
      attacks[t]++;
      for (let j = listed.starts[k]; j < listed.starts[k + 1]; j++) through[t * m + listed.labels[j]]++;
    }
  }
  for (let t = 0; t < n; t++) {
    if (attacks[t] === 0) continue;
    for (let i = 0; i < m; i++) {
      const part = through[t * m + i] / attacks[t];
      if (part === 1) alone[i]++;
      promise[i] += part / attacks[t];
    }
  }
  return { alone, promise, complete: true };
}

// The label to verify next: the one that secures the most now, or takes part in most attacks.
function nextLabel(model, { alone, promise }) {
  let best = -1;
  for (let i = 0; i < model.m; i++) {
    if (model.plan.labels.has(i) || model.fixed[i] || promise[i] === 0) continue;
    if (best < 0 || alone[i] > alone[best] || (alone[i] === alone[best] && promise[i] > promise[best] + 1e-9)) best = i;
  }
  return best;
}

// Whom to audit: how many predictions each puts at risk whom the budget pays for, and how many nobody else does.
function risks(model, b) {
  const { crowd, plan } = model, paid = crowd.names.map((_, a) => a).filter((a) => crowd.prices[a] > 0 && crowd.prices[a] <= b && !plan.people.has(a));
  const alone = new Map(), only = new Map(paid.map((a) => [a, 0])), times = new Uint32Array(model.n), whose = new Int32Array(model.n);
  for (const a of paid) {
    const at = [...crowd.maybe[a]].filter((t) => model.lower[t] > 0);
    alone.set(a, at.length);
    for (const t of at) { times[t]++; whose[t] = a; }
  }
  for (let t = 0; t < model.n; t++) if (times[t] === 1) only.set(whose[t], only.get(whose[t]) + 1);
  const next = paid.reduce((best, a) => (alone.get(a) && (best < 0 || only.get(a) > only.get(best) || (only.get(a) === only.get(best) && alone.get(a) > alone.get(best))) ? a : best), -1);
  if (next >= 0) return { alone, only, next, part: 0 };
  // Where nobody changes a prediction alone: who takes part in most attacks.
  const part = new Uint32Array(crowd.names.length);
  for (let t = 0; t < model.n; t++) {
    const owners = crowd.owners[t];
    if (model.upper[t] > 0 && model.upper[t] <= b && owners && !owners.some((a) => plan.people.has(a))) for (const a of owners) part[a]++;
  }
  const most = part.reduce((best, value, a) => (value > (best < 0 ? 0 : part[best]) ? a : best), -1);
  return { alone, only, next: most, part: most < 0 ? 0 : part[most] };
}
