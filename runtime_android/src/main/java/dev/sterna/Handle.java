package dev.sterna;

import java.lang.ref.PhantomReference;
import java.lang.ref.ReferenceQueue;
import java.util.Collections;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.logging.Logger;

/** A loaded model of the C runtime. One whose Model was forgotten is logged and unloaded; java.lang.ref.Cleaner is too new for Android 6. */
final class Handle extends PhantomReference<Model> {
  private static final ReferenceQueue<Model> FORGOTTEN = new ReferenceQueue<>();
  private static final Set<Handle> OPEN = Collections.newSetFromMap(new ConcurrentHashMap<Handle, Boolean>()); // else the references would be collected themselves
  private static final Logger LOGGER = Logger.getLogger("dev.sterna");

  static {
    Thread thread = new Thread("sterna-forgotten-models") { // no lambda: that takes a newer Android, or rewritten classes
      @Override
      public void run() {
        collect();
      }
    };
    thread.setDaemon(true);
    thread.start();
  }

  /** 0 once it is unloaded. Only whoever holds the lock reads or writes it. */
  long address;

  private final String name;
  private final Object lock; // a native function may still run when nothing refers to its Model any more
  private Object memory; // that the model reads: it has to outlive such a function too

  Handle(Model model, long address, String name, Object memory) {
    super(model, FORGOTTEN);
    this.memory = memory;
    this.address = address;
    this.name = name;
    lock = model.lock;
    OPEN.add(this);
  }

  /** The caller holds the lock. */
  void unload() {
    OPEN.remove(this);
    if (address != 0) Natives.unload(address);
    address = 0;
    memory = null;
  }

  private static void collect() {
    for (; ; ) {
      try {
        Handle handle = (Handle) FORGOTTEN.remove();
        synchronized (handle.lock) {
          if (handle.address == 0) continue;
          handle.unload();
        }
        LOGGER.warning("A model was never closed: \"" + handle.name + "\". Its memory was freed now, by chance; call close().");
      } catch (InterruptedException | RuntimeException ignored) {
        // nobody has a reason to interrupt this thread, and a logger that fails must not end it
      }
    }
  }
}
