/* moetune's runtime: tuned kernels inside an inference server.
 *
 * A server opens tuning results once, asks for the kernel families of its model once, then picks and launches:
 *
 *   moetune_open(&options, &runtime);                                   once
 *   moetune_family_open(runtime, "decode_attention",
 *                       "group=8,head_dim=128,dtype=bf16,page=64", &family);   once a model: loads cubins
 *   moetune_pick(family, extents, 3, total_tokens, &choice);            per step: one table look-up
 *   moetune_launch(family, &choice, &arguments, workspace, bytes, stream);   per layer
 *
 * It compiles nothing, times nothing, and has no network. Equal files give equal choices in every process.
 *
 * Words. A kernel's *family* is all its problems that share what is compiled in (the *specialization*: heads per KV
 * head, head_dim, dtypes, page size, ...). Its *free dimensions* (decode_attention: batch, kv_heads, context;
 * prefill_attention: batch, kv_heads, most new tokens of a sequence, longest context) are chosen at every launch. A
 * *choice* is a cubin with its run-time values for given free dimensions. A *pack* is a
 * read-only file of winners that ships with a model.
 *
 * Threads. Every function may be called from any thread at any time, except for moetune_close. Nothing is
 * returned that another thread's call could change. Threads may share a stream and its workspace ("Workspaces" below
 * says what else may share one, and what may not). After fork() the child must not use what its parent opened, as CUDA
 * does not survive a fork; it opens a runtime of its own once it has called exec.
 *
 * Errors. Every function that can fail returns a moetune_status; moetune_last_error() has the sentence for the
 * calling thread: what was wrong, where, what would be right, in UTF-8 whatever a file's name is. On failure
 * out-parameters are untouched, unless their function says otherwise. No function throws, aborts, or prints. Each
 * function names its statuses below; beside those any may return MOETUNE_INVALID_ARGUMENT for a null pointer,
 * MOETUNE_OUT_OF_MEMORY when the host has no memory left, and MOETUNE_INTERNAL. A handle that moetune_close has
 * closed, or that no function here returned, is undefined behaviour.
 *
 * Files. They are open while moetune_open, moetune_family_open, moetune_refresh or moetune_prepare runs, and not
 * between. Replace one by renaming another onto it: one that is cut short while it is being read can end the process.
 *
 * Versions. The ABI is additive. moetune_open_options and moetune_counts begin with their size, which the caller
 * sets to sizeof, and later versions append fields. A library takes callers of its own major version: what an older
 * one's moetune_open_options lacks is zero, and a newer one's fields that this library does not know must be zero.
 * moetune_choice and moetune_arguments have no size and keep their layout.
 */
/* clang-format off: laid out by hand */
#ifndef MOETUNE_H_
#define MOETUNE_H_

#include <stddef.h>
#include <stdint.h>

#include "moetune_kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MOETUNE_ABI_MAJOR 1
#define MOETUNE_ABI_MINOR 4

#if defined(_WIN32)
#define MOETUNE_API
#else
#define MOETUNE_API __attribute__((visibility("default")))
#endif

typedef enum moetune_status {
  MOETUNE_OK = 0,
  MOETUNE_INVALID_ARGUMENT = 1, /* a null or unaligned pointer, a value out of range, a dtype, a stride */
  MOETUNE_NOT_TUNED = 2,        /* nothing is stored that could serve; the sentence names the search to run */
  MOETUNE_UNKNOWN_NAME = 3,     /* no such kernel, dimension, configuration or generation */
  MOETUNE_UNSUPPORTED = 4,      /* well-formed, and nothing that this version can run */
  MOETUNE_WRONG_DEVICE = 5,     /* a tensor or stream of another device or context */
  MOETUNE_BAD_FILE = 6,         /* a cache or pack that is damaged, foreign, unreadable or of a newer moetune */
  MOETUNE_NO_DRIVER = 7,        /* no CUDA driver or GPU, or one that is too old */
  MOETUNE_CUDA_ERROR = 8,       /* the driver refused; the sentence holds its words */
  MOETUNE_OUT_OF_MEMORY = 9,    /* on the host or the device, or a workspace that is too small */
  MOETUNE_INTERNAL = 10         /* a bug in moetune */
} moetune_status;

