/* The C library as a C program sees it. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cleave.h"

static char* answer;
static char* error;
static int failures;

static void expect(int ok, const char* what) {
  if (ok) return;
  ++failures;
  printf("not so: %s\n  answer %s\n  error %s\n", what, answer ? answer : "none", error ? error : "none");
}

static int has(const char* text, const char* part) { return text != NULL && strstr(text, part) != NULL; }

static cleave_status ask(const char* verb, const char* options) {
  cleave_free(answer);
  cleave_free(error);
  answer = error = NULL;
  return cleave_ask(verb, options, &answer, &error);
}

static cleave_status train(const cleave_training* training) {
  cleave_free(answer);
  cleave_free(error);
  answer = error = NULL;
  return cleave_train(training, &answer, &error);
}

static void test_asking(void) {
  expect(ask("schedule", "{\"kind\": \"1f1b\", \"stages\": 4, \"microbatches\": 8}") == CLEAVE_DONE &&
             has(answer, "\"verified\":true") && error == NULL,
         "a schedule is made and proven");
  expect(ask("schedule", "{\"kind\": \"1f1b\", \"stages\": 0, \"microbatches\": 8}") == CLEAVE_BAD_USAGE &&
             has(error, "--stages 0 must be at least 1") && answer == NULL,
         "what is wrong is said in a sentence");
  expect(ask("schedule", "{\"kind\": \"1f1b\", \"stagez\": 4}") == CLEAVE_BAD_USAGE && has(error, "--stagez"),
         "an option that there is not is named");
  expect(ask("verify", "{\"text\": \"nonsense\\n\"}") == CLEAVE_BAD_USAGE && error != NULL, "a text that is no program");
  expect(ask("plan", "{\"model\": \"gpt3-175b\", \"cluster\": \"a100-80gb:8\", \"batch\": 8}") == CLEAVE_DOES_NOT_FIT &&
             has(answer, "candidates") && has(error, "no layout fits"),
         "a plan that does not fit is an answer and a sentence");
  expect(ask("serve", NULL) == CLEAVE_BAD_USAGE && has(error, "cleave_ask has no verb \"serve\""), "other verbs are refused");
  expect(ask(NULL, "[1]") == CLEAVE_BAD_USAGE && error != NULL, "no verb at all");
  expect(ask("version", "[1]") == CLEAVE_BAD_USAGE && has(error, "no JSON object"), "options that are no object");
  expect(ask("version", NULL) == CLEAVE_DONE && has(answer, cleave_version()), "no options are needed");
  expect(cleave_ask("version", NULL, NULL, NULL) == CLEAVE_DONE, "and no answer is");
}

static const char kConfig[] =
    "[model]\nlayers = 2\nhidden = 16\nheads = 2\nvocab = 64\n[data]\nvalidation = 0\n"
    "[train]\nsteps = 100000\nbatch = 2\nsequence = 16\nout = \"capi_out\"\n";

struct heard {
  int lines;
  int until;
  char last[400];
};

static int on_step(const char* line, void* context) {
  struct heard* heard = context;
  snprintf(heard->last, sizeof heard->last, "%s", line);
  /* Asking while a training goes on, even from its own thread. */
  char* inner = NULL;
  expect(cleave_ask("version", NULL, &inner, NULL) == CLEAVE_DONE && has(inner, "commit"), "a question during a training");
  cleave_free(inner);
  return ++heard->lines == heard->until;
}

static void test_training(void) {
  int32_t tokens[2000];
  for (int i = 0; i < 2000; ++i) tokens[i] = i % 50;
  struct heard heard = {0, 3, ""};
  cleave_training training = {sizeof training, kConfig, "{\"overwrite\": true}", tokens, 2000, on_step, &heard};
  expect(train(&training) == CLEAVE_DONE && heard.lines >= 3 && has(answer, "\"stopped\":true"), "a callback stops the run");
  expect(has(heard.last, "\"loss\":"), "it hears the lines of the log");

  heard.lines = heard.until = 0;
  training.options = "{\"overwrite\": true, \"set\": [\"train.steps=5\"]}";
  expect(train(&training) == CLEAVE_DONE && heard.lines == 5 && has(answer, "\"stopped\":false") && has(answer, "\"steps\":5"),
         "a training hears of every step");
  expect(has(heard.last, "\"step\":5,\"loss\":"), "to the last");
  expect(ask("checkpoint", "{\"dir\": [\"verify\", \"capi_out\"]}") == CLEAVE_DONE && has(answer, "\"verified\":true"),
         "several arguments keep their order");

  training.options = "{\"overwrite\": true, \"set\": \"train.stepz=5\"}";
  expect(train(&training) == CLEAVE_BAD_USAGE && has(error, "train.stepz"), "a key that there is not");
  training.options = "{\"overwrite\": true, \"set\": \"devices.memory=1KiB\"}";
  expect(train(&training) == CLEAVE_DOES_NOT_FIT && has(error, "raise devices.memory"), "too little memory");
  tokens[100] = 64;
  training.options = "{\"overwrite\": true}";
  expect(train(&training) == CLEAVE_BAD_USAGE && has(error, "has token 64 at position 100"), "a token that the model has not");
  training.tokens = NULL;
  expect(train(&training) == CLEAVE_BAD_USAGE && has(error, "data.path is missing"), "no data");
  training.size = 8;
  expect(train(&training) == CLEAVE_BAD_USAGE && has(error, "size"), "a struct that is too small");
  expect(train(NULL) == CLEAVE_BAD_USAGE, "no training at all");
}

static void test_no_program(void) {
  char was[4096];
  snprintf(was, sizeof was, "%s", getenv("CLEAVE"));
  setenv("CLEAVE", "/nowhere/cleave", 1);
  expect(ask("version", NULL) == CLEAVE_FAILED && has(error, "cannot run /nowhere/cleave"), "a program that is not there");
  unsetenv("CLEAVE");
  expect(ask("version", NULL) == CLEAVE_DONE, "the program beside the library is found");
  setenv("CLEAVE", was, 1);
}

static void test_closed_streams(void) {
  for (int stream = 0; stream < 3; ++stream) {
    fflush(stdout);
    const int kept = dup(stream);
    close(stream);
    const int done = ask("version", NULL) == CLEAVE_DONE && has(answer, cleave_version());
    const int said = ask("schedule", "{\"kind\": \"1f1b\", \"stages\": 0, \"microbatches\": 8}") == CLEAVE_BAD_USAGE &&
                     has(error, "--stages 0 must be at least 1");
    dup2(kept, stream);
    close(kept);
    expect(done && said, "a caller may have closed its streams");
  }
}

int main(void) {
  test_no_program();
  test_closed_streams();
  test_asking();
  test_training();
  cleave_free(answer);
  cleave_free(error);
  printf(failures ? "%d failures\n" : "all is as promised\n", failures);
  return failures != 0;
}
