// Walks over labellings: each is trained from a neighbour's solution by following the path of optima, see
// labelcert/svm/pivoting.py for the method and the meaning of x, g and the tableau. What comes out is judged elsewhere
// (verdicts.cu), so nothing here has to be believed.
//
// A problem has M labels (those beyond its own are PAD); lane j holds the labels j, j + 32, ...

#define SLOTS ((M + LANES - 1) / LANES)
#define MOST_EVENTS (4 * M + 20)
#define CLOSE 1e-12  // margins this close to 1 are not refined

enum { ZERO, FREE, CAP, DRIVEN, ENTERING, PAD, FAILED = 7, NEGATIVE = 8 };
enum { CAP_VALUE, SMALLEST_PIVOT, REFINEMENTS, MIN_EIG, ENTRY_MAX, ROW_NORM, GAP_RIDGE, GAP_FACTOR, LINEAR_ERROR, CONSTANTS };

struct Point {
  real x[SLOTS], g[SLOTS], y[SLOTS];
  whole state[SLOTS];
};

DEVICE whole label(int s) { return lane() + LANES * s; }
DEVICE truth inside(int s) { return label(s) < M; }

DEVICE double at(const real* a, int i) {
  double v = 0.0;
  UNROLL for (int s = 0; s < SLOTS; s++) if (i / LANES == s) v = from_lane(a[s], i % LANES);
  return v;
}
DEVICE int at(const whole* a, int i) {
  int v = 0;
  UNROLL for (int s = 0; s < SLOTS; s++) if (i / LANES == s) v = from_lane(a[s], i % LANES);
  return v;
}
DEVICE void put(real* a, int i, double v) {
  UNROLL for (int s = 0; s < SLOTS; s++) a[s] = select(label(s) == i, real(v), a[s]);
}
DEVICE void put(whole* a, int i, int v) {
  UNROLL for (int s = 0; s < SLOTS; s++) a[s] = select(label(s) == i, whole(v), a[s]);
}
DEVICE void read_row(const double* row, real* out) {
  UNROLL for (int s = 0; s < SLOTS; s++) out[s] = load(row, label(s), inside(s), 0.0);
}
DEVICE void write_row(double* row, const real* v) {
  UNROLL for (int s = 0; s < SLOTS; s++) store(row, label(s), v[s], inside(s));
}

// What a pivot on label k needs: column k of the tableau over the pivot, its row with -1 in place of the pivot, and zeros
// where the column was. Then row r of the new tableau is the old one minus column[r] times the row, and row k is the row
// over minus the pivot.
DEVICE bool prepare_pivot(const Point& w, double* T, double* column, int k, double smallest, real* row, double& inverse) {
  sync_warp();
  read_row(T + k * M, row);
  double pivot = at(row, k);
  if (!(pivot > smallest)) return false;
  inverse = 1.0 / pivot;
  bool free_k = at(w.state, k) == FREE;
  UNROLL for (int s = 0; s < SLOTS; s++) {
    // Column k is row k, but for the sign where one of the two labels is FREE.
    real a = row[s] * inverse;
    store(column, label(s), select((w.state[s] == FREE) == truth(free_k), a, -a), inside(s));
    store(T, label(s) * M + k, 0.0, inside(s));
  }
  put(row, k, -1.0);
  return true;
}

// v times a symmetric matrix (sign 1), or times the tableau of these states (its columns are its rows, but for the sign
// where one of two labels is FREE).
DEVICE void product(const double* A, const real* v, double* column, const whole* state, real* out) {
  sync_warp();
  UNROLL for (int s = 0; s < SLOTS; s++) {
    truth turned = state == 0 ? truth(false) : state[s] == FREE;
    store(column, label(s), select(turned, -v[s], v[s]), inside(s));
    out[s] = real(0.0);
  }
  sync_warp();
  ROWS for (int r = 0; r < M; r++) {
    double x = column[r];
    UNROLL for (int s = 0; s < SLOTS; s++) out[s] = out[s] + x * load(A + r * M, label(s), inside(s), 0.0);
  }
  if (state != 0)
    UNROLL for (int s = 0; s < SLOTS; s++) out[s] = select(state[s] == FREE, -out[s], out[s]);
}

// A tableau that belongs to one warp.
struct Own {
  double* T;
  double* column;

