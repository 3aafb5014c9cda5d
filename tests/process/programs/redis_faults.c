/* A module of Redis with three faults, which tests/process/planted.py loads into a running server:
 *   faults.login NAME   open_session loses each session
 *   faults.log TEXT     make_record allocates what a thread of the module frees later
 *   faults.buffer KEY   grow_buffer asks for 33,000 bytes, which take 65,536
 * Redis gives a module its functions by name, so that no header of Redis is needed. */
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Context Context;
typedef struct Text Text;
typedef int Command(Context* context, Text** words, int count);

static void* (*alloc)(size_t bytes);
static void (*give)(void* block);
static int (*answer)(Context* context, long long number);
static const char* (*text_of)(const Text* text, size_t* length);
static int (*create_command)(Context* context, const char* name, Command* command,
                             const char* flags, int first, int last, int step);
static void (*initialise)(Context* context, const char* name, int version, int api);
static int (*get_function)(const char* name, void* function);

enum { kOk = 0, kError = 1, kApi = 1, kQueue = 256, kBuffers = 4096, kBufferBytes = 33000 };

typedef struct Session {
  struct Session* next;
  char name[1000];
} Session;

static char* queue[kQueue];
static unsigned made, written;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static char* buffers[kBuffers];

__attribute__((noinline)) static Session* open_session(const char* name) {
  Session* session = alloc(sizeof *session);
  session->next = NULL;
  snprintf(session->name, sizeof session->name, "%s", name);
  return session;
}

static int login(Context* context, Text** words, int count) {
  if (count != 2) return kError;
  return answer(context, open_session(text_of(words[1], NULL))->name[0]);
}

__attribute__((noinline)) static char* make_record(const char* text, size_t length) {
  char* record = alloc(length + 100);
  memcpy(record, text, length);
  return record;
}

static int log_text(Context* context, Text** words, int count) {
  if (count != 2) return kError;
  size_t length;
  const char* text = text_of(words[1], &length);
  char* record = make_record(text, length);
  pthread_mutex_lock(&lock);
  while (made - written == kQueue) pthread_cond_wait(&changed, &lock);
  queue[made++ % kQueue] = record;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
  return answer(context, (long long)length);
}

static void* write_records(void* none) {
  for (;;) {
    pthread_mutex_lock(&lock);
    while (made == written) pthread_cond_wait(&changed, &lock);
    char* record = queue[written++ % kQueue];
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    give(record);
  }
  return none;
}

__attribute__((noinline)) static char* grow_buffer(char* old) {
  give(old);
  return memset(alloc(kBufferBytes), 1, kBufferBytes);
}

static int fill_buffer(Context* context, Text** words, int count) {
  if (count != 2) return kError;
  const unsigned number = (unsigned)atoi(text_of(words[1], NULL)) % kBuffers;
  buffers[number] = grow_buffer(buffers[number]);
  return answer(context, number);
}

/* Called by Redis. The first word of a context leads to the function that finds all others. */
int RedisModule_OnLoad(Context* context, Text** words, int count) {
  (void)words;
  (void)count;
  memcpy(&get_function, context, sizeof get_function);
  get_function("RedisModule_Alloc", &alloc);
  get_function("RedisModule_Free", &give);
  get_function("RedisModule_ReplyWithLongLong", &answer);
  get_function("RedisModule_StringPtrLen", &text_of);
  get_function("RedisModule_CreateCommand", &create_command);
  get_function("RedisModule_SetModuleAttribs", &initialise);
  if (initialise == NULL) return kError;
  initialise(context, "faults", 1, kApi);
  static const struct {
    const char* name;
    Command* command;
  } commands[] = {
      {"faults.login", login}, {"faults.log", log_text}, {"faults.buffer", fill_buffer}};
  for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
    if (create_command(context, commands[i].name, commands[i].command, "", 0, 0, 0) != kOk) {
      return kError;
    }
  }
  pthread_t thread;
  return pthread_create(&thread, NULL, write_records, NULL) == 0 ? kOk : kError;
}
