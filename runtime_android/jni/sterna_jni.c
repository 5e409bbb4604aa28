/* The Java runtime's native half: dev.sterna.Natives over sterna.h.
 *
 * A model's address in Java is that of a `loaded` record. Strings cross as UTF-8 in byte arrays. Nothing here copies tensors, and
 * running a model calls no function of the JVM's unless a listener is told of its nodes. */
#include <dlfcn.h>
#include <jni.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sterna_device.h"

typedef struct loaded {
  sterna_model *model;
  void *library; /* of a model that came as a table; else the model's own business */
} loaded;

static jclass exception_class, bytes_class, object_class;
static jmethodID new_exception, node_done;

/* ---- From C to Java ---- */

static jbyteArray bytes_of(JNIEnv *env, const char *text) {
  jsize length = (jsize)strlen(text);
  jbyteArray bytes = (*env)->NewByteArray(env, length);
  if (bytes != NULL) (*env)->SetByteArrayRegion(env, bytes, 0, length, (const jbyte *)text);
  return bytes;
}

static void throw_error(JNIEnv *env, sterna_status status, const char *message) {
  jbyteArray code = bytes_of(env, sterna_status_code(status)), text = code != NULL ? bytes_of(env, message) : NULL;
  jthrowable error = text != NULL ? (*env)->NewObject(env, exception_class, new_exception, (jint)status, code, text) : NULL;
  if (error != NULL) (void)(*env)->Throw(env, error);
}

static sterna_model *model_of(jlong address) { return ((loaded *)(intptr_t)address)->model; }

static void throw_last(JNIEnv *env, jlong address) {
  const sterna_error *error = sterna_last_error(model_of(address));
  throw_error(env, error->status, error->message);
}

static jlong hand_over(JNIEnv *env, sterna_status status, const sterna_error *error, sterna_model *model, void *library) {
  loaded *result = status == STERNA_OK ? malloc(sizeof *result) : NULL;
  if (result != NULL) {
    result->model = model;
    result->library = library;
    return (jlong)(intptr_t)result;
  }
  sterna_unload(model);
  if (library != NULL) (void)dlclose(library);
  if (status == STERNA_OK)
    throw_error(env, STERNA_RESOURCES, "out of memory");
  else
    throw_error(env, status, error->message);
  return 0;
}

/* ---- From Java to C ---- */

/* A copy with an end, to be freed; NULL after an exception, and of NULL. */
static char *text_of(JNIEnv *env, jbyteArray bytes) {
  if (bytes == NULL) return NULL;
  jsize length = (*env)->GetArrayLength(env, bytes);
  char *text = malloc((size_t)length + 1);
  if (text == NULL) {
    throw_error(env, STERNA_RESOURCES, "out of memory");
    return NULL;
  }
  (*env)->GetByteArrayRegion(env, bytes, 0, length, (jbyte *)text);
  text[length] = 0;
  return text;
}

/* Of a direct buffer; NULL stays NULL. */
static unsigned char *address_in(JNIEnv *env, jobject buffer, jlong at) {
  unsigned char *start = buffer != NULL ? (*env)->GetDirectBufferAddress(env, buffer) : NULL;
  return start != NULL ? start + at : NULL;
}

static sterna_options options_of(jint threads) {
  sterna_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.threads = threads > 0 ? (uint32_t)threads : UINT32_MAX; /* which the runtime refuses */
  return options;
}

/* ---- Loading ---- */

static jlong JNICALL load(JNIEnv *env, jclass self, jbyteArray directory, jint threads) {
  (void)self;
  char *path = text_of(env, directory);
  if (path == NULL) return 0;
  sterna_options options = options_of(threads);
  sterna_error error;
  sterna_model *model = NULL;
  sterna_status status = sterna_load(path, &options, &model, &error);
  free(path);
  return hand_over(env, status, &error, model, NULL);
}

typedef const sterna_library *(*table_function)(void);

static const sterna_library *table_of(void *library, const char *symbol) {
  void *found = dlsym(library, symbol);
  table_function function;
  memcpy(&function, &found, sizeof function); /* ISO C has no cast for it */
  return function != NULL ? function() : NULL;
}

