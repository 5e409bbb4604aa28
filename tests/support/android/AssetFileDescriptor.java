package android.content.res;

import java.io.Closeable;
import java.io.FileDescriptor;
import java.io.IOException;
import java.io.RandomAccessFile;

/** A part of a file. */
public class AssetFileDescriptor implements Closeable {
  private final RandomAccessFile file;
  private final long at;
  private final long bytes;

  AssetFileDescriptor(RandomAccessFile file, long at, long bytes) {
    this.file = file;
    this.at = at;
    this.bytes = bytes;
  }

  public FileDescriptor getFileDescriptor() throws IOException {
    return file.getFD();
  }

  public long getStartOffset() {
    return at;
  }

  public long getLength() {
    return bytes;
  }

  @Override
  public void close() throws IOException {
    file.close();
  }
}
