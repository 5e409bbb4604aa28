package dev.sterna.app;

import static org.junit.Assert.assertEquals;
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
import android.widget.TextView;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.util.ArrayList;
import java.util.List;
import org.junit.Test;
import org.junit.runner.RunWith;
import org.robolectric.Robolectric;
import org.robolectric.RobolectricTestRunner;
import org.robolectric.android.controller.ActivityController;

/** The app on Android's own framework: what is shown at first, and after a file was chosen for every button. */
@RunWith(RobolectricTestRunner.class)
public class AppTest {
  private final ActivityController<MainActivity> controller = Robolectric.buildActivity(MainActivity.class).setup();
  private final MainActivity activity = controller.get();

  @Test
  public void itAnswers() throws Exception {
    settle();
    String first = answer();
    System.out.println("first: " + first.replace("\n", ", "));
    assertEquals("true".equals(System.getProperty("app.picture")), first.startsWith("Choose a picture"));
    for (Button button : buttons(new ArrayList<>(), activity.findViewById(android.R.id.content))) {
      button.performClick();
      Intent chooser = shadowOf(activity).getNextStartedActivityForResult().intent;
      Intent wanted = chooser.getParcelableExtra(Intent.EXTRA_INTENT);
      Uri uri = Uri.parse("content://files/1");
      shadowOf(activity.getContentResolver()).registerInputStream(uri, new ByteArrayInputStream(file(wanted.getType())));
      shadowOf(activity).receiveResult(chooser, Activity.RESULT_OK, new Intent().setData(uri));
      settle();
      System.out.println(wanted.getType() + ": " + answer().replace("\n", ", "));
      assertTrue(answer(), answer().endsWith(" ms") || wanted.getType().equals("*/*"));
    }
    controller.pause().stop().destroy();
    assertTrue(activity.getWorker().isShutdown());
  }

  /** A picture with a border; for anything else a file of the wrong size. */
  private static byte[] file(String type) {
    if (!type.startsWith("image")) return new byte[3];
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

  private static List<Button> buttons(List<Button> found, View view) {
    if (view instanceof Button) found.add((Button) view);
    if (view instanceof ViewGroup)
      for (int i = 0; i < ((ViewGroup) view).getChildCount(); i++) buttons(found, ((ViewGroup) view).getChildAt(i));
    return found;
  }
}
