/* Reads chunks from files into a result, without Python's lock: open, read, verify, decode, copy. Encodes the chunks of an
   array into memory, which the caller writes.

   A Job knows one read, or one write: the entries of its plan (per axis: which chunk, which cells of it, where they go),
   how a chunk is stored, and the memory of the result or of the values. Job.run does the chunks of one box of entries, in
   the calling thread; several threads may run one Job at once. What it cannot do, whatever the cause, it leaves: the
   caller reads those chunks again by its own code, which raises the error that fits. Nothing is trusted that comes from a
   file: sizes are checked before each call, and what a library decodes is checked as hyperslab.codecs does it.

   A job that has no entries stands for the layout alone, from which read_one reads single chunks. The three are one type,
   since nearly every function takes both: how a chunk is stored, and where its cells lie in memory.

   Codec libraries are called by the addresses that the caller gives: they come from blosc2's wheel. */

#define PY_SSIZE_T_CLEAN
#define _GNU_SOURCE
#include <Python.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* openat2(2) of Linux 5.6, whose header older systems lack; where the kernel lacks it, chunks in folders are left. */
#if __has_include(<linux/openat2.h>)
#include <linux/openat2.h>
#else
struct open_how {
    uint64_t flags, mode, resolve;
};
#define RESOLVE_NO_MAGICLINKS 0x02
#define RESOLVE_NO_SYMLINKS 0x04
#define RESOLVE_BENEATH 0x08
#endif
#ifndef SYS_openat2
#define SYS_openat2 437
#endif

#define MOST_AXES 32 /* as many as NumPy had for long; arrays of more are read by Python */

/* Bytes between two parts of a shard that are read along rather than by a request of their own, as RANGE_GAP in
   stores/ranges.py. Of 16 parts between gaps of as many bytes, read along and apart: of 4 KiB 116 and 120 us, of 8 KiB 127
   both, of 16 KiB 143 and 138, of 64 KiB 250 and 190; of 32 parts from the disk: of 4 KiB 744 and 1,232, of 8 KiB 1,054 and
   1,120, of 16 KiB 2,111 and 1,742. A folder on a network, where a request takes longer, gains from more. */
#define GAP (16 << 10)
/* Bytes of a shard that are read at a time: they stay in the processor's cache until they are decoded. */
#define WINDOW (4 << 20)
/* Blocks of a Blosc chunk up to which they are decoded one by one: to find a block the library walks over all before.
   Microseconds for 1 MiB one by one and at once: 256 blocks of 16 KiB 250 and 318, 1,024 of 4 KiB 356 and 417, 1,024 of
   16 KiB 479 and 541, 4,096 of 1 KiB 313 and 368, but 16,384 of 1 KiB 711 and 648. */
#define MOST_BLOCKS 1024
/* Times as many bytes as are wanted that are read of a chunk which is not compressed. Python reads along between rows of
   up to 256 KiB (SLAB_BYTES in formats/zarr/chunks.py), and takes longer; larger ones it reads apart. Of 4 planes of
   512 KiB the engine along and Python apart take 146 and 163 us at 2 times as many, 123 and 125 at 4, 108 and 96 at 16; of
   4 planes of 1 MiB 300 and 323 at 1.5 times, 255 and 253 at 2, 209 and 161 at 4. */
#define MOST_READ_ALONG 4
/* Bytes that are read at a time of a chunk that is not compressed, and copied from there. To read its rows into the
   result by one preadv took a fifth more: the kernel copies short parts slowly. */
#define ROWS_WINDOW (256 << 10)

/* The widest items that blosc2_shuffle takes, by its header. */
#define MOST_SHUFFLED 255
/* Bytes of shuffled items that are put in order at a time where they are copied then: a processor's first cache has them. */
#define SHUFFLED_BLOCK (16 << 10)
/* Bytes that a read of one chunk alone leaves for the next one, and all such reads together: four of the largest, for few
   threads read at once. */
#define MOST_KEPT (16 << 20)
#define MOST_UNUSED (64 << 20)

/* Bytes from which a checksum is made with Python's lock released; fewer take less than a microsecond. */
#define SUMMED_UNLOCKED (16 << 10)

/* CRC-32 of this file, which the build gives (hatch_build.py): a module that was built from another one is not used. 0:
   built by hand, and used without a look. */
#ifndef SOURCE_SUM
#define SOURCE_SUM 0
#endif

enum { PLAIN, BLOSC, ZSTD, LZ4, ZLIB, GZIP }; /* _COMPRESSORS in engine.py */

/* zng_stream of zlib-ng.h (zlib-ng 2), which stands in libblosc2; and what its functions take and return. */
typedef struct {
    const uint8_t *next_in;
    uint32_t avail_in;
    size_t total_in;
    uint8_t *next_out;
    uint32_t avail_out;
    size_t total_out;
    const char *message;
    void *state; /* NULL: not made yet */
    void *allocate, *free, *opaque;
    int data_type;
    uint32_t sum;
    unsigned long reserved;
} Inflater;
enum { FINISH = 4, STREAM_END = 1, ANY_WINDOW = 15 + 32 }; /* of zlib or of gzip, as the header says */

/* The functions of libblosc2, set once before any job is made: jobs read them without a lock. The last four are NULL
   where it has no zlib-ng. */
static struct {
    int (*decode_blosc)(void *context, const void *source, int32_t size, void *target, int32_t room);
    int (*decode_items)(void *context, const void *source, int32_t size, int first, int count, void *target, int32_t room);
    size_t (*decode_zstd)(void *context, void *target, size_t room, const void *source, size_t size);
    int (*decode_lz4)(const void *source, void *target, int size, int room);
    int32_t (*shuffle)(int32_t typesize, int32_t size, const void *source, void *target);
    int32_t (*bitshuffle)(int32_t typesize, int32_t size, const void *source, void *target);
    int (*encode_lz4)(const void *source, void *target, int size, int room, int acceleration);
    int (*encode_lz4hc)(const void *source, void *target, int size, int room, int level);
    size_t (*encode_zstd)(void *context, void *target, size_t room, const void *source, size_t size, int level);
    void *(*make_zstd)(void);
    size_t (*free_zstd)(void *context);
    int32_t (*unshuffle)(int32_t typesize, int32_t size, const void *source, void *target);
    int32_t (*make_inflater)(Inflater *inflater, int32_t window);
    int32_t (*reset_inflater)(Inflater *inflater);
    int32_t (*inflate)(Inflater *inflater, int32_t flush);
    int32_t (*free_inflater)(Inflater *inflater);
} library;

#define FUNCTIONS 16
_Static_assert(sizeof library == FUNCTIONS * sizeof(uint64_t), "addresses of 64 bits");

/* The part of a read along one axis that one chunk has. */
typedef struct {
    int64_t chunk; /* its number along the axis */
    int64_t start, count, step; /* cells of the chunk */
    int64_t place; /* bytes from the start of the result */
    int64_t whole;
} Entry;

/* Memory that one call of run uses again for each chunk, and the next call of the same read after it: fresh memory of
   the system costs a page fault for each 4 KiB. */
typedef struct Work {
    uint8_t *stored, *cells, *shuffled, *index;
    uint8_t *planes; /* of the filter, a whole chunk; shuffled is for a block of Blosc */
    size_t room, cells_room, planes_room;
    void *blosc, *zstd; /* contexts of the thread's, for decoding */
    void *zstd_encoder;
    Inflater inflater;
    int64_t files, bytes;
    struct Work *next;
} Work;

/* What identifies one stored version, as hyperslab.stores.reading has it. */
typedef struct {
    long long size, changed; /* bytes, nanoseconds */
    unsigned long long inode;
} Stamp;

/* Find the stamp of a regular file; False of anything else. By statx(2): a module that calls fstat(2) does not load with a C
   library before glibc 2.33 once it is linked with a later one, with statx it loads from 2.28 on. It takes 15 ns more of
   280. */
static int find_stamp(int folder, const char *path, int flags, Stamp *stamp) {
    struct statx status;
    const unsigned wanted = STATX_TYPE | STATX_SIZE | STATX_MTIME | STATX_INO;
    if (statx(folder, path, flags, wanted, &status) || (status.stx_mask & wanted) != wanted || !S_ISREG(status.stx_mode))
        return 0;
    /* After April 2262 the nanoseconds wrap around: Python's stamp is then another one, and Python reads. */
    const uint64_t changed = (uint64_t)status.stx_mtime.tv_sec * 1000000000u + status.stx_mtime.tv_nsec;
    *stamp = (Stamp){(long long)status.stx_size, (long long)changed, status.stx_ino};
    return 1;
}

static int find_stamp_of_open(int file, Stamp *stamp) { return find_stamp(file, "", AT_EMPTY_PATH, stamp); }

static int is_same(const Stamp *one, const Stamp *other) {
    return one->size == other->size && one->changed == other->changed && one->inode == other->inode;
}

static int is_version(int file, const Stamp *stamp) {
    Stamp found;
    return find_stamp_of_open(file, &found) && is_same(&found, stamp);
}

/* A shard that boxes of one read have open: all of them read one version of it, by one index. */
typedef struct OpenShard {
    char *key;
    int file; /* -1: missing, or not to be read here */
    Stamp stamp; /* from before its index was read */
    int missing;
    uint8_t *index;
    int64_t boxes; /* that have not read of it yet */
    int is_open; /* file, missing and index are set, and stay so */
    struct OpenShard *next;
} OpenShard;

