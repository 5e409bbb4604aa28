import SternaC

/// An input or output of a model.
///
/// Its memory belongs to the model and is what kernels read and write: nothing is copied. Views are valid as long as the
/// model is.
public struct Tensor {
  public let name: String
  /// As in graph.json: "float32", "int8" ...; or "string".
  public let type: String
  /// The sizes of now; those that the model computes are known after a run.
  public let shape: [Int]
  public let byteCount: Int
  /// An integer q stands for `scales[i] * (q - zeroPoints[i])`: one of each, or one for every index along `axis`.
  public let scales: [Float]
  public let zeroPoints: [Int]
  public let axis: Int
  /// What every element of an output stands for, where the model says so.
  public let labels: [String]

  let model: Model
  let memory: UnsafeMutableRawPointer?

  init(_ info: sterna_tensor, model: Model, memory: UnsafeMutableRawPointer?, of texts: Set<String>?) {
    name = String(cString: info.name)
    type = texts?.contains(name) == true ? "string" : String(cString: info.dtype)
    shape = (0..<Int(info.rank)).map { Int(info.dims[$0]) }
    byteCount = Int(info.bytes)
    let count = Int(info.n_scales)
    scales = count == 0 ? [] : Array(UnsafeBufferPointer(start: info.scales, count: count))
    zeroPoints = count == 0 ? [] : UnsafeBufferPointer(start: info.zero_points, count: count).map { Int($0) }
    axis = Int(info.axis)
    var named: [String] = []
    if let found = info.labels {
      for number in 0..<Int(info.n_labels) {
        if let label = found[number] { named.append(String(cString: label)) }
      }
    }
    labels = named
    self.model = model
    self.memory = memory
  }

  /// The elements, as a type of the same size: Float for float32, Int8 for int8, UInt16 for float16 and so on.
  public func elements<Element>(_ type: Element.Type) -> UnsafeMutableBufferPointer<Element> {
    guard let start = memory else { return UnsafeMutableBufferPointer(start: nil, count: 0) }
    let count = byteCount / MemoryLayout<Element>.stride
    return UnsafeMutableBufferPointer(start: start.bindMemory(to: Element.self, capacity: count), count: count)
  }

  /// The strings of a tensor of strings: a copy, empty for any other tensor. Those of outputs are to be read before an
  /// input of strings is written again.
  public var strings: [String] {
    guard type == "string", let words = model.words else { return [] }
    return elements(Int64.self).map { words.word($0) }
  }

  /// Writes the strings of an input of strings. Those that the model does not know keep a number of their own until the
  /// input is written again.
  public func setStrings(_ strings: [String]) throws {
    guard type == "string", let words = model.words else {
      throw SternaError(code: "E0603", message: name + " is a tensor of " + type)
    }
    let to = elements(Int64.self)
    guard to.count == strings.count else {
      throw SternaError(code: "E0604", message: "\(name) has \(to.count) elements, and \(strings.count) were given")
    }
    for (place, number) in words.numbers(for: name, strings).enumerated() { to[place] = number }
  }

  /// All bytes of the memory.
  public var bytes: UnsafeMutableRawBufferPointer {
    return UnsafeMutableRawBufferPointer(start: memory, count: memory == nil ? 0 : byteCount)
  }
}
