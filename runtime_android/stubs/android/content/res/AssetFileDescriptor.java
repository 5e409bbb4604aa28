package android.content.res;

/** What is used of Android's class; compiled against, never shipped. */
public class AssetFileDescriptor implements java.io.Closeable {
  public java.io.FileDescriptor getFileDescriptor() {
    throw new UnsupportedOperationException();
  }

  public long getStartOffset() {
    throw new UnsupportedOperationException();
  }

  public long getLength() {
    throw new UnsupportedOperationException();
  }

  @Override
  public void close() throws java.io.IOException {
    throw new UnsupportedOperationException();
  }
}
