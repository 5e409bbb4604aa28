/* Replays golden sets through sterna.hpp: golden BUNDLE DATA. DATA holds the tensors (golden.bin), standard input the steps, so that
 * no JSON is read here: "reset", "dim NAME SIZE", "in NUMBER OFFSET BYTES", "run", "out NUMBER OFFSET BYTES TOLERANCE RANK
 * SIZE ...", which tests/runtime/test_cpp.py makes of golden.json. Prints the largest error as a multiple of what is allowed. */
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "sterna.hpp"

namespace {

using bytes = std::vector<char>;

bytes read(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

template <typename T>
double difference(sterna::span<const T> got, const T *wanted) {
  double most = 0, largest = 1e-30;
  for (std::size_t i = 0; i < got.size(); i++) {
    const double a = static_cast<double>(got[i]), b = static_cast<double>(wanted[i]);
    if (!std::isfinite(b)) {
      if (!(std::isnan(b) ? std::isnan(a) : a == b)) return std::numeric_limits<double>::infinity();
      continue;
    }
    const double apart = std::fabs(a - b);
    if (std::isnan(apart)) return std::numeric_limits<double>::infinity();
    most = std::max(most, apart);
    largest = std::max(largest, std::fabs(b));
  }
  return most / largest;
}

double half(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double magnitude = exponent == 31  ? (fraction != 0 ? std::nan("") : std::numeric_limits<double>::infinity())
                           : exponent == 0 ? std::ldexp(fraction, -24)
                                           : std::ldexp(fraction + 1024, exponent - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

std::vector<double> halves(const void *memory, std::size_t count) {
  std::vector<std::uint16_t> bits(count / 2);
  if (!bits.empty()) std::memcpy(bits.data(), memory, count);
  std::vector<double> values;
  std::transform(bits.begin(), bits.end(), std::back_inserter(values), half);
  return values;
}

double compare(const sterna::tensor &got, const char *wanted) {
  if (got.type() == sterna::dtype::float16_) {
    const std::vector<double> have = halves(got.memory(), got.bytes()), want = halves(wanted, got.bytes());
    return difference(sterna::span<const double>(have.data(), have.size()), want.data());
  }
  sterna::span<const float> floats;
  if (got.try_data(floats).ok()) {
    std::vector<float> copy(floats.size());
    if (!copy.empty()) std::memcpy(copy.data(), wanted, got.bytes());
    return difference(floats, copy.data());
  }
  const bool same = got.bytes() == 0 || std::memcmp(got.memory(), wanted, got.bytes()) == 0;
  return same ? 0 : std::numeric_limits<double>::infinity();
}

/* False after a message. */
bool good(const sterna::status &status) {
  if (!status.ok()) std::fprintf(stderr, "error[%s]: %s\n", status.code(), status.message().c_str());
  return status.ok();
}

bool step(sterna::model &model, const bytes &data, const std::string &line, double &worst) {
  std::istringstream words(line);
  std::string what;
  words >> what;
  if (what == "reset") return good(model.try_reset_state());
  if (what == "run") return good(model.try_run());
  if (what == "dim") {
    std::string name;
    std::int64_t size = 0;
    words >> name >> size;
    return good(model.try_set_dim(name.c_str(), size));
  }
  std::uint32_t number = 0;
  std::size_t at = 0, count = 0;
  words >> number >> at >> count;
  sterna::tensor tensor;
  if (at + count > data.size() || !good(what == "in" ? model.try_input(number, tensor) : model.try_output(number, tensor))) return false;
  if (tensor.bytes() != count) {
    std::fprintf(stderr, "%s has %zu bytes, not %zu\n", tensor.name(), tensor.bytes(), count);
    return false;
  }
  if (what == "in") {
    if (count > 0) std::memcpy(tensor.memory(), data.data() + at, count);
    return true;
  }
  double tolerance = 0;
  std::size_t rank = 0;
  words >> tolerance >> rank;
  if (rank != tensor.shape().size()) return false;
  for (std::int64_t size : tensor.shape()) {
    std::int64_t wanted = 0;
    words >> wanted;
    if (size != wanted) return false;
  }
  worst = std::max(worst, compare(tensor, data.data() + at) / tolerance);
  return true;
}

} // namespace

int main(int count, char **arguments) {
  if (count != 3) return 2;
  const std::string place = arguments[1];
  const bytes data = read(arguments[2]);
  sterna::model model;
  if (!good(model.try_load(place))) return 1;
  double worst = 0;
  for (std::string line; std::getline(std::cin, line);)
    if (!step(model, data, line, worst)) {
      std::fprintf(stderr, "at: %s\n", line.c_str());
      return 1;
    }
  std::printf("%g\n", worst);
  return worst <= 1 ? 0 : 1;
}