typedef struct {
    PyObject_HEAD
    int ndim;
    int64_t counts[MOST_AXES];
    Entry *entries[MOST_AXES];
    int64_t shape[MOST_AXES];
    int64_t strides[MOST_AXES]; /* of a chunk in memory */
    int64_t out_strides[MOST_AXES];
    int64_t members[MOST_AXES]; /* inner chunks of a shard along each axis; 0: each chunk is a file */
    int64_t itemsize, nbytes, all_members;
    int swap; /* bytes of the numbers whose bytes are stored in the other order; 0: as in memory */
    int64_t shuffle; /* bytes of the items whose bytes are stored by their place in them; up to 1: cell by cell */
    int bare; /* the stored bytes are those of the cells, one beside another, but for their order and a checksum */
    int in_order; /* the axes of a stored chunk are those of the array */
    int contiguous; /* a whole chunk lies in the result as it lies in memory */
    int whole_only; /* chunks that are wanted in part are left */
    int folder; /* negative: closed, or none */
    int writes, nested;
    int compressor, checksum;
    int64_t most; /* stored bytes beyond which a chunk is left */
    int64_t most_in_shard, most_in_index; /* bytes of a sound shard, and of one of its chunks */
    int index_first, index_checksum;
    unsigned readable; /* bits: Blosc's compressors that the library has */
    int level; /* of the compressor, or LZ4's acceleration */
    uint8_t header[16]; /* of the chunks that are written by Blosc, but for their stored size */
    uint8_t *fill;
    Py_buffer out;
    int has_out;
    pthread_mutex_t mutex; /* of what follows; nobody who holds it reads a file or decodes */
    pthread_cond_t opened; /* a shard of the list */
    Work *unused;
    OpenShard *shards;
    int64_t runs; /* that have memory for their work, and may use the folder */
    int is_closed; /* when the last of them has ended its files are closed */
} Job;

/* -- CRC-32C (RFC 3720), by the processor where it can ------------------------------------------------------------ */

static uint32_t table[8][256];

static void make_table(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++) crc = crc & 1 ? crc >> 1 ^ 0x82F63B78u : crc >> 1;
        table[0][i] = crc;
    }
    for (int i = 0; i < 256; i++)
        for (int row = 1; row < 8; row++) table[row][i] = table[row - 1][i] >> 8 ^ table[0][table[row - 1][i] & 255];
}

static uint32_t crc_by_table(uint32_t crc, const uint8_t *data, size_t size) {
    for (; size >= 8; size -= 8, data += 8) {
        uint64_t word;
        memcpy(&word, data, 8);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        word = __builtin_bswap64(word);
#endif
        word ^= crc;
        crc = table[7][word & 255] ^ table[6][word >> 8 & 255] ^ table[5][word >> 16 & 255] ^ table[4][word >> 24 & 255] ^
              table[3][word >> 32 & 255] ^ table[2][word >> 40 & 255] ^ table[1][word >> 48 & 255] ^ table[0][word >> 56];
    }
    while (size--) crc = crc >> 8 ^ table[0][(crc ^ *data++) & 255];
    return crc;
}

#if defined(__x86_64__)
/* The instruction gives its result after three cycles, and can begin each cycle: three lanes of so many bytes are summed
   at once, and joined by the table of what so many zeros make of a sum. */
#define LANE 1024
static uint32_t after_lane[4][256];

static uint32_t skip_lane(uint32_t crc) {
    return after_lane[0][crc & 255] ^ after_lane[1][crc >> 8 & 255] ^ after_lane[2][crc >> 16 & 255] ^ after_lane[3][crc >> 24];
}

__attribute__((target("sse4.2"))) static uint32_t crc_by_processor(uint32_t crc, const uint8_t *data, size_t size) {
    uint64_t one = crc;
    for (; size >= 3 * LANE; size -= 3 * LANE, data += 3 * LANE) {
        uint64_t two = 0, three = 0;
        for (size_t i = 0; i < LANE; i += 8) {
            uint64_t words[3];
            memcpy(words, data + i, 8);
            memcpy(words + 1, data + i + LANE, 8);
            memcpy(words + 2, data + i + 2 * LANE, 8);
            one = __builtin_ia32_crc32di(one, words[0]);
            two = __builtin_ia32_crc32di(two, words[1]);
            three = __builtin_ia32_crc32di(three, words[2]);
        }
        one = skip_lane(skip_lane((uint32_t)one) ^ (uint32_t)two) ^ (uint32_t)three;
    }
    for (; size >= 8; size -= 8, data += 8) {
        uint64_t word;
        memcpy(&word, data, 8);
        one = __builtin_ia32_crc32di(one, word);
    }
    crc = (uint32_t)one;
    while (size--) crc = __builtin_ia32_crc32qi(crc, *data++);
    return crc;
}

static void make_lane_table(void) {
    static const uint8_t zeros[LANE];
    for (int byte = 0; byte < 4; byte++)
        for (int bit = 0; bit < 8; bit++) {
            const uint32_t after = crc_by_table(1u << (8 * byte + bit), zeros, LANE);
            for (int low = 0; low < 1 << bit; low++) after_lane[byte][1 << bit | low] = after_lane[byte][low] ^ after;
        }
}
#endif

static uint32_t (*crc_function)(uint32_t, const uint8_t *, size_t) = crc_by_table;

static uint32_t crc32c(const uint8_t *data, size_t size) { return ~crc_function(~0u, data, size); }

static uint32_t u32(const uint8_t *data) {
    return data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24;
}

static uint64_t u64(const uint8_t *data) { return u32(data) | (uint64_t)u32(data + 4) << 32; }

/* -- decoding: each function returns True when target holds exactly the chunk ---------------------------------------- */

/* libblosc2 leaves the rest behind the last whole item of a block unwritten, where the bits of a chunk of Blosc 1 are
   shuffled (see hyperslab.codecs.blosc). */
static int has_lost_rest(uint64_t length, unsigned typesize) {
    return length / typesize % 8 == 0 && length % typesize != 0;
}

/* The checks of hyperslab.codecs.blosc; what Python decodes by other means is left to it. */
static int is_sound_blosc(const Job *job, const uint8_t *data, size_t size) {
    if (size < 16 || size > INT32_MAX || job->nbytes > INT32_MAX - 16) return 0;
    const uint8_t version = data[0], flags = data[2], typesize = data[3];
    const uint64_t nbytes = u32(data + 4), blocksize = u32(data + 8), stored = u32(data + 12);
    if (version != 2 || !typesize || flags & 8 || (flags & 5) == 5 || nbytes != (uint64_t)job->nbytes || !nbytes) return 0;
    if (stored != size || !blocksize || blocksize > nbytes) return 0;
    if (flags & 2) return stored == nbytes + 16;
    if (!(job->readable >> (flags >> 5) & 1)) return 0;
    if (flags & 4 && (has_lost_rest(blocksize, typesize) || has_lost_rest(nbytes % blocksize, typesize))) return 0;
    const unsigned items = flags & 16 ? 0 : typesize;
    if (items > 16 || blocksize < 128 * items) return 0;
    const uint64_t blocks = (nbytes + blocksize - 1) / blocksize, first = 16 + 4 * blocks;
    if (first + 4 > stored) return 0;
    for (uint64_t block = 0; block < blocks; block++) {
        const uint32_t offset = u32(data + 16 + 4 * block);
        if (offset < first || offset > stored - 4) return 0;
    }
    return 1;
}

static int decode_blosc(const Job *job, Work *work, const uint8_t *data, size_t size, uint8_t *target) {
    if (!is_sound_blosc(job, data, size)) return 0;
    if (data[2] & 2) {
        memcpy(target, data + 16, job->nbytes);
        return 1;
    }
    return library.decode_blosc(work->blosc, data, (int32_t)size, target, (int32_t)job->nbytes) == (int)job->nbytes;
}

/* Take the checksum off a chunk; True when it fits. */
static int check_sum(const Job *job, const uint8_t *data, size_t *size) {
    if (!job->checksum) return 1;
    if (*size < 4 || crc32c(data, *size - 4) != u32(data + *size - 4)) return 0;
    *size -= 4;
    return 1;
}

/* Turn the bytes of each number around. */
static void swap_bytes(uint8_t *cells, int64_t size, int width) {
    if (width == 2) {
        for (int64_t i = 0; i < size; i += 2) {
            uint16_t number;
            memcpy(&number, cells + i, 2);
            number = __builtin_bswap16(number);
            memcpy(cells + i, &number, 2);
        }
    } else if (width == 4) {
        for (int64_t i = 0; i < size; i += 4) {
            uint32_t number;
            memcpy(&number, cells + i, 4);
            number = __builtin_bswap32(number);
            memcpy(cells + i, &number, 4);
        }
    } else if (width == 8) {
        for (int64_t i = 0; i < size; i += 8) {
            uint64_t number;
            memcpy(&number, cells + i, 8);
            number = __builtin_bswap64(number);
            memcpy(cells + i, &number, 8);
        }
    }
}

/* The filter "shuffle" of a whole chunk: the first bytes of all items, then the second ones, and so on. Bytes behind the
   last whole item stay where they are. */
static int shuffle(const Job *job, const uint8_t *cells, uint8_t *planes) {
    const int64_t width = job->shuffle, count = job->nbytes / width;
    if (width <= MOST_SHUFFLED && job->nbytes <= INT32_MAX)
        return library.shuffle((int32_t)width, (int32_t)job->nbytes, cells, planes) == job->nbytes;
    for (int64_t item = 0; item < count; item++)
        for (int64_t place = 0; place < width; place++) planes[place * count + item] = cells[item * width + place];
    memcpy(planes + width * count, cells + width * count, job->nbytes - width * count);
    return 1;
}

static int unshuffle(const Job *job, const uint8_t *planes, uint8_t *cells) {
    const int64_t width = job->shuffle, count = job->nbytes / width;
    if (width <= MOST_SHUFFLED && job->nbytes <= INT32_MAX)
        return library.unshuffle((int32_t)width, (int32_t)job->nbytes, planes, cells) == job->nbytes;
    for (int64_t item = 0; item < count; item++)
        for (int64_t place = 0; place < width; place++) cells[item * width + place] = planes[place * count + item];
    memcpy(cells + width * count, planes + width * count, job->nbytes - width * count);
    return 1;
}

/* One stream of zlib or one member of gzip, with nothing behind it, and a header as nearly all are: a window of 32 KiB, no
   dictionary, no names. Others are left, as is what zlib-ng refuses: ISA-L decides, by which Python decodes. */
