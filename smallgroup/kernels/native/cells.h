// A whole cell: states, of which the first are given and every other one is a weighted sum of what convolutions (ReLU,
// 3x3 or 1x1, batch norm), averages of 3x3 pixels and skips make of states before it.
//
// State by state, image by image: the sum is added up, rectified into a tile with a border, and all that leaves the
// state is made from that tile, with the statistics of the convolutions. Whoever reads a result normalises it. The
// other way round: gradients of all results that leave a state are made in a tile from those of the sums they are in.
#pragma once

#include "dense.h"
#include "mixture.h"

namespace smallgroup {

using at::IntArrayRef;

constexpr int64_t kSkip = -2, kAverage = -1;  // what a term is; else the number of its matrix
constexpr int64_t kMostStates = 64;

struct Arrow {
  int64_t source, node, what;
  bool convolves() const { return what >= 0; }
};

// The terms that leave one state: which are convolutions, and where their results stand beside each other. Layers of
// 3x3 come first, so that the vectors behind them need the tap in the middle alone.
struct Leaving {
  std::vector<int64_t> all, wide, narrow;  // numbers of terms
  std::vector<int64_t> place;              // by number of term
  bool averages = false;
  int64_t k3 = 0, k = 0;                   // channels of the wide ones, and of all
};

template <typename T>
struct Cell {
  int64_t n, c, h, w, cp, pixels, inputs, states;
  std::vector<Arrow> terms;
  std::vector<Leaving> leaving;
  std::vector<std::vector<int64_t>> into;  // numbers of terms, by state
  Tensor like;

  Cell(TensorList xs, TensorList matrices, const Tensor& weights, IntArrayRef numbers, int64_t nodes)
      : inputs(xs.size()), states(inputs + nodes), like(xs[0]) {
    TORCH_CHECK(nodes >= 1 && states <= kMostStates, "a cell must have a node, and at most ", kMostStates,
                " states, but it has ", nodes, " nodes");
    const Images shape(like);
    n = shape.n;
    c = shape.c;
    h = shape.h;
    w = shape.w;
    cp = round_up(c, lanes<T>());
    pixels = h * w;
    for (const auto& x : xs) check_dense(x);
    for (const auto& m : matrices)
      TORCH_CHECK(m.dim() == 4 && m.size(0) == c && m.size(1) == c && m.size(2) == m.size(3) &&
                      (m.size(2) == 1 || m.size(2) == 3),
                  "a matrix must be [channels, channels, k, k] with k of 1 or 3, but it is ", m.sizes());
    TORCH_CHECK(!numbers.empty() && numbers.size() % 3 == 0, "every term must have a source, a node and a kind");
    TORCH_CHECK(weights.dim() == 1 && weights.is_contiguous() &&
                    weights.numel() * 3 == static_cast<int64_t>(numbers.size()),
                "every term must have a weight");
    leaving.resize(states);
    into.resize(states);
    for (auto& each : leaving) each.place.assign(numbers.size() / 3, 0);
    for (size_t t = 0; t < numbers.size() / 3; ++t) {
      const Arrow arrow{numbers[3 * t], numbers[3 * t + 1], numbers[3 * t + 2]};
      TORCH_CHECK(arrow.node >= inputs && arrow.node < states && arrow.source >= 0 && arrow.source < arrow.node,
                  "a term must lead from a state to a later node, but one leads from ", arrow.source, " to ",
                  arrow.node);
      TORCH_CHECK(arrow.what >= kSkip && arrow.what < static_cast<int64_t>(matrices.size()),
                  "a term must be a skip, an average or one of the matrices, but it is ", arrow.what);
      auto& from = leaving[arrow.source];
      from.all.push_back(t);
      if (arrow.what == kAverage) from.averages = true;
      if (arrow.convolves()) (matrices[arrow.what].size(2) == 3 ? from.wide : from.narrow).push_back(t);
      into[arrow.node].push_back(t);
      terms.push_back(arrow);
    }
    for (auto& each : leaving) {
      for (const int64_t t : each.wide) each.place[t] = c * (each.k++);
      each.k3 = each.k * c;
      for (const int64_t t : each.narrow) each.place[t] = c * (each.k++);
      each.k *= c;
    }
  }