static sterna_status open_table(const char *path, const char *symbol, void **library, const sterna_library **table,
                                sterna_error *error) {
  error->status = STERNA_BAD_LIBRARY;
  *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  *table = *library != NULL ? table_of(*library, symbol) : NULL;
  if (*table != NULL) return STERNA_OK;
  const char *reason = *library == NULL ? dlerror() : NULL;
  if (*library == NULL)
    (void)snprintf(error->message, sizeof error->message, "%.100s: cannot be loaded: %.120s", path, reason != NULL ? reason : "unknown reason");
  else
    (void)snprintf(error->message, sizeof error->message, "%.80s: has no function %.150s", path, symbol);
  return STERNA_BAD_LIBRARY;
}

/* What drives devices of a kind: a library beside this one, which stays open, as the driver's own does. */
static sterna_status find_driver(const char *kind, const sterna_device_api **api, sterna_error *error) {
  char name[64], symbol[64];
  (void)snprintf(name, sizeof name, "libsterna_%.40s.so", kind);
  (void)snprintf(symbol, sizeof symbol, "sterna_%.40s", kind);
  void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL), *found = library != NULL ? dlsym(library, symbol) : NULL;
  const sterna_device_api *(*function)(void);
  memcpy(&function, &found, sizeof function); /* as above */
  if (function != NULL) {
    *api = function();
    return STERNA_OK;
  }
  const char *reason = library == NULL ? dlerror() : NULL;
  error->status = STERNA_WRONG_MACHINE;
  (void)snprintf(error->message, sizeof error->message, "%s: cannot be loaded: %.150s", name, reason != NULL ? reason : "it is another library");
  return error->status;
}

/* Texts that come from Java. */
typedef struct texts {
  char *library, *symbol; /* library: NULL where all kernels are a device's */
  char *kind, *module, *cache;
} texts;

static sterna_status load_with(const texts *given, const void *graph, size_t graph_bytes, const void *params, size_t params_bytes,
                               sterna_options *options, void **library, sterna_model **model, sterna_error *error) {
  const sterna_library *table = NULL;
  const sterna_device_api *api = NULL;
  sterna_status status = given->kind != NULL ? find_driver(given->kind, &api, error) : STERNA_OK;
  options->devices = &api;
  options->n_devices = api != NULL;
  options->device_cache = given->cache;
  if (status == STERNA_OK && given->library != NULL) status = open_table(given->library, given->symbol, library, &table, error);
  return status == STERNA_OK ? sterna_load_table(graph, graph_bytes, params, params_bytes, table, options, model, error) : status;
}

static jlong JNICALL load_table(JNIEnv *env, jclass self, jobject graph, jlong graph_at, jlong graph_bytes, jobject params,
                                jlong params_at, jlong params_bytes, jbyteArray library_path, jbyteArray symbol,
                                jint threads, jbyteArray kind, jbyteArray module_name, jobject module, jlong module_at,
                                jlong module_bytes, jbyteArray cache) {
  (void)self;
  const void *text = address_in(env, graph, graph_at), *weights = address_in(env, params, params_at);
  jbyteArray from[] = {library_path, symbol, kind, module_name, cache};
  char *to[] = {NULL, NULL, NULL, NULL, NULL};
  int good = 1;
  for (size_t i = 0; i < sizeof to / sizeof *to && good; i++) {
    to[i] = text_of(env, from[i]);
    good = to[i] != NULL || from[i] == NULL;
  }
  texts given = {to[0], to[1], to[2], to[3], to[4]};
  sterna_file file = {given.module, address_in(env, module, module_at), (size_t)module_bytes};
  sterna_options options = options_of(threads);
  options.files = &file;
  options.n_files = given.module != NULL;
  void *library = NULL;
  sterna_error error;
  sterna_model *model = NULL;
  sterna_status status = STERNA_RESOURCES;
  if (good) status = load_with(&given, text, (size_t)graph_bytes, weights, (size_t)params_bytes, &options, &library, &model, &error);
  for (size_t i = 0; i < sizeof to / sizeof *to; i++) free(to[i]);
  return good ? hand_over(env, status, &error, model, library) : 0;
}

static void JNICALL unload(JNIEnv *env, jclass self, jlong address) {
  (void)env, (void)self;
  loaded *record = (loaded *)(intptr_t)address;
  sterna_unload(record->model);
  if (record->library != NULL) (void)dlclose(record->library);
  free(record);
}

/* ---- Running ---- */

static jint JNICALL run(JNIEnv *env, jclass self, jlong address) {
  (void)env, (void)self;
  return sterna_run(model_of(address));
}

