package dev.sterna.app;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertTrue;
import static org.robolectric.Shadows.shadowOf;

import android.app.Activity;
import android.content.Intent;
import android.graphics.Bitmap;
import android.net.Uri;
import android.os.Looper;
import android.view.View;
import android.view.ViewGroup;
import android.widget.Button;
import android.widget.EditText;
import android.widget.ImageView;
import android.widget.SeekBar;
import android.widget.TextView;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.junit.Test;
import org.junit.runner.RunWith;
import org.robolectric.Robolectric;
import org.robolectric.RobolectricTestRunner;
import org.robolectric.android.controller.ActivityController;
import org.robolectric.annotation.Config;
import org.robolectric.annotation.GraphicsMode;

/** The app's screen on Android's own framework: what is shown at first, and after everything on it was used. */
@RunWith(RobolectricTestRunner.class)
@Config(sdk = 35)
@GraphicsMode(GraphicsMode.Mode.NATIVE)
public class AppTest {
  private final Uri file = Uri.parse("content://files/1");

  private final ActivityController<MainActivity> controller = Robolectric.buildActivity(MainActivity.class).setup();
  private final MainActivity activity = controller.get();

  @Test
  public void itAnswers() throws Exception {
    settle();
    boolean picture = Boolean.getBoolean("app.picture");
    assertEquals(answer(), picture ? "Choose a picture." : answer(), answer());
    assertEquals(answer(), picture, !answer().endsWith(" ms"));
    for (Button button : all(Button.class)) if (isPicture(button)) choose(button, picture());
    assertTrue(answer(), answer().endsWith(" ms"));
    List<EditText> fields = all(EditText.class);
    if (!fields.isEmpty()) assertTrue(answer(), answer().contains("no bird\nno bird\n"));
    for (ImageView image : all(ImageView.class)) assertTrue(image.getDrawable() != null);
    for (Button button : all(Button.class)) {
      String text = button.getText().toString();
      if (isPicture(button)) {
        choose(button, "no picture".getBytes(StandardCharsets.UTF_8));
        assertEquals(file + " is no picture", answer().replaceFirst("^.*?: ", ""));
      } else if (text.startsWith("Choose a recording of ")) {
        choose(button, new byte[3]);
        assertTrue(answer(), answer().endsWith(" bytes; the file has 3"));
        choose(button, new byte[Integer.parseInt(text.replaceAll("\\D+", " ").trim())]);
        assertTrue(answer(), answer().endsWith(" ms"));
      }
    }
    for (SeekBar slider : all(SeekBar.class)) changes(() -> slider.setProgress(slider.getProgress() < 500 ? 900 : 100));
    for (EditText field : fields) field.setText("tern\nauk");
    for (Button button : all(Button.class)) if (button.getText().toString().equals("Run")) changes(button::performClick);
    if (!fields.isEmpty()) assertTrue(answer(), answer().contains("Sternidae\nno bird\n"));
    controller.pause().stop().destroy();
    assertTrue(activity.getWorker().isShutdown());
  }

  private static boolean isPicture(Button button) {
    return button.getText().toString().equals("Choose a picture");
  }

  /** Presses a button, and gives the file that the app asks for. */
  private void choose(Button button, byte[] content) throws Exception {
    button.performClick();
    Intent chooser = shadowOf(activity).getNextStartedActivityForResult().intent;
    Intent wanted = chooser.getParcelableExtra(Intent.EXTRA_INTENT);
    assertEquals(isPicture(button) ? "image/*" : "*/*", wanted.getType());
    shadowOf(activity.getContentResolver()).registerInputStream(file, new ByteArrayInputStream(content));
    shadowOf(activity).receiveResult(chooser, Activity.RESULT_OK, new Intent().setData(file));
    settle();
  }

  /** Does something that gives another answer, with the time of a run. */
  private void changes(Runnable something) throws Exception {
    String before = withoutTime();
    something.run();
    settle();
    assertFalse(answer(), before.equals(withoutTime()));
    assertTrue(answer(), answer().endsWith(" ms"));
  }

  private String withoutTime() {
    return answer().replaceFirst("\\S+ ms$", "");
  }

  private static byte[] picture() {
    Bitmap picture = Bitmap.createBitmap(300, 200, Bitmap.Config.ARGB_8888);
    for (int x = 0; x < 300; x++) for (int y = 0; y < 200; y++) picture.setPixel(x, y, x < 150 ? 0xffc08040 : 0xff204080);
    ByteArrayOutputStream data = new ByteArrayOutputStream();
    picture.compress(Bitmap.CompressFormat.PNG, 100, data);
    return data.toByteArray();
  }

  private void settle() throws Exception {
    activity.getWorker().submit(() -> {}).get();
    shadowOf(Looper.getMainLooper()).idle();
  }

  /** The last text on the page. */
  private String answer() {
    ViewGroup scroll = (ViewGroup) ((ViewGroup) activity.findViewById(android.R.id.content)).getChildAt(0);
    ViewGroup page = (ViewGroup) scroll.getChildAt(0);
    return ((TextView) page.getChildAt(page.getChildCount() - 1)).getText().toString();
  }

  private <T extends View> List<T> all(Class<T> type) {
    return all(type, new ArrayList<>(), activity.findViewById(android.R.id.content));
  }

  private static <T extends View> List<T> all(Class<T> type, List<T> found, View view) {
    if (type.isInstance(view)) found.add(type.cast(view));
    if (view instanceof ViewGroup)
      for (int i = 0; i < ((ViewGroup) view).getChildCount(); i++) all(type, found, ((ViewGroup) view).getChildAt(i));
    return found;
  }
}
