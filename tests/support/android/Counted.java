import dev.sterna.Model;
import java.nio.file.Path;

/** Runs models some times between markers: the system call getppid, which a JVM makes when it is asked for its parent. */
class Counted {
  private static final int PARTS = 5;

  /** Of every model: its bundle, how often it runs before it is counted, and in a part. */
  public static void main(String[] arguments) {
    for (int i = 0; i < 2 * PARTS; i++) mark();
    for (int at = 0; at < arguments.length; at += 3) {
      try (Model model = Model.load(Path.of(arguments[at]))) {
        run(model, Integer.parseInt(arguments[at + 1]));
        mark();
        for (int part = 0; part < PARTS; part++) {
          run(model, Integer.parseInt(arguments[at + 2]));
          mark();
        }
      }
    }
  }

  private static void run(Model model, int times) {
    for (int i = 0; i < times; i++) model.run();
  }

  private static void mark() {
    ProcessHandle.current().parent();
  }
}