  void check_dense(const Tensor& x) const {
    TORCH_CHECK(x.sizes() == at::IntArrayRef({n, c, h, w}) && Images(x).pixel == c,
                "states must be of one size, dense and in channels_last layout, but one is ", x.sizes());
  }
  static int64_t padded(int64_t k) { return round_up(k, lanes<T>()); }
  const Arrow& term(int64_t t) const { return terms[t]; }
  int64_t place(int64_t t) const { return leaving[terms[t].source].place[t]; }
  Tensor new_state() const { return new_images(like, n, c, h, w); }
};

// What the terms of a cell are read from: memory that kernels look into by image.
template <typename T>
struct Read {
  const T* from;
  int64_t pixel, image;
  const T* at(int64_t i) const { return from + i * image; }
};

// States, results of convolutions, averages and statistics of a cell, by state; empty where there are none.
template <typename T>
struct Values {
  std::vector<Tensor> states, results, averages, statistics;

  Read<T> read(const Cell<T>& cell, int64_t t) const {
    const Arrow& term = cell.term(t);
    if (!term.convolves()) {
      const Tensor& from = term.what == kAverage ? averages[term.source] : states[term.source];
      return {from.template const_data_ptr<T>(), cell.c, cell.pixels * cell.c};
    }
    const int64_t kp = cell.padded(cell.leaving[term.source].k);
    return {results[term.source].template const_data_ptr<T>() + cell.place(t), kp, cell.pixels * kp};
  }

  // Mean and rstd of the channels of a term, padded to whole vectors: zero and one where nothing is normalised.
  void norm(const Cell<T>& cell, int64_t t, T* mean, T* rstd) const {
    const Arrow& term = cell.term(t);
    std::fill(mean, mean + cell.cp, T(0));
    std::fill(rstd, rstd + cell.cp, term.convolves() ? T(0) : T(1));
    if (!term.convolves()) return;
    const int64_t k = cell.leaving[term.source].k;
    const T* found = statistics[term.source].template const_data_ptr<T>() + cell.place(t);
    std::copy(found, found + cell.c, mean);
    std::copy(found + k, found + k + cell.c, rstd);
  }
};

// What a sum reads, and by what each channel is multiplied.
template <typename T>
struct Sum {
  int64_t count, cp;
  std::vector<Read<T>> reads;
  std::vector<T> mean, rstd, factor;  // [terms, cp]

  Sum(const Cell<T>& cell, const Values<T>& values, const T* weights, int64_t node)
      : count(cell.into[node].size()), cp(cell.cp), mean(count * cp), rstd(count * cp), factor(count * cp) {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t t = cell.into[node][i];
      reads.push_back(values.read(cell, t));
      values.norm(cell, t, mean.data() + i * cp, rstd.data() + i * cp);
      for (int64_t k = 0; k < cp; ++k) factor[i * cp + k] = weights[t] * rstd[i * cp + k];
    }
  }

  // One image of the sum.
  void add_up(const Cell<T>& cell, int64_t image, T* to) const {
    with_vectors<T>(cell.c, [&](auto vectors) {
      using L = decltype(vectors);
      for (int64_t k = 0; k < cell.c; k += L::kLanes) {
        int64_t p = 0;
        for (; p + 8 <= cell.pixels; p += 8) rows<L, 8>(image, p, k, cell.c, to);
        for (; p < cell.pixels; ++p) rows<L, 1>(image, p, k, cell.c, to);
      }
    });
  }

 private:
  template <typename L, int M>
  void rows(int64_t image, int64_t p, int64_t k, int64_t c, T* to) const {
    using V = typename L::V;
    V acc[M];
    for (int j = 0; j < M; ++j) acc[j] = V(T(0));
    for (int64_t i = 0; i < count; ++i) {
      const V m = L::load(mean.data() + i * cp + k, c - k), f = L::load(factor.data() + i * cp + k, c - k);
      const int64_t pixel = reads[i].pixel;
      const T* from = reads[i].at(image) + p * pixel + k;
      for (int j = 0; j < M; ++j) acc[j] = L::fmadd(L::load(from + j * pixel, c - k) - m, f, acc[j]);
    }
    for (int j = 0; j < M; ++j) L::store(acc[j], to + (p + j) * c + k, c - k);
  }
};

// An image, rectified, inside the border of a tile.
template <typename T>
void rectify(const T* x, const Bordered& tile, int64_t c, T* to) {
  constexpr int64_t v = lanes<T>();
  const int64_t size = tile.w * c;
  for (int64_t i = 0; i < tile.h; ++i)
    for (int64_t k = 0; k < size; k += v)
      store(at::vec::maximum(load(x + i * size + k, size - k), Vec<T>(T(0))), to + tile.inside(i) + k, size - k);
}

