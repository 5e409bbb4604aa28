package android.content;

/** What is used of Android's class; compiled against, never shipped. */
public abstract class Context {
  public abstract android.content.res.AssetManager getAssets();

  public abstract java.io.File getCacheDir();
}
