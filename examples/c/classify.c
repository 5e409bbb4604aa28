/* Runs a bundle on an image and prints the three likeliest classes: classify BUNDLE IMAGE.npy
 *
 * The C runtime is all it needs; neither Python nor the compiler is there at run time. */
#include <stdio.h>
#include <stdlib.h>

#include "sterna.h"

/* The elements of a file that numpy.save wrote, which follow a header whose size the bytes 8 and 9 tell. A real host
 * would decode an image here. */
static int read_npy(const char *path, void *to, size_t bytes) {
  unsigned char head[10];
  FILE *file = fopen(path, "rb");
  int good = file != NULL && fread(head, 1, sizeof head, file) == sizeof head;
  good = good && fseek(file, (long)(sizeof head + head[8] + 256u * head[9]), SEEK_SET) == 0;
  good = good && fread(to, 1, bytes, file) == bytes;
  if (file != NULL) (void)fclose(file);
  if (!good) fprintf(stderr, "%s: not an array of %lu bytes\n", path, (unsigned long)bytes);
  return good;
}

int main(int argc, char **argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: classify BUNDLE IMAGE.npy\n");
    return 2;
  }
  sterna_error error;
  sterna_model *model = NULL;
  if (sterna_load(argv[1], NULL, &model, &error) != STERNA_OK) {
    fprintf(stderr, "error[%s]: %s\n", sterna_status_code(error.status), error.message);
    return 1;
  }
  sterna_tensor image, scores;
  int status = 1;
  if (sterna_input_info(model, 0, &image) != STERNA_OK || sterna_output_info(model, 0, &scores) != STERNA_OK) {
    fprintf(stderr, "the model needs an input and an output\n");
  } else if (read_npy(argv[2], sterna_input_buffer(model, 0), image.bytes)) {
    if (sterna_run(model) != STERNA_OK) {
      fprintf(stderr, "%s\n", sterna_last_error(model)->message);
    } else {
      const float *score = sterna_output_buffer(model, 0);
      size_t count = scores.bytes / sizeof *score;
      size_t last = count;
      for (int place = 0; place < 3; place++) {
        size_t best = count;
        for (size_t i = 0; i < count; i++)
          if ((last == count || score[i] < score[last]) && (best == count || score[i] > score[best])) best = i;
        if (best == count) break;
        printf("%lu  %5.1f %%\n", (unsigned long)best, 100.0 * (double)score[best]);
        last = best;
      }
      status = 0;
    }
  }
  sterna_unload(model);
  return status;
}
