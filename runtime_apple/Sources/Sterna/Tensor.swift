import SternaC

/// An input or output of a model.
///
/// Its memory belongs to the model and is what kernels read and write: nothing is copied. Views are valid as long as the
/// model is.
public struct Tensor {
  public let name: String
  /// As in graph.json: "float32", "int8" ...
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

  init(_ info: sterna_tensor, model: Model, memory: UnsafeMutableRawPointer?) {
    name = String(cString: info.name)
    type = String(cString: info.dtype)
    shape = (0..<Int(info.rank)).map { Int(info.dims[$0]) }
    byteCount = Int(info.bytes)
    let count = Int(info.n_scales)
    scales = count == 0 ? [] : Array(UnsafeBufferPointer(start: info.scales, count: count))
    zeroPoints = count == 0 ? [] : UnsafeBufferPointer(start: info.zero_points, count: count).map { Int($0) }
    axis = Int(info.axis)
    var texts: [String] = []
    if let found = info.labels {
      for number in 0..<Int(info.n_labels) {
        if let label = found[number] { texts.append(String(cString: label)) }
      }
    }
    labels = texts
    self.model = model
    self.memory = memory
  }

  /// The elements, as a type of the same size: Float for float32, Int8 for int8, UInt16 for float16 and so on.
  public func elements<Element>(_ type: Element.Type) -> UnsafeMutableBufferPointer<Element> {
    guard let start = memory else { return UnsafeMutableBufferPointer(start: nil, count: 0) }
    let count = byteCount / MemoryLayout<Element>.stride
    return UnsafeMutableBufferPointer(start: start.bindMemory(to: Element.self, capacity: count), count: count)
  }

  /// All bytes of the memory.
  public var bytes: UnsafeMutableRawBufferPointer {
    return UnsafeMutableRawBufferPointer(start: memory, count: memory == nil ? 0 : byteCount)
  }
}
