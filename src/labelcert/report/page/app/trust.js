// What verified labels are worth: an attack that needs one of them is gone.

const hit = (list, k, trusted) => {
  for (let j = list.starts[k]; j < list.starts[k + 1]; j++) if (trusted.has(list.labels[j])) return true;
  return false;
};

// Predictions that survive budget b once some labels are verified, each alone and all at once, as proved intervals.
// Up to the budget of the list all attacks are known, so both ends meet. Beyond it, a prediction is lost for sure only
// where a known attack needs none of the verified labels, and safe for sure only where it is so without them.
function withTrust(model, b, trusted) {
  const { n, listed, curve } = model;
  const overturned = new Uint8Array(n);
  const [ties, open] = [tied(model), undecided(model)];
  let strongest = 0;
  if (listed) {
    for (let k = 0; k < listed.costs.length; k++) {
      if (listed.costs[k] > b || hit(listed, k, trusted)) continue;
      strongest = Math.max(strongest, listed.strongest[k]);
      if (listed.rows[k]) for (const t of listed.rows[k]) overturned[t] = 1;
    }
  }
  for (let t = 0; t < n; t++) if (model.upper[t] === 0) overturned[t] = 1;
  const complete = listed !== null && b <= listed.flips;
  if (complete) {
    const saved = n - count(n, (t) => overturned[t] || model.lower[t] === 0);
    const together = n - strongest - ties - open;
    return { exact: open === 0, alone: [saved, saved + open], together: [together, together + open] };
  }
  for (let t = 0; t < n; t++) if (model.upper[t] <= b && !hit(model.witness, t, trusted)) overturned[t] = 1;
  // Whatever is lost for sure is lost to some attack.
  let most = Math.max(strongest + ties, Math.min(count(n, (t) => overturned[t]), ties + 1));
  for (let a = 0; a <= b; a++) {
    const k = curve.attackOf[a];
    if (hit(curve.attacks, k, trusted)) continue;
    let changed = 0;
    for (let t = 0; t < n; t++) if (bit(curve.changed[k], t)) { overturned[t] = 1; changed++; }
    most = Math.max(most, changed);
  }
  const [low, least] = [safe(model, b), n - curve.upper[b]];
  const alone = [low, Math.max(low, n - count(n, (t) => overturned[t]))], together = [least, Math.max(least, n - most)];
  return { exact: alone[0] === alone[1] && (!model.collective || together[0] === together[1]), alone, together };
}

// For each label: how many of the predictions that are not safe now have all their attacks through it, so that verifying
// it alone makes them safe; and, among equals, how much of the attacks on each prediction it takes part in. Where not all
// attacks are listed, it is how many cheapest known attacks change it, which says less.
function worth(model, b, trusted) {
  const { n, m, listed } = model;
  const alone = new Float64Array(m), promise = new Float64Array(m);
  if (listed === null || b > listed.flips) {
    for (let t = 0; t < n; t++) {
      if (model.upper[t] === 0 || model.upper[t] > b || hit(model.witness, t, trusted)) continue;
      for (let j = model.witness.starts[t]; j < model.witness.starts[t + 1]; j++) {
        alone[model.witness.labels[j]]++;
        promise[model.witness.labels[j]]++;
      }
    }
    return { alone, promise, complete: false };
  }
  const attacks = new Float64Array(n), through = new Uint32Array(n * m);
  for (let k = 0; k < listed.costs.length; k++) {
    if (listed.costs[k] > b || !listed.rows[k] || hit(listed, k, trusted)) continue;
    for (const t of listed.rows[k]) {
      attacks[t]++;
      for (let j = listed.starts[k]; j < listed.starts[k + 1]; j++) through[t * m + listed.labels[j]]++;
    }
  }
  for (let t = 0; t < n; t++) {
    if (attacks[t] === 0) continue;
    for (let i = 0; i < m; i++) {
      const share = through[t * m + i] / attacks[t];
      if (share === 1) alone[i]++;
      promise[i] += share / attacks[t];
    }
  }
  return { alone, promise, complete: true };
}

// The label to verify next: the one that secures the most now, or takes part in most attacks.
function nextLabel(model, { alone, promise }) {
  let best = -1;
  for (let i = 0; i < model.m; i++) {
    if (model.trusted.has(i) || model.fixed[i] || promise[i] === 0) continue;
    if (best < 0 || alone[i] > alone[best] || (alone[i] === alone[best] && promise[i] > promise[best] + 1e-12)) best = i;
  }
  return best;
}
