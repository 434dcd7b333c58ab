// What trained labellings prove. Nothing is believed: the error of every solution is bounded from its residual against the
// kernel itself, as in labelcert/svm/error_bound.py, and scores within that error are doubts for the CPU.
//
// Here a lane is a labelling. Numbers are IEEE float64, rounded to nearest; sums may be fused and in any order, which the
// bounds cover. Factors of 1.01 cover their own evaluation.

#define ROUNDOFF 1.1102230246251565e-16
#define TINY 1e-290
#define PADDED (M | 1)
#define NAMED 8
enum { DOUBT_PROBLEM, DOUBT_STOP, DOUBT_COST, DOUBT_SURE, DOUBT_POSSIBLE, DOUBT_CLOSER, DOUBT_NODES };
#define DOUBT_SIZE (DOUBT_NODES + NAMED)
enum { JUDGED, GLOBAL_PROOFS, GAP_PROOFS, LOST, COUNTERS };

// The solutions of 32 labellings in shared memory, exactly as their states say, and clipped to the box.
DEVICE void read_solutions(const double* z, const unsigned char* code, long long first, int valid, double C, double* zs) {
  for (int e = 0; e < M; e++) {
    whole k = lane() + LANES * e;
    whole stop = quotient(k, M);
    store(zs, stop * PADDED + (k - stop * M), load(z + first * M, k, stop < valid, 0.0));
  }
  sync_warp();
  truth there = lane() < valid;
  for (int i = 0; i < M; i++) {
    whole c = load_byte(code, first * M, select(there, lane() * M + i, whole(i)));
    whole state = c & 7;
    real y = select((c & NEGATIVE) != 0, real(-1.0), real(1.0));
    real v = load(zs, lane() * PADDED + i);
    if (!LINEAR) {
      real a = y * v;
      // Written so that what is no number stays none.
      a = select(a < 0.0, real(0.0), select(a > C, real(C), a));
      v = select(state == FREE, y * a, select(state == CAP, C * y, real(0.0)));
    }
    store(zs, lane() * PADDED + i, v);
  }
  sync_warp();
}

// An error bound on k·z for all rows with a 2-norm of at most 1; infinite where nothing is proved.
DEVICE real error_of(
    const double* Q, const double* constants, const unsigned char* code, long long first, int valid, const double* zs,
    truth& global) {
  global = truth(false);
  if (LINEAR) return real(constants[LINEAR_ERROR]);
  const double C = constants[CAP_VALUE];
  const double infinite = INFINITE;
  real norm1(0.0), norm2(0.0), total(0.0), biggest(1.0), squares(0.0), gap(0.0);
  real least_free(infinite), most_free(-infinite), least_zero(infinite), most_cap(-infinite);
  truth usable = lane() < valid;
  for (int j = 0; j < M; j++) {
    real v = load(zs, lane() * PADDED + j);
    norm1 = norm1 + absolute(v);
    norm2 = norm2 + v * v;
  }
  for (int i0 = 0; i0 < M; i0 += 4) {
    real f[4];
    UNROLL for (int b = 0; b < 4; b++) f[b] = real(0.0);
    for (int j = 0; j < M; j++) {
      real v = load(zs, lane() * PADDED + j);
      UNROLL for (int b = 0; b < 4; b++) if (i0 + b < M) f[b] = f[b] + Q[(i0 + b) * M + j] * v;
    }
    UNROLL for (int b = 0; b < 4; b++) {
      const int i = i0 + b;
      if (i >= M) continue;
      whole c = load_byte(code, first * M, select(lane() < valid, lane() * M + i, whole(i)));
      whole state = c & 7;
      real y = select((c & NEGATIVE) != 0, real(-1.0), real(1.0));
      truth counts = state != PAD;
      usable = usable && ((state <= CAP) || (state == PAD));
      real a = y * load(zs, lane() * PADDED + i);
      real excess = y * f[b] - 1.0;
      total = total + absolute(f[b]);
      biggest = larger(biggest, absolute(f[b]));
      squares = squares + select(state == FREE, excess * excess, real(0.0));
      gap = gap + select(counts, larger(a * excess, (a - C) * excess), real(0.0));
      least_free = select(state == FREE, smaller(least_free, a), least_free);
      most_free = select(state == FREE, larger(most_free, a), most_free);
      least_zero = select(state == ZERO, smaller(least_zero, excess), least_zero);
      most_cap = select(state == CAP, larger(most_cap, excess), most_cap);
    }
  }
  // Every margin, and its distance from 1, errs by at most this.
  real err = 1.01 * ROUNDOFF * ((M + 2.0) * constants[ENTRY_MAX] * norm1 + 4.0 * biggest) + M * TINY;
  real rounding = 1.01 * ROUNDOFF * (M + 3.0) * root(norm2) + M * TINY;
  real residual = 1.01 * (1.01 * root(squares) + 1.01 * root(real((double)M)) * err);
  usable = usable && (norm2 < infinite) && (total < infinite);
  real tau(infinite);
  if (constants[MIN_EIG] > 0.0) {
    real delta = 1.01 * residual / constants[MIN_EIG];
    real wide = 1.01 * (err + constants[ROW_NORM] * delta);
    global = usable && (least_free >= 1.01 * delta) && (most_free <= C - 1.01 * delta - 2.0 * ROUNDOFF * C) &&
             (least_zero >= wide) && (most_cap <= -wide) && (delta < infinite);
    tau = select(global, 1.01 * (delta + rounding), tau);
  }
  gap = 1.01 * (gap + err * (M * C)) + M * TINY + 1.01 * constants[GAP_RIDGE] * M * C * C;
  real by_gap = 1.01 * (root(constants[GAP_FACTOR] * gap) + rounding);
  truth better = usable && (by_gap < tau);
  global = global && !better;
  return select(better, by_gap, tau);
}