/* "MOETUNE_OK", ...; "unknown status" for other values. Static. */
MOETUNE_API const char* moetune_status_name(moetune_status status);

/* The sentence of the calling thread's last failure; "" before the first. Valid until the thread's next
 * failing call. Never NULL. */
MOETUNE_API const char* moetune_last_error(void);

/* major << 16 | minor of the library that is loaded. */
MOETUNE_API uint32_t moetune_abi_version(void);
/* "0.1.0". Static. */
MOETUNE_API const char* moetune_version(void);

/* ---- Runtimes ------------------------------------------------------------------------------------------ */

/* Opened results for one device. Owns loaded cubins, and holds the device's primary context. */
typedef struct moetune_runtime moetune_runtime;

typedef struct moetune_open_options {
  size_t size; /* sizeof(moetune_open_options) */
  /* Files (caches, packs) and folders (every *.db and *.pack inside, in order of name). Earlier ones win: put
   * the user's cache before the packs. With none, the user's cache and the packs beside the library. A path
   * that cannot be opened is left out with a warning, as long as another can; without any the call fails. */
  const char* const* paths;
  size_t path_count;
  int32_t device; /* CUDA ordinal, as cuDeviceGet counts; -1: the current context's, else 0 */
  /* Nonzero: winners measured on a recording may be used. For tests without a GPU. */
  int32_t allow_recorded;
  /* Public keys, each as 64 digits or as a file of `moetune cache new-key`; since 1.1. MOETUNE_TRUSTED_KEYS adds
   * more, parted by colons. If there is any, a *.pack is left out with a warning unless one of them has signed it
   * (NAME.pack.sig); what was verified is what is loaded. Trust does not cover caches, which nobody signs: they
   * count only if a path names the file itself. Let nobody else write to those. */
  const char* const* trusted_keys;
  size_t trusted_key_count;
} moetune_open_options;

/* Opens results; the slow path, milliseconds. MOETUNE_RUNTIME=default in the environment makes every pick the
 * space's default, and MOETUNE_PIN=decode_attention:CONFIG a stored configuration, for A/B tests.
 * MOETUNE_INVALID_ARGUMENT for a wrong size, variable or key, MOETUNE_UNSUPPORTED for fields of a later version that
 * are not zero, MOETUNE_UNKNOWN_NAME for a MOETUNE_PIN of no kernel, MOETUNE_BAD_FILE if no path opens,
 * MOETUNE_NOT_TUNED if the paths hold no cache and no pack, MOETUNE_NO_DRIVER, MOETUNE_CUDA_ERROR,
 * MOETUNE_WRONG_DEVICE for no ordinal. */
MOETUNE_API moetune_status moetune_open(const moetune_open_options* options, moetune_runtime** runtime);

/* Unloads all. What was launched must have ended; no other call may run or follow with this runtime, its families or
 * their choices, and no captured graph of theirs may be replayed again. NULL does nothing. */
MOETUNE_API void moetune_close(moetune_runtime* runtime);

/* Takes in what the paths hold now: new winners, new files in folders. Launches go on meanwhile; picks take
 * the new state from the moment this returns. What was handed out stays loaded and unchanged.
 * `generation` NULL or "": the files' state. A file that is gone or damaged is a warning, and the others serve; a
 * family that no file holds any more keeps what it has, with a warning; so is a winner whose cubin is damaged. Else the
 * name of a state that this runtime has held or prepared since its last family was opened (moetune_generation,
 * moetune_prepare): that opens no file and loads nothing.
 * Whatever fails, the present state stays, of all families: MOETUNE_BAD_FILE if no file can be read,
 * MOETUNE_NOT_TUNED if the paths hold none any more, MOETUNE_UNKNOWN_NAME for a state that it has not held since then,
 * MOETUNE_OUT_OF_MEMORY for one that needs more workspace than moetune_family_workspace has promised since, or on the
 * device, MOETUNE_CUDA_ERROR. */
MOETUNE_API moetune_status moetune_refresh(moetune_runtime* runtime, const char* generation);

/* Since 1.3. Reads the paths as moetune_refresh does and loads what is new, but serves on from the present state.
 * Writes the name of the state that the files are in, for a later moetune_refresh: so all ranks of a model prepare,
 * compare names, and switch at one agreed step. Statuses as of moetune_refresh without a name. */
