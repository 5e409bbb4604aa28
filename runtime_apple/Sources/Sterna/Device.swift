import SternaC

/// What drives a kind of device that models may have kernels for.
public struct Device {
  let kind: String
  let driver: UnsafePointer<sterna_device_api>

  /// The system's GPU; nothing is opened before a model is loaded.
  public static var metal: Device? {
    guard let driver = sterna_metal() else { return nil }
    return Device(kind: "metal", driver: driver)
  }

  /// Whether a linked model has kernels for a device.
  static func serves(_ linked: UnsafeRawPointer) -> Bool {
    let record = linked.assumingMemoryBound(to: sterna_linked.self)
    return record.pointee.size >= MemoryLayout<sterna_linked>.size && record.pointee.device != nil
  }
}