static int decode_deflate(const Job *job, Work *work, const uint8_t *data, size_t size, uint8_t *target) {
    if (size < 8 || size > INT32_MAX || job->nbytes > INT32_MAX) return 0;
    if (job->compressor == ZLIB && (data[0] != 0x78 || data[1] & 32)) return 0;
    if (job->compressor == GZIP && (data[0] != 0x1F || data[1] != 0x8B || data[2] != 8 || data[3])) return 0;
    Inflater *inflater = &work->inflater;
    if (inflater->state ? library.reset_inflater(inflater) : library.make_inflater(inflater, ANY_WINDOW)) return 0;
    inflater->next_in = data;
    inflater->avail_in = (uint32_t)size;
    inflater->next_out = target;
    inflater->avail_out = (uint32_t)job->nbytes;
    return library.inflate(inflater, FINISH) == STREAM_END && !inflater->avail_in && !inflater->avail_out;
}

static int decode_bytes(const Job *job, Work *work, const uint8_t *data, size_t size, uint8_t *target) {
    switch (job->compressor) {
    case PLAIN:
        if (size != (size_t)job->nbytes) return 0;
        memcpy(target, data, size);
        return 1;
    case BLOSC:
        return decode_blosc(job, work, data, size, target);
    case ZSTD:
        return size && library.decode_zstd(work->zstd, target, job->nbytes, data, size) == (size_t)job->nbytes;
    case LZ4:
        if (size < 5 || size > INT32_MAX || job->nbytes > INT32_MAX || u32(data) != job->nbytes) return 0;
        return library.decode_lz4(data + 4, target, (int)size - 4, (int)job->nbytes) == (int)job->nbytes;
    case ZLIB:
    case GZIP:
        return decode_deflate(job, work, data, size, target);
    }
    return 0;
}

static int decode(const Job *job, Work *work, const uint8_t *data, size_t size, uint8_t *target) {
    uint8_t *unpacked = job->shuffle > 1 ? work->planes : target;
    if (!decode_bytes(job, work, data, size, unpacked)) return 0;
    if (unpacked != target && !unshuffle(job, unpacked, target)) return 0;
    swap_bytes(target, job->nbytes, job->swap);
    return 1;
}

/* -- copying cells ----------------------------------------------------------------------------------------------------- */

#define COPY_CELLS(type)                                                                                               \
    for (int64_t i = 0; i < count; i++) {                                                                              \
        type cell;                                                                                                     \
        memcpy(&cell, source + i * from, sizeof cell);                                                                 \
        memcpy(target + i * to, &cell, sizeof cell);                                                                   \
    }                                                                                                                  \
    return

static void copy_row(uint8_t *target, int64_t to, const uint8_t *source, int64_t from, int64_t count, int64_t itemsize) {
    if (to == itemsize && from == itemsize) {
        memcpy(target, source, count * itemsize);
        return;
    }
    switch (itemsize) {
    case 1: COPY_CELLS(uint8_t);
    case 2: COPY_CELLS(uint16_t);
    case 4: COPY_CELLS(uint32_t);
    case 8: COPY_CELLS(uint64_t);
    }
    for (int64_t i = 0; i < count; i++) memcpy(target + i * to, source + i * from, itemsize);
}

static void copy_cells(uint8_t *target, const int64_t *to, const uint8_t *source, const int64_t *from,
                       const int64_t *counts, int ndim, int64_t itemsize) {
    if (!ndim) {
        memcpy(target, source, itemsize);
    } else if (ndim == 1) {
        copy_row(target, *to, source, *from, *counts, itemsize);
    } else {
        for (int64_t i = 0; i < *counts; i++)
            copy_cells(target + i * *to, to + 1, source + i * *from, from + 1, counts + 1, ndim - 1, itemsize);
    }
}

/* One chunk of a box: the entry that it has along each axis. */
typedef struct {
    const Entry *along[MOST_AXES];
    uint8_t *target;
    int whole; /* all its cells are wanted */
    int in_rows; /* and each of its rows lies in the result as in the chunk */
    int direct; /* and so does the whole chunk */
} Piece;

static void find_piece(const Job *job, const int64_t *numbers, Piece *piece) {
    piece->target = job->out.buf;
    piece->whole = 1;
    int plain = 1;
    for (int axis = 0; axis < job->ndim; axis++) {
        const Entry *entry = piece->along[axis] = job->entries[axis] + numbers[axis];
        piece->target += entry->place;
        piece->whole &= (int)entry->whole;
        plain &= !entry->start && entry->count == job->shape[axis] && entry->step == 1;
    }
    piece->in_rows = plain && job->ndim && job->in_order && job->out_strides[job->ndim - 1] == job->itemsize;
    piece->direct = plain && job->contiguous;
}

static void find_numbers(const int64_t *low, const int64_t *extent, int ndim, int64_t number, int64_t *numbers) {
    for (int axis = ndim - 1; axis >= 0; axis--) {
        numbers[axis] = low[axis] + number % extent[axis];
        number /= extent[axis];
    }
}

static void find_piece_of_box(const Job *job, const int64_t *low, const int64_t *extent, int64_t number, Piece *piece) {
    int64_t numbers[MOST_AXES];
    find_numbers(low, extent, job->ndim, number, numbers);
    find_piece(job, numbers, piece);
}

/* Which chunk of its shard it is, in C order. */
static int64_t find_member(const Job *job, const Piece *piece) {
    int64_t member = 0;
    for (int axis = 0; axis < job->ndim; axis++)
        member = member * job->members[axis] + piece->along[axis]->chunk % job->members[axis];
    return member;
}

/* Where row number ``row`` of a chunk in rows begins in the result. */
static uint8_t *find_row(const Job *job, const Piece *piece, int64_t row) {
    uint8_t *target = piece->target;
    for (int axis = job->ndim - 2; axis >= 0; axis--) {
        target += row % job->shape[axis] * job->out_strides[axis];
        row /= job->shape[axis];
    }
    return target;
}

/* Put bytes ``start`` to ``start + size`` of a chunk in rows into the result. */
static void put_rows(const Job *job, const Piece *piece, const uint8_t *cells, int64_t start, int64_t size) {
    const int64_t length = job->shape[job->ndim - 1] * job->itemsize;
    while (size) {
        const int64_t within = start % length, part = length - within < size ? length - within : size;
        memcpy(find_row(job, piece, start / length) + within, cells, part);
        cells += part;
        start += part;
        size -= part;
    }
}

static void put(const Job *job, const Piece *piece, const uint8_t *cells) {
    int64_t from[MOST_AXES], counts[MOST_AXES];
    for (int axis = 0; axis < job->ndim; axis++) {
        const Entry *entry = piece->along[axis];
        cells += entry->start * job->strides[axis];
        counts[axis] = entry->count;
        from[axis] = entry->step * job->strides[axis];
    }
    copy_cells(piece->target, job->out_strides, cells, from, counts, job->ndim, job->itemsize);
}

static void put_fill(const Job *job, const Piece *piece) {
    static const int64_t still[MOST_AXES];
    int64_t counts[MOST_AXES];
    for (int axis = 0; axis < job->ndim; axis++) counts[axis] = piece->along[axis]->count;
    copy_cells(piece->target, job->out_strides, job->fill, still, counts, job->ndim, job->itemsize);
}

/* Return True for a sound chunk of several blocks of Blosc, each of which can be decoded alone. Nothing of the header is
   used before it was found sound: a size of a block of 0 would end the process. */
static int has_blocks(const Job *job, const uint8_t *data, size_t size) {
    if (job->compressor != BLOSC || job->shuffle > 1 || !is_sound_blosc(job, data, size)) return 0;
    const int64_t typesize = data[3], blocksize = u32(data + 8);
    return !(data[2] & 2) && blocksize < job->nbytes && blocksize % typesize == 0 && job->nbytes % typesize == 0 &&
           blocksize % 8 == 0 && job->nbytes / blocksize <= MOST_BLOCKS;
}

/* Decode a chunk of Blosc in rows block by block, so that each is copied while it is in the processor's cache. */
static int decode_blocks(const Job *job, Work *work, const Piece *piece, const uint8_t *data, size_t size) {
    const int64_t typesize = data[3], blocksize = u32(data + 8);
    for (int64_t start = 0; start < job->nbytes; start += blocksize) {
        const int64_t part = job->nbytes - start < blocksize ? job->nbytes - start : blocksize;
        if (library.decode_items(work->blosc, data, (int32_t)size, (int)(start / typesize), (int)(part / typesize), work->cells,
                       (int32_t)part) != part)
            return 0;
        swap_bytes(work->cells, part, job->swap);
        put_rows(job, piece, work->cells, start, part);
    }
    return 1;
}

/* Put the cells of a chunk in rows, given as planes, into the result block by block: they stay in the processor's cache. */
static int put_planes(const Job *job, Work *work, const Piece *piece) {
    uint8_t block[SHUFFLED_BLOCK];
    const int64_t width = job->shuffle, count = job->nbytes / width;
    const int64_t most = SHUFFLED_BLOCK / width & ~7; /* items: no number whose bytes are turned around lies in two blocks */
    for (int64_t first = 0; first < count; first += most) {
        const int64_t items = count - first < most ? count - first : most;
        int64_t size = items * width;
        for (int64_t place = 0; place < width; place++)
            memcpy(block + place * items, work->planes + place * count + first, items);
        if (library.unshuffle((int32_t)width, (int32_t)size, block, work->cells) != size) return 0;
        if (first + items == count) { /* and what lies behind the last whole item */
            memcpy(work->cells + size, work->planes + count * width, job->nbytes - count * width);
            size = job->nbytes - first * width;
        }
        swap_bytes(work->cells, size, job->swap);
        put_rows(job, piece, work->cells, first * width, size);
    }
    return 1;
}

/* The bytes of a chunk from the first to behind the last cell that is wanted; returns those that are wanted. */
static int64_t find_span(const Job *job, const Piece *piece, int64_t *first, int64_t *last) {
    int64_t wanted = job->itemsize;
    *first = 0;
    *last = job->itemsize;
    for (int axis = 0; axis < job->ndim; axis++) {
        const Entry *entry = piece->along[axis];
        *first += entry->start * job->strides[axis];
        *last += (entry->start + (entry->count - 1) * entry->step) * job->strides[axis];
        wanted *= entry->count;
    }
    return wanted;
}