MOETUNE_API moetune_status moetune_prepare(moetune_runtime* runtime, char generation[33]);

/* The digest of the present state: 32 hexadecimal digits and a null. Equal on every rank that sees equal
 * files, has the same hardware and has opened the same families, in any order. Never fails otherwise. */
MOETUNE_API moetune_status moetune_generation(moetune_runtime* runtime, char text[33]);

/* Since 1.3. The CUDA ordinal of the runtime's device. Never fails otherwise. */
MOETUNE_API moetune_status moetune_device(moetune_runtime* runtime, int32_t* ordinal);

/* Lists everything that could not be used, one line each, without repeats (files that could not be opened, winners
 * that were refused and why), since moetune_open or the last moetune_refresh or moetune_prepare that read the files.
 * Copies at most `capacity` bytes with the null; sets *needed (if not NULL) to what all take. Never fails otherwise. */
MOETUNE_API moetune_status moetune_warnings(moetune_runtime* runtime, char* text, size_t capacity, size_t* needed);

/* ---- Families ------------------------------------------------------------------------------------------ */

/* A family with its cubins loaded. Owned by its runtime; lives until moetune_close. */
typedef struct moetune_family moetune_family;

/* Finds everything stored for a family and loads its cubins: the slow path, once a model. After it, pick and
 * launch allocate nothing, open no file and synchronize nothing. A second call with the same names returns
 * the same family. `specialization` is `name=value` pairs; names left out have the kernel's usual values.
 * MOETUNE_NOT_TUNED if nothing can serve any problem of the family, MOETUNE_UNKNOWN_NAME for a kernel that there is
 * not or a MOETUNE_PIN that no file holds, MOETUNE_INVALID_ARGUMENT for a specialization that is none,
 * MOETUNE_BAD_FILE if no file can be read, MOETUNE_OUT_OF_MEMORY (on the device too), MOETUNE_CUDA_ERROR,
 * MOETUNE_UNSUPPORTED for the 257th family of a runtime. A winner whose cubin is damaged is left out with a warning. */
MOETUNE_API moetune_status moetune_family_open(moetune_runtime* runtime, const char* kernel, const char* specialization,
                                               moetune_family** family);

#define MOETUNE_MAX_EXTENTS 4

/* How a choice came about. */
typedef enum moetune_choice_kind {
  MOETUNE_CHOICE_EXACT = 0,   /* the winner of this very cell */
  MOETUNE_CHOICE_NEAREST = 1, /* of a measured cell nearby that beat the default of this problem */
  MOETUNE_CHOICE_DEFAULT = 2, /* the space's default: too far from anything measured */
  MOETUNE_CHOICE_PINNED = 3   /* MOETUNE_PIN */
} moetune_choice_kind;

/* A plain value, to be copied freely; good until moetune_close, also after moetune_refresh. */
typedef struct moetune_choice {
  uint32_t entry; /* a number of the family's */
  uint32_t kind;  /* a moetune_choice_kind */
  int64_t extents[MOETUNE_MAX_EXTENTS];
} moetune_choice;

/* The hot path: a look-up in the family's dispatch table. `extents` are the free dimensions in the kernel's
 * order (decode_attention: batch, kv_heads, longest context). `total` is the sum that tells even batches from
 * ragged ones (decode_attention: tokens of all contexts; prefill_attention: new tokens of all sequences); 0 is for
 * unknown and counts as ragged, half full. A ragged batch of decode_attention gets the choice of the sequences that
 * would hold its total if all were as long as the longest.
 * MOETUNE_NOT_TUNED is a miss; MOETUNE_INVALID_ARGUMENT for extents that no problem has, a wrong count or a
 * negative total. */
MOETUNE_API moetune_status moetune_pick(moetune_family* family, const int64_t* extents, size_t count, int64_t total,
                                        moetune_choice* choice);