typedef struct listening {
  JNIEnv *env;
  jobject listener;
} listening;

/* What the listener throws comes out of the run; until then it hears nothing more. */
static void tell(void *user, uint32_t node, const char *name, uint64_t nanoseconds) {
  (void)name;
  const listening *to = user;
  JNIEnv *env = to->env;
  if (!(*env)->ExceptionCheck(env)) (*env)->CallVoidMethod(env, to->listener, node_done, (jint)node, (jlong)nanoseconds);
}

static jint JNICALL run_timed(JNIEnv *env, jclass self, jlong address, jobject listener) {
  (void)self;
  listening to = {env, listener};
  sterna_set_on_node(model_of(address), tell, &to);
  jint status = sterna_run(model_of(address));
  sterna_set_on_node(model_of(address), NULL, NULL);
  return status;
}

static void add(void *user, uint32_t node, const char *name, uint64_t nanoseconds) {
  (void)name;
  ((jlong *)user)[node] += (jlong)nanoseconds;
}

static jint JNICALL run_profiled(JNIEnv *env, jclass self, jlong address, jlongArray totals) {
  (void)self;
  jlong *times = (*env)->GetLongArrayElements(env, totals, NULL);
  if (times == NULL) return STERNA_OK; /* the exception is pending */
  sterna_set_on_node(model_of(address), add, times);
  jint status = sterna_run(model_of(address));
  sterna_set_on_node(model_of(address), NULL, NULL);
  (*env)->ReleaseLongArrayElements(env, totals, times, 0);
  return status;
}

static void JNICALL fail(JNIEnv *env, jclass self, jlong address) {
  (void)self;
  throw_last(env, address);
}

static void JNICALL reset_state(JNIEnv *env, jclass self, jlong address) {
  (void)self;
  if (sterna_reset_state(model_of(address)) != STERNA_OK) throw_last(env, address);
}

/* ---- Tensors ---- */

enum { INPUT, OUTPUT };

static jint JNICALL count(JNIEnv *env, jclass self, jlong address, jint kind) {
  (void)env, (void)self;
  return (jint)(kind == INPUT ? sterna_input_count : sterna_output_count)(model_of(address));
}

static int info_of(JNIEnv *env, jlong address, jint kind, jint index, sterna_tensor *tensor) {
  sterna_status status = (kind == INPUT ? sterna_input_info : sterna_output_info)(model_of(address), (uint32_t)index, tensor);
  if (status != STERNA_OK) throw_last(env, address);
  return status == STERNA_OK;
}

/* Puts a new object into an array, and lets go of it: there may be thousands of labels. */
static int put(JNIEnv *env, jobjectArray array, jsize at, jobject object) {
  if (object == NULL) return 0;
  (*env)->SetObjectArrayElement(env, array, at, object);
  (*env)->DeleteLocalRef(env, object);
  return 1;
}

static jlongArray longs_of(JNIEnv *env, const int64_t *values, jsize n) {
  jlongArray array = (*env)->NewLongArray(env, n);
  if (array != NULL && n > 0) (*env)->SetLongArrayRegion(env, array, 0, n, (const jlong *)values);
  return array;
}

static jfloatArray floats_of(JNIEnv *env, const float *values, jsize n) {
  jfloatArray array = (*env)->NewFloatArray(env, n);
  if (array != NULL && n > 0) (*env)->SetFloatArrayRegion(env, array, 0, n, values);
  return array;
}

static jintArray ints_of(JNIEnv *env, const int32_t *values, jsize n) {
  jintArray array = (*env)->NewIntArray(env, n);
  if (array != NULL && n > 0) (*env)->SetIntArrayRegion(env, array, 0, n, (const jint *)values);
  return array;
}

static jobjectArray JNICALL tensor(JNIEnv *env, jclass self, jlong address, jint kind, jint index, jlongArray numbers) {
  (void)self;
  sterna_tensor t;
  if (!info_of(env, address, kind, index, &t)) return NULL;
  jlong facts[] = {t.dtype_code, (jlong)t.bytes, t.axis};
  (*env)->SetLongArrayRegion(env, numbers, 0, 3, facts);
  jsize labels = (jsize)t.n_labels, scales = (jsize)t.n_scales;
  jobjectArray result = (*env)->NewObjectArray(env, 4 + labels, object_class, NULL);
  if (result == NULL) return NULL;
  if (!put(env, result, 0, bytes_of(env, t.name)) || !put(env, result, 1, longs_of(env, t.dims, (jsize)t.rank)) ||
      !put(env, result, 2, floats_of(env, t.scales, scales)) || !put(env, result, 3, ints_of(env, t.zero_points, scales)))
    return NULL;
  for (jsize i = 0; i < labels; i++)
    if (!put(env, result, 4 + i, bytes_of(env, t.labels[i]))) return NULL;
  return result;
}

