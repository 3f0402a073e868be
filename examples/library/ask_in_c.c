/* From C: a question to the planner, and a training with a callback. Built with pkg-config libcleave. */
#include <stdio.h>

#include <cleave.h>

static int on_step(const char* line, void* context) {
  printf("%s\n", line); /* a line of log.jsonl */
  return ++*(int*)context >= 5; /* enough: it ends after the step in hand */
}

int main(void) {
  char* answer = NULL;
  char* error = NULL;
  cleave_status status =
      cleave_ask("schedule", "{\"kind\": \"zb-h1\", \"stages\": 4, \"microbatches\": 8}", &answer, &error);
  puts(status == CLEAVE_DONE ? answer : error);
  cleave_free(answer);
  cleave_free(error);
  if (status != CLEAVE_DONE) return status;

  static int32_t tokens[4096];
  for (int i = 0; i < 4096; ++i) tokens[i] = i % 100;
  int steps = 0;
  cleave_training training = {
      .size = sizeof training,
      .config = "[model]\nlayers = 2\nhidden = 32\nheads = 2\n[train]\nsequence = 32\nout = \"from_c\"\n",
      .options = "{\"overwrite\": true}",
      .tokens = tokens,
      .token_count = 4096,
      .on_step = on_step,
      .context = &steps,
  };
  status = cleave_train(&training, &answer, &error);
  if (status != CLEAVE_DONE) puts(error);
  cleave_free(answer);
  cleave_free(error);
  return status != CLEAVE_DONE || steps < 5;
}