// The convolutions that leave a state, as columns of a product.
template <typename T>
struct Forwards {
  int64_t first;  // column of the vectors that need the tap in the middle alone
  Panels<T> wide, narrow;

  Forwards(const Cell<T>& cell, const Leaving& leaving, TensorList matrices)
      : first(cell.padded(leaving.k3)), wide(9 * cell.c, first / lanes<T>()),
        narrow(cell.c, (cell.padded(leaving.k) - std::min(first, cell.padded(leaving.k))) / lanes<T>()) {
    for (const int64_t t : leaving.wide) {
      const auto m = matrices[cell.term(t).what].template accessor<T, 4>();
      for (int64_t o = 0; o < cell.c; ++o) {
        const auto [to, row] = wide.column(leaving.place[t] + o);
        for (int64_t i = 0; i < cell.c; ++i)
          for (int64_t tap = 0; tap < 9; ++tap) to[(tap * cell.c + i) * row] = m[o][i][tap / 3][tap % 3];
      }
    }
    for (const int64_t t : leaving.narrow) {
      const auto m = matrices[cell.term(t).what].template accessor<T, 4>();
      for (int64_t o = 0; o < cell.c; ++o) {
        const int64_t column = leaving.place[t] + o, before = column < first ? 4 * cell.c : 0;
        const auto [to, row] = column < first ? wide.column(column) : narrow.column(column - first);
        for (int64_t i = 0; i < cell.c; ++i) to[(before + i) * row] = m[o][i][0][0];
      }
    }
  }
};

using CellValues = std::tuple<std::vector<Tensor>, std::vector<Tensor>, std::vector<Tensor>, std::vector<Tensor>>;

// Nodes, and what the way back needs, by state: results of convolutions [n, h, w, channels in whole vectors], averages
// and statistics.
template <typename T>
CellValues cell_forward_t(TensorList xs, TensorList matrices, const Tensor& weights, IntArrayRef numbers, int64_t nodes,
                          double epsilon) {
  const Cell<T> cell(xs, matrices, weights, numbers, nodes);
  const T* shares = weights.const_data_ptr<T>();
  const int64_t n = cell.n, c = cell.c, size = cell.pixels * c;
  Values<T> values;
  for (int64_t s = 0; s < cell.states; ++s) {
    const auto& leaving = cell.leaving[s];
    values.states.push_back(s < cell.inputs ? xs[s] : cell.new_state());
    values.averages.push_back(leaving.averages ? cell.new_state() : at::empty({0}, xs[0].options()));
    values.results.push_back(at::empty({leaving.k ? n : 0, cell.h, cell.w, cell.padded(leaving.k)}, xs[0].options()));
    values.statistics.push_back(at::empty({3, leaving.k}, xs[0].options()));
  }
  const Bordered tile(cell.h, cell.w, c);
  const std::vector<int64_t> windows = tile.windows();
  const std::vector<int64_t> taps{0, tile.row, 2 * tile.row}, middle{tile.row + c};
  for (int64_t s = 0; s < cell.states; ++s) {
    const auto& leaving = cell.leaving[s];
    const bool made = s >= cell.inputs;
    if (!made && !leaving.k && !leaving.averages) continue;
    const int64_t k = leaving.k, kp = cell.padded(k);
    std::unique_ptr<Sum<T>> sum;
    if (made) sum = std::make_unique<Sum<T>>(cell, values, shares, s);
    const Forwards<T> layers(cell, leaving, matrices);
    const T* given = values.states[s].template const_data_ptr<T>();
    T* state = made ? values.states[s].template data_ptr<T>() : nullptr;
    T* results = k ? values.results[s].template data_ptr<T>() : nullptr;
    T* averages = leaving.averages ? values.averages[s].template data_ptr<T>() : nullptr;
    std::vector<double> summary(n * 2 * k);
    at::parallel_for(0, n, 1, [&](int64_t begin, int64_t end) {
      Scratch<T> input(tile.size());
      Averages<T> pool(cell.h, cell.w, c);
      Moments<T> moments(k);
      const int64_t step = std::max<int64_t>(1, 64 / cell.w) * cell.w;  // pixels: whole rows
      for (int64_t i = begin; i < end; ++i) {
        if (made) sum->add_up(cell, i, state + i * size);
        if (averages) pool.forward(given + i * size, averages + i * size);
        if (!k) continue;
        rectify(given + i * size, tile, c, input.data());
        T* out = results + i * cell.pixels * kp;
        for (int64_t p = 0; p < cell.pixels; p += step) {
          const int64_t count = std::min(step, cell.pixels - p);
          convolve<T>(input.data(), windows.data() + p, count, taps, 3 * c, layers.wide, out + p * kp, kp);
          convolve<T>(input.data(), windows.data() + p, count, middle, c, layers.narrow, out + p * kp + layers.first,
                      kp);
          if (p == 0) moments.begin(out);
          moments.add(out + p * kp, count, kp);
        }
        moments.end(cell.pixels, summary.data() + i * 2 * k, summary.data() + i * 2 * k + k);
      }
    });
    if (k) normalisers<T>(summary.data(), n, k, cell.pixels, epsilon, values.statistics[s].template data_ptr<T>());
  }
  values.states.erase(values.states.begin(), values.states.begin() + cell.inputs);
  return {values.states, values.results, values.averages, values.statistics};
}

