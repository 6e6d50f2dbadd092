/* Walks over uncompressed records. `walk` checks the records of a batch from an untrusted client;
 * `rows` and `headers` find keys and values in many batches. record_walk.py and row_walk.py
 * describe the checks and give the same answers in Python; tests compare both over hostile bytes.
 *
 * The bytes are untrusted. A position is compared with the end of the record before its byte is
 * read, and the end of the record was compared with the end of the batch. A length is compared with
 * the remaining bytes before it is added to a pointer. Sums of 64 bits are checked. Nothing is
 * allocated or kept.
 */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

enum fault {
    SOUND, NUMBER, LENGTH, OFFSET_DELTA, KEY_LENGTH, VALUE_LENGTH, HEADER_COUNT, HEADER_KEY_LENGTH,
    HEADER_KEY_TEXT, HEADER_VALUE_LENGTH, SURPLUS, NO_KEY, TIMESTAMP_DELTA, TIMESTAMP, TRAILING,
    MISSING, ATTRIBUTES,
};

struct walk {
    const uint8_t *begin, *at, *end;  /* of the records; the rest begins at `at` */
    int64_t base_timestamp, earliest, latest;
    int needs_key;
    int64_t index, value, max_timestamp;  /* of the faulty record, with its fault's number */
};

static const int64_t NO_TIMESTAMP = -1;
static const Py_ssize_t SHORT = 64 << 10;  /* bytes for which other threads may wait */

#define TRY(call) do { enum fault found = (call); if (found != SOUND) return found; } while (0)

static enum fault
refuse(struct walk *w, enum fault why, int64_t value)
{
    w->value = value;
    return why;
}

/* A zigzag number of at most `bits` bits, in no more bytes than these bits need. */
static enum fault
read_number(struct walk *w, const uint8_t *end, int bits, int64_t *number)
{
    uint64_t raw = 0;
    const uint8_t *at = w->at;
    for (int shift = 0; shift < bits && at < end; shift += 7) {
        uint8_t byte = *at++;
        raw |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            if (bits - shift < 7 && byte >> (bits - shift) != 0)
                break;
            w->at = at;
            *number = (int64_t)(raw >> 1) ^ -(int64_t)(raw & 1);
            return SOUND;
        }
    }
    return refuse(w, NUMBER, w->at - w->begin);
}

/* Skip a length and its bytes; -1 stands for null if `nullable`. */
static enum fault
skip_bytes(struct walk *w, const uint8_t *end, int nullable, enum fault why, int64_t *length)
{
    TRY(read_number(w, end, 32, length));
    if (*length == -1 && nullable)
        return SOUND;
    if (*length < 0 || *length > end - w->at)
        return refuse(w, why, *length);
    w->at += *length;
    return SOUND;
}

/* True for UTF-8 as Unicode defines it: shortest form, no surrogates, at most U+10FFFF. */
static int
is_text(const uint8_t *at, const uint8_t *end)
{
    while (at < end) {
        uint8_t lead = *at++;
        if (lead < 0x80)
            continue;
        int more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
        if (lead < 0xC2 || lead > 0xF4 || end - at < more)
            return 0;
        uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
        uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
        if (*at < low || *at > high)
            return 0;
        for (at++; --more > 0; at++)
            if ((*at & 0xC0) != 0x80)
                return 0;
    }
    return 1;
}

static enum fault
walk_headers(struct walk *w, const uint8_t *end)
{
    int64_t count, length;
    TRY(read_number(w, end, 32, &count));
    if (count < 0 || count > end - w->at)
        return refuse(w, HEADER_COUNT, count);
    for (; count > 0; count--) {
        TRY(skip_bytes(w, end, 0, HEADER_KEY_LENGTH, &length));
        if (!is_text(w->at - length, w->at))
            return refuse(w, HEADER_KEY_TEXT, w->at - length - w->begin);
        TRY(skip_bytes(w, end, 1, HEADER_VALUE_LENGTH, &length));
    }
    return SOUND;
}

