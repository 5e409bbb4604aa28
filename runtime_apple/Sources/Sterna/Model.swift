import SternaC

/// A model that is linked into the app. It belongs to one thread at a time; different models are independent.
public final class Model {
  let handle: OpaquePointer
  /// Of a model with tensors of strings.
  let words: Words?
  /// Where it runs: "metal", or "cpu".
  public let backend: String
  /// Why a model that has kernels for a device, which was asked for, runs on the CPU; else empty.
  public let reason: String

  /// Loads a model.
  ///
  /// - Parameters:
  ///   - linked: what the model's function `sterna_<model>_linked()` returns.
  ///   - threads: workers, including the caller; 1 makes no thread.
  ///   - device: where it runs if it has kernels for such a device, and if there is one that can.
  public init(linked: UnsafeRawPointer, threads: Int = 1, device: Device? = nil) throws {
    var options = sterna_options()
    options.size = MemoryLayout<sterna_options>.size
    options.threads = UInt32(clamping: threads)
    var problem = sterna_error()
    var loaded: OpaquePointer?
    var status = STERNA_OK
    if let device = device {
      var driver: UnsafePointer<sterna_device_api>? = device.driver
      withUnsafePointer(to: &driver) { drivers in
        options.devices = drivers
        options.n_devices = 1
        status = sterna_load_linked(linked, &options, &loaded, &problem)
      }
    } else {
      status = sterna_load_linked(linked, &options, &loaded, &problem)
    }
    guard status == STERNA_OK, let found = loaded else { throw SternaError(problem) }
    handle = found
    let refused = problem.status != STERNA_OK
    reason = refused ? SternaError(problem).description : ""
    backend = refused || !Device.serves(linked) ? "cpu" : device?.kind ?? "cpu"
    words = Words(linked: linked)
  }

  deinit {
    sterna_unload(handle)
  }

  /// The name that it was compiled under.
  public var name: String {
    return String(cString: sterna_model_name(handle))
  }

  public var inputs: [Tensor] {
    return (0..<sterna_input_count(handle)).map { input($0) }
  }

  public var outputs: [Tensor] {
    return (0..<sterna_output_count(handle)).map { output($0) }
  }

  /// The input of a number, which must be one that there is.
  public func input(_ number: UInt32) -> Tensor {
    var info = sterna_tensor()
    precondition(sterna_input_info(handle, number, &info) == STERNA_OK, "no such input")
    return Tensor(info, model: self, memory: sterna_input_buffer(handle, number), of: words?.inputs)
  }

  /// The output of a number, which must be one that there is.
  public func output(_ number: UInt32) -> Tensor {
    var info = sterna_tensor()
    precondition(sterna_output_info(handle, number, &info) == STERNA_OK, "no such output")
    return Tensor(info, model: self, memory: sterna_output_buffer(handle, number), of: words?.outputs)
  }

  /// Runs the model on what its inputs hold. It allocates nothing.
  public func run() throws {
    try check(sterna_run(handle))
  }

  /// Forgets what earlier runs left in states and caches.
  public func resetState() throws {
    try check(sterna_reset_state(handle))
  }

  /// Sets a dimension that was left open; write the inputs afterwards.
  public func setDimension(_ name: String, to size: Int) throws {
    try check(sterna_set_dim(handle, name, Int64(size)))
  }

  /// The dimensions that were left open: name, least, greatest and present size; `computed`: the model sets it, in a run.
  public var dimensions: [(name: String, least: Int, greatest: Int, size: Int, computed: Bool)] {
    return (0..<sterna_dim_count(handle)).map { number in
      var info = sterna_dim()
      precondition(sterna_dim_info(handle, number, &info) == STERNA_OK)
      return (String(cString: info.name), Int(info.lo), Int(info.hi), Int(info.size), info.computed != 0)
    }
  }

  private func check(_ status: sterna_status) throws {
    if status == STERNA_OK { return }
    if let problem = sterna_last_error(handle) { throw SternaError(problem.pointee) }
    throw SternaError(code: String(cString: sterna_status_code(status)), message: "the model failed")
  }
}