// What the gradient of a convolution's result is made of: factor G - shift - slope (y - mean), by channel, G that of
// the sum.
template <typename T>
struct Coefficients {
  std::vector<T> factor, shift, slope, mean;
};

// Sums over the batch of G and of G times each normalised term of a node, [terms + 1, cp], of one thread.
template <typename T, typename L>
void add_products(const Cell<T>& cell, const Sum<T>& sum, int64_t image, const T* g, double* to) {
  using V = typename L::V;
  const int64_t c = cell.c, cp = cell.cp;
  T part[L::kLanes];
  for (int64_t first = 0; first < cell.pixels; first += kPixels) {
    const int64_t last = std::min(cell.pixels, first + kPixels);
    for (int64_t k = 0; k < c; k += L::kLanes) {
      const int64_t count = std::min(L::kLanes, c - k);
      for (int64_t i = -1; i < sum.count; ++i) {
        V acc[4];
        for (auto& each : acc) each = V(T(0));
        int64_t p = first;
        if (i < 0) {
          for (; p + 4 <= last; p += 4)
            for (int j = 0; j < 4; ++j) acc[j] = acc[j] + L::load(g + (p + j) * c + k, count);
          for (; p < last; ++p) acc[0] = acc[0] + L::load(g + p * c + k, count);
        } else {
          const V m = L::load(sum.mean.data() + i * cp + k, count);
          const int64_t pixel = sum.reads[i].pixel;
          const T* y = sum.reads[i].at(image) + k;
          for (; p + 4 <= last; p += 4)
            for (int j = 0; j < 4; ++j)
              acc[j] = L::fmadd(L::load(y + (p + j) * pixel, count) - m, L::load(g + (p + j) * c + k, count), acc[j]);
          for (; p < last; ++p)
            acc[0] = L::fmadd(L::load(y + p * pixel, count) - m, L::load(g + p * c + k, count), acc[0]);
        }
        L::store((acc[0] + acc[1]) + (acc[2] + acc[3]), part, L::kLanes);
        double* own = to + (i + 1) * cp + k;
        const T* rstd = i < 0 ? nullptr : sum.rstd.data() + i * cp + k;
        for (int64_t l = 0; l < count; ++l) own[l] += rstd ? static_cast<double>(part[l]) * rstd[l] : part[l];
      }
    }
  }
}

// The gradients of results that leave a state side by side, in a tile, and the matrices that take them back.
template <typename T>
struct Backwards {
  int64_t k, kp;  // channels, and how far the next pixel is
  Bordered tile;
  Panels<T> panels;
  std::vector<int64_t> windows, steps;