  DEVICE void begin(int) {}
  DEVICE void row(int i, real* out) const { read_row(T + i * M, out); }
  DEVICE bool exchange(const Point& w, int k, double smallest) {
    real row[SLOTS];
    double inverse;
    if (!prepare_pivot(w, T, column, k, smallest, row, inverse)) return false;
    sync_warp();
    ROWS for (int r = 0; r < M; r++) {
      double a = column[r];
      UNROLL for (int s = 0; s < SLOTS; s++) {
        real t = load(T + r * M, label(s), inside(s), 0.0);
        store(T + r * M, label(s), t - a * row[s], inside(s));
      }
    }
    UNROLL for (int s = 0; s < SLOTS; s++) store(T + k * M, label(s), -inverse * row[s], inside(s));
    sync_warp();
    return true;
  }
  // The tableau times v, where labels are FREE.
  DEVICE void image(const Point& w, const real* v, real* out) const { product(T, v, column, w.state, out); }
};

// A tableau that the warps of a block share: the first one follows the path, all of them pivot.
struct Team {
  double* T;
  double* column;
  double* pivot_row;  // with 1 / pivot behind it
  int* command;

  DEVICE void begin(int) {}
  DEVICE void row(int i, real* out) const { read_row(T + i * M, out); }
  DEVICE bool exchange(const Point& w, int k, double smallest) {
    real row[SLOTS];
    double inverse;
    if (!prepare_pivot(w, T, column, k, smallest, row, inverse)) return false;
    write_row(pivot_row, row);
    store(pivot_row + M, lane(), inverse, lane() == 0);
    store(command, lane(), k, lane() == 0);
    sync_block();
    pivot();
    sync_block();
    return true;
  }
  DEVICE void pivot() {
    int k = *command;
    real row[SLOTS];
    read_row(pivot_row, row);
    for (int r = warp_index(); r < M; r += warp_count()) {
      double a = column[r];
      bool own = r == k;
      double factor = own ? pivot_row[M] : a;
      UNROLL for (int s = 0; s < SLOTS; s++) {
        real t = own ? real(0.0) : load(T + r * M, label(s), inside(s), 0.0);
        store(T + r * M, label(s), t - factor * row[s], inside(s));
      }
    }
  }
  // The other warps wait here until the first one dismisses them.
  DEVICE void serve() {
    while (true) {
      sync_block();
      if (*command < 0) return;
      pivot();
      sync_block();
    }
  }
  DEVICE void dismiss() {
    store(command, lane(), -1, lane() == 0);
    sync_block();
  }
};

// Another's tableau, which stays as it is: pivots are noted, and rows computed where they are asked for.
struct Noted {
  const double* T;
  double* column;
  const int* parent_state;
  int count, driven;
  real own[SLOTS];
  real rows[NOTES][SLOTS];
  double inverse[NOTES];
  int labels[NOTES];

  DEVICE void begin(int i) {
    count = 0;
    driven = i;
    read_row(T + i * M, own);
  }
  DEVICE void row(int, real* out) const {
    UNROLL for (int s = 0; s < SLOTS; s++) out[s] = own[s];
  }
  DEVICE bool exchange(const Point&, int k, double smallest) {
    if (count == NOTES) return false;
    real row[SLOTS];
    read_row(T + k * M, row);
    for (int p = 0; p < count; p++) apply(p, k, row);
    double pivot = at(row, k);
    if (!(pivot > smallest)) return false;
    UNROLL for (int s = 0; s < SLOTS; s++) rows[count][s] = row[s];
    labels[count] = k;
    inverse[count] = 1.0 / pivot;
    apply(count, driven, own);
    count++;
    return true;
  }
  // A pivot exchanges one entry of v and of the image. So pivots are taken back from the last to the first, which gives
  // what to multiply the tableau with.
  DEVICE void image(const Point&, const real* v, real* out) {
    real given[SLOTS];
    double exchanged[NOTES];
    whole state[SLOTS];
    UNROLL for (int s = 0; s < SLOTS; s++) {
      given[s] = v[s];
      state[s] = load(parent_state, label(s), inside(s), (int)PAD);
    }
    for (int p = count - 1; p >= 0; p--) {
      int k = labels[p];
      real terms(0.0);
      UNROLL for (int s = 0; s < SLOTS; s++) terms = terms + rows[p][s] * given[s];
      double before = at(given, k);
      exchanged[p] = before - (over_lanes(terms) - before) * inverse[p];
      put(given, k, exchanged[p]);
    }
    product(T, given, column, state, out);
    for (int p = 0; p < count; p++) put(out, labels[p], exchanged[p]);
  }
  // Row r after the pivot with number p.
  DEVICE void apply(int p, int r, real* out) const {
    int k = labels[p];
    double a = r == k ? inverse[p] : at(out, k) * inverse[p];
    UNROLL for (int s = 0; s < SLOTS; s++) {
      real before = r == k ? real(0.0) : out[s];
      out[s] = before - a * rows[p][s];
    }
    put(out, k, a);
  }
};

