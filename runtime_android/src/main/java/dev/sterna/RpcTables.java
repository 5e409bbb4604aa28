package dev.sterna;

import java.util.List;
import java.util.Locale;

/** What TABLE of docs/rpc.md answers. */
final class RpcTables {
  private RpcTables() {}

  static byte[] table(Model model, int which) {
    switch (which) {
      case 0:
        return tensors(model.inputs());
      case 1:
        return tensors(model.outputs());
      case 2:
        return new byte[4]; // tensors between are not shown
      case 3:
        return dims(model.dims());
      case 4:
        return nodes(model);
      case 5:
        return memory(model);
      default:
        throw new RpcRefusal(RpcRefusal.MALFORMED, "TABLE asks for one that there is not");
    }
  }

  private static byte[] tensors(List<Tensor> tensors) {
    RpcWriter to = new RpcWriter().u32(tensors.size());
    for (Tensor tensor : tensors) {
      long[] shape = tensor.shape();
      to.text(tensor.name()).text(tensor.type().name().toLowerCase(Locale.ROOT)).u32(shape.length);
      for (long size : shape) to.u64(size);
      to.u64(tensor.buffer().remaining());
      Quantization known = tensor.quantization();
      float[] scales = known == null ? new float[0] : known.scales();
      int[] zeroPoints = known == null ? new int[0] : known.zeroPoints();
      to.u32(scales.length).u32(known == null ? 0 : known.axis);
      for (float scale : scales) to.f32(scale);
      for (int zeroPoint : zeroPoints) to.u32(zeroPoint);
      to.u32(tensor.labels().size());
      for (String label : tensor.labels()) to.text(label);
    }
    return to.made();
  }

  private static byte[] dims(List<Dim> dims) {
    RpcWriter to = new RpcWriter().u32(dims.size());
    for (Dim dim : dims) to.text(dim.name).u64(dim.lo).u64(dim.hi).u64(dim.size).u32(dim.computed ? 1 : 0);
    return to.made();
  }

  private static byte[] nodes(Model model) {
    synchronized (model.lock) {
      int count = Natives.nodeCount(model.address());
      RpcWriter to = new RpcWriter().u32(count);
      int[] tasks = new int[1];
      for (int i = 0; i < count; i++) {
        byte[][] names = Natives.node(model.address(), i, tasks);
        to.text(Json.text(names[0])).text(Json.text(names[1])).u32(tasks[0]);
      }
      return to.made();
    }
  }

  private static byte[] memory(Model model) {
    RpcWriter to = new RpcWriter();
    for (long bytes : model.memory()) to.u64(bytes);
    return to.made();
  }
}
