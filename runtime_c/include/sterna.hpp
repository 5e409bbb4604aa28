/* The C runtime for C++17: owners, spans and typed access over sterna.h; a header and nothing else.
 *
 *   sterna::model model("mobilenet");
 *   auto image = model.input("image").data<float>();      // the memory that kernels read: no copy
 *   std::copy(pixels.begin(), pixels.end(), image.begin());
 *   model.run();
 *   for (float score : model.output("scores").data<float>()) ...
 *
 * What the runtime refuses is thrown as a sterna::error. Every such function has a twin named try_..., which returns a
 * sterna::status instead; with -fno-exceptions these are the only ones. The rules of sterna.h hold: a model belongs to one
 * thread at a time, and running it takes no memory. */
#ifndef STERNA_HPP
#define STERNA_HPP

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "sterna.h"

#if defined(__cpp_exceptions) || defined(__EXCEPTIONS) || defined(_CPPUNWIND)
#define STERNA_HAS_EXCEPTIONS 1
#include <exception>
#include <stdexcept>
#endif

namespace sterna {

/* Success, or what went wrong: code() and message() are the C runtime's. */
class [[nodiscard]] status {
 public:
  status() noexcept = default;
  status(sterna_status value, std::string message) : value_(value), message_(std::move(message)) {}
  explicit status(const sterna_error &error) : status(error.status, error.message) {}

  bool ok() const noexcept { return value_ == STERNA_OK; }
  explicit operator bool() const noexcept { return ok(); }
  sterna_status value() const noexcept { return value_; }
  const char *code() const noexcept { return sterna_status_code(value_); }
  const std::string &message() const noexcept { return message_; }

 private:
  sterna_status value_ = STERNA_OK;
  std::string message_;
};

#ifdef STERNA_HAS_EXCEPTIONS
/* A status that is no success. */
class error : public std::runtime_error {
 public:
  explicit error(const status &reason)
      : std::runtime_error(std::string(reason.code()) + ": " + reason.message()), reason_(std::make_shared<status>(reason)) {}
  const status &reason() const noexcept { return *reason_; }

 private:
  std::shared_ptr<const status> reason_; /* exceptions are copied, which must not throw */
};

inline void check(const status &result) {
  if (!result.ok()) throw error(result);
}
#endif

/* Elements in a row that someone else owns; of C++20's std::span what is needed, and such a span can be made of it. */
template <typename T>
class span {
 public:
  using element_type = T;
  using value_type = std::remove_cv_t<T>;
  using iterator = T *;

  constexpr span() noexcept = default;
  constexpr span(T *data, std::size_t size) noexcept : data_(data), size_(size) {}
  /* Of a container such as std::vector or std::array. */
  template <typename C, typename = std::enable_if_t<std::is_convertible_v<decltype(std::declval<C &>().data()), T *>>>
  constexpr span(C &container) noexcept : data_(container.data()), size_(container.size()) {}

  constexpr T *data() const noexcept { return data_; }
  constexpr std::size_t size() const noexcept { return size_; }
  constexpr std::size_t size_bytes() const noexcept { return size_ * sizeof(T); }
  constexpr bool empty() const noexcept { return size_ == 0; }
  constexpr T &operator[](std::size_t index) const noexcept { return data_[index]; }
  constexpr T *begin() const noexcept { return data_; }
  constexpr T *end() const noexcept { return data_ + size_; }

