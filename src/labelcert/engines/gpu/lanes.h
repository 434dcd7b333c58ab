// A warp as a vector: the same kernels run on a GPU, where every lane holds one entry, and on a CPU, where a loop does.
//
// Types with one value per lane: real, whole, big, truth. Plain C++ types hold what all lanes share. Kernels branch on
// shared values alone and select per lane, so that they mean the same in both worlds.

#define LANES 32

#ifdef __CUDACC__

#define DEVICE __device__ __forceinline__
#define KERNEL extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
#define ALL 0xffffffffu
#define INFINITE (__longlong_as_double(0x7ff0000000000000LL))
#define UNROLL _Pragma("unroll")
#if M > 40
#define ROWS _Pragma("unroll 8")
#else
#define ROWS _Pragma("unroll")
#endif

typedef double real;
typedef int whole;
typedef unsigned long long big;
typedef bool truth;

extern __shared__ double shared_memory[];

DEVICE int block_index() { return blockIdx.x; }
DEVICE int block_count() { return gridDim.x; }
DEVICE int warp_index() { return threadIdx.x >> 5; }
DEVICE int warp_count() { return blockDim.x >> 5; }
DEVICE whole lane() { return threadIdx.x & 31; }
DEVICE void sync_warp() { __syncwarp(); }
DEVICE void sync_block() { __syncthreads(); }

template <class T> DEVICE T select(truth c, T a, T b) { return c ? a : b; }
DEVICE bool some(truth c) { return __any_sync(ALL, c); }
DEVICE unsigned votes(truth c) { return __ballot_sync(ALL, c); }
DEVICE double from_lane(real v, int l) { return __shfl_sync(ALL, v, l); }
DEVICE int from_lane(whole v, int l) { return __shfl_sync(ALL, v, l); }
DEVICE real absolute(real v) { return fabs(v); }
DEVICE real larger(real a, real b) { return fmax(a, b); }
DEVICE real smaller(real a, real b) { return fmin(a, b); }
DEVICE real root(real v) { return sqrt(v); }
DEVICE big bits_of(real v) { return (big)__double_as_longlong(v); }
DEVICE real real_of(whole v) { return (double)v; }
DEVICE big big_of(whole v) { return (big)(unsigned)v; }
DEVICE whole quotient(whole v, int by) { return v / by; }
DEVICE int trailing_zeros(unsigned v) { return __ffs(v) - 1; }

// The smallest of all lanes, none of which is negative; a lane that is no number does not count.
DEVICE double lowest(real v) {
  unsigned high = (unsigned)__double2hiint(v), low = (unsigned)__double2loint(v);
  unsigned top = __reduce_min_sync(ALL, high);
  unsigned rest = __reduce_min_sync(ALL, high == top ? low : ALL);
  return __hiloint2double((int)top, (int)rest);
}
DEVICE double over_lanes(real v) {
  for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(ALL, v, o);
  return v;
}
DEVICE int tally(truth c) { return __popc(__ballot_sync(ALL, c)); }

template <class T> DEVICE T load(const T* p, whole at) { return p[at]; }
template <class T> DEVICE T load(const T* p, whole at, truth where, T otherwise) { return where ? p[at] : otherwise; }
DEVICE whole load_byte(const unsigned char* p, long long from, whole at) { return p[from + at]; }
template <class T> DEVICE void store(T* p, whole at, T v) { p[at] = v; }
template <class T> DEVICE void store(T* p, whole at, T v, truth where) { if (where) p[at] = v; }
DEVICE void store_byte(unsigned char* p, whole at, whole v, truth where) { if (where) p[at] = (unsigned char)v; }
DEVICE void store_scores(float* p, whole at, real v, truth where) { if (where) p[at] = (float)v; }
DEVICE void lower(big* p, whole at, big v, truth where) { if (where && v < p[at]) atomicMin(p + at, v); }
DEVICE void raise(big* p, whole at, big v, truth where) { if (where && v > p[at]) atomicMax(p + at, v); }
DEVICE whole take(int* counter, truth where) { return where ? atomicAdd(counter, 1) : 0; }
DEVICE void add(big* counter, int v) { if (lane() == 0 && v) atomicAdd(counter, (big)v); }