// Flip label i: take it out along the path of optima, then put it back on the other side. One event at a time: a label
// that reaches the end of its state changes it by one pivot. Returns whether all went well.
template <class Tableau> DEVICE bool relabel(Tableau& tableau, Point& w, int i, const double* constants) {
  const double C = constants[CAP_VALUE], smallest = constants[SMALLEST_PIVOT];
  const double flipped = -at(w.y, i);
  tableau.begin(i);
  int event = at(w.state, i) == FREE ? i : -1;
  int become = DRIVEN;
  double value = at(w.g, i);
  bool entering = false;
  if (event < 0) put(w.state, i, DRIVEN);
  for (int round = 0; round < MOST_EVENTS; round++) {
    if (event >= 0) {
      if (!tableau.exchange(w, event, become == FREE ? smallest : 0.0)) break;
      double y = at(w.y, event);
      if (become == FREE) {
        put(w.g, event, at(w.x, event));
        put(w.x, event, y);
      } else {
        put(w.g, event, y);
        put(w.x, event, value);
      }
      put(w.state, event, become);
      if (become == FREE && event == i) {
        if (entering) return true;
        break;  // it has not been flipped: numbers got lost
      }
      event = -1;
    }
    double here = at(w.x, i);
    if (!entering && here == 0.0) {
      put(w.y, i, flipped);
      if (flipped * at(w.g, i) >= 1.0) {
        put(w.state, i, ZERO);
        return true;
      }
      put(w.state, i, ENTERING);
      entering = true;
    }
    const double left = (entering ? C * flipped : 0.0) - here;
    const double way = left > 0.0 ? 1.0 : -1.0;
    real rate[SLOTS], step[SLOTS];
    tableau.row(i, rate);
    double length = absolute(left);
    int slot = -1;
    UNROLL for (int s = 0; s < SLOTS; s++) {
      whole state = w.state[s];
      rate[s] = rate[s] * select(state == FREE, real(-way), real(way));
      real dv = w.y[s] * rate[s], v = w.y[s] * w.g[s];
      real high = select(state == FREE, real(C), select((state == CAP) || (state == ENTERING), real(1.0), real(INFINITE)));
      real low = select(state == FREE, real(0.0), select(state == ZERO, real(1.0), real(-INFINITE)));
      real room = larger(select(dv > 0.0, high - v, v - low), real(0.0)) + 0.0;  // never -0
      step[s] = select(dv != 0.0, room / absolute(dv), real(INFINITE));
      double nearest = lowest(step[s]);
      if (nearest < length) {
        length = nearest;
        slot = s;
      }
    }
    UNROLL for (int s = 0; s < SLOTS; s++) {
      w.g[s] = w.g[s] + length * rate[s];
      if (s == slot) event = LANES * s + trailing_zeros(votes(step[s] == length));
    }
    if (event < 0) {
      put(w.x, i, entering ? C * flipped : 0.0);
      if (!entering) continue;
      put(w.state, i, CAP);
      return true;
    }
    put(w.x, i, here + way * length);
    become = FREE;
    if (at(w.state, event) == FREE) {
      double y = at(w.y, event);
      become = y * at(rate, event) < 0.0 ? ZERO : CAP;
      value = become == ZERO ? 0.0 : C * y;
    }
  }
  put(w.y, i, flipped);
  return false;
}

// x from the states, and g = T x: what a path left over of rounding errors is gone.
DEVICE void refresh(Point& w, const double* T, double* column, double C) {
  UNROLL for (int s = 0; s < SLOTS; s++)
    w.x[s] = select(w.state[s] == FREE, w.y[s], select(w.state[s] == CAP, C * w.y[s], real(0.0)));
  product(T, w.x, column, w.state, w.g);
}

