/* The records of an uncompressed batch, walked once. The twin in record_walk.py says what is checked
 * and gives the same answers; a test compares the two over hostile bytes.
 *
 * The bytes are a stranger's. No byte is read before its position was compared with the end of the
 * record, which was compared with the end of the batch; a length is compared with what is left, and
 * never added to a pointer before that; sums of 64 bits are checked. Nothing is allocated or kept.
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
    const uint8_t *begin, *at, *end;  /* of the records; what is left begins at `at` */
    int64_t base_timestamp, earliest, latest;
    int needs_key;
    int64_t index, value, max_timestamp;  /* of the record at fault; what is wrong there */
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

/* A zigzag number of at most `bits` bits, in no more bytes than these need. */
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

/* Pass over a length and so many bytes; -1 stands for none where `nullable`. */
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

/* Whether it is UTF-8 as Unicode defines it: shortest form, no surrogates, at most U+10FFFF. */
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
    w->at++;  /* attributes, of which none is defined */
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

static PyMethodDef methods[] = {
    {"walk", walk, METH_VARARGS, "As record_walk.walk_in_python."},
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