  Backwards(const Cell<T>& cell, const Leaving& leaving, TensorList matrices, bool wide)
      : k(wide ? leaving.k3 : leaving.k - leaving.k3), kp(cell.padded(k)), tile(cell.h, cell.w, kp),
        panels((wide ? 9 : 1) * k, k ? cell.cp / lanes<T>() : 0), windows(tile.windows()) {
    const int64_t taps = wide ? 9 : 1, before = wide ? 0 : leaving.k3;
    for (int64_t tap = 0; tap < taps; ++tap)
      steps.push_back(wide ? (2 - tap / 3) * tile.row + (2 - tap % 3) * kp : tile.row + kp);
    for (const int64_t t : wide ? leaving.wide : leaving.narrow) {
      const auto m = matrices[cell.term(t).what].template accessor<T, 4>();
      for (int64_t i = 0; i < cell.c; ++i) {
        const auto [to, row] = panels.column(i);
        for (int64_t o = 0; o < cell.c; ++o)
          for (int64_t tap = 0; tap < taps; ++tap)
            to[(tap * k + leaving.place[t] - before + o) * row] = m[o][i][tap / 3][tap % 3];
      }
    }
  }
  int64_t room() const { return tile.size() + lanes<T>(); }

  // The gradient of the input, written or added to what is there.
  template <bool Added>
  void into(const T* gradients, int64_t pixels, T* to, int64_t pixel) const {
    if (k) convolve<T, Added>(gradients, windows.data(), pixels, steps, k, panels, to, pixel);
  }
};

// The gradient of one result on one image, inside the border of a tile.
template <typename T, typename L>
void fill_gradient(const Cell<T>& cell, const Backwards<T>& layers, const Coefficients<T>& by, const Read<T>& y,
                   const T* g, int64_t image, T* to) {
  using V = typename L::V;
  const int64_t c = cell.c;
  for (int64_t k = 0; k < c; k += L::kLanes) {
    const int64_t count = c - k;
    const V a = L::load(by.factor.data() + k, count), b = L::load(by.shift.data() + k, count);
    const V d = L::load(by.slope.data() + k, count), m = L::load(by.mean.data() + k, count);
    const T *from = y.at(image) + k, *of_sum = g + k;
    for (int64_t i = 0; i < cell.h; ++i) {
      T* row = to + layers.tile.inside(i) + k;
      for (int64_t j = 0; j < cell.w; ++j, row += layers.kp, from += y.pixel, of_sum += c)
        L::store(L::load(of_sum, count) * a - b - (L::load(from, count) - m) * d, row, count);
    }
  }
}

template <typename T>
void add_scaled(const T* from, T factor, int64_t size, T* to) {
  constexpr int64_t v = lanes<T>();
  for (int64_t k = 0; k < size; k += v)
    store(at::vec::fmadd(load(from + k, size - k), Vec<T>(factor), load(to + k, size - k)), to + k, size - k);
}

// What reaches a state through its ReLU; the pixels of `back` are whole vectors.
template <typename T, typename L>
void add_rectified(const T* back, int64_t pixel, const T* x, int64_t pixels, int64_t c, T* to) {
  for (int64_t p = 0; p < pixels; ++p)
    for (int64_t k = 0; k < c; k += L::kLanes) {
      T* here = to + p * c + k;
      const auto g = L::where_positive(L::load(x + p * c + k, c - k), L::load(back + p * pixel + k, c - k));
      L::store(L::load(here, c - k) + g, here, c - k);
    }
}

using CellGradients = std::tuple<std::vector<Tensor>, std::vector<Tensor>, Tensor>;