/* For a graph that is captured once and replayed while one dimension grows: one choice as the last extent runs from
 * `extents[count - 1]` to `last`. No file holds the time of a choice in cells that another one serves, so what is
 * minimized is the greatest distance, in cells of the table, from a crossed cell to one that this configuration
 * serves; of equal ones the range table's measured loss in the worst of its own crossed cells, then the first.
 * The kind is exact only if the choice is exact in every crossed cell; otherwise the pick counts as a shape without a
 * measurement (moetune_write_misses), at the longest extent of the range where it has none. The choice's extents hold
 * `last`. `total` is as of moetune_pick, at the range's end: the whole range counts as even or ragged as the batch is
 * there. Allocates. Statuses as of moetune_pick; MOETUNE_INVALID_ARGUMENT also for a range that ends before it
 * begins. */
MOETUNE_API moetune_status moetune_pick_range(moetune_family* family, const int64_t* extents, size_t count,
                                              int64_t last, int64_t total, moetune_choice* choice);

/* Describes a choice: kind, configuration, where and when it was measured, hardware, file. One JSON object.
 * Text as in moetune_warnings. MOETUNE_INVALID_ARGUMENT for a choice that is none of this family's. */
MOETUNE_API moetune_status moetune_explain(moetune_family* family, const moetune_choice* choice, char* text,
                                           size_t capacity, size_t* needed);

/* ---- Workspaces ---------------------------------------------------------------------------------------- */

/* A workspace is device memory that the caller owns, aligned to 256 bytes, one a stream. Its first
 * MOETUNE_WORKSPACE_COUNTERS bytes are counters that every kernel leaves at zero.
 *
 * Shared: all families of all kernels and runtimes of a device may use one workspace on one stream, from any number of
 * threads. Launches with the same workspace address are put on the stream whole, one call's after another's. While one
 * waits for room in a full queue, those of its workspace wait behind it, and no others do.
 *
 * Not shared: a workspace is never used by two things that may run at the same time. So
 * - each stream has one of its own, unless events order what the streams do. cudaStreamPerThread (handle 2) is another
 *   stream in each thread; cudaStreamLegacy (handle 1) is the default stream, as NULL is here, whatever the caller was
 *   compiled for.
 * - a graph uses the workspace that it was captured with, whatever stream replays it. Graphs that were captured with
 *   one workspace, on one stream or on several, are not replayed on two streams at once, nor beside launches that use
 *   it. For that, capture each with a workspace of its own.
 * - workspaces do not overlap. Pass all of one, always by the address at which it begins.
 *
 * A kernel of the caller's on such a stream that is launched with programmatic stream serialization must call
 * cudaGridDependencySynchronize before it ends: ours begin early, and wait for it alone. */
#define MOETUNE_WORKSPACE_COUNTERS ((size_t)1 << 20)

/* Bytes that one choice needs. MOETUNE_INVALID_ARGUMENT for a choice that is none of this family's or extents that
 * no problem has, MOETUNE_UNSUPPORTED if a launch needs more than MOETUNE_WORKSPACE_COUNTERS of counters. */
MOETUNE_API moetune_status moetune_choice_workspace(moetune_family* family, const moetune_choice* choice,
                                                    size_t* bytes);

/* Extents of a family for which workspace can be promised. Every refresh looks at the whole table for each. */
#define MOETUNE_MAX_PROMISES 64

/* Bytes that suffice for every choice within `extents`, now and after every later moetune_refresh: what would
 * need more is then not picked, until moetune_offer_workspace. Ask once, for the largest extents that are served.
 * MOETUNE_INVALID_ARGUMENT for extents that no problem has, MOETUNE_UNSUPPORTED if a choice within them needs more than
 * MOETUNE_WORKSPACE_COUNTERS of counters, or if MOETUNE_MAX_PROMISES other extents have been promised. */
MOETUNE_API moetune_status moetune_family_workspace(moetune_family* family, const int64_t* extents, size_t count,
                                                    size_t* bytes);

/* Since 1.2. Raises what moetune_family_workspace promises for exactly these `extents` to `bytes`, or promises it: the
 * caller launches every choice within them with at least so large a workspace from now on. Picks stay as they are until
 * the next moetune_refresh, which takes in winners that need up to `bytes` there; the promises of other extents still
 * hold, so offer for each that was asked. Graphs that were captured before keep using their old workspace: do not
 * free it. Ranks of a model offer the same, or their picks differ.
 * MOETUNE_OUT_OF_MEMORY if `bytes` is less than what was promised or what the present choices need, of which the
 * sentence states the larger; nothing changes then. MOETUNE_INVALID_ARGUMENT for extents that no problem has,
 * MOETUNE_UNSUPPORTED as of moetune_family_workspace. */
