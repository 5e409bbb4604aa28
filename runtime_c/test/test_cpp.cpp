/* sterna.hpp: test_cpp DIGITS OPEN COUNTER QUANTIZED, directories of bundles. With and without exceptions. */
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "sterna.hpp"

#if __cplusplus >= 202002L
#include <span>
#endif

namespace {

int failures = 0;

void expect(bool holds, const char *what, int line) {
  if (holds) return;
  failures++;
  std::printf("line %d: %s\n", line, what);
}
#define EXPECT(condition) expect((condition), #condition, __LINE__)

bool refused(const sterna::status &status, const char *code, const char *part) {
  const bool right = status.code() == std::string(code) && status.message().find(part) != std::string::npos;
  if (!right) std::printf("%s: %s\n", status.code(), status.message().c_str());
  return right;
}

void digits(const std::string &place) {
  static_assert(!std::is_copy_constructible_v<sterna::model> && std::is_nothrow_move_constructible_v<sterna::model>);
  sterna::model model;
  EXPECT(!model);
  EXPECT(refused(model.try_load("nowhere"), "E0503", "graph.json"));
  sterna::options two;
  two.threads = 2;
  EXPECT(model.try_load(place, two).ok());
  EXPECT(model && model.name() == std::string("digits") && model.dims().empty());
  sterna::tensor in, out;
  sterna::span<float> nothing;
  EXPECT(in.size() == 0 && in.name() == std::string() && refused(in.try_data(nothing), "E0501", "is nothing"));
  EXPECT(model.try_input(std::string("y"), in).value() == STERNA_NOT_FOUND);
  EXPECT(model.try_input(0u, in).ok() && model.try_output(0u, out).ok());
  EXPECT(in.type() == sterna::dtype::float32_ && out.size() == 10 && out.bytes() == 40 && in.labels().empty() && in.scales().empty());
  std::int64_t elements = 1;
  for (std::int64_t size : in.shape()) elements *= size;
  EXPECT(static_cast<std::size_t>(elements) == in.size());
  EXPECT(refused(model.try_input("y", in), "E0509", "no input is named \"y\""));
  EXPECT(refused(model.try_output(7, out), "E0501", "the model has 1"));
  EXPECT(model.try_input(0u, in).ok() && model.try_output(0u, out).ok());
  sterna::span<std::int32_t> wrong;
  EXPECT(refused(in.try_data(wrong), "E0501", "is float32") && wrong.empty());
  std::vector<float> x(in.size());
  for (std::size_t i = 0; i < x.size(); i++) x[i] = static_cast<float>(i * 37 % 101) / 101;
  EXPECT(in.try_assign<float>(x).ok());
  EXPECT(refused(in.try_assign<float>({x.data(), 3}), "E0501", "given: 3"));
  EXPECT(model.try_run().ok());
  sterna::span<float> scores;
  EXPECT(out.try_data(scores).ok());
  const std::vector<float> first(scores.begin(), scores.end());
#if __cplusplus >= 202002L
  const std::span<float> standard(scores);
  EXPECT(standard.size() == 10);
#endif

  /* Memory of the caller's, and back. */
  std::vector<float> mine(10), zeros(x.size());
  EXPECT(model.try_bind_input<float>(0, zeros).ok() && model.try_bind_output<float>(0, mine).ok());
  EXPECT(model.try_run().ok() && model.try_output(0u, out).ok() && out.memory() == mine.data());
  EXPECT(mine != first);
  EXPECT(refused(model.try_bind_input<float>(0, {x.data(), 3}), "E0501", "the memory has 12"));
  EXPECT(refused(model.try_bind_output<std::int32_t>(0, {reinterpret_cast<std::int32_t *>(mine.data()), 10}), "E0501", "another type"));
  zeros.clear(); /* no elements, and still a place */
  EXPECT(model.try_bind_input<float>(0, zeros).ok() && model.try_run().ok() && model.try_output(0u, out).ok());
  EXPECT(out.try_data(scores).ok() && std::equal(first.begin(), first.end(), scores.begin()));

  /* The listener and its model may move. */
  std::vector<std::string> heard;
  model.on_node([&heard](std::uint32_t, const char *name, std::uint64_t) { heard.emplace_back(name); });
  sterna::model moved = std::move(model);
  EXPECT(moved.try_run().ok() && !heard.empty());
  const std::size_t nodes = heard.size();
  std::vector<sterna::node_time> times;
  EXPECT(moved.try_profile(3, times).ok() && times.size() == nodes && heard.size() == nodes && times[0].name == heard[0]);
  EXPECT(moved.try_run().ok() && heard.size() == 2 * nodes);
  moved.on_node(nullptr);
  EXPECT(moved.try_run().ok() && heard.size() == 2 * nodes);
  /* A listener may replace itself, and leave. */
  const std::string text(100, 'x');
  std::vector<std::string> said;
  sterna::model *self = &moved;
  moved.on_node([self, text, &said](std::uint32_t, const char *, std::uint64_t) {
    self->on_node([self, text, &said](std::uint32_t, const char *, std::uint64_t) {
      self->on_node(nullptr);
      said.push_back("second " + text);
    });
    said.push_back("first " + text);
  });
  EXPECT(moved.try_run().ok() && moved.try_run().ok());
  EXPECT(said.size() == 2 && said[0] == "first " + text && said[1] == "second " + text);
  EXPECT(moved.memory().params > 0 && sterna::version() == std::string(STERNA_VERSION));
  EXPECT(moved.try_load(place).ok() && moved.try_run().ok()); /* in place of the other */
  moved = sterna::model();
  EXPECT(!moved);
}

void dimensions(const std::string &place) {
  sterna::model model;
  sterna::tensor in;
  EXPECT(model.try_load(place).ok() && model.dims().size() == 2);
  EXPECT(model.try_set_dim("batch", 2).ok() && model.try_input(0u, in).ok() && in.shape()[0] == 2);
  EXPECT(refused(model.try_set_dim("batch", 99), "E0501", "batch"));
  const std::vector<std::int64_t> sizes = {3, 7};
  EXPECT(model.try_set_dims(sizes).ok() && model.dims()[1].size == 7 && model.try_run().ok());
}

void states(const std::string &place) {
  sterna::model model;
  sterna::tensor in, out;
  EXPECT(model.try_load(place).ok() && model.try_input(0u, in).ok() && model.try_output(0u, out).ok());
  const std::vector<float> one = {1, 2};
  sterna::span<const float> sum;
  EXPECT(in.try_assign<float>(one).ok() && out.try_data(sum).ok());
  EXPECT(model.try_run().ok() && model.try_run().ok() && sum[0] == 9 && sum[1] == 11);
  EXPECT(model.try_reset_state().ok() && model.try_run().ok() && sum[0] == 8);
}

void meaning(const std::string &place) {
  sterna::model model;
  sterna::tensor in, out;
  EXPECT(model.try_load(place).ok() && model.try_input(0u, in).ok() && model.try_output(0u, out).ok());
  EXPECT(in.scales().size() == 1 && in.scales()[0] == 0.5f && in.zero_points()[0] == 3);
  EXPECT(out.labels().size() == 3 && out.labels()[2] == std::string("tern"));
  sterna::span<std::int8_t> bytes;
  EXPECT(in.try_data(bytes).ok() && bytes.size() == in.bytes());
}

#ifdef STERNA_HAS_EXCEPTIONS
void exceptions(const std::string &place) {
  try {
    sterna::model nothing("nowhere");
    EXPECT(false);
  } catch (const sterna::error &problem) {
    EXPECT(refused(problem.reason(), "E0503", "graph.json") && std::string(problem.what()).find("E0503: ") == 0);
  }
  sterna::model model(place);
  const sterna::tensor in = model.input(0u);
  in.assign(std::vector<float>(in.size(), 1.0f));
  model.run();
  EXPECT(model.output(0u).data<float>().size() == 10 && model.profile(1).size() > 1);
  model.on_node([](std::uint32_t, const char *, std::uint64_t) { throw 42; });
  int caught = 0;
  try {
    model.run();
  } catch (int number) {
    caught = number;
  }
  EXPECT(caught == 42);
  model.on_node(nullptr);
  model.run();
  try {
    (void)model.input("y");
    EXPECT(false);
  } catch (const std::exception &problem) {
    EXPECT(std::string(problem.what()).find("E0509") == 0);
  }
}
#endif

} // namespace

int main(int count, char **arguments) {
  if (count != 5) return 2;
  digits(arguments[1]);
  dimensions(arguments[2]);
  states(arguments[3]);
  meaning(arguments[4]);
#ifdef STERNA_HAS_EXCEPTIONS
  exceptions(arguments[1]);
#endif
  std::printf("%d failures\n", failures);
  return failures != 0;
}