/* Decode only the blocks of Blosc that hold the cells that are wanted, where these are less than half of a chunk that its
   checksum has shown to be whole; -1 where it is to be decoded whole. */
static int decode_span(const Job *job, Work *work, const Piece *piece, const uint8_t *data, size_t size) {
    int64_t first, last;
    find_span(job, piece, &first, &last);
    if (!job->checksum || 2 * (last - first) > job->nbytes || !has_blocks(job, data, size)) return -1;
    const int64_t typesize = data[3], start = first / typesize * typesize, items = (last - start + typesize - 1) / typesize;
    if (library.decode_items(work->blosc, data, (int32_t)size, (int)(start / typesize), (int)items, work->cells + start,
                             (int32_t)(items * typesize)) != items * typesize)
        return 0;
    swap_bytes(work->cells + first, last - first, job->swap);
    put(job, piece, work->cells);
    return 1;
}

static int decode_piece(const Job *job, Work *work, const Piece *piece, const uint8_t *data, size_t size) {
    if (!check_sum(job, data, &size)) return 0;
    if (piece->direct) return decode(job, work, data, size, piece->target);
    if (piece->in_rows && has_blocks(job, data, size)) return decode_blocks(job, work, piece, data, size);
    if (piece->in_rows && job->shuffle > 1 && job->shuffle <= MOST_SHUFFLED && job->nbytes >= job->shuffle)
        return decode_bytes(job, work, data, size, work->planes) && put_planes(job, work, piece);
    const int done = decode_span(job, work, piece, data, size);
    if (done >= 0) return done;
    if (!decode(job, work, data, size, work->cells)) return 0;
    put(job, piece, work->cells);
    return 1;
}

/* -- reading ----------------------------------------------------------------------------------------------------------- */

/* A file below the folder, through no symbolic link; -1 with errno. */
static int open_file(const Job *job, Work *work, const char *key) {
    const int flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK; /* a pipe is not waited for */
    work->files++;
    if (!job->nested) return openat(job->folder, key, flags);
    struct open_how how = {.flags = flags, .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    return (int)syscall(SYS_openat2, job->folder, key, &how, sizeof how);
}

static int make_room(Work *work, size_t size) {
    if (size <= work->room) return 1;
    free(work->stored);
    work->stored = malloc(size);
    work->room = work->stored ? size : 0;
    return work->stored != NULL;
}

static int read_at(int file, uint8_t *target, size_t size, int64_t place) {
    while (size) {
        const ssize_t got = pread(file, target, size, place);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return 0; /* also a file that became shorter */
        target += got;
        size -= got;
        place += got;
    }
    return 1;
}

/* Read a chunk in rows that is not compressed, a window at a time. */
static int read_rows(const Job *job, Work *work, const Piece *piece, int file) {
    uint32_t crc = ~0u;
    for (int64_t start = 0; start < job->nbytes; start += ROWS_WINDOW) {
        const int64_t size = job->nbytes - start < ROWS_WINDOW ? job->nbytes - start : ROWS_WINDOW;
        work->bytes += size;
        if (!read_at(file, work->cells, size, start)) return 0;
        if (job->checksum) crc = crc_function(crc, work->cells, size);
        swap_bytes(work->cells, size, job->swap);
        put_rows(job, piece, work->cells, start, size);
    }
    uint8_t sum[4];
    return !job->checksum || (read_at(file, sum, 4, job->nbytes) && u32(sum) == ~crc);
}

/* Read the bytes of a chunk that is not compressed from the first to the last cell that is wanted. */
static int read_span(const Job *job, Work *work, const Piece *piece, int file) {
    int64_t first, last;
    const int64_t wanted = find_span(job, piece, &first, &last);
    if (last - first > MOST_READ_ALONG * wanted) return 0; /* Python reads less of it */
    work->bytes += last - first;
    if (!read_at(file, work->cells + first, last - first, first)) return 0;
    swap_bytes(work->cells + first, last - first, job->swap);
    put(job, piece, work->cells);
    return 1;
}

static int read_chunk(const Job *job, Work *work, const Piece *piece, int file, long long length) {
    if (length <= 0 || length > job->most) return 0;
    const size_t size = length;
    if (job->compressor == PLAIN && size != (size_t)job->nbytes + 4 * job->checksum) return 0;
    if (job->bare && piece->direct && !job->checksum) {
        work->bytes += size;
        if (!read_at(file, piece->target, size, 0)) return 0;
        swap_bytes(piece->target, size, job->swap);
        return 1;
    }
    if (job->bare && piece->in_rows) return read_rows(job, work, piece, file);
    if (job->bare && !job->checksum) return read_span(job, work, piece, file);
    work->bytes += size;
    return make_room(work, size) && read_at(file, work->stored, size, 0) && decode_piece(job, work, piece, work->stored, size);
}

static int run_chunk(const Job *job, Work *work, const Piece *piece, const char *key) {
    const int file = open_file(job, work, key);
    if (file < 0) {
        if (errno == ENOENT) put_fill(job, piece);
        return errno == ENOENT;
    }
    Stamp stamp;
    const int done = find_stamp_of_open(file, &stamp) && read_chunk(job, work, piece, file, stamp.size);
    close(file);
    return done;
}

/* Return True where every entry of an index leads to bytes between ``first`` and ``limit``, no more than any chunk has,
   or nowhere. ShardIndex in codecs/sharding.py (``parse``, ``cut``) has the same rule, and tells what is wrong with an
   index that is left. */
static int is_sound_index(const Job *job, const uint8_t *index, uint64_t first, uint64_t limit) {
    for (int64_t inner = 0; inner < job->all_members; inner++) {
        const uint64_t start = u64(index + 16 * inner), size = u64(index + 16 * inner + 8);
        if (start == UINT64_MAX && size == UINT64_MAX) continue;
        if (start < first || start > limit || size > limit - start || size > (uint64_t)job->most_in_index) return 0;
    }
    return 1;
}

/* Read the index of a shard whose file is open, and its stamp from before; True where it is sound. */
static int read_index(const Job *job, Work *work, OpenShard *shard) {
    const int64_t plain = job->all_members * 16, length = plain + 4 * job->index_checksum;
    if (!find_stamp_of_open(shard->file, &shard->stamp) || shard->stamp.size < length ||
        shard->stamp.size > job->most_in_shard || !(shard->index = malloc(length)))
        return 0;
    const uint64_t first = job->index_first ? length : 0;
    const uint64_t limit = job->index_first ? shard->stamp.size : shard->stamp.size - length;
    work->bytes += length;
    return read_at(shard->file, shard->index, length, job->index_first ? 0 : limit) &&
           (!job->index_checksum || crc32c(shard->index, plain) == u32(shard->index + plain)) &&
           is_sound_index(job, shard->index, first, limit);
}

/* -- one chunk alone --------------------------------------------------------------------------------------------------- */

enum { READ_LEFT, READ_DONE, READ_MISSING, READ_KNOWN };

/* Read a chunk of a shard whose file is open, by its number, from where its index says. */
static int read_member(const Job *job, Work *work, const Piece *piece, int file, int64_t member, Stamp *stamp) {
    OpenShard shard = {.file = file};
    int state = READ_LEFT;
    if (member < job->all_members && read_index(job, work, &shard)) {
        const uint64_t start = u64(shard.index + 16 * member), size = u64(shard.index + 16 * member + 8);
        const int is_missing = start == UINT64_MAX && size == UINT64_MAX;
        int done = is_missing || (size && size <= (uint64_t)job->most && make_room(work, size));
        if (done && !is_missing) {
            work->bytes += size;
            done = read_at(file, work->stored, size, start);
        }
        /* One that was written over where it lies has other chunks at the places of the index. */
        done = done && is_version(file, &shard.stamp);
        if (done && is_missing) state = READ_MISSING;
        else if (done && decode_piece(job, work, piece, work->stored, size)) state = READ_DONE;
        *stamp = shard.stamp;
    }
    free(shard.index);
    return state;
}

/* Read a chunk, with the stamp from before the read: one that is a file (start -1), which is not read where it is the
   ``known`` version; ``size`` bytes of a shard from ``start`` on, where it is the known version before the read and after
   it; or, of size -1, number ``start`` of a shard by its index. */
static int read_one(const Job *job, Work *work, const Piece *piece, const char *path, const Stamp *known, long long start,
                    long long size, Stamp *stamp) {
    Stamp found;
    if (known && start < 0 && find_stamp(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, &found) && is_same(&found, known)) {
        *stamp = *known;
        return READ_KNOWN;
    }
    work->files++;
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK); /* a pipe is not waited for */
    if (file < 0) return errno == ENOENT ? READ_MISSING : READ_LEFT;
    int state = READ_LEFT;
    if (start >= 0 && size < 0) {
        state = read_member(job, work, piece, file, start, stamp);
    } else if (find_stamp_of_open(file, stamp)) {
        int done;
        if (start < 0) {
            done = read_chunk(job, work, piece, file, stamp->size);
        } else {
            work->bytes += size;
            done = known && is_same(stamp, known) && size > 0 && size <= job->most && make_room(work, size) &&
                   read_at(file, work->stored, size, start) && is_version(file, known) &&
                   decode_piece(job, work, piece, work->stored, size);
        }
        state = done ? READ_DONE : READ_LEFT;
    }
    close(file);
    return state;
}

/* A wanted part of a shard. */
typedef struct {
    uint64_t start, size;
    int64_t number; /* of the piece in the box */
} Part;

static int by_start(const void *one, const void *other) {
    const uint64_t a = ((const Part *)one)->start, b = ((const Part *)other)->start;
    return a < b ? -1 : a > b;
}