 private:
  T *data_ = nullptr;
  std::size_t size_ = 0;
};

enum class dtype : std::uint32_t {
#define STERNA_DTYPE_ENUM(name, value, bytes) name##_ = (value),
  STERNA_DTYPES(STERNA_DTYPE_ENUM)
#undef STERNA_DTYPE_ENUM
};

inline std::size_t bytes_of(dtype type) noexcept {
  switch (type) {
#define STERNA_DTYPE_BYTES(name, value, bytes) \
  case dtype::name##_:                         \
    return (bytes);
    STERNA_DTYPES(STERNA_DTYPE_BYTES)
#undef STERNA_DTYPE_BYTES
  }
  return 0;
}

/* Whether elements of a type are held in T: floats in float and double, bool in bool and std::uint8_t, integers in those of their
 * width and sign; types that C++ lacks (float16, float8, int4 ...) in the unsigned integers of their width. */
template <typename T>
bool holds(dtype type) noexcept {
  using U = std::remove_cv_t<T>;
  if (sizeof(U) != bytes_of(type)) return false;
  switch (type) {
    case dtype::float32_:
    case dtype::float64_:
      return std::is_floating_point_v<U>;
    case dtype::int8_:
    case dtype::int16_:
    case dtype::int32_:
    case dtype::int64_:
    case dtype::int4_:
    case dtype::int2_:
      return std::is_integral_v<U> && std::is_signed_v<U>;
    case dtype::bool_:
      return std::is_same_v<U, bool> || std::is_same_v<U, std::uint8_t>;
    default:
      return std::is_integral_v<U> && std::is_unsigned_v<U> && !std::is_same_v<U, bool>;
  }
}

struct options {
  std::uint32_t threads = 1;                     /* counts the caller */
  const sterna_allocator *allocator = nullptr;   /* copied */
  /* What drives devices beside the CPU, such as sterna_opencl() of sterna_opencl.h. */
  std::vector<const sterna_device_api *> devices{};
  std::string device_cache{}; /* a folder of this user alone for what drivers compile; empty: nothing is kept */
};

struct node_time {
  std::string name, kernel;
  std::uint32_t tasks;
  std::uint64_t nanoseconds; /* the mean of the runs */
};

/* An input or output: what it is at this moment, and its memory. Valid as long as the model; sizes that change are seen by asking
 * the model again. One that no model has filled in has no name, no elements, and a type that nothing holds. */
class tensor {
 public:
  const char *name() const noexcept { return info_.name; }
  dtype type() const noexcept { return static_cast<dtype>(info_.dtype_code); }
  span<const std::int64_t> shape() const noexcept { return {info_.dims, info_.rank}; }
  std::size_t bytes() const noexcept { return info_.bytes; }
  std::size_t size() const noexcept { return info_.bytes > 0 ? info_.bytes / bytes_of(type()) : 0; }
  /* An integer q stands for scale * (q - zero_point): one of each, or one for every index along axis(); none if unknown. */
  span<const float> scales() const noexcept { return {info_.scales, info_.n_scales}; }
  span<const std::int32_t> zero_points() const noexcept { return {info_.zero_points, info_.n_scales}; }
  std::uint32_t axis() const noexcept { return info_.axis; }
  span<const char *const> labels() const noexcept { return {info_.labels, info_.n_labels}; }

  /* Its memory: the runtime's, or what is bound. Nothing is copied. */
  void *memory() const noexcept { return memory_; }

  /* The elements, in the memory that kernels use. */
  template <typename T>
  status try_data(span<T> &out) const {
    out = {};
    if (!holds<T>(type())) return {STERNA_BAD_ARGUMENT, quoted() + " is " + info_.dtype + ", which this type does not hold"};
    out = {static_cast<T *>(memory_), size()};
    return {};
  }

  /* Copies as many elements as there are. */
  template <typename T>
  status try_assign(span<const T> values) const {
    span<T> to;
    if (status got = try_data(to); !got.ok()) return got;
    if (values.size() != to.size())
      return {STERNA_BAD_ARGUMENT,
              quoted() + " has " + std::to_string(to.size()) + " elements; given: " + std::to_string(values.size())};
    if (!values.empty()) std::memcpy(to.data(), values.data(), values.size_bytes());
    return {};
  }

#ifdef STERNA_HAS_EXCEPTIONS
  template <typename T>
  span<T> data() const {
    span<T> out;
    check(try_data(out));
    return out;
  }
  template <typename C>
  void assign(const C &values) const {
    check(try_assign(span<const typename C::value_type>(values)));
  }
#endif

