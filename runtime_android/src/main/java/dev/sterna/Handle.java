package dev.sterna;

import java.lang.ref.PhantomReference;
import java.lang.ref.ReferenceQueue;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.logging.Logger;

/** A loaded model of the C runtime. One whose Model was forgotten is logged and unloaded; java.lang.ref.Cleaner is too new for Android 6. */
final class Handle extends PhantomReference<Model> {
  private static final ReferenceQueue<Model> FORGOTTEN = new ReferenceQueue<>();
  private static final Set<Handle> OPEN = ConcurrentHashMap.newKeySet(); // else the references would be collected themselves
  private static final Logger LOGGER = Logger.getLogger("dev.sterna");

  static {
    Thread thread = new Thread(Handle::collect, "sterna-forgotten-models");
    thread.setDaemon(true);
    thread.start();
  }

  /** 0 once it is unloaded. Whoever holds the Model holds its lock; nobody does when it is forgotten. */
  long address;

  private final String name;

  Handle(Model model, long address, String name) {
    super(model, FORGOTTEN);
    this.address = address;
    this.name = name;
    OPEN.add(this);
  }

  void unload() {
    long last = address;
    address = 0;
    OPEN.remove(this);
    if (last != 0) Natives.unload(last);
  }

  private static void collect() {
    for (; ; ) {
      try {
        Handle handle = (Handle) FORGOTTEN.remove();
        if (handle.address != 0)
          LOGGER.warning("A model was never closed: \"" + handle.name + "\". Its memory is freed now, by chance; call close().");
        handle.unload();
      } catch (InterruptedException ignored) {
        // nobody has this thread to interrupt it for a reason
      }
    }
  }
}