static jlong JNICALL sizes(JNIEnv *env, jclass self, jlong address, jint kind, jint index, jlongArray dims) {
  (void)self;
  sterna_tensor t;
  if (!info_of(env, address, kind, index, &t)) return 0;
  if (t.rank > 0) (*env)->SetLongArrayRegion(env, dims, 0, (jsize)t.rank, (const jlong *)t.dims);
  return (jlong)t.bytes;
}

static void JNICALL bind(JNIEnv *env, jclass self, jlong address, jint kind, jint index, jobject memory, jlong at) {
  (void)self;
  sterna_model *model = model_of(address);
  void *place = address_in(env, memory, at);
  sterna_status status = kind == INPUT ? sterna_bind_input(model, (uint32_t)index, place)
                                       : sterna_bind_output(model, (uint32_t)index, place);
  if (status != STERNA_OK) throw_last(env, address);
}

/* ---- Nodes, dimensions, facts ---- */

static jint JNICALL node_count(JNIEnv *env, jclass self, jlong address) {
  (void)env, (void)self;
  return (jint)sterna_node_count(model_of(address));
}

static jobjectArray JNICALL node(JNIEnv *env, jclass self, jlong address, jint index, jintArray tasks) {
  (void)self;
  sterna_node info;
  if (sterna_node_info(model_of(address), (uint32_t)index, &info) != STERNA_OK) {
    throw_last(env, address);
    return NULL;
  }
  jint parts = (jint)info.tasks;
  (*env)->SetIntArrayRegion(env, tasks, 0, 1, &parts);
  jobjectArray result = (*env)->NewObjectArray(env, 2, bytes_class, NULL);
  if (result == NULL || !put(env, result, 0, bytes_of(env, info.name)) || !put(env, result, 1, bytes_of(env, info.kernel)))
    return NULL;
  return result;
}

static jint JNICALL dim_count(JNIEnv *env, jclass self, jlong address) {
  (void)env, (void)self;
  return (jint)sterna_dim_count(model_of(address));
}

static jbyteArray JNICALL dim(JNIEnv *env, jclass self, jlong address, jint index, jlongArray facts) {
  (void)self;
  sterna_dim info;
  if (sterna_dim_info(model_of(address), (uint32_t)index, &info) != STERNA_OK) {
    throw_last(env, address);
    return NULL;
  }
  jlong numbers[] = {info.lo, info.hi, info.size, info.computed};
  (*env)->SetLongArrayRegion(env, facts, 0, 4, numbers);
  return bytes_of(env, info.name);
}

static void JNICALL set_dims(JNIEnv *env, jclass self, jlong address, jlongArray given) {
  (void)self;
  jsize n = (*env)->GetArrayLength(env, given);
  jlong *values = (*env)->GetLongArrayElements(env, given, NULL);
  if (values == NULL) return;
  sterna_status status = sterna_set_dims(model_of(address), (const int64_t *)values, (uint32_t)n);
  (*env)->ReleaseLongArrayElements(env, given, values, JNI_ABORT);
  if (status != STERNA_OK) throw_last(env, address);
}

static void JNICALL memory_of(JNIEnv *env, jclass self, jlong address, jlongArray facts) {
  (void)self;
  sterna_memory info;
  if (sterna_memory_info(model_of(address), &info) != STERNA_OK) {
    throw_last(env, address);
    return;
  }
  jlong numbers[] = {(jlong)info.arena, (jlong)info.scratch, (jlong)info.signature, (jlong)info.params};
  (*env)->SetLongArrayRegion(env, facts, 0, 4, numbers);
}

static jbyteArray JNICALL name(JNIEnv *env, jclass self, jlong address) {
  (void)self;
  return bytes_of(env, sterna_model_name(model_of(address)));
}

static jbyteArray JNICALL version(JNIEnv *env, jclass self) {
  (void)self;
  return bytes_of(env, sterna_version());
}