#else

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#define DEVICE inline
#define KERNEL extern "C" void
#define INFINITE (std::numeric_limits<double>::infinity())
#define UNROLL
#define ROWS

template <class T> struct Lanes {
  T v[LANES];
  Lanes() {}
  Lanes(T same) { for (int l = 0; l < LANES; l++) v[l] = same; }
  template <class U> explicit Lanes(const Lanes<U>& o) { for (int l = 0; l < LANES; l++) v[l] = (T)o.v[l]; }
  Lanes operator-() const { Lanes r; for (int l = 0; l < LANES; l++) r.v[l] = -v[l]; return r; }
  Lanes operator!() const { Lanes r; for (int l = 0; l < LANES; l++) r.v[l] = !v[l]; return r; }
  Lanes& operator+=(const Lanes& o) { for (int l = 0; l < LANES; l++) v[l] += o.v[l]; return *this; }
  Lanes& operator-=(const Lanes& o) { for (int l = 0; l < LANES; l++) v[l] -= o.v[l]; return *this; }
};
typedef unsigned long long u64;
typedef Lanes<double> real;
typedef Lanes<int> whole;
typedef Lanes<u64> big;
typedef Lanes<bool> truth;

#define BINARY(T, R, OP) \
  DEVICE Lanes<R> operator OP(const Lanes<T>& a, const Lanes<T>& b) { \
    Lanes<R> r; for (int l = 0; l < LANES; l++) r.v[l] = a.v[l] OP b.v[l]; return r; } \
  DEVICE Lanes<R> operator OP(const Lanes<T>& a, T b) { \
    Lanes<R> r; for (int l = 0; l < LANES; l++) r.v[l] = a.v[l] OP b; return r; } \
  DEVICE Lanes<R> operator OP(T a, const Lanes<T>& b) { \
    Lanes<R> r; for (int l = 0; l < LANES; l++) r.v[l] = a OP b.v[l]; return r; }
#define ARITHMETIC(T) BINARY(T, T, +) BINARY(T, T, -) BINARY(T, T, *) \
  BINARY(T, bool, <) BINARY(T, bool, <=) BINARY(T, bool, >) BINARY(T, bool, >=) BINARY(T, bool, ==) BINARY(T, bool, !=)
ARITHMETIC(double)
ARITHMETIC(int)
ARITHMETIC(u64)
BINARY(double, double, /)
BINARY(int, int, &) BINARY(int, int, |) BINARY(int, int, >>) BINARY(int, int, <<)
BINARY(u64, u64, |) BINARY(u64, u64, >>) BINARY(u64, u64, <<)
BINARY(bool, bool, &&) BINARY(bool, bool, ||) BINARY(bool, bool, ==) BINARY(bool, bool, !=)

static thread_local int the_block, the_blocks;
static thread_local double shared_memory[1 << 17];
extern "C" void set_block(int index, int count) { the_block = index; the_blocks = count; }

DEVICE int block_index() { return the_block; }
DEVICE int block_count() { return the_blocks; }
DEVICE int warp_index() { return 0; }
DEVICE int warp_count() { return 1; }
DEVICE whole lane() { whole r; for (int l = 0; l < LANES; l++) r.v[l] = l; return r; }
DEVICE void sync_warp() {}
DEVICE void sync_block() {}

