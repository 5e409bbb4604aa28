import Foundation

/// Replays the golden sets of a bundle: inputs, and the outputs that a reference gave for them.
///
/// `sterna compile MODEL --golden` writes `golden.json` and `golden.bin`; a test of an app takes them from its resources.
public struct Golden {
  struct Row: Decodable {
    let name: String
    let dtype: String
    let dims: [Int]
    let offset: Int?
    let bytes: Int?
    let strings: [String]?
    let tolerance: Double?
  }

  struct Record: Decodable {
    let inputs: [Row]
    let outputs: [Row]
  }

  struct File: Decodable {
    let tolerance: Double
    let sets: [Record]
  }

  private let file: File
  private let data: [UInt8]

  public init(json: Data, binary: Data) throws {
    file = try JSONDecoder().decode(File.self, from: json)
    data = [UInt8](binary)
  }

  /// How many sets there are.
  public var count: Int {
    return file.sets.count
  }

  /// Runs every set and says what differs: nothing, if all is well. Floats may differ by the tolerance times the output's
  /// largest magnitude, everything else is equal.
  public func replay(_ model: Model) throws -> [String] {
    var wrong: [String] = []
    for (number, set) in file.sets.enumerated() {
      try setSizes(model, set.inputs)
      try model.resetState()
      for row in set.inputs {
        guard let tensor = model.inputs.first(where: { $0.name == row.name }), tensor.shape == row.dims,
          fits(row, tensor)
        else {
          wrong.append("set \(number): the input \(row.name) does not fit")
          continue
        }
        if let words = row.strings {
          try tensor.setStrings(words)
        } else if let given = slice(row) {
          tensor.bytes.copyBytes(from: given)
        }
      }
      try model.run()
      for row in set.outputs {
        guard let tensor = model.outputs.first(where: { $0.name == row.name }), tensor.shape == row.dims,
          fits(row, tensor)
        else {
          wrong.append("set \(number): the output \(row.name) does not fit")
          continue
        }
        if !same(tensor, row) {
          wrong.append("set \(number): the output \(row.name) differs")
        }
      }
    }
    return wrong
  }

  /// Sets open dimensions to the sizes of a set's inputs. Which sizes follow a dimension is found by making it one larger.
  private func setSizes(_ model: Model, _ inputs: [Row]) throws {
    let open = model.dimensions.filter { !$0.computed && $0.least < $0.greatest }
    for dimension in open { try model.setDimension(dimension.name, to: dimension.least) }
    var found = open.map { $0.least }
    let before = shapes(model)
    for (number, dimension) in open.enumerated() {
      try model.setDimension(dimension.name, to: dimension.least + 1)
      let after = shapes(model)
      try model.setDimension(dimension.name, to: dimension.least)
      for row in inputs {
        guard let small = before[row.name], let large = after[row.name], row.dims.count == small.count else { continue }
        for (axis, size) in row.dims.enumerated() where size >= 0 && large[axis] == small[axis] + 1 {
          found[number] = size - small[axis] + dimension.least
        }
      }
    }
    for (number, dimension) in open.enumerated() { try model.setDimension(dimension.name, to: found[number]) }
  }

  private func shapes(_ model: Model) -> [String: [Int]] {
    var shapes: [String: [Int]] = [:]
    for input in model.inputs { shapes[input.name] = input.shape }
    return shapes
  }

  private func slice(_ row: Row) -> ArraySlice<UInt8>? {
    guard let offset = row.offset, let count = row.bytes, (0...data.count).contains(count),
      (0...(data.count - count)).contains(offset)
    else { return nil }
    return data[offset..<(offset + count)]
  }

  /// Whether a row has as many elements as its tensor.
  private func fits(_ row: Row, _ tensor: Tensor) -> Bool {
    if tensor.type == "string" { return row.strings?.count == tensor.elements(Int64.self).count }
    return slice(row)?.count == tensor.byteCount
  }

  private func same(_ tensor: Tensor, _ row: Row) -> Bool {
    let wanted = [UInt8](slice(row) ?? [])
    let tolerance = max(row.tolerance ?? 0, file.tolerance)
    switch tensor.type {
    case "string":
      return tensor.strings.map { Array($0.utf8) } == (row.strings ?? []).map { Array($0.utf8) }
    case "float32":
      let made = Array(tensor.elements(Float.self)).map { Double($0) }
      let expected = wanted.withUnsafeBytes { raw in Array(raw.bindMemory(to: Float.self)).map { Double($0) } }
      return near(made, expected, tolerance)
    case "float64":
      let made = Array(tensor.elements(Double.self))
      let expected = wanted.withUnsafeBytes { raw in Array(raw.bindMemory(to: Double.self)) }
      return near(made, expected, tolerance)
    case "float16", "bfloat16":
      let half = tensor.type == "float16"
      let made = Array(tensor.elements(UInt16.self)).map { Golden.widened($0, half: half) }
      let expected = wanted.withUnsafeBytes { raw in
        Array(raw.bindMemory(to: UInt16.self)).map { Golden.widened($0, half: half) }
      }
      return near(made, expected, tolerance)
    default:
      return Array(tensor.bytes) == wanted
    }
  }

  private func near(_ made: [Double], _ expected: [Double], _ tolerance: Double) -> Bool {
    let finite = expected.filter { $0.isFinite }.map { abs($0) }
    let most = tolerance * (finite.max() ?? 0)
    return zip(made, expected).allSatisfy { pair in
      pair.0 == pair.1 || (pair.0.isNaN && pair.1.isNaN) || abs(pair.0 - pair.1) <= most
    }
  }

  /// The number that 16 bits stand for.
  static func widened(_ bits: UInt16, half: Bool) -> Double {
    if !half { return Double(Float(bitPattern: UInt32(bits) << 16)) }
    let sign = bits & 0x8000 == 0 ? 1.0 : -1.0
    let exponent = Int(bits >> 10 & 0x1f)
    let fraction = Double(bits & 0x3ff)
    if exponent == 31 { return fraction == 0 ? sign * Double.infinity : Double.nan }
    if exponent == 0 { return sign * fraction * 0x1p-24 }
    var value = sign * (1 + fraction / 1024)
    for _ in 0..<abs(exponent - 15) { value = exponent > 15 ? value * 2 : value / 2 }
    return value
  }
}