static jbyteArray JNICALL abi_name(JNIEnv *env, jclass self) {
  (void)self;
#if defined(__aarch64__)
  return bytes_of(env, "arm64-v8a");
#elif defined(__arm__)
  return bytes_of(env, "armeabi-v7a");
#elif defined(__x86_64__)
  return bytes_of(env, "x86_64");
#elif defined(__i386__)
  return bytes_of(env, "x86");
#else
  return bytes_of(env, "");
#endif
}

static jint JNICALL cpu_has(JNIEnv *env, jclass self, jbyteArray feature) {
  (void)self;
  char *name = text_of(env, feature);
  jint has = name != NULL ? sterna_cpu_has(name) : -1;
  free(name);
  return has;
}

static jlong JNICALL hash(JNIEnv *env, jclass self, jobject data, jlong at, jlong bytes) {
  (void)self;
  return (jlong)sterna_hash64(address_in(env, data, at), (size_t)bytes);
}

static jint JNICALL misalignment(JNIEnv *env, jclass self, jobject memory, jlong at) {
  (void)self;
  return (jint)((uintptr_t)address_in(env, memory, at) % STERNA_ALIGNMENT);
}

/* ---- Registration ---- */

#define METHOD(name, signature, function) {(char *)(name), (char *)(signature), (void *)(function)}

JNIEXPORT jint JNICALL JNI_OnLoad(JavaVM *vm, void *reserved) {
  static const JNINativeMethod methods[] = {
      METHOD("load", "([BI)J", load),
      METHOD("loadTable", "(Ljava/nio/ByteBuffer;JJLjava/nio/ByteBuffer;JJ[B[BI[B[BLjava/nio/ByteBuffer;JJ[B)J", load_table),
      METHOD("unload", "(J)V", unload),
      METHOD("run", "(J)I", run),
      METHOD("runTimed", "(JLdev/sterna/Model;)I", run_timed),
      METHOD("runProfiled", "(J[J)I", run_profiled),
      METHOD("fail", "(J)V", fail),
      METHOD("resetState", "(J)V", reset_state),
      METHOD("count", "(JI)I", count),
      METHOD("tensor", "(JII[J)[Ljava/lang/Object;", tensor),
      METHOD("sizes", "(JII[J)J", sizes),
      METHOD("bind", "(JIILjava/nio/ByteBuffer;J)V", bind),
      METHOD("nodeCount", "(J)I", node_count),
      METHOD("node", "(JI[I)[[B", node),
      METHOD("dimCount", "(J)I", dim_count),
      METHOD("dim", "(JI[J)[B", dim),
      METHOD("setDims", "(J[J)V", set_dims),
      METHOD("memory", "(J[J)V", memory_of),
      METHOD("name", "(J)[B", name),
      METHOD("version", "()[B", version),
      METHOD("abiName", "()[B", abi_name),
      METHOD("cpuHas", "([B)I", cpu_has),
      METHOD("hash", "(Ljava/nio/ByteBuffer;JJ)J", hash),
      METHOD("misalignment", "(Ljava/nio/ByteBuffer;J)I", misalignment),
  };
  (void)reserved;
  JNIEnv *env = NULL;
  if ((*vm)->GetEnv(vm, (void **)&env, JNI_VERSION_1_6) != JNI_OK) return JNI_ERR;
  static jclass *const classes[] = {&exception_class, &bytes_class, &object_class};
  static const char *const names[] = {"dev/sterna/SternaException", "[B", "java/lang/Object"};
  for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
    jclass local = (*env)->FindClass(env, names[i]);
    if (local == NULL) return JNI_ERR;
    *classes[i] = (*env)->NewGlobalRef(env, local);
    if (*classes[i] == NULL) return JNI_ERR;
  }
  new_exception = (*env)->GetMethodID(env, exception_class, "<init>", "(I[B[B)V");
  jclass model = new_exception != NULL ? (*env)->FindClass(env, "dev/sterna/Model") : NULL;
  node_done = model != NULL ? (*env)->GetMethodID(env, model, "nodeDone", "(IJ)V") : NULL;
  jclass natives = node_done != NULL ? (*env)->FindClass(env, "dev/sterna/Natives") : NULL;
  if (natives == NULL) return JNI_ERR;
  jint done = (*env)->RegisterNatives(env, natives, methods, (jint)(sizeof methods / sizeof *methods));
  return done == JNI_OK ? JNI_VERSION_1_6 : JNI_ERR;
}
