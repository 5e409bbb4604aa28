import Foundation
import SternaC

/// The numbers of the strings that a model knows, and of others that its inputs hold now.
///
/// Strings are compared by their bytes: Swift holds some to be equal that the model tells apart.
final class Words {
  private struct Table: Decodable {
    let strings: [String]
    let inputs: [String]
    let outputs: [String]
  }

  let inputs: Set<String>
  let outputs: Set<String>
  private let known: [String]
  private var numbers: [[UInt8]: Int64] = [:]
  private var others: [Int64: String] = [:]
  /// By input, which numbers of `others` it holds.
  private var held: [String: Set<Int64>] = [:]

  /// The table of a linked model; nil if it has no strings.
  init?(linked: UnsafeRawPointer) {
    guard linked.load(as: Int.self) >= MemoryLayout<sterna_linked>.size else { return nil }
    let record = linked.load(as: sterna_linked.self)
    guard let text = record.strings,
      let table = try? JSONDecoder().decode(Table.self, from: Data(bytes: text, count: Int(record.strings_bytes)))
    else { return nil }
    known = table.strings
    inputs = Set(table.inputs)
    outputs = Set(table.outputs)
    for (number, word) in known.enumerated() { numbers[Array(word.utf8)] = Int64(number) }
  }

  /// The string of a number; the empty one, if none has it.
  func word(_ number: Int64) -> String {
    if number >= 0 && number < known.count { return known[Int(number)] }
    return others[number] ?? ""
  }

  /// The numbers of what an input holds from now on. Those that only it needed until now are free.
  func numbers(for input: String, _ given: [String]) -> [Int64] {
    held[input] = []
    let needed = Set(held.values.joined())
    for (number, word) in others where !needed.contains(number) {
      others[number] = nil
      numbers[Array(word.utf8)] = nil
    }
    var next = Int64(known.count)
    return given.map { word in
      let key = Array(word.utf8)
      if numbers[key] == nil {
        while others[next] != nil { next += 1 }
        numbers[key] = next
        others[next] = word
      }
      let number = numbers[key] ?? next
      if number >= known.count { held[input, default: []].insert(number) }
      return number
    }
  }
}