// On a nearly singular kernel: bring the margins of FREE labels closer to 1.
template <class Tableau>
DEVICE void refine(Tableau& tableau, Point& w, const double* Q, double* column, const double* constants) {
  for (int round = 0; round < (int)constants[REFINEMENTS]; round++) {
    real z[SLOTS], f[SLOTS];
    UNROLL for (int s = 0; s < SLOTS; s++) z[s] = select(w.state[s] == FREE, w.g[s], w.x[s]);
    product(Q, z, column, 0, f);
    truth far(false);
    UNROLL for (int s = 0; s < SLOTS; s++) {
      z[s] = select(w.state[s] == FREE, w.y[s] - f[s], real(0.0));
      far = far || (absolute(z[s]) > CLOSE);
    }
    if (!some(far)) return;
    tableau.image(w, z, f);
    UNROLL for (int s = 0; s < SLOTS; s++) w.g[s] = select(w.state[s] == FREE, w.g[s] + f[s], w.g[s]);
  }
}

DEVICE void read_clean(Point& w, const double* x, const double* g, const double* y, const int* state) {
  read_row(x, w.x);
  read_row(g, w.g);
  UNROLL for (int s = 0; s < SLOTS; s++) {
    w.y[s] = load(y, label(s), inside(s), 1.0);
    w.state[s] = load(state, label(s), inside(s), (int)PAD);
  }
}

DEVICE void write_solution(const Point& w, double* z, unsigned char* code, bool fine) {
  UNROLL for (int s = 0; s < SLOTS; s++) {
    store(z, label(s), select(w.state[s] == FREE, w.g[s], w.x[s]), inside(s));
    whole state = fine ? w.state[s] : select(w.state[s] == PAD, whole(PAD), whole(FAILED));
    store_byte(code, label(s), state | select(w.y[s] < 0.0, whole(NEGATIVE), whole(0)), inside(s));
  }
}

// Where labels enter linearly, nothing is trained: z = y.
DEVICE void write_labels(const Point& w, double* z, unsigned char* code) {
  UNROLL for (int s = 0; s < SLOTS; s++) {
    truth pad = w.state[s] == PAD;
    store(z, label(s), select(pad, real(0.0), w.y[s]), inside(s));
    store_byte(code, label(s), select(pad, whole(PAD), whole(FREE)) | select(w.y[s] < 0.0, whole(NEGATIVE), whole(0)), inside(s));
  }
}

#if defined(WALK_CUBES) || !defined(__CUDACC__)
// Cubes: run r visits all subsets of the first LOW flippable labels of its problem, joined to the set prefix[r] of the
// later ones, in Gray-code order. One warp each.
KERNEL walk_cubes(
    const double* clean_T, const double* clean_x, const double* clean_g, const double* clean_y, const int* clean_state,
    const double* Q, const double* constants, const int* labels, const int* problem, const long long* prefix, int runs, int low,
    double* tableaus, double* z, unsigned char* code) {
  double* own = shared_memory + (long long)warp_index() * (SHARED_TABLEAU ? M * M + M : M);
  Own tableau;
  tableau.column = own;
  tableau.T = SHARED_TABLEAU ? own + M : tableaus + ((long long)block_index() * warp_count() + warp_index()) * M * M;
  for (int run = block_index() * warp_count() + warp_index(); run < runs; run += block_count() * warp_count()) {
    const int p = problem[run];
    const int* label_of = labels + p * M;
    const double* own_constants = constants + p * CONSTANTS;
    const double C = own_constants[CAP_VALUE];
    Point w;
    bool cold = true;
    for (unsigned step = 0; step < 1u << low; step++) {
      const long long stop = ((long long)run << low) + step;
      if (step > 0) {
        int i = label_of[trailing_zeros(step)];
        if (LINEAR) put(w.y, i, -at(w.y, i));
        else cold = cold || !relabel(tableau, w, i, own_constants);
      }
      if (cold) {
        // From the clean labels: at the beginning, and where a path got lost.
        const long long set = prefix[run] << low | (step ^ step >> 1);
        read_clean(w, clean_x + p * M, clean_g + p * M, clean_y + p * M, clean_state + p * M);
        cold = false;
        if (!LINEAR) {
          sync_warp();
          ROWS for (int r = 0; r < M; r++) {
            real row[SLOTS];
            read_row(clean_T + ((long long)p * M + r) * M, row);
            write_row(tableau.T + r * M, row);
          }
          sync_warp();
        }
        for (int k = 0; set >> k; k++) {
          if (!(set >> k & 1)) continue;
          int i = label_of[k];
          if (LINEAR || cold) put(w.y, i, -at(w.y, i));
          else cold = !relabel(tableau, w, i, own_constants);
        }
      }
      if (LINEAR) {
        write_labels(w, z + stop * M, code + stop * M);
      } else {
        if (!cold) {
          refresh(w, tableau.T, tableau.column, C);
          refine(tableau, w, Q + (long long)p * M * M, tableau.column, own_constants);
        }
        write_solution(w, z + stop * M, code + stop * M, !cold);
      }
    }
  }
}