 private:
  friend class model;
  std::string quoted() const { return std::string("\"") + info_.name + "\""; }

  static sterna_tensor no_info() noexcept {
    sterna_tensor info{};
    info.name = "";
    info.dtype = "nothing";
    return info;
  }

  sterna_tensor info_ = no_info();
  void *memory_ = nullptr;
};

/* A loaded model, owned; it can be moved and not copied. One that was moved from, or never loaded, may be assigned to, asked
 * whether it is there, and destroyed. */
class model {
 public:
  /* Of a node that is done: its number, its name, nanoseconds. */
  using listener = std::function<void(std::uint32_t, const char *, std::uint64_t)>;

  model() noexcept = default;
  explicit operator bool() const noexcept { return handle_ != nullptr; }
  /* The C runtime's model; stays this one's. */
  sterna_model *get() const noexcept { return handle_.get(); }

  /* Loads the bundle in a directory, in place of what this model was. */
  status try_load(const std::string &directory, const options &how = {}) {
    const sterna_options raw = raw_options(how);
    sterna_model *loaded = nullptr;
    sterna_error failure;
    const sterna_status result = sterna_load(directory.c_str(), &raw, &loaded, &failure);
    return take(result, loaded, failure);
  }

  /* Loads from memory, with kernels that are linked into the program: sterna_load_table. `params` must outlive the model. */
  status try_load(span<const std::byte> graph, span<const std::byte> params, const sterna_library *library,
                  const options &how = {}) {
    const sterna_options raw = raw_options(how);
    sterna_model *loaded = nullptr;
    sterna_error failure;
    const sterna_status result = sterna_load_table(graph.data(), graph.size(), params.data(), params.size(), library, &raw,
                                                   &loaded, &failure);
    return take(result, loaded, failure);
  }

  status try_run() {
    const status result = of(sterna_run(get()));
#ifdef STERNA_HAS_EXCEPTIONS
    if (told_ && told_->thrown) std::rethrow_exception(std::exchange(told_->thrown, nullptr));
#endif
    return result;
  }

  status try_reset_state() { return of(sterna_reset_state(get())); }
  status try_set_dim(const char *name, std::int64_t size) { return of(sterna_set_dim(get(), name, size)); }
  status try_set_dims(span<const std::int64_t> sizes) {
    return of(sterna_set_dims(get(), sizes.data(), static_cast<std::uint32_t>(sizes.size())));
  }

  std::uint32_t input_count() const noexcept { return sterna_input_count(get()); }
  std::uint32_t output_count() const noexcept { return sterna_output_count(get()); }

  status try_input(std::uint32_t index, tensor &out) const {
    return fill(index, out, sterna_input_info, sterna_input_buffer, inputs_);
  }
  status try_output(std::uint32_t index, tensor &out) const {
    return fill(index, out, sterna_output_info, sterna_output_buffer, outputs_);
  }
  status try_input(const char *name, tensor &out) const {
    const std::int32_t index = sterna_find_input(get(), name);
    return index < 0 ? missing("input", name) : try_input(static_cast<std::uint32_t>(index), out);
  }
  status try_input(const std::string &name, tensor &out) const { return try_input(name.c_str(), out); }
  status try_output(const char *name, tensor &out) const {
    const std::int32_t index = sterna_find_output(get(), name);
    return index < 0 ? missing("output", name) : try_output(static_cast<std::uint32_t>(index), out);
  }

  status try_output(const std::string &name, tensor &out) const { return try_output(name.c_str(), out); }