static enum fault
walk_record(struct walk *w)
{
    int64_t length, key_length, value_length, timestamp_delta, offset_delta, timestamp;
    if (w->at == w->end)
        return refuse(w, MISSING, 0);
    TRY(read_number(w, w->end, 32, &length));
    if (length < 0 || length > w->end - w->at)
        return refuse(w, LENGTH, length);
    const uint8_t *end = w->at + length;
    if (length == 0)
        return refuse(w, NUMBER, w->at - w->begin);
    if (*w->at >= 0x80)
        return refuse(w, ATTRIBUTES, *w->at);
    w->at++;  /* attributes: none is defined */
    TRY(read_number(w, end, 64, &timestamp_delta));
    TRY(read_number(w, end, 32, &offset_delta));
    if (offset_delta != w->index)
        return refuse(w, OFFSET_DELTA, offset_delta);
    TRY(skip_bytes(w, end, 1, KEY_LENGTH, &key_length));
    TRY(skip_bytes(w, end, 1, VALUE_LENGTH, &value_length));
    TRY(walk_headers(w, end));
    if (w->at != end)
        return refuse(w, SURPLUS, end - w->at);
    if (w->needs_key && key_length == -1)
        return refuse(w, NO_KEY, 0);
    if (__builtin_add_overflow(w->base_timestamp, timestamp_delta, &timestamp))
        return refuse(w, TIMESTAMP_DELTA, timestamp_delta);
    if (timestamp != NO_TIMESTAMP && (timestamp < w->earliest || timestamp > w->latest))
        return refuse(w, TIMESTAMP, timestamp);
    if (timestamp > w->max_timestamp)
        w->max_timestamp = timestamp;
    return SOUND;
}

static enum fault
walk_records(struct walk *w, int64_t count)
{
    for (; w->index < count; w->index++)
        TRY(walk_record(w));
    return w->at == w->end ? SOUND : refuse(w, TRAILING, w->end - w->at);
}

static PyObject *
walk(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer data;
    Py_ssize_t at;
    long long count, base_timestamp, earliest, latest;
    int needs_key;
    if (!PyArg_ParseTuple(args, "y*nLLLLp", &data, &at, &count, &base_timestamp, &earliest, &latest,
                          &needs_key))
        return NULL;
    if (at < 0 || at > data.len) {
        PyBuffer_Release(&data);
        return PyErr_Format(PyExc_ValueError, "byte %zd is not within the batch", at);
    }
    const uint8_t *begin = (const uint8_t *)data.buf + at;
    struct walk w = {
        .begin = begin, .at = begin, .end = (const uint8_t *)data.buf + data.len,
        .base_timestamp = base_timestamp, .earliest = earliest, .latest = latest,
        .needs_key = needs_key, .max_timestamp = INT64_MIN,
    };
    enum fault found;
    if (data.len <= SHORT) {
        found = walk_records(&w, count);
    } else {
        Py_BEGIN_ALLOW_THREADS
        found = walk_records(&w, count);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&data);
    return Py_BuildValue("(iLLL)", (int)found, (long long)w.index, (long long)w.value,
                         (long long)w.max_timestamp);
}

/* Rows: the positions of keys and values. */

struct rows {
    const uint8_t *data;
    int64_t start, stop, capacity;
    int32_t *marks, *batch_of, *headers;  /* `headers` has three lines of `capacity` */
    uint8_t *nulls;                       /* two lines */
    int64_t *offsets, *timestamps;
    int64_t found, last_mark;
};

enum { BODY_START, BODY_END, COUNT, BASE_OFFSET, LAST_OFFSET, BASE_TIMESTAMP, APPEND_TIME, FIELDS };

/* A zigzag number of 64 bits in at most ten bytes; 0 if it does not end before `end`. */
static int
varint(const uint8_t *data, int64_t *at, int64_t end, int64_t *number)
{
    uint64_t raw = 0;
    int64_t next = *at;
    for (int shift = 0; shift < 64 && next < end; shift += 7) {
        uint8_t byte = data[next++];
        raw |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            *at = next;
            *number = (int64_t)(raw >> 1) ^ -(int64_t)(raw & 1);
            return 1;
        }
    }
    return 0;
}