// Scores of NODE_TILE nodes from the first one on; their rows are in shared memory.
DEVICE void scores(const double* rows, const double* zs, real* p) {
  UNROLL for (int b = 0; b < NODE_TILE; b++) p[b] = real(0.0);
  for (int j = 0; j < M; j++) {
    real v = load(zs, lane() * PADDED + j);
    UNROLL for (int b = 0; b < NODE_TILE; b++) p[b] = p[b] + rows[b * M + j] * v;
  }
}

// Rows of the next nodes into shared memory, by the whole block; those beyond the last are zero.
DEVICE void read_nodes(const double* rows, int first, int n, double* tile) {
  sync_block();
  for (int e = warp_index(); e < NODE_TILE * SLOTS; e += warp_count()) {
    int b = e / SLOTS, s = e % SLOTS;
    truth there = inside(s) && truth(first + b < n);
    store(tile + b * M, label(s), load(rows + (long long)(first + b) * M, label(s), there, 0.0), inside(s));
  }
  sync_block();
}

// A number whose order as a whole number is that of the real numbers; what is no number comes first.
DEVICE big ordered(const real& v) {
  big w = bits_of(v);
  big turned = select(v < 0.0, ~0ull - w, w | big(1ull << 63));
  return select(v == v, turned, big(0ull));
}

// Of a labelling (0) and its complement (1): cost, row among the lowest scores, nodes changed, nodes in doubt that are not
// known to change as cheaply, and the first of these.
struct Verdict {
  whole cost[2], row[2], changed[2], closer[2], names[2][NAMED];
};

// Cost of the set of flips and of its complement, and where they belong in the table of lowest scores; -1 where a set is
// not admissible.
DEVICE void price(
    const unsigned char* code, long long first, int valid, const double* y0, const int* costs, const int* groups,
    const int* group_caps, const int* group_totals, const int* strides, int n_groups, int budget, int total,
    int last_row, int mirror, Verdict& v) {
  whole spent(0), row(0);
  truth within = lane() < valid, beyond = (lane() < valid) && truth(mirror != 0);
  for (int i = 0; i < M; i++) {
    whole c = load_byte(code, first * M, select(lane() < valid, lane() * M + i, whole(i)));
    truth flipped = ((c & NEGATIVE) != 0) != truth(y0[i] < 0.0);
    spent = spent + select(flipped, whole(costs[i]), whole(0));
  }
  row = spent;
  for (int g = 0; g < n_groups; g++) {
    whole used(0);
    for (int i = 0; i < M; i++) {
      if (groups[i] != g) continue;
      whole c = load_byte(code, first * M, select(lane() < valid, lane() * M + i, whole(i)));
      used = used + select(((c & NEGATIVE) != 0) != truth(y0[i] < 0.0), whole(costs[i]), whole(0));
    }
    within = within && (used <= group_caps[g]);
    beyond = beyond && (group_totals[g] - used <= group_caps[g]);
    row = row + strides[g] * used;
  }
  within = within && (spent <= budget);
  beyond = beyond && (total - spent <= budget);
  v.cost[0] = select(within, spent, whole(-1));
  v.cost[1] = select(beyond, total - spent, whole(-1));
  v.row[0] = row;
  v.row[1] = last_row - row;
}