  /* Lets every following run read the caller's memory: aligned to its elements, at least as long as the tensor whatever its sizes
   * become, and alive until the next bind or the model's end. No elements: the runtime's own memory again. */
  template <typename T>
  status try_bind_input(std::uint32_t index, span<const T> memory) {
    tensor info;
    if (status got = try_input(index, info); !got.ok()) return got;
    if (status got = fits<T>(info, memory.size_bytes()); !got.ok()) return got;
    /* What inputs_ gives out as writable is the caller's own memory, to which they may write or not. */
    auto *place = memory.empty() ? nullptr : const_cast<std::remove_cv_t<T> *>(memory.data());
    return keep(sterna_bind_input(get(), index, place), inputs_, index, place);
  }
  /* The same of an output, which is written: it must not overlap any other tensor's memory. */
  template <typename T>
  status try_bind_output(std::uint32_t index, span<T> memory) {
    tensor info;
    if (status got = try_output(index, info); !got.ok()) return got;
    if (status got = fits<T>(info, memory.size_bytes()); !got.ok()) return got;
    T *place = memory.empty() ? nullptr : memory.data();
    return keep(sterna_bind_output(get(), index, place), outputs_, index, place);
  }

  /* Calls `heard` after every node of the following runs, within try_run; what it throws comes out of that. Empty: no more. A
   * listener may replace itself: the other one hears of the next node. */
  void on_node(listener heard) {
    if (told_ && told_->talking) {
      told_->next = std::move(heard);
      return;
    }
    told_ = heard ? std::make_unique<telling>(telling{std::move(heard)}) : nullptr;
    sterna_set_on_node(get(), told_ ? &model::tell : nullptr, told_.get());
  }

  /* Runs some times on what the inputs hold; a listener is not told. */
  status try_profile(unsigned runs, std::vector<node_time> &out) {
    out.clear();
    std::vector<std::uint64_t> totals(sterna_node_count(get()));
    sterna_set_on_node(get(), &model::add, totals.data());
    status result;
    for (unsigned n = 0; n < runs && result.ok(); n++) result = of(sterna_run(get()));
    sterna_set_on_node(get(), told_ ? &model::tell : nullptr, told_.get());
    if (!result.ok()) return result;
    for (std::uint32_t n = 0; n < totals.size(); n++) {
      sterna_node info;
      if (sterna_node_info(get(), n, &info) == STERNA_OK)
        out.push_back({info.name, info.kernel, info.tasks, totals[n] / (runs > 0 ? runs : 1)});
    }
    return {};
  }

  /* Dimensions that were left open, first those that the caller sets. */
  std::vector<sterna_dim> dims() const {
    std::vector<sterna_dim> found(sterna_dim_count(get()));
    for (std::uint32_t n = 0; n < found.size(); n++) (void)sterna_dim_info(get(), n, &found[n]);
    return found;
  }
  sterna_memory memory() const noexcept {
    sterna_memory info{};
    (void)sterna_memory_info(get(), &info);
    return info;
  }
  const char *name() const noexcept { return sterna_model_name(get()); }

#ifdef STERNA_HAS_EXCEPTIONS
  explicit model(const std::string &directory, const options &how = {}) { check(try_load(directory, how)); }
  model(span<const std::byte> graph, span<const std::byte> params, const sterna_library *library, const options &how = {}) {
    check(try_load(graph, params, library, how));
  }
  void run() { check(try_run()); }
  void reset_state() { check(try_reset_state()); }
  void set_dim(const char *name, std::int64_t size) { check(try_set_dim(name, size)); }
  void set_dims(span<const std::int64_t> sizes) { check(try_set_dims(sizes)); }
  template <typename Which>
  tensor input(const Which &which) const {
    tensor found;
    check(try_input(which, found));
    return found;
  }
  template <typename Which>
  tensor output(const Which &which) const {
    tensor found;
    check(try_output(which, found));
    return found;
  }
  template <typename T>
  void bind_input(std::uint32_t index, span<const T> memory) {
    check(try_bind_input(index, memory));
  }
  template <typename T>
  void bind_output(std::uint32_t index, span<T> memory) {
    check(try_bind_output(index, memory));
  }
  std::vector<node_time> profile(unsigned runs) {
    std::vector<node_time> times;
    check(try_profile(runs, times));
    return times;
  }
#endif