/* A length, and the begin and end of its bytes; -1 stands for null if `nullable`. */
static int
span(const uint8_t *data, int64_t *at, int64_t end, int nullable, int64_t *length, int64_t *first)
{
    if (!varint(data, at, end, length) || *length < (nullable ? -1 : 0) || *length > end - *at)
        return 0;
    *first = *at;
    if (*length > 0)
        *at += *length;
    return 1;
}

static int64_t
sum_within(int64_t a, int64_t b)
{
    int64_t sum;
    if (!__builtin_add_overflow(a, b, &sum))
        return sum;
    return b < 0 ? INT64_MIN : INT64_MAX;
}

/* 0 if the batch does not consist of exactly its records. */
static int
rows_of_batch(struct rows *r, const int64_t *batch, int32_t number)
{
    const uint8_t *data = r->data;
    int64_t at = batch[BODY_START], end = batch[BODY_END];
    int64_t previous = batch[BASE_OFFSET], offset;
    for (int64_t n = 0; n < batch[COUNT]; n++) {
        int64_t length, time, delta, key, value, count, key_length, value_length;
        if (!varint(data, &at, end, &length) || length <= 0 || length > end - at)
            return 0;
        int64_t record_end = at + length;
        at++;  /* attributes */
        if (!varint(data, &at, record_end, &time) || !varint(data, &at, record_end, &delta)
            || !span(data, &at, record_end, 1, &key_length, &key)
            || !span(data, &at, record_end, 1, &value_length, &value)
            || !varint(data, &at, record_end, &count)
            || count < 0 || count > (record_end - at) / 2 || (count == 0 && at != record_end))
            return 0;
        if (__builtin_add_overflow(batch[BASE_OFFSET], delta, &offset)
            || offset < previous || offset > batch[LAST_OFFSET])
            return 0;
        if (r->start <= offset && offset < r->stop) {
            int64_t row = r->found++;
            int32_t *marks = r->marks + 4 * row;
            marks[0] = (int32_t)key;
            marks[1] = (int32_t)(key_length > 0 ? key + key_length : key);
            marks[2] = (int32_t)value;
            r->last_mark = value_length > 0 ? value + value_length : value;
            marks[3] = (int32_t)r->last_mark;
            r->nulls[row] = key_length < 0;
            r->nulls[r->capacity + row] = value_length < 0;
            r->offsets[row] = offset;
            r->timestamps[row] = batch[APPEND_TIME] >= 0
                ? batch[APPEND_TIME] : sum_within(batch[BASE_TIMESTAMP], time);
            r->batch_of[row] = number;
            r->headers[row] = (int32_t)at;
            r->headers[r->capacity + row] = (int32_t)record_end;
            r->headers[2 * r->capacity + row] = (int32_t)count;
        }
        at = record_end;
        if (offset == INT64_MAX)
            return n + 1 == batch[COUNT] && at == end;
        previous = offset + 1;
    }
    return at == end;
}

/* True if all batches are within the data, with room for a row for each record. */
static int
rows_fit(const int64_t *batches, Py_ssize_t count, Py_ssize_t data_size, int64_t capacity)
{
    for (Py_ssize_t b = 0; b < count; b++) {
        const int64_t *batch = batches + FIELDS * b;
        if (batch[BODY_START] < 0 || batch[BODY_END] < batch[BODY_START]
            || batch[BODY_END] > data_size || batch[COUNT] < 0 || batch[COUNT] > capacity)
            return 0;
        capacity -= batch[COUNT];
    }
    return 1;
}