#endif
#if defined(WALK_FAMILIES) || !defined(__CUDACC__)
// Families: a parent set and its children, which add one later label each. Block b takes the parents first_row[b] to
// first_row[b + 1] of one problem, one after the other; the warps of a block share the parent's tableau.
KERNEL walk_families(
    const double* clean_T, const double* clean_x, const double* clean_g, const double* clean_y, const int* clean_state,
    const double* Q, const double* constants, const int* labels, const int* problem, const int* ends, const int* first_row,
    const int* parents, int size, const int* first_child, const long long* first_stop, const unsigned char* unwanted,
    double* tableaus, double* z, unsigned char* code) {
  double* memory = shared_memory;
  Team team;
  team.T = SHARED_TABLEAU ? memory : tableaus + (long long)block_index() * M * M;
  if (SHARED_TABLEAU) memory += M * M;
  team.column = memory;
  team.pivot_row = memory + M;
  double* shared_x = team.pivot_row + M + 1;
  double* shared_g = shared_x + M;
  double* shared_y = shared_g + M;
  double* columns = shared_y + M;
  int* shared_state = (int*)(columns + warp_count() * M);
  team.command = shared_state + M;
  int* shared_fine = team.command + 1;
  const int p = problem[block_index()];
  const int* label_of = labels + p * M;
  const double* own_constants = constants + p * CONSTANTS;
  const bool leader = warp_index() == 0;
  Point w;
  bool cold = true;
  const int begin = first_row[block_index()], end = first_row[block_index() + 1];
  for (int row = begin; row < end; row++) {
    const int* set = parents + (long long)row * size;
    const int* before = set - size;
    if (leader) {
      if (!cold && !LINEAR) {
        // Out with what the last parent has and this one has not, then in with what is new.
        for (int k = 0; k < 2 * size && !cold; k++) {
          const int* one = k < size ? before : set;
          const int* other = k < size ? set : before;
          int i = one[k < size ? k : k - size];
          bool common = false;
          for (int j = 0; j < size; j++) common = common || other[j] == i;
          if (!common) cold = !relabel(team, w, i, own_constants);
        }
      }
      if (cold || LINEAR) {
        read_clean(w, clean_x + p * M, clean_g + p * M, clean_y + p * M, clean_state + p * M);
        cold = false;
        if (!LINEAR) {
          sync_warp();
          for (int r = 0; r < M; r++) {
            real one[SLOTS];
            read_row(clean_T + ((long long)p * M + r) * M, one);
            write_row(team.T + r * M, one);
          }
          sync_warp();
        }
        for (int k = 0; k < size; k++) {
          if (LINEAR || cold) put(w.y, set[k], -at(w.y, set[k]));
          else cold = !relabel(team, w, set[k], own_constants);
        }
      }
      if (!LINEAR && !cold && (row - begin) % 8 == 0) refresh(w, team.T, team.column, own_constants[CAP_VALUE]);
      write_row(shared_x, w.x);
      write_row(shared_g, w.g);
      write_row(shared_y, w.y);
      UNROLL for (int s = 0; s < SLOTS; s++) store(shared_state, label(s), w.state[s], inside(s));
      store(shared_fine, lane(), (int)!cold, lane() == 0);
      team.dismiss();
    } else {
      team.serve();
    }
    for (int k = first_child[row] + warp_index(); k < ends[p]; k += warp_count()) {
      const long long stop = first_stop[row] + k - first_child[row];
      if (unwanted != 0 && unwanted[stop]) continue;
      const int i = label_of[k];
      Point child;
      read_clean(child, shared_x, shared_g, shared_y, shared_state);
      if (LINEAR) {
        put(child.y, i, -at(child.y, i));
        write_labels(child, z + stop * M, code + stop * M);
        continue;
      }
      bool fine = *shared_fine != 0;
      if (fine) {
        Noted noted;
        noted.T = team.T;
        noted.column = columns + warp_index() * M;
        noted.parent_state = shared_state;
        fine = relabel(noted, child, i, own_constants);
        if (fine) refine(noted, child, Q + (long long)p * M * M, noted.column, own_constants);
      } else {
        put(child.y, i, -at(child.y, i));
      }
      write_solution(child, z + stop * M, code + stop * M, fine);
    }
    sync_block();
  }
}
#endif