#if defined(JUDGE) || !defined(__CUDACC__)
// Enter what every labelling changes: the cheapest set for each node (radius: cost, stop and side in one number), the
// strongest of each cost (most), doubts, and the lowest scores of each row where they are asked for. With SEEK, only look
// for the labellings that reach the lowest scores. A block takes the stops of one problem.
KERNEL judge(
    const double* z, const unsigned char* code, long long stops, long long first_number, int per_problem,
    const double* Q, const double* constants, const double* clean_y, const int* costs, const int* groups,
    const int* group_caps, const int* group_totals, const int* strides, int n_groups, const int* limits,
    const double* rows, int n, const int* best, int n_costs, unsigned long long* radius, unsigned long long* most,
    int* doubts, int* doubt_count, int capacity, unsigned long long* low, unsigned long long* low_stop, int n_rows,
    int seek, unsigned long long* counters) {
  double* tile = shared_memory;
  double* zs = tile + NODE_TILE * M + (long long)warp_index() * LANES * PADDED;
  const long long tiles = (stops + LANES - 1) / LANES;
  // All warps of a block stay together, since they share the rows of nodes.
  for (long long block = block_index(); block * warp_count() < tiles; block += block_count()) {
    const long long first = (block * warp_count() + warp_index()) * LANES;
    const int valid = first >= stops ? 0 : (int)(stops - first < LANES ? stops - first : LANES);
    const long long safe = valid ? first : 0;
    const int p = (int)(block * warp_count() * LANES / per_problem);
    const double* own_constants = constants + p * CONSTANTS;
    const double C = own_constants[CAP_VALUE];
    const int budget = limits[4 * p], total = limits[4 * p + 1], last_row = limits[4 * p + 2], mirror = limits[4 * p + 3];
    unsigned long long* own_radius = radius + (long long)p * n;
    unsigned long long* own_most = most + (long long)p * n_costs;
    const int* own_best = best + (long long)p * n_costs;
    const double* own_rows = rows + (long long)p * n * M;
    sync_warp();
    read_solutions(z, code, safe, valid, C, zs);
    truth global;
    real tau = error_of(Q + (long long)p * M * M, own_constants, code, safe, valid, zs, global);
    Verdict v;
    price(code, safe, valid, clean_y + p * M, costs + p * M, groups + p * M, group_caps + p * n_groups,
          group_totals + p * n_groups, strides + p * n_groups, n_groups, budget, total, last_row, mirror, v);
    truth counts = (v.cost[0] >= 0) || (v.cost[1] >= 0);
    if (!seek && !LINEAR) {
      unsigned long long* own_counters = counters + p * COUNTERS;
      add(own_counters + JUDGED, tally(counts));
      add(own_counters + GLOBAL_PROOFS, tally(counts && global));
      add(own_counters + GAP_PROOFS, tally(counts && !global && (tau < INFINITE)));
      add(own_counters + LOST, tally(counts && !(tau < INFINITE)));
    }
    whole doubtful(0);
    big number[2];
    UNROLL for (int side = 0; side < 2; side++) {
      v.changed[side] = whole(0);
      v.closer[side] = whole(0);
      UNROLL for (int k = 0; k < NAMED; k++) v.names[side][k] = whole(0);
      // Within its problem.
      number[side] = big((unsigned long long)(first_number + safe - (long long)p * per_problem)) * 2ull + big_of(lane()) * 2ull + (unsigned long long)side;
    }
    for (int t0 = 0; t0 < n; t0 += NODE_TILE) {
      real score[NODE_TILE];
      read_nodes(own_rows, t0, n, tile);
      scores(tile, zs, score);
      UNROLL for (int b = 0; b < NODE_TILE; b++) {
        const int t = t0 + b;
        if (t >= n) continue;
        truth negative = score[b] < -tau, positive = score[b] > tau;
        truth unsure = !(negative || positive);
        const int known = (int)(own_radius[t] >> 32);
        if (!seek) doubtful = doubtful + select(unsure, whole(1), whole(0));
        UNROLL for (int side = 0; side < 2; side++) {
          truth admissible = v.cost[side] >= 0;
          if (!seek) {
            truth changed = side == 0 ? negative : positive;
            truth near = admissible && (v.cost[side] <= known);
            v.changed[side] = v.changed[side] + select(changed, whole(1), whole(0));
            if (some(changed && near)) lower(own_radius, whole(t), big_of(v.cost[side]) << 32ull | number[side], changed && near);
            truth open = unsure && admissible && (v.cost[side] < known);
            if (some(open)) {
              UNROLL for (int k = 0; k < NAMED; k++)
                v.names[side][k] = select(open && (v.closer[side] == k), whole(t), v.names[side][k]);
              v.closer[side] = v.closer[side] + select(open, whole(1), whole(0));
            }
          }
          if (n_rows > 0) {
            big value = ordered((side == 0 ? score[b] : -score[b]) - tau);
            whole place = v.row[side] * n + t;
            place = select(admissible, place, whole(0));
            unsigned long long* own_low = low + (long long)p * n_rows * n;
            if (!seek) lower(own_low, place, value, admissible);
            // Later launches have larger numbers, so what was found before the score was lowered again does not stay.
            else raise(low_stop + (long long)p * n_rows * n, place, number[side] + 1ull, admissible && (load(own_low, place) == value));
          }
        }
      }
    }
    if (seek) continue;
    UNROLL for (int side = 0; side < 2; side++) {
      truth admissible = v.cost[side] >= 0;
      whole cost = select(admissible, v.cost[side], whole(0));
      whole known = load(own_best, cost);
      truth stronger = admissible && (v.changed[side] > known);
      if (some(stronger)) raise(own_most, cost, big_of(v.changed[side]) << 32ull | (big(0xffffffffull) - number[side]), stronger);
      truth open = admissible && ((v.closer[side] > 0) || ((doubtful > 0) && (v.changed[side] + doubtful > known)));
      if (!some(open)) continue;
      whole slot = take(doubt_count, open);
      open = open && (slot < capacity);
      whole base = select(open, slot, whole(0)) * DOUBT_SIZE;
      store(doubts, base + DOUBT_PROBLEM, whole(p), open);
      store(doubts, base + DOUBT_STOP, whole(number[side]), open);
      store(doubts, base + DOUBT_COST, v.cost[side], open);
      store(doubts, base + DOUBT_SURE, v.changed[side], open);
      store(doubts, base + DOUBT_POSSIBLE, doubtful, open);
      store(doubts, base + DOUBT_CLOSER, v.closer[side], open);
      UNROLL for (int k = 0; k < NAMED; k++) store(doubts, base + DOUBT_NODES + k, v.names[side][k], open);
    }
  }
}

