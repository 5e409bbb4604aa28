import SternaC

/// What the runtime refused: the code that every Sterna tool prints, such as "E0501", and what was expected and found.
public struct SternaError: Error, CustomStringConvertible {
  public let code: String
  public let message: String

  public var description: String {
    return code + ": " + message
  }

  init(code: String, message: String) {
    self.code = code
    self.message = message
  }

  init(_ record: sterna_error) {
    var record = record
    code = String(cString: sterna_status_code(record.status))
    message = withUnsafePointer(to: &record.message) { pointer in
      pointer.withMemoryRebound(to: CChar.self, capacity: 252) { String(cString: $0) }
    }
  }
}