/* Read the parts of an open shard, those that lie together at a time; done[number] is set for each that was decoded. */
static void read_parts(const Job *job, Work *work, int file, Part *parts, int64_t count, const int64_t *low,
                       const int64_t *extent, uint8_t *done) {
    qsort(parts, count, sizeof *parts, by_start);
    for (int64_t first = 0, next; first < count; first = next) {
        const uint64_t start = parts[first].start;
        uint64_t stop = start + parts[first].size;
        for (next = first + 1; next < count; next++) {
            const uint64_t end = parts[next].start + parts[next].size;
            if (parts[next].start > stop + GAP || (end > stop && end - start > WINDOW)) break;
            if (end > stop) stop = end;
        }
        if (!make_room(work, stop - start) || !read_at(file, work->stored, stop - start, start)) continue;
        work->bytes += stop - start;
        for (int64_t i = first; i < next; i++) {
            Piece piece;
            find_piece_of_box(job, low, extent, parts[i].number, &piece);
            done[parts[i].number] =
                decode_piece(job, work, &piece, work->stored + (parts[i].start - start), parts[i].size);
        }
    }
}

static void free_shard(OpenShard *shard) {
    if (shard->file >= 0) close(shard->file);
    free(shard->index);
    free(shard->key);
    free(shard);
}

/* Open a shard and read its index. */
static void open_shard(const Job *job, Work *work, OpenShard *shard) {
    shard->file = open_file(job, work, shard->key);
    shard->missing = shard->file < 0 && errno == ENOENT;
    if (shard->file < 0 || read_index(job, work, shard)) return;
    close(shard->file);
    shard->file = -1;
}

/* A shard that is not open yet. */
static OpenShard *make_shard(const char *key, int64_t boxes) {
    OpenShard *shard = calloc(1, sizeof *shard);
    if (!shard || !(shard->key = strdup(key))) {
        free(shard);
        return NULL;
    }
    shard->boxes = boxes;
    shard->file = -1;
    return shard;
}

/* Return a shard that is open: the first thread opens it, others wait for that one, and for no other shard's. It stays
   until its last box has left it. */
static OpenShard *take_shard(Job *job, Work *work, const char *key, int64_t boxes) {
    pthread_mutex_lock(&job->mutex);
    OpenShard *shard = job->shards;
    while (shard && strcmp(shard->key, key)) shard = shard->next;
    if (shard) {
        while (!shard->is_open) pthread_cond_wait(&job->opened, &job->mutex);
    } else if ((shard = make_shard(key, boxes))) {
        shard->next = job->shards;
        job->shards = shard;
        pthread_mutex_unlock(&job->mutex);
        open_shard(job, work, shard);
        pthread_mutex_lock(&job->mutex);
        shard->is_open = 1;
        pthread_cond_broadcast(&job->opened);
    }
    pthread_mutex_unlock(&job->mutex);
    return shard;
}

/* Count a box that has read of a shard; after the last one the shard is closed. */
static void leave_shard(Job *job, OpenShard *shard) {
    pthread_mutex_lock(&job->mutex);
    const int is_last = --shard->boxes <= 0;
    if (is_last) {
        OpenShard **place = &job->shards;
        while (*place != shard) place = &(*place)->next;
        *place = shard->next;
    }
    pthread_mutex_unlock(&job->mutex);
    if (is_last) free_shard(shard);
}

/* The chunks of a box that lies in one shard, as ``boxes`` do in all. */
static void run_shard(Job *job, Work *work, const char *key, const int64_t *low, const int64_t *extent, int64_t count,
                      uint8_t *done, int64_t boxes) {
    OpenShard *shard = take_shard(job, work, key, boxes);
    if (!shard) return;
    Part *parts = shard->file >= 0 ? malloc(count * sizeof *parts) : NULL;
    int64_t found = 0;
    for (int64_t number = 0; (parts || shard->missing) && number < count; number++) {
        Piece piece;
        find_piece_of_box(job, low, extent, number, &piece);
        if (job->whole_only && !piece.whole) continue;
        const int64_t member = find_member(job, &piece);
        const uint64_t start = shard->missing ? UINT64_MAX : u64(shard->index + 16 * member);
        const uint64_t size = shard->missing ? UINT64_MAX : u64(shard->index + 16 * member + 8);
        if (start == UINT64_MAX && size == UINT64_MAX) {
            put_fill(job, &piece);
            done[number] = 1;
        } else if (size && size <= (uint64_t)job->most) {
            parts[found++] = (Part){start, size, number};
        }
    }
    if (found) {
        read_parts(job, work, shard->file, parts, found, low, extent, done);
        /* One that was written over where it lies has other chunks at the places of the index: Python reads it anew. */
        if (!is_version(shard->file, &shard->stamp)) memset(done, 0, count);
    }
    free(parts);
    leave_shard(job, shard);
}

static void run_box(Job *job, Work *work, const char **keys, const int64_t *low, const int64_t *extent, int64_t count,
                    uint8_t *done, int64_t boxes) {
    if (job->all_members) {
        run_shard(job, work, keys[0], low, extent, count, done, boxes);
        return;
    }
    for (int64_t number = 0; number < count; number++) {
        Piece piece;
        find_piece_of_box(job, low, extent, number, &piece);
        done[number] = !(job->whole_only && !piece.whole) && run_chunk(job, work, &piece, keys[number]);
    }
}

/* -- writing: the chunks of a box of values, encoded one behind another ------------------------------------------------ */

static void put_u32(uint8_t *target, uint32_t value) {
    for (int i = 0; i < 4; i++) target[i] = (uint8_t)(value >> 8 * i);
}

/* One stream of a block of Blosc; 0 where it does not fit into ``room``. */
static int64_t encode_stream(const Job *job, Work *work, const uint8_t *source, int64_t size, uint8_t *target, int64_t room) {
    int64_t found = 0;
    switch (job->header[2] >> 5) {
    case 1:
        found = job->level < 0 ? library.encode_lz4hc(source, target, (int)size, (int)room, -job->level)
                               : library.encode_lz4(source, target, (int)size, (int)room, job->level);
        break;
    case 4:
        found = (int64_t)library.encode_zstd(work->zstd_encoder, target, room, source, size, job->level);
    }
    return found > 0 && found <= room ? found : 0;
}

/* A container of Blosc 1, as C-Blosc writes it: a header, where each block begins, and the streams of each block, which
   has one for each byte of an item where it is split. What would not become smaller is stored as it is. */
static int64_t encode_blosc(const Job *job, Work *work, const uint8_t *cells, uint8_t *target) {
    const uint8_t flags = job->header[2], typesize = job->header[3];
    const int64_t blocksize = u32(job->header + 8), blocks = (job->nbytes + blocksize - 1) / blocksize;
    const int64_t most = job->nbytes + 16;
    int64_t size = 16 + 4 * blocks;
    memcpy(target, job->header, 16);
    if (flags & 2) goto store;
    for (int64_t block = 0; block < blocks; block++) {
        const uint8_t *source = cells + block * blocksize;
        const int64_t rest = job->nbytes - block * blocksize, length = rest < blocksize ? rest : blocksize;
        const int streams = flags & 16 || length < blocksize ? 1 : typesize;
        if (flags & 1 && typesize > 1) {
            if (library.shuffle(typesize, (int32_t)length, source, work->shuffled) < 0) return 0;
            source = work->shuffled;
        } else if (flags & 4 && blocksize >= typesize && length / typesize % 8 == 0) { /* else C-Blosc 1 leaves them */
            if (library.bitshuffle(typesize, (int32_t)length, source, work->shuffled) < 0) return 0;
            source = work->shuffled;
        }
        put_u32(target + 16 + 4 * block, (uint32_t)size);
        for (int stream = 0; stream < streams; stream++) {
            const int64_t part = length / streams;
            size += 4;
            const int64_t room = most - size < part ? most - size : part;
            if (room <= 0) goto store;
            int64_t stored = encode_stream(job, work, source + stream * part, part, target + size, room);
            if (!stored || stored == part) {
                if (size + part > most) goto store;
                memcpy(target + size, source + stream * part, part);
                stored = part;
            }
            put_u32(target + size - 4, (uint32_t)stored);
            size += stored;
        }
    }
    put_u32(target + 12, (uint32_t)size);
    return size;
store:
    target[2] |= 2;
    put_u32(target + 12, (uint32_t)most);
    memcpy(target + 16, cells, job->nbytes);
    return most;
}

/* Encode a chunk into ``room`` bytes; 0 where Python has to. */
static int64_t encode(const Job *job, Work *work, const uint8_t *cells, uint8_t *target, int64_t room) {
    int64_t size = 0;
    if (job->shuffle > 1) {
        if (!shuffle(job, cells, work->planes)) return 0;
        cells = work->planes;
    }
    switch (job->compressor) { /* zlib and gzip are Python's: no C library gives the bytes that it writes */
    case PLAIN:
        size = job->nbytes;
        memcpy(target, cells, size);
        break;
    case BLOSC:
        size = encode_blosc(job, work, cells, target);
        break;
    case ZSTD:
        size = (int64_t)library.encode_zstd(work->zstd_encoder, target, room - 4, cells, job->nbytes, job->level);
        break;
    case LZ4:
        put_u32(target, (uint32_t)job->nbytes);
        size = library.encode_lz4(cells, target + 4, (int)job->nbytes, (int)room - 8, job->level);
        size += size > 0 ? 4 : 0;
    }
    if (size <= 0 || size > room - 4) return 0;
    if (job->checksum) {
        put_u32(target + size, crc32c(target, size));
        size += 4;
    }
    return size;
}

/* Gather the cells of a chunk from the values; cells that lie behind the array's end are fill values. */
static const uint8_t *gather(const Job *job, Work *work, const Piece *piece) {
    int64_t from[MOST_AXES], counts[MOST_AXES];
    int full = 1;
    for (int axis = 0; axis < job->ndim; axis++) {
        counts[axis] = piece->along[axis]->count;
        full &= counts[axis] == job->shape[axis];
    }
    if (piece->direct && !job->swap) return piece->target;
    if (!full) {
        memset(from, 0, sizeof from);
        copy_cells(work->cells, job->strides, job->fill, from, job->shape, job->ndim, job->itemsize);
    }
    copy_cells(work->cells, job->strides, piece->target, job->out_strides, counts, job->ndim, job->itemsize);
    return work->cells;
}