 private:
  struct unload {
    void operator()(sterna_model *loaded) const noexcept { sterna_unload(loaded); }
  };
  /* At one address, wherever the model is moved to. */
  struct telling {
    listener heard;
    std::optional<listener> next{}; /* comes in its place, once it has returned */
    bool talking = false;
#ifdef STERNA_HAS_EXCEPTIONS
    std::exception_ptr thrown{};
#endif
  };

  static void tell(void *user, std::uint32_t node, const char *name, std::uint64_t nanoseconds) {
    auto *told = static_cast<telling *>(user);
#ifdef STERNA_HAS_EXCEPTIONS
    if (told->thrown) return;
#endif
    if (!told->heard) return;
    told->talking = true;
#ifdef STERNA_HAS_EXCEPTIONS
    try {
      told->heard(node, name, nanoseconds);
    } catch (...) {
      told->thrown = std::current_exception(); /* it must not pass through C */
    }
#else
    told->heard(node, name, nanoseconds);
#endif
    told->talking = false;
    if (told->next) told->heard = *std::exchange(told->next, std::nullopt);
  }
  static void add(void *user, std::uint32_t node, const char *, std::uint64_t nanoseconds) {
    static_cast<std::uint64_t *>(user)[node] += nanoseconds;
  }

  static sterna_options raw_options(const options &how) noexcept {
    sterna_options raw{};
    raw.size = sizeof raw;
    raw.threads = how.threads;
    raw.allocator = how.allocator;
    raw.devices = how.devices.data();
    raw.n_devices = static_cast<std::uint32_t>(how.devices.size());
    raw.device_cache = how.device_cache.empty() ? nullptr : how.device_cache.c_str();
    return raw;
  }

  status take(sterna_status result, sterna_model *loaded, const sterna_error &failure) {
    if (result != STERNA_OK) return status(failure);
    std::unique_ptr<sterna_model, unload> fresh(loaded); /* freed if there is no memory for what follows */
    std::vector<void *> inputs(sterna_input_count(loaded)), outputs(sterna_output_count(loaded));
    handle_ = std::move(fresh);
    inputs_ = std::move(inputs);
    outputs_ = std::move(outputs);
    told_.reset();
    return {};
  }

  status of(sterna_status result) const {
    return result == STERNA_OK ? status() : status(*sterna_last_error(get()));
  }
  status missing(const char *what, const char *name) const {
    return {STERNA_NOT_FOUND, std::string("no ") + what + " is named \"" + name + "\""};
  }

  template <typename Info, typename Buffer>
  status fill(std::uint32_t index, tensor &out, Info info, Buffer buffer, const std::vector<void *> &bound) const {
    if (status got = of(info(get(), index, &out.info_)); !got.ok()) return got;
    out.memory_ = bound[index] != nullptr ? bound[index] : buffer(get(), index);
    return {};
  }

  template <typename T>
  static status fits(const tensor &info, std::size_t bytes) {
    if (bytes == 0) return {};
    if (!holds<T>(info.type()))
      return {STERNA_BAD_ARGUMENT, std::string("\"") + info.name() + "\": memory of another type"};
    if (bytes < info.bytes())
      return {STERNA_BAD_ARGUMENT, std::string("\"") + info.name() + "\" has " + std::to_string(info.bytes()) +
                                       " bytes; the memory has " + std::to_string(bytes)};
    return {};
  }
  status keep(sterna_status result, std::vector<void *> &bound, std::uint32_t index, void *memory) {
    if (result == STERNA_OK) bound[index] = memory;
    return of(result);
  }

  std::unique_ptr<telling> told_; /* outlives the model, which may call it */
  std::unique_ptr<sterna_model, unload> handle_;
  std::vector<void *> inputs_, outputs_; /* what is bound; null for the runtime's own */
};

inline const char *version() noexcept { return sterna_version(); }

} // namespace sterna
#endif