static PyObject *
rows(PyObject *Py_UNUSED(module), PyObject *args)
{
    enum { DATA, BATCHES, MARKS, NULLS, OFFSETS, TIMESTAMPS, BATCH_OF, HEADERS, BUFFERS };
    Py_buffer b[BUFFERS];
    long long start, stop;
    if (!PyArg_ParseTuple(args, "y*y*LLw*w*w*w*w*w*", &b[DATA], &b[BATCHES], &start, &stop,
                          &b[MARKS], &b[NULLS], &b[OFFSETS], &b[TIMESTAMPS], &b[BATCH_OF],
                          &b[HEADERS]))
        return NULL;
    int64_t capacity = b[OFFSETS].len / 8;
    Py_ssize_t count = b[BATCHES].len / (8 * FIELDS), broken = 0;
    const int64_t *batches = b[BATCHES].buf;
    struct rows r = {
        .data = b[DATA].buf, .start = start, .stop = stop, .capacity = capacity,
        .marks = b[MARKS].buf, .batch_of = b[BATCH_OF].buf, .headers = b[HEADERS].buf,
        .nulls = b[NULLS].buf, .offsets = b[OFFSETS].buf, .timestamps = b[TIMESTAMPS].buf,
    };
    int fits = b[DATA].len <= INT32_MAX && count <= INT32_MAX
        && b[BATCHES].len == count * 8 * FIELDS && b[OFFSETS].len == capacity * 8
        && b[TIMESTAMPS].len == capacity * 8 && b[NULLS].len == capacity * 2
        && b[BATCH_OF].len == capacity * 4 && b[HEADERS].len == capacity * 12
        && b[MARKS].len == capacity * 16 + 4
        && rows_fit(batches, count, b[DATA].len, capacity);
    if (fits) {
        Py_BEGIN_ALLOW_THREADS
        while (broken < count && rows_of_batch(&r, batches + FIELDS * broken, (int32_t)broken))
            broken++;
        r.marks[4 * r.found] = (int32_t)r.last_mark;
        Py_END_ALLOW_THREADS
    }
    for (int i = 0; i < BUFFERS; i++)
        PyBuffer_Release(&b[i]);
    if (!fits)
        return PyErr_Format(PyExc_ValueError, "the arrays do not fit the batches");
    return Py_BuildValue("(Ln)", (long long)r.found, broken < count ? broken : (Py_ssize_t)-1);
}

/* 0 if the bytes of a row are not exactly its headers; `header` counts the headers so far. */
static int
headers_of_row(const uint8_t *data, int64_t at, int64_t end, int64_t count, int64_t *header,
               int32_t *marks, uint8_t *nulls)
{
    for (; count > 0; count--, ++*header) {
        int64_t key, value, key_length, value_length;
        if (!span(data, &at, end, 0, &key_length, &key)
            || !span(data, &at, end, 1, &value_length, &value))
            return 0;
        int32_t *mark = marks + 4 * *header;
        mark[0] = (int32_t)key;
        mark[1] = (int32_t)(key + key_length);
        mark[2] = (int32_t)value;
        mark[3] = (int32_t)at;
        mark[4] = (int32_t)at;
        nulls[*header] = value_length < 0;
    }
    return at == end;
}

static PyObject *
headers(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer data, places, marks, nulls;
    if (!PyArg_ParseTuple(args, "y*y*w*w*", &data, &places, &marks, &nulls))
        return NULL;
    Py_ssize_t count = places.len / 12, broken = 0;
    const int32_t *at = places.buf, *end = at + count, *counts = end + count;
    int64_t header = 0, room = nulls.len;
    int fits = data.len <= INT32_MAX && places.len == count * 12 && marks.len == room * 16 + 4;
    for (Py_ssize_t row = 0; fits && row < count; row++) {
        fits = at[row] >= 0 && at[row] <= end[row] && end[row] <= data.len && counts[row] >= 0
            && counts[row] <= room;
        room -= counts[row];
    }
    if (fits) {
        Py_BEGIN_ALLOW_THREADS
        *(int32_t *)marks.buf = 0;
        while (broken < count && headers_of_row(data.buf, at[broken], end[broken], counts[broken],
                                                &header, marks.buf, nulls.buf))
            broken++;
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&data);
    PyBuffer_Release(&places);
    PyBuffer_Release(&marks);
    PyBuffer_Release(&nulls);
    if (!fits)
        return PyErr_Format(PyExc_ValueError, "the arrays do not fit the headers");
    return PyLong_FromSsize_t(broken < count ? broken : -1);
}

static PyMethodDef methods[] = {
    {"walk", walk, METH_VARARGS, "As record_walk.walk_in_python."},
    {"rows", rows, METH_VARARGS, "As row_walk.rows_in_python."},
    {"headers", headers, METH_VARARGS, "As row_walk.headers_in_python."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    .m_base = PyModuleDef_HEAD_INIT, .m_name = "_records", .m_methods = methods,
};

PyMODINIT_FUNC
PyInit__records(void)
{
    return PyModuleDef_Init(&module);
}
