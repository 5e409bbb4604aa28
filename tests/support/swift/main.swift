// Replays the golden sets of bundles, and uses the classes of packaged models: program FOLDER=MODEL ...
import DigitsModel
import Foundation
import LabelsModel
import Sterna
import TestBundle

func file(_ path: String) throws -> Data {
  return try Data(contentsOf: URL(fileURLWithPath: path))
}

func refused(_ code: String, _ body: () throws -> Void) -> Bool {
  do { try body() } catch let problem as SternaError { return problem.code == code } catch {}
  return false
}

for argument in CommandLine.arguments.dropFirst() {
  let words = argument.components(separatedBy: "=")
  let model = try Model(linked: bundle_linked(words[0], words[1])!, threads: 2)
  let golden = try Golden(json: file(words[0] + "/golden.json"), binary: file(words[0] + "/golden.bin"))
  let wrong = try golden.replay(model)
  print("\(words[0]): \(golden.count) sets, \(wrong.count) wrong \(wrong)")
}

let digits = try Digits()
for number in 0..<digits.inputImage.count { digits.inputImage[number] = Float(number % 17) / 17 }
try digits.run()
let best = digits.outputScoresBest
precondition(digits.outputScores[best] == digits.outputScores.max())
precondition(digits.inputImageTensor.shape == [1, 1, 28, 28] || digits.inputImage.count == digits.inputImageTensor.shape.reduce(1, *))
precondition(digits.inputImageTensor.type == "float32" && digits.inputImageTensor.strings.isEmpty)
precondition(refused("E0603") { try digits.inputImageTensor.setStrings(["tern"]) })

let labels = try Labels(threads: 2)
// The two forms of é are equal in Swift, and two strings for the model.
let given = ["tern", "kiwi", "caf\u{e9}", "cafe\u{301}"]
try labels.inputXFill(strings: given)
try labels.run()
precondition(labels.outputGroup == ["Sternidae", "?", "?", "?"])
precondition(Array(labels.outputNumber) == [7, -1, -1, -1])
precondition(labels.outputSame.map { Array($0.utf8) } == given.map { Array($0.utf8) })
for round in 0..<1000 {
  try labels.inputXFill(strings: (0..<4).map { "bird \(round) \($0)" })
  try labels.run()
  precondition(labels.outputSame == (0..<4).map { "bird \(round) \($0)" })
  precondition(labels.outputSameTensor.elements(Int64.self).max()! < 20, "numbers are used again")
}
precondition(refused("E0604") { try labels.inputXFill(strings: ["tern"]) })
print("classes: 0 wrong")