// Gradients of the inputs that are wanted (empty tensors for the others), of the matrices if wanted, and of the
// weights, from those of the nodes (empty: zero).
template <typename T>
CellGradients cell_backward_t(TensorList gradients, TensorList xs, TensorList made, TensorList results,
                              TensorList averages, TensorList statistics, TensorList matrices, const Tensor& weights,
                              IntArrayRef numbers, IntArrayRef wanted, bool of_weights) {
  const int64_t nodes = made.size();
  const Cell<T> cell(xs, matrices, weights, numbers, nodes);
  const int64_t n = cell.n, c = cell.c, cp = cell.cp, size = cell.pixels * c;
  TORCH_CHECK(static_cast<int64_t>(gradients.size()) == nodes && static_cast<int64_t>(wanted.size()) == cell.inputs,
              "every node must have a gradient, or none, and every input be wanted or not");
  for (const auto& each : {results, averages, statistics})
    TORCH_CHECK(static_cast<int64_t>(each.size()) == cell.states,
                "every state must have results, averages and statistics, or none");
  Values<T> values{xs.vec(), results.vec(), averages.vec(), statistics.vec()};
  for (const auto& each : made) {
    cell.check_dense(each);
    values.states.push_back(each);
  }
  for (int64_t s = 0; s < cell.states; ++s) {
    const auto& leaving = cell.leaving[s];
    const std::vector<int64_t> expected{leaving.k ? n : 0, cell.h, cell.w, cell.padded(leaving.k)};
    TORCH_CHECK(results[s].sizes() == at::IntArrayRef(expected) && results[s].is_contiguous(),
                "results must be as the way forward has left them, but they are ", results[s].sizes());
    TORCH_CHECK(statistics[s].sizes() == at::IntArrayRef({3, leaving.k}) && statistics[s].is_contiguous(),
                "statistics must be [3, channels], but they are ", statistics[s].sizes());
    if (leaving.averages) cell.check_dense(averages[s]);
  }
  const T* shares = weights.const_data_ptr<T>();
  const int64_t threads = at::get_num_threads();
  std::vector<Tensor> of_states(cell.states), dmatrices;
  if (of_weights)
    for (const auto& m : matrices) dmatrices.push_back(at::zeros_like(m));
  Tensor dweights = at::zeros(weights.sizes(), weights.options());
  std::vector<Coefficients<T>> coefficients(cell.terms.size());

  for (int64_t s = cell.states - 1; s >= 0; --s) {
    const auto& leaving = cell.leaving[s];
    const bool node = s >= cell.inputs, reaches = node || wanted[s];
    if (!reaches && !(of_weights && leaving.k)) continue;
    const T* given = nullptr;
    if (node && gradients[s - cell.inputs].numel() > 0) {
      cell.check_dense(gradients[s - cell.inputs]);
      given = gradients[s - cell.inputs].template const_data_ptr<T>();
    }
    const bool as_given = given && leaving.all.empty();
    if (as_given) {
      of_states[s] = gradients[s - cell.inputs];
    } else if (reaches) {
      of_states[s] = cell.new_state();
    }
    T* found = as_given || !reaches ? nullptr : of_states[s].template data_ptr<T>();
    const T* total = reaches ? of_states[s].template const_data_ptr<T>() : nullptr;
    const T* x = values.states[s].template const_data_ptr<T>();
    const auto of_sum = [&](int64_t t) { return of_states[cell.term(t).node].template const_data_ptr<T>(); };
    const Backwards<T> wide(cell, leaving, matrices, true), narrow(cell, leaving, matrices, false);
    const Bordered tile(cell.h, cell.w, c);
    std::unique_ptr<Sum<T>> sum;
    if (node) sum = std::make_unique<Sum<T>>(cell, values, shares, s);
    const int64_t products = node ? (sum->count + 1) * cp : 0;
    const int64_t of_wide = 9 * c * wide.kp, of_narrow = c * narrow.kp;
    std::vector<std::vector<T>> of_matrices(threads);  // threads have fixed shares
    std::vector<std::vector<double>> of_sums(threads);
    at::parallel_for(0, n, 1, [&](int64_t begin, int64_t end) {
      auto& own = of_matrices[at::get_thread_num()];
      auto& sums = of_sums[at::get_thread_num()];
      if (of_weights && leaving.k && own.empty()) own.assign(of_wide + of_narrow, T(0));
      if (node && sums.empty()) sums.assign(products, 0.0);
      Scratch<T> input(leaving.k ? tile.size() : 0), back(leaving.k ? cell.pixels * cp : 0);
      Scratch<T> pooled(leaving.averages ? size : 0);
      Scratch<T> dy3(wide.k ? wide.room() : 0), dy1(narrow.k ? narrow.room() : 0);
      std::unique_ptr<Averages<T>> pool;
      if (leaving.averages && reaches) pool = std::make_unique<Averages<T>>(cell.h, cell.w, c);
      for (int64_t i = begin; i < end; ++i) {
        if (leaving.k) {
          rectify(x + i * size, tile, c, input.data());
          with_vectors<T>(c, [&](auto vectors) {
            using L = decltype(vectors);
            for (const int64_t t : leaving.wide)
              fill_gradient<T, L>(cell, wide, coefficients[t], values.read(cell, t), of_sum(t) + i * size, i,
                                  dy3.data() + leaving.place[t]);
            for (const int64_t t : leaving.narrow)
              fill_gradient<T, L>(cell, narrow, coefficients[t], values.read(cell, t), of_sum(t) + i * size, i,
                                  dy1.data() + leaving.place[t] - leaving.k3);
          });
        }
        if (of_weights && leaving.k) {
          for (int64_t tap = 0; tap < 3 && wide.k; ++tap)
            correlate<T>(input.data() + tap * tile.row, c, tile.row, 3 * c, dy3.data() + wide.tile.inside(0), wide.kp,
                         wide.tile.row, wide.kp / lanes<T>(), cell.h, cell.w, own.data() + tap * 3 * c * wide.kp,
                         wide.kp);
          correlate<T>(input.data() + tile.inside(0), c, tile.row, c, dy1.data() + narrow.tile.inside(0), narrow.kp,
                       narrow.tile.row, narrow.kp / lanes<T>(), cell.h, cell.w, own.data() + of_wide, narrow.kp);
        }
        if (found) {
          T* to = found + i * size;
          if (given) {
            std::copy(given + i * size, given + (i + 1) * size, to);
          } else {
            std::fill(to, to + size, T(0));
          }
          for (const int64_t what : {kSkip, kAverage}) {
            if (what == kAverage && !leaving.averages) continue;
            if (what == kAverage) pooled.clear();
            for (const int64_t t : leaving.all)
              if (cell.term(t).what == what)
                add_scaled(of_sum(t) + i * size, shares[t], size, what == kSkip ? to : pooled.data());
            if (what == kAverage) pool->backward(pooled.data(), to);
          }
          if (leaving.k) {
            wide.template into<false>(dy3.data(), cell.pixels, back.data(), cp);
            if (wide.k) {
              narrow.template into<true>(dy1.data(), cell.pixels, back.data(), cp);
            } else {
              narrow.template into<false>(dy1.data(), cell.pixels, back.data(), cp);
            }
            with_vectors<T>(c, [&](auto vectors) {
              add_rectified<T, decltype(vectors)>(back.data(), cp, x + i * size, cell.pixels, c, to);
            });
          }
        }
        if (node)
          with_vectors<T>(c, [&](auto vectors) {
            add_products<T, decltype(vectors)>(cell, *sum, i, total + i * size, sums.data());
          });
      }
    });
    if (of_weights && leaving.k) {
      std::vector<T> all(of_wide + of_narrow, T(0));
      for (const auto& own : of_matrices)
        for (size_t k = 0; k < own.size(); ++k) all[k] += own[k];
      for (const int64_t t : leaving.wide) {
        auto to = dmatrices[cell.term(t).what].template accessor<T, 4>();
        for (int64_t tap = 0; tap < 9; ++tap)
          for (int64_t k = 0; k < c; ++k)
            for (int64_t o = 0; o < c; ++o)
              to[o][k][tap / 3][tap % 3] += all[(tap * c + k) * wide.kp + leaving.place[t] + o];
      }
      for (const int64_t t : leaving.narrow) {
        auto to = dmatrices[cell.term(t).what].template accessor<T, 4>();
        for (int64_t k = 0; k < c; ++k)
          for (int64_t o = 0; o < c; ++o)
            to[o][k][0][0] += all[of_wide + k * narrow.kp + leaving.place[t] - leaving.k3 + o];
      }
    }
    if (!node) continue;
    std::vector<double> all(products, 0.0);
    for (const auto& own : of_sums)
      for (size_t k = 0; k < own.size(); ++k) all[k] += own[k];
    for (int64_t i = 0; i < sum->count; ++i) {
      const int64_t t = cell.into[s][i];
      double of_weight = 0;
      const std::vector<T> zeros(cp, T(0));
      Coefficients<T> found_here{zeros, zeros, zeros, zeros};
      for (int64_t k = 0; k < c; ++k) {
        const double product = all[(i + 1) * cp + k], rstd = sum->rstd[i * cp + k], share = shares[t];
        of_weight += product;
        found_here.factor[k] = static_cast<T>(share * rstd);
        found_here.shift[k] = static_cast<T>(share * rstd * all[k] / (n * cell.pixels));
        found_here.slope[k] = static_cast<T>(share * rstd * rstd * product / (n * cell.pixels));
        found_here.mean[k] = sum->mean[i * cp + k];
      }
      dweights.template data_ptr<T>()[t] = static_cast<T>(of_weight);
      coefficients[t] = std::move(found_here);
    }
  }
  std::vector<Tensor> dxs;
  for (int64_t s = 0; s < cell.inputs; ++s) dxs.push_back(wanted[s] ? of_states[s] : at::empty({0}, xs[0].options()));
  return {dxs, dmatrices, dweights};
}

}  // namespace smallgroup