#define EACH(R, EXPRESSION) R r; for (int l = 0; l < LANES; l++) r.v[l] = EXPRESSION; return r;
template <class T> DEVICE Lanes<T> select(const truth& c, const Lanes<T>& a, const Lanes<T>& b) { EACH(Lanes<T>, c.v[l] ? a.v[l] : b.v[l]) }
template <class T> DEVICE Lanes<T> select(const truth& c, T a, const Lanes<T>& b) { EACH(Lanes<T>, c.v[l] ? a : b.v[l]) }
template <class T> DEVICE Lanes<T> select(const truth& c, const Lanes<T>& a, T b) { EACH(Lanes<T>, c.v[l] ? a.v[l] : b) }
template <class T> DEVICE Lanes<T> select(const truth& c, T a, T b) { EACH(Lanes<T>, c.v[l] ? a : b) }
DEVICE double select(bool c, double a, double b) { return c ? a : b; }
DEVICE unsigned votes(const truth& c) { unsigned r = 0; for (int l = 0; l < LANES; l++) r |= (unsigned)c.v[l] << l; return r; }
DEVICE bool some(const truth& c) { return votes(c) != 0; }
DEVICE int tally(const truth& c) { return __builtin_popcount(votes(c)); }
DEVICE double from_lane(const real& v, int l) { return v.v[l]; }
DEVICE int from_lane(const whole& v, int l) { return v.v[l]; }
DEVICE real absolute(const real& v) { EACH(real, std::fabs(v.v[l])) }
DEVICE double absolute(double v) { return std::fabs(v); }
DEVICE real larger(const real& a, const real& b) { EACH(real, std::fmax(a.v[l], b.v[l])) }
DEVICE real smaller(const real& a, const real& b) { EACH(real, std::fmin(a.v[l], b.v[l])) }
DEVICE real root(const real& v) { EACH(real, std::sqrt(v.v[l])) }
DEVICE double root(double v) { return std::sqrt(v); }
DEVICE u64 word_of(double v) { u64 w; std::memcpy(&w, &v, 8); return w; }
DEVICE big bits_of(const real& v) { EACH(big, word_of(v.v[l])) }
DEVICE real real_of(const whole& v) { EACH(real, (double)v.v[l]) }
DEVICE big big_of(const whole& v) { EACH(big, (u64)(unsigned)v.v[l]) }
DEVICE whole quotient(const whole& v, int by) { EACH(whole, v.v[l] / by) }
DEVICE int trailing_zeros(unsigned v) { return v ? __builtin_ctz(v) : -1; }
DEVICE double over_lanes(const real& v) { double r = 0.0; for (int l = 0; l < LANES; l++) r += v.v[l]; return r; }
DEVICE double lowest(const real& v) {
  u64 best = ~0ull;
  for (int l = 0; l < LANES; l++) best = word_of(v.v[l]) < best ? word_of(v.v[l]) : best;
  double r; std::memcpy(&r, &best, 8); return r;
}

template <class T> DEVICE Lanes<T> load(const T* p, const whole& at) { EACH(Lanes<T>, p[at.v[l]]) }
template <class T> DEVICE Lanes<T> load(const T* p, const whole& at, const truth& where, T otherwise) { EACH(Lanes<T>, where.v[l] ? p[at.v[l]] : otherwise) }
DEVICE whole load_byte(const unsigned char* p, long long from, const whole& at) { EACH(whole, p[from + at.v[l]]) }
template <class T> DEVICE void store(T* p, const whole& at, const Lanes<T>& v) { for (int l = 0; l < LANES; l++) p[at.v[l]] = v.v[l]; }
template <class T> DEVICE void store(T* p, const whole& at, const Lanes<T>& v, const truth& where) { for (int l = 0; l < LANES; l++) if (where.v[l]) p[at.v[l]] = v.v[l]; }
template <class T> DEVICE void store(T* p, const whole& at, T v, const truth& where) { store(p, at, Lanes<T>(v), where); }
DEVICE void store_byte(unsigned char* p, const whole& at, const whole& v, const truth& where) { for (int l = 0; l < LANES; l++) if (where.v[l]) p[at.v[l]] = (unsigned char)v.v[l]; }
DEVICE void store_scores(float* p, const whole& at, const real& v, const truth& where) { for (int l = 0; l < LANES; l++) if (where.v[l]) p[at.v[l]] = (float)v.v[l]; }
DEVICE void lower(u64* p, const whole& at, const big& v, const truth& where) { for (int l = 0; l < LANES; l++) if (where.v[l] && v.v[l] < p[at.v[l]]) p[at.v[l]] = v.v[l]; }
DEVICE void raise(u64* p, const whole& at, const big& v, const truth& where) { for (int l = 0; l < LANES; l++) if (where.v[l] && v.v[l] > p[at.v[l]]) p[at.v[l]] = v.v[l]; }
DEVICE whole take(int* counter, const truth& where) { whole r(0); for (int l = 0; l < LANES; l++) if (where.v[l]) r.v[l] = (*counter)++; return r; }
DEVICE void add(u64* counter, int v) { *counter += (u64)v; }

#endif
