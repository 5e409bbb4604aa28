package android.content.res;

import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.RandomAccessFile;
import java.nio.file.Files;

/** Assets in a folder, as Android's class gives them out: `at` is where one lies in the app's file, or -1 for compressed ones. */
public final class AssetManager {
  private final File folder;
  private final int at;

  public AssetManager(File folder, int at) {
    this.folder = folder;
    this.at = at;
  }

  public InputStream open(String file) throws IOException {
    return new FileInputStream(new File(folder, file));
  }

  public AssetFileDescriptor openFd(String file) throws IOException {
    if (at < 0) throw new IOException("This file can not be opened as a file descriptor; it is probably compressed");
    byte[] data = Files.readAllBytes(new File(folder, file).toPath());
    File app = File.createTempFile("app", ".apk", folder);
    RandomAccessFile whole = new RandomAccessFile(app, "rw");
    whole.write(new byte[at]);
    whole.write(data);
    whole.write(new byte[100]);
    return new AssetFileDescriptor(whole, at, data.length);
  }
}