static int is_filled(const Job *job, const uint8_t *cells) {
    const int64_t item = job->itemsize, last = job->nbytes - item;
    return !memcmp(cells, job->fill, item) && !memcmp(cells + last, job->fill, item) && !memcmp(cells, cells + item, last);
}

enum { FILLED = -1, LEFT = -2 }; /* in place of where a chunk ends: it holds nothing but fill values, or is Python's */

/* Encode the chunks of a box one behind another into ``target``, which has ``room`` bytes for each. stops[number]: where
   a chunk ends there. */
static void encode_box(const Job *job, Work *work, const int64_t *low, const int64_t *extent, int64_t count,
                       uint8_t *target, int64_t room, int64_t *stops) {
    int64_t stop = 0;
    for (int64_t number = 0; number < count; number++) {
        Piece piece;
        find_piece_of_box(job, low, extent, number, &piece);
        const uint8_t *cells = gather(job, work, &piece);
        stops[number] = FILLED;
        if (is_filled(job, cells)) continue;
        if (job->swap) swap_bytes(work->cells, job->nbytes, job->swap); /* where they were gathered */
        const int64_t size = encode(job, work, cells, target + stop, room);
        stop += size;
        stops[number] = size ? stop : LEFT;
    }
}

static void put_u64(uint8_t *target, uint64_t value) {
    put_u32(target, (uint32_t)value);
    put_u32(target + 4, (uint32_t)(value >> 32));
}

/* Build a shard of the chunks of a box, which are all that it has, in ``target``, which has ``room`` bytes for each beside
   the index. Return its size; 0 where all chunks hold nothing but fill values; -1 where it is left. */
static int64_t encode_shard(const Job *job, Work *work, const int64_t *low, const int64_t *extent, int64_t count,
                            uint8_t *target, int64_t room, int64_t *stops) {
    const int64_t plain = job->all_members * 16, length = plain + 4 * job->index_checksum;
    const int64_t first = job->index_first ? length : 0;
    encode_box(job, work, low, extent, count, target + first, room, stops);
    memset(work->index, 0xFF, plain); /* missing, all of them */
    int64_t stop = first;
    for (int64_t number = 0; number < count; number++) {
        if (stops[number] == LEFT) return -1;
        if (stops[number] == FILLED) continue;
        Piece piece;
        find_piece_of_box(job, low, extent, number, &piece);
        uint8_t *entry = work->index + 16 * find_member(job, &piece);
        put_u64(entry, stop);
        put_u64(entry + 8, first + stops[number] - stop);
        stop = first + stops[number];
    }
    if (stop == first) return 0;
    if (job->index_checksum) put_u32(work->index + plain, crc32c(work->index, plain));
    memcpy(target + (job->index_first ? 0 : stop), work->index, length);
    return job->index_first ? stop : stop + length;
}

/* -- Python ------------------------------------------------------------------------------------------------------------ */

static int parse_numbers(PyObject *tuple, int64_t *numbers, int ndim, const char *what) {
    if (!PyTuple_Check(tuple) || PyTuple_GET_SIZE(tuple) != ndim) {
        PyErr_Format(PyExc_ValueError, "%s: a tuple of %d numbers is needed", what, ndim);
        return 0;
    }
    for (int axis = 0; axis < ndim; axis++) {
        numbers[axis] = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, axis));
        if (numbers[axis] == -1 && PyErr_Occurred()) return 0;
    }
    return 1;
}

static int parse_entries(Job *job, PyObject *groups) {
    if (!PyTuple_Check(groups) || PyTuple_GET_SIZE(groups) != job->ndim) {
        PyErr_SetString(PyExc_ValueError, "groups: one list for each axis is needed");
        return 0;
    }
    for (int axis = 0; axis < job->ndim; axis++) {
        PyObject *group = PyTuple_GET_ITEM(groups, axis);
        if (!PyList_Check(group)) {
            PyErr_SetString(PyExc_ValueError, "groups: lists are needed");
            return 0;
        }
        const Py_ssize_t count = PyList_GET_SIZE(group);
        job->counts[axis] = count;
        job->entries[axis] = calloc(count ? count : 1, sizeof(Entry));
        if (!job->entries[axis]) {
            PyErr_NoMemory();
            return 0;
        }
        for (Py_ssize_t i = 0; i < count; i++) {
            int64_t numbers[6];
            if (!parse_numbers(PyList_GET_ITEM(group, i), numbers, 6, "groups")) return 0;
            Entry entry = {numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5]};
            /* Every address is derived from these: none of them may lead out of the chunk or of the result. */
            const int64_t length = job->shape[axis];
            const int fits = entry.chunk >= 0 && entry.start >= 0 && entry.count >= 1 && entry.step >= 1 &&
                             entry.start < length && entry.count - 1 <= (length - 1 - entry.start) / entry.step;
            if (!fits) {
                PyErr_SetString(PyExc_ValueError, "groups: cells outside the chunk");
                return 0;
            }
            if (entry.count == 1) entry.step = 1; /* it may be longer than the chunk, and leads nowhere */
            job->entries[axis][i] = entry;
        }
    }
    return 1;
}

/* Refuse entries that lead out of the result. */
static int check_places(const Job *job) {
    int64_t low = 0, high = job->itemsize;
    int beyond = 0; /* of all numbers */
    for (int axis = 0; axis < job->ndim; axis++) {
        int64_t least = INT64_MAX, most = INT64_MIN;
        for (int64_t i = 0; i < job->counts[axis]; i++) {
            const Entry *entry = job->entries[axis] + i;
            int64_t one = entry->place, other;
            beyond |= __builtin_mul_overflow(entry->count - 1, job->out_strides[axis], &other);
            beyond |= __builtin_add_overflow(one, other, &other);
            least = one < least ? one : least;
            least = other < least ? other : least;
            most = one > most ? one : most;
            most = other > most ? other : most;
        }
        if (!job->counts[axis]) return 1;
        beyond |= __builtin_add_overflow(low, least, &low) | __builtin_add_overflow(high, most, &high);
    }
    if (!beyond && low >= 0 && high <= job->out.len) return 1;
    PyErr_SetString(PyExc_ValueError, "groups: cells outside the result");
    return 0;
}

static void free_shards(OpenShard *shards) {
    for (OpenShard *next; shards; shards = next) {
        next = shards->next;
        free_shard(shards);
    }
}

/* Unlock the mutex, and close the folder and what shards are open if nobody will read of them any more. */
static void unlock_and_close(Job *job) {
    const int folder = job->folder, is_last = job->is_closed && !job->runs;
    OpenShard *shards = job->shards;
    if (is_last) {
        job->folder = -1;
        job->shards = NULL;
    }
    pthread_mutex_unlock(&job->mutex);
    if (!is_last) return;
    if (folder >= 0) close(folder);
    free_shards(shards);
}

static void give_back(Job *job, Work *work) {
    pthread_mutex_lock(&job->mutex);
    if (work) {
        work->next = job->unused;
        job->unused = work;
    }
    job->runs--;
    unlock_and_close(job);
}

/* Memory for a run, which keeps the job's files open until it gives it back; NULL where there is none. */
static Work *take_work(Job *job) {
    pthread_mutex_lock(&job->mutex);
    Work *work = job->unused;
    if (work) job->unused = work->next;
    job->runs++;
    pthread_mutex_unlock(&job->mutex);
    if (work) return work;
    work = calloc(1, sizeof *work);
    if (work) {
        work->cells = malloc(job->nbytes);
        work->planes = job->shuffle > 1 ? malloc(job->nbytes) : NULL;
        if (work->cells && (work->planes || job->shuffle <= 1)) return work;
        free(work->cells);
        free(work->planes);
        free(work);
    }
    give_back(job, NULL);
    return NULL;
}

static void free_work(Work *work) {
    free(work->cells);
    free(work->stored);
    free(work->shuffled);
    free(work->planes);
    free(work->index);
    if (work->zstd_encoder) library.free_zstd(work->zstd_encoder);
    if (work->inflater.state) library.free_inflater(&work->inflater);
    free(work);
}

/* Memory for reads of one chunk alone, of whatever array: as many as threads read at once, and no more bytes in all than
   MOST_UNUSED, for the threads may be gone. */
static pthread_mutex_t single_mutex = PTHREAD_MUTEX_INITIALIZER;
static Work *unused_single;
static size_t unused_bytes;

static size_t bytes_kept(const Work *work) { return work->cells_room + work->planes_room + work->room; }

static Work *take_single_work(size_t cells, size_t planes) {
    pthread_mutex_lock(&single_mutex);
    Work *work = unused_single;
    if (work) {
        unused_single = work->next;
        unused_bytes -= bytes_kept(work);
    }
    pthread_mutex_unlock(&single_mutex);
    if (!work && !(work = calloc(1, sizeof *work))) return NULL;
    if (work->cells_room < cells) {
        free(work->cells);
        work->cells = malloc(cells);
        work->cells_room = work->cells ? cells : 0;
    }
    if (work->planes_room < planes) {
        free(work->planes);
        work->planes = malloc(planes);
        work->planes_room = work->planes ? planes : 0;
    }
    if (work->cells && (work->planes || !planes)) return work;
    free_work(work);
    return NULL;
}

static void give_single_back(Work *work) {
    const size_t bytes = bytes_kept(work);
    pthread_mutex_lock(&single_mutex);
    const int is_kept = bytes <= MOST_KEPT && unused_bytes + bytes <= MOST_UNUSED;
    if (is_kept) {
        work->next = unused_single;
        unused_single = work;
        unused_bytes += bytes;
    }
    pthread_mutex_unlock(&single_mutex);
    if (!is_kept) free_work(work);
}