#endif
#if defined(TABULATE) || !defined(__CUDACC__)
// Scores of all labellings in float32, in units of 1 / shrink, with an error bound that covers storage.
KERNEL tabulate(
    const double* z, const unsigned char* code, long long stops, const double* Q, const double* constants, const double* rows, int n, double shrink, float* P, float* tau_out) {
  double* tile = shared_memory;
  double* zs = tile + NODE_TILE * M + (long long)warp_index() * LANES * PADDED;
  const long long tiles = (stops + LANES - 1) / LANES;
  for (long long block = block_index(); block * warp_count() < tiles; block += block_count()) {
    const long long first = (block * warp_count() + warp_index()) * LANES;
    const int valid = first >= stops ? 0 : (int)(stops - first < LANES ? stops - first : LANES);
    const long long safe = valid ? first : 0;
    truth there = lane() < valid;
    sync_warp();
    // All problems have the same kernel and the same cap.
    read_solutions(z, code, safe, valid, constants[CAP_VALUE], zs);
    truth global;
    real error = error_of(Q, constants, code, safe, valid, zs, global) * shrink;
    real largest(0.0), all(0.0);
    for (int t0 = 0; t0 < n; t0 += NODE_TILE) {
      real score[NODE_TILE];
      read_nodes(rows, t0, n, tile);
      scores(tile, zs, score);
      UNROLL for (int b = 0; b < NODE_TILE; b++) {
        real v = score[b] * shrink;
        largest = larger(largest, absolute(v));
        all = all + absolute(v);
        if (t0 + b < n) store_scores(P + safe * n, lane() * n + (t0 + b), v, there);
      }
    }
    error = 1.0001 * (1.001 * error + 4.0 * 5.9604644775390625e-08 * largest + 1e-35);
    truth fine = (all < 1e30) && (error < 1e30);
    store_scores(tau_out + safe, lane(), select(fine, error, real(INFINITE)), there);
    if (some(there && !fine))
      for (int t = 0; t < n; t++) store_scores(P + safe * n, lane() * n + t, real(0.0), there && !fine);
  }
}
#endif