MOETUNE_API moetune_status moetune_offer_workspace(moetune_family* family, const int64_t* extents, size_t count,
                                                   size_t bytes);

/* Since 1.2. What to offer: bytes with which every winner within `extents` could be picked, of the files as the last
 * moetune_refresh (or moetune_family_open) read them. Equal to what was promised if none was left out for its
 * workspace; promises nothing. Exact only for extents that were promised before that refresh. Statuses as of
 * moetune_family_workspace. */
MOETUNE_API moetune_status moetune_wanted_workspace(moetune_family* family, const int64_t* extents, size_t count,
                                                    size_t* bytes);

/* Zeroes the counters on `stream`, once, before the first launch that uses the workspace. cudaStreamPerThread is the
 * calling thread's: call it in the thread that launches.
 * MOETUNE_INVALID_ARGUMENT if it is null or not aligned, MOETUNE_OUT_OF_MEMORY if it is less than the counters;
 * MOETUNE_WRONG_DEVICE and MOETUNE_CUDA_ERROR as of moetune_launch. */
MOETUNE_API moetune_status moetune_workspace_init(moetune_runtime* runtime, void* workspace, size_t bytes,
                                                  void* stream);

/* ---- Launching ----------------------------------------------------------------------------------------- */

#define MOETUNE_MAX_TENSORS 16
#define MOETUNE_MAX_INTEGERS 24
#define MOETUNE_MAX_REALS 4

/* Describes the caller's tensors: device addresses in the order of the kernel's slots, and the call's fields
 * (strides, pool size, scale) in the kernel's order. Filled by moetune_bind, or by hand with the enumerators
 * of moetune_kernels.h. A plain value. */
typedef struct moetune_arguments {
  void* tensors[MOETUNE_MAX_TENSORS];
  int64_t integers[MOETUNE_MAX_INTEGERS];
  double reals[MOETUNE_MAX_REALS];
} moetune_arguments;

/* Enqueues a choice on `stream` (a CUstream or cudaStream_t; NULL is the default stream) of the runtime's
 * device. Legal under graph capture. Tensors stay the caller's and must live until the work is done. The
 * arguments are checked on the host: a null or unaligned address, a stride that no kernel takes, too little
 * room for the choice's extents, a workspace that is too small. What lies behind addresses is not: a choice for more
 * than the extents that moetune_bind read writes past the tensors.
 * Waits while another thread's launch with this workspace waits for room in a full queue.
 * Allocates nothing, but that a thread's first call gets its thread-local storage from the C library where this library
 * was opened by dlopen. A thread without a current context gets the runtime's.
 * MOETUNE_INVALID_ARGUMENT for these and for a choice that is none of this family's, MOETUNE_OUT_OF_MEMORY for the
 * workspace, MOETUNE_UNSUPPORTED for more counters than a workspace has, MOETUNE_CUDA_ERROR for what the driver
 * refuses, and MOETUNE_WRONG_DEVICE if the thread's current context or the stream is not the runtime's. A stream's
 * context is asked for when a thread launches on another stream than before. If a stream of another context takes
 * the address of one that was destroyed, the driver refuses the launch, and only then is its context asked for. */
MOETUNE_API moetune_status moetune_launch(moetune_family* family, const moetune_choice* choice,
                                          const moetune_arguments* arguments, void* workspace, size_t workspace_bytes,
                                          void* stream);

/* The standard tensor descriptor of DLPack (dlpack.h defines it). */
#ifndef DLPACK_DLPACK_H_ /* dlpack.h names an unnamed struct: include it before this header, or not at all */
typedef struct DLTensor DLTensor;
#endif