static void job_dealloc(Job *job) {
    for (Work *work = job->unused, *next; work; work = next) {
        next = work->next;
        free_work(work);
    }
    free_shards(job->shards);
    pthread_cond_destroy(&job->opened);
    pthread_mutex_destroy(&job->mutex);
    for (int axis = 0; axis < MOST_AXES; axis++) free(job->entries[axis]);
    free(job->fill);
    if (job->has_out) PyBuffer_Release(&job->out);
    Py_TYPE(job)->tp_free((PyObject *)job);
}

static PyObject *job_new(PyTypeObject *type, PyObject *arguments, PyObject *options) {
    static char *names[] = {"groups", "shape", "out", "out_strides", "fill", "whole_only", "folder", "nested",
                            "compressor", "checksum", "most", "members", "most_in_shard", "most_in_index", "index_first",
                            "index_checksum", "readable", "swap", "order", "shuffle", "level", "header", NULL};
    PyObject *groups, *shape, *out, *out_strides, *members, *order;
    Py_buffer fill;
    const char *header = NULL;
    Py_ssize_t header_size = 0;
    long long most, most_in_shard, most_in_index, shuffle = 0;
    int whole_only, folder, nested, compressor, checksum, index_first, index_checksum, swap, level = 0;
    unsigned readable;
    if (!PyArg_ParseTupleAndKeywords(arguments, options, "OOOOy*pipipLOLLppIiOL|iy#", names, &groups, &shape, &out,
                                     &out_strides, &fill, &whole_only, &folder, &nested, &compressor, &checksum, &most,
                                     &members, &most_in_shard, &most_in_index, &index_first, &index_checksum, &readable, &swap, &order,
                                     &shuffle, &level, &header, &header_size))
        return NULL;
    Job *job = (Job *)type->tp_alloc(type, 0);
    if (!job) goto failed;
    pthread_mutex_init(&job->mutex, NULL);
    pthread_cond_init(&job->opened, NULL);
    const Py_ssize_t ndim = PyTuple_Check(shape) ? PyTuple_GET_SIZE(shape) : -1;
    if (ndim < 0 || ndim > MOST_AXES || fill.len < 1) {
        PyErr_SetString(PyExc_ValueError, "a shape of at most 32 axes and a fill cell are needed");
        goto failed;
    }
    job->ndim = (int)ndim;
    job->itemsize = fill.len;
    job->fill = malloc(fill.len);
    if (!job->fill) {
        PyErr_NoMemory();
        goto failed;
    }
    memcpy(job->fill, fill.buf, fill.len);
    if (!parse_numbers(shape, job->shape, job->ndim, "shape")) goto failed;
    if (!parse_numbers(out_strides, job->out_strides, job->ndim, "out_strides")) goto failed;
    if (members != Py_None && !parse_numbers(members, job->members, job->ndim, "members")) goto failed;
    /* folder -1: the memory is that of values, which are written; -2: of a read that names each file by its path */
    job->writes = folder == -1;
    if (PyObject_GetBuffer(out, &job->out, job->writes ? PyBUF_SIMPLE : PyBUF_WRITABLE)) goto failed;
    job->has_out = 1;
    int64_t axes[MOST_AXES];
    if (!parse_numbers(order, axes, job->ndim, "order")) goto failed;
    job->contiguous = job->in_order = 1;
    job->nbytes = job->itemsize;
    job->all_members = members == Py_None ? 0 : 1;
    for (int place = job->ndim - 1; place >= 0; place--) {
        const int64_t axis = axes[place];
        if (axis < 0 || axis >= job->ndim || job->strides[axis]) {
            PyErr_SetString(PyExc_ValueError, "order: a permutation of the axes is needed");
            goto failed;
        }
        job->in_order &= axis == place;
        job->strides[axis] = job->nbytes;
        if (job->shape[axis] > 1) job->contiguous &= job->out_strides[axis] == job->nbytes;
        if (job->shape[axis] < 1 || __builtin_mul_overflow(job->nbytes, job->shape[axis], &job->nbytes) ||
            (job->all_members && (job->members[axis] < 1 ||
                                  __builtin_mul_overflow(job->all_members, job->members[axis], &job->all_members)))) {
            PyErr_SetString(PyExc_ValueError, "a chunk, or a shard, of no size");
            goto failed;
        }
    }
    if (swap && (swap < 0 || swap > 8 || swap & (swap - 1) || job->itemsize % swap)) {
        PyErr_SetString(PyExc_ValueError, "swap: 0, 2, 4 or 8 bytes of a cell are needed");
        goto failed;
    }
    job->swap = swap;
    if (job->all_members > INT32_MAX || most < 0 || job->nbytes > INT64_MAX / 2) {
        PyErr_SetString(PyExc_ValueError, "sizes beyond all bounds");
        goto failed;
    }
    if (!parse_entries(job, groups) || !check_places(job)) goto failed;
    job->whole_only = whole_only;
    job->folder = folder;
    job->nested = nested;
    job->compressor = compressor;
    job->checksum = checksum;
    job->most = most;
    job->most_in_shard = most_in_shard;
    job->most_in_index = most_in_index;
    job->index_first = index_first;
    job->index_checksum = index_checksum;
    job->readable = readable;
    job->shuffle = shuffle;
    job->bare = compressor == PLAIN && shuffle <= 1;
    if (compressor < PLAIN || compressor > GZIP || shuffle < 0 || (!job->bare && !library.decode_blosc) ||
        (compressor >= ZLIB && !library.inflate) ||
        (job->writes && compressor == BLOSC && header_size != 16)) {
        PyErr_SetString(PyExc_ValueError, "a compressor, its library, and for values a header of Blosc are needed");
        goto failed;
    }
    job->level = level;
    if (header_size == 16) memcpy(job->header, header, 16);
    const int64_t blocksize = u32(job->header + 8);
    if (header_size && (header_size != 16 || !job->header[3] || blocksize < 1 || blocksize > job->nbytes ||
                        u32(job->header + 4) != job->nbytes)) {
        PyErr_SetString(PyExc_ValueError, "a header of Blosc is needed");
        goto failed;
    }
    PyBuffer_Release(&fill);
    return (PyObject *)job;
failed:
    PyBuffer_Release(&fill);
    Py_XDECREF(job);
    return NULL;
}

/* The entries of the chunks that were left, one tuple for each. */
static PyObject *list_left(const Job *job, const int64_t *low, const int64_t *extent, int64_t count, const uint8_t *done) {
    PyObject *left = PyList_New(0);
    for (int64_t number = 0; left && number < count; number++) {
        if (done[number]) continue;
        int64_t numbers[MOST_AXES];
        find_numbers(low, extent, job->ndim, number, numbers);
        PyObject *tuple = PyTuple_New(job->ndim);
        for (int axis = 0; tuple && axis < job->ndim; axis++) {
            PyObject *value = PyLong_FromLongLong(numbers[axis]);
            if (!value) Py_CLEAR(tuple);
            else PyTuple_SET_ITEM(tuple, axis, value);
        }
        if (!tuple || PyList_Append(left, tuple)) Py_CLEAR(left);
        Py_XDECREF(tuple);
    }
    return left;
}

static int parse_box(const Job *job, PyObject *low_tuple, PyObject *high_tuple, int64_t *low, int64_t *extent,
                     int64_t *count) {
    *count = 1;
    if (!parse_numbers(low_tuple, low, job->ndim, "low") || !parse_numbers(high_tuple, extent, job->ndim, "high")) return 0;
    for (int axis = 0; axis < job->ndim; axis++) {
        if (low[axis] < 0 || extent[axis] <= low[axis] || extent[axis] > job->counts[axis]) {
            PyErr_SetString(PyExc_ValueError, "a box outside the read");
            return 0;
        }
        extent[axis] -= low[axis];
        if (__builtin_mul_overflow(*count, extent[axis], count) || *count > INT32_MAX) {
            PyErr_SetString(PyExc_ValueError, "a box of too many chunks");
            return 0;
        }
    }
    return 1;
}

static PyObject *job_run(Job *job, PyObject *arguments) {
    PyObject *low_tuple, *high_tuple, *key_list, *result = NULL, *left = NULL;
    unsigned long long blosc, zstd;
    long long boxes;
    if (!PyArg_ParseTuple(arguments, "OOO!KKL", &low_tuple, &high_tuple, &PyList_Type, &key_list, &blosc, &zstd, &boxes))
        return NULL;
    int64_t low[MOST_AXES], extent[MOST_AXES], count;
    if (!parse_box(job, low_tuple, high_tuple, low, extent, &count)) return NULL;
    const Py_ssize_t needed = job->all_members ? 1 : count;
    PyObject *texts = PyList_AsTuple(key_list); /* they live as long as they are read, whoever has the list */
    if (!texts || PyTuple_GET_SIZE(texts) != needed) {
        if (texts) PyErr_SetString(PyExc_ValueError, "a key for each file is needed");
        Py_XDECREF(texts);
        return NULL;
    }
    const char **keys = malloc(needed * sizeof *keys);
    uint8_t *done = calloc(count, 1);
    Work *work = take_work(job);
    if (!keys || !done || !work) {
        PyErr_NoMemory();
        goto end;
    }
    for (Py_ssize_t i = 0; i < needed; i++) {
        keys[i] = PyUnicode_AsUTF8(PyTuple_GET_ITEM(texts, i));
        if (!keys[i]) goto end;
    }
    work->blosc = (void *)(uintptr_t)blosc;
    work->zstd = (void *)(uintptr_t)zstd;
    work->files = work->bytes = 0;
    Py_BEGIN_ALLOW_THREADS
    run_box(job, work, keys, low, extent, count, done, boxes);
    Py_END_ALLOW_THREADS
    left = list_left(job, low, extent, count, done);
    if (left) result = Py_BuildValue("LLN", (long long)work->files, (long long)work->bytes, left);
end:
    Py_DECREF(texts);
    free(keys);
    free(done);
    if (work) give_back(job, work);
    return result;
}

