/* cleave from C, and from whatever can call C: ask a verb, or train.
 *
 *   char* answer = NULL;
 *   char* error = NULL;
 *   const char* options = "{\"kind\": \"1f1b\", \"stages\": 4, \"microbatches\": 8}";
 *   cleave_status status = cleave_ask("schedule", options, &answer, &error);
 *   puts(status == CLEAVE_DONE ? answer : error);
 *   cleave_free(answer);
 *   cleave_free(error);
 *
 * Every call runs the program cleave and waits for it: the one that is installed with this library,
 * another that the environment variable CLEAVE names, or the first on PATH. So a training has a
 * process of its own, with the memory, the signals and the bits that it has on the command line,
 * and cannot take the caller with it.
 *
 * Text is UTF-8 that ends in a zero byte. What goes in is borrowed for the call, what comes out
 * belongs to the caller, who gives it to cleave_free(). Nothing is printed and no exception leaves
 * a function. Functions may be called from any thread, also at the same time. Link with -lcleave
 * (pkg-config: libcleave).
 */
#ifndef CLEAVE_H
#define CLEAVE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CLEAVE_API __attribute__((visibility("default")))

/* The exit codes of the program. */
typedef enum cleave_status {
  CLEAVE_DONE = 0,
  CLEAVE_FAILED = 1,       /* also: a program that is not proven */
  CLEAVE_BAD_USAGE = 2,    /* an option or a key is wrong; the error names value, rule and remedy */
  CLEAVE_DOES_NOT_FIT = 3, /* more memory than the devices have */
  CLEAVE_DEVICE_LOST = 4
} cleave_status;

/* "0.1.0"; not to be freed. */
CLEAVE_API const char* cleave_version(void);

/* What a verb of the program answers with --json: "plan", "schedule", "verify", "checkpoint",
 * "report", "presets", "generate", "evaluate", "doctor" or "version".
 *
 * `options` is a JSON object, or NULL for none: {"stages": 4} stands for --stages=4, {"remeasure":
 * true} for --remeasure, a list for an option that is repeated, and the name of the verb's argument
 * (as its help has it) for the argument, or for several: {"dir": ["verify", "out"]} of "checkpoint".
 * "text" takes the place of the file that a verb reads: a config for "plan", a program for "verify".
 *
 * *answer is JSON, or NULL; *error a sentence, or NULL. A verb that says no may give both: a plan
 * that does not fit is an answer too. Either may be NULL if it is not wanted. */
CLEAVE_API cleave_status cleave_ask(const char* verb, const char* options, char** answer,
                                    char** error);

/* A line of log.jsonl, as soon as it is written. Another value than 0 ends the run after the step
 * in hand, saved. Called on the thread that called cleave_train; the run goes on meanwhile. */
typedef int (*cleave_on_step)(const char* line, void* context);

typedef struct cleave_training {
  size_t size;           /* sizeof(cleave_training), so that later versions can have more */
  const char* config;    /* TOML, as `cleave train` reads it */
  const char* options;   /* as for cleave_ask: "set", "resume", "overwrite", ...; or NULL */
  const int32_t* tokens; /* in place of data.path; or NULL */
  size_t token_count;
  cleave_on_step on_step; /* or NULL */
  void* context;          /* for on_step */
} cleave_training;

/* Trains, and writes to train.out all that `cleave train` writes. *answer is the report of `cleave
 * train --json`. */
CLEAVE_API cleave_status cleave_train(const cleave_training* training, char** answer, char** error);

/* Of an answer or an error; NULL is fine. */
CLEAVE_API void cleave_free(char* text);

#ifdef __cplusplus
}
#endif

#endif