/* Reads shapes, strides, dtypes and the device of the caller's tensors, in the order of the kernel's slots
 * (NULL for one that the family does not have), into `arguments` and `extents` (the greatest that the tensors
 * have room for: decode_attention's context is the page table's columns times the page). `options`: what the
 * shapes do not tell, `name=value` pairs or NULL (decode_attention: `layout=tokens_first` or `heads_first`,
 * `scale=0.088`, `kv_settled=1`). Sets *count to the number of extents. MOETUNE_INVALID_ARGUMENT for a shape, stride,
 * dtype or option that the kernel does not take, MOETUNE_WRONG_DEVICE for a tensor of another device. */
MOETUNE_API moetune_status moetune_bind(moetune_family* family, const DLTensor* const* tensors, size_t tensor_count,
                                        const char* options, moetune_arguments* arguments,
                                        int64_t extents[MOETUNE_MAX_EXTENTS], size_t* count);

/* ---- Calls by their tensors ---------------------------------------------------------------------------- */

#define MOETUNE_MAX_RANK 6

/* Since 1.4. One of a kernel's tensors. */
typedef struct moetune_slot {
  char name[32];
  int32_t role;       /* 0: read, 1: written, 2: both */
  int32_t present;    /* nonzero: the family has it; what follows is of such */
  uint8_t code, bits; /* of its elements, as of DLDataType */
  uint16_t lanes;
  int32_t rank;
  int64_t shape[MOETUNE_MAX_RANK];
  /* The dimension of the problem that a size is by itself: i of extents[i], numbers from MOETUNE_MAX_EXTENTS on for
   * what is compiled in; -1 for none, -2 where a tensor may have any size. */
  int32_t dimensions[MOETUNE_MAX_RANK];
} moetune_slot;

/* Since 1.4. */
typedef struct moetune_shown_call {
  size_t size;                      /* sizeof(moetune_shown_call) */
  size_t integer_count, real_count; /* fields of the call that no tensor shows: the first of moetune_arguments' */
  size_t slot_count;
  moetune_slot slots[MOETUNE_MAX_TENSORS];
  size_t extent_count;
  int64_t extents[MOETUNE_MAX_EXTENTS]; /* for moetune_pick; one of 0: there is nothing to launch */
  char specialization[2048];            /* for moetune_family_open */
  char options[256];                    /* for moetune_bind */
  char problem[2048];                   /* for `moetune search KERNEL --problem` */
} moetune_shown_call;

/* Since 1.4. Reads the family of a call off its tensors, of any kernel that a kernel.json describes: types, sizes and
 * which tensors there are say what is compiled in and what is free. `tensors` are by slot, of any one device or none;
 * those that are written may be NULL, and their shapes are filled in. `facts`: dimensions that no tensor shows,
 * `name=value` pairs or NULL. Others have their usual value, or the first that agrees with the kernel's rules. With
 * tensor_count 0 only the slots' names and roles are filled in. Opens no file; a kernel of a pack is known once a
 * runtime has opened it. Sets call->size to what is filled.
 * MOETUNE_UNKNOWN_NAME for a kernel that there is not, MOETUNE_INVALID_ARGUMENT for tensors or facts of no problem, for
 * one that follows from neither, and for a kernel that no kernel.json describes. */
MOETUNE_API moetune_status moetune_show_call(const char* kernel, const DLTensor* const* tensors, size_t tensor_count,
                                             const char* facts, moetune_shown_call* call);

/* ---- What was picked, and what was missed --------------------------------------------------------------- */

typedef struct moetune_counts {
  size_t size;                                       /* sizeof(moetune_counts) */
  uint64_t exact, nearest, defaults, pinned, misses; /* picks by kind */
  uint64_t launches;
} moetune_counts;

/* The sums since moetune_open. Sets counts->size to what is filled: less for a caller of a later version, whose other
 * fields stay as they are. MOETUNE_INVALID_ARGUMENT for a wrong size. */
MOETUNE_API moetune_status moetune_count(moetune_runtime* runtime, moetune_counts* counts);

/* Writes which shapes were picked without a measurement of their own, and how often, as JSON, replacing
 * `path` in one step, most frequent first. `moetune search --from-misses PATH` tunes them. Of more than 128 shapes a
 * thread and family, rare ones are left out, and counts are lower bounds. MOETUNE_BAD_FILE if it cannot be written. */
MOETUNE_API moetune_status moetune_write_misses(moetune_runtime* runtime, const char* path);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MOETUNE_H_ */