/* Encode the chunks of a box: one by one, with where each ends as a list, or as a whole shard, with its size. */
static PyObject *encode_into(Job *job, PyObject *arguments, int as_shard) {
    PyObject *low_tuple, *high_tuple, *result = NULL;
    Py_buffer target;
    int64_t low[MOST_AXES], extent[MOST_AXES], count, size = 0;
    if (!PyArg_ParseTuple(arguments, "OOw*", &low_tuple, &high_tuple, &target)) return NULL;
    int64_t *stops = NULL;
    Work *work = NULL;
    if (!job->writes) {
        PyErr_SetString(PyExc_ValueError, "this job reads");
        goto end;
    }
    if (!parse_box(job, low_tuple, high_tuple, low, extent, &count)) goto end;
    const int64_t length = as_shard ? job->all_members * 16 + 4 * job->index_checksum : 0;
    const int64_t room = (target.len - length) / count;
    if (room < job->nbytes + 20 || (as_shard && count != job->all_members)) {
        PyErr_SetString(PyExc_ValueError, "more room, or a whole shard, is needed");
        goto end;
    }
    stops = calloc(count, sizeof *stops);
    work = take_work(job);
    if (work && !work->shuffled) work->shuffled = malloc(job->nbytes);
    if (work && !work->index && as_shard) work->index = malloc(length);
    if (work && !work->zstd_encoder && library.make_zstd) work->zstd_encoder = library.make_zstd();
    if (!stops || !work || !work->shuffled || (as_shard && !work->index) || (library.make_zstd && !work->zstd_encoder)) {
        PyErr_NoMemory();
        goto end;
    }
    Py_BEGIN_ALLOW_THREADS
    if (as_shard) size = encode_shard(job, work, low, extent, count, target.buf, room, stops);
    else encode_box(job, work, low, extent, count, target.buf, room, stops);
    Py_END_ALLOW_THREADS
    result = as_shard ? PyLong_FromLongLong(size) : PyList_New(count);
    for (int64_t i = 0; result && !as_shard && i < count; i++) {
        PyObject *stop = PyLong_FromLongLong(stops[i]);
        if (stop) PyList_SET_ITEM(result, i, stop);
        else Py_CLEAR(result);
    }
end:
    PyBuffer_Release(&target);
    free(stops);
    if (work) give_back(job, work);
    return result;
}

/* The cells of one chunk that slices name (None: all of them) as entries of a read of it alone; False where they do not
   fit into ``out``. */
static int find_entries(Job *one, Entry *entries, PyObject *within, const Py_buffer *out) {
    if (out->ndim != one->ndim || out->itemsize != one->itemsize) return 0;
    if (within != Py_None && (!PyTuple_Check(within) || PyTuple_GET_SIZE(within) != one->ndim)) return 0;
    one->contiguous = 1;
    for (int axis = one->ndim - 1; axis >= 0; axis--) {
        Py_ssize_t start = 0, stop = one->shape[axis], step = 1;
        PyObject *slice = within == Py_None ? NULL : PyTuple_GET_ITEM(within, axis);
        if (slice && (!PySlice_Check(slice) || PySlice_Unpack(slice, &start, &stop, &step))) return 0;
        if (start < 0 || stop <= start || stop > one->shape[axis] || step < 1) return 0;
        const int64_t count = (stop - start - 1) / step + 1;
        if (out->shape[axis] != count) return 0;
        entries[axis] = (Entry){0, start, count, count == 1 ? 1 : step, 0, count == one->shape[axis]};
        one->entries[axis] = entries + axis;
        one->counts[axis] = 1;
        one->out_strides[axis] = out->strides[axis];
        if (one->shape[axis] > 1) one->contiguous &= out->strides[axis] == one->strides[axis];
    }
    return 1;
}

static int parse_stamp(PyObject *value, Stamp *stamp) {
    return PyArg_ParseTuple(value, "LLK", &stamp->size, &stamp->changed, &stamp->inode);
}

static PyObject *job_read_one(Job *job, PyObject *arguments) {
    PyObject *path = NULL, *within, *target, *known_tuple, *result = NULL;
    long long start, size;
    unsigned long long blosc, zstd;
    if (!PyArg_ParseTuple(arguments, "O&OOOLLKK", PyUnicode_FSConverter, &path, &within, &target, &known_tuple, &start, &size,
                          &blosc, &zstd))
        return NULL;
    Stamp known, stamp;
    Entry entries[MOST_AXES];
    Piece piece;
    Py_buffer out;
    const int64_t first[MOST_AXES] = {0};
    Work *work = NULL;
    if (known_tuple != Py_None && !parse_stamp(known_tuple, &known)) {
        if (PyErr_ExceptionMatches(PyExc_OverflowError)) { /* nanoseconds of Python's that are beyond a long long */
            PyErr_Clear();
            result = Py_NewRef(Py_None);
        }
        goto end;
    }
    if (PyObject_GetBuffer(target, &out, PyBUF_STRIDED)) goto end;
    Job one = *job; /* which no other thread sees: its lists and its lock are not used */
    one.out = out;
    int state = READ_LEFT;
    if (find_entries(&one, entries, within, &out) && (work = take_single_work(job->nbytes, job->shuffle > 1 ? job->nbytes : 0))) {
        find_piece(&one, first, &piece);
        work->blosc = (void *)(uintptr_t)blosc;
        work->zstd = (void *)(uintptr_t)zstd;
        work->files = work->bytes = 0;
        Py_BEGIN_ALLOW_THREADS
        state = read_one(&one, work, &piece, PyBytes_AS_STRING(path), known_tuple == Py_None ? NULL : &known, start, size,
                         &stamp);
        Py_END_ALLOW_THREADS
    }
    PyErr_Clear();
    if (state == READ_LEFT) result = Py_NewRef(Py_None);
    else if (state == READ_MISSING) result = Py_BuildValue("LO", 0LL, Py_None);
    else result = Py_BuildValue("L(LLK)", (long long)work->bytes, stamp.size, stamp.changed, stamp.inode);
    if (work) give_single_back(work);
    PyBuffer_Release(&out);
end:
    Py_XDECREF(path);
    return result;
}

/* Runs may still be at work where the caller was interrupted while it waited for them: the last one closes the files. */
static PyObject *job_close(Job *job, PyObject *unused) {
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&job->mutex);
    job->is_closed = 1;
    unlock_and_close(job);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *job_encode(Job *job, PyObject *arguments) { return encode_into(job, arguments, 0); }

static PyObject *job_encode_shard(Job *job, PyObject *arguments) { return encode_into(job, arguments, 1); }

static PyMethodDef job_methods[] = {
    {"encode_shard", (PyCFunction)job_encode_shard, METH_VARARGS,
     "Build a whole shard in a buffer; its size, 0 where it holds fill values alone, -1 where it is left."},
    {"encode", (PyCFunction)job_encode, METH_VARARGS,
     "Encode the chunks of a box into a buffer; where each ends, -1 for one of fill values alone, -2 for one left."},
    {"read_one", (PyCFunction)job_read_one, METH_VARARGS,
     "Read cells of one chunk; (bytes read, stamp), None in place of the stamp where it is missing, None where it is left."},
    {"run", (PyCFunction)job_run, METH_VARARGS, "Read the chunks of a box of entries; (files, bytes, entries left)."},
    {"close", (PyCFunction)job_close, METH_NOARGS,
     "Close the folder and all shards, once the last run has ended that is at work; later ones leave all chunks."},
    {NULL},
};

static PyTypeObject job_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "hyperslab.chunks._engine.Job",
    .tp_basicsize = sizeof(Job),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "One read of chunks, one write of what is encoded of an array in memory, or reads of single chunks.",
    .tp_new = job_new,
    .tp_dealloc = (destructor)job_dealloc,
    .tp_methods = job_methods,
};

static PyObject *use_library(PyObject *self, PyObject *addresses) {
    uint64_t found[FUNCTIONS];
    if (!PyTuple_Check(addresses) || PyTuple_GET_SIZE(addresses) != FUNCTIONS) {
        PyErr_Format(PyExc_ValueError, "a tuple of %d addresses is needed", FUNCTIONS);
        return NULL;
    }
    for (int i = 0; i < FUNCTIONS; i++) {
        found[i] = PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(addresses, i));
        if (PyErr_Occurred()) return NULL;
    }
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&mutex);
    /* Several threads may be the first to come: the jobs of the one that was faster may run by now, so what is there
       already is not written again. */
    if (memcmp(&library, found, sizeof library)) memcpy(&library, found, sizeof library);
    pthread_mutex_unlock(&mutex);
    Py_RETURN_NONE;
}

static PyObject *sum_bytes(PyObject *self, PyObject *data) {
    Py_buffer view;
    if (PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)) return NULL;
    uint32_t sum;
    if (view.len < SUMMED_UNLOCKED) {
        sum = crc32c(view.buf, view.len);
    } else {
        Py_BEGIN_ALLOW_THREADS
        sum = crc32c(view.buf, view.len);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&view);
    return PyLong_FromUnsignedLong(sum);
}

static PyMethodDef functions[] = {
    {"crc32c", sum_bytes, METH_O, "Return the CRC-32C of bytes."},
    {"use_library", use_library, METH_O, "Take the addresses of the functions of libblosc2; once, before any job."},
    {NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, .m_name = "_engine", .m_doc = "Chunks read and encoded without Python's lock.", .m_size = -1, .m_methods = functions};

PyMODINIT_FUNC PyInit__engine(void) {
    make_table();
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("sse4.2")) {
        make_lane_table();
        crc_function = crc_by_processor;
    }
#endif
    if (PyType_Ready(&job_type)) return NULL;
    PyObject *made = PyModule_Create(&module);
#ifdef Py_GIL_DISABLED
    if (made) PyUnstable_Module_SetGIL(made, Py_MOD_GIL_NOT_USED); /* jobs guard what their threads share */
#endif
    PyObject *by_processor = crc_function == crc_by_table ? Py_False : Py_True;
    if (made && (PyModule_AddObjectRef(made, "Job", (PyObject *)&job_type) ||
                 PyModule_AddObjectRef(made, "sums_by_processor", by_processor) ||
                 PyModule_AddIntConstant(made, "source_sum", SOURCE_SUM))) Py_CLEAR(made);
    return made;
}
