/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_image.c - a picture that somebody else made
 *
 * Bytes become a picture of a size in range, every pixel of it readable and scalable, or an error that names the file
 * and nothing else.
 */
#include <string.h>

#include "engine/base/err.h"
#include "engine/image/image.h"
#include "tests/fuzz/target.h"

enum { PIXELS_MAX = 1 << 20 };

/* Size that the header claims, so that no input asks for gigabytes: that is no bug of ours. */
static int too_large(const uint8_t *d, size_t n)
{
    if (n >= 24 && memcmp(d, "\x89PNG\r\n\x1a\n", 8) == 0)
        return d[16] | d[17] | d[20] | d[21] | (d[18] > 4) | (d[22] > 4);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err = {0};
    struct image im, fit;
    if (too_large(data, size))
        return 0;
    if (image_decode(&im, data, size, "picture", &err) < 0) {
        PROMISE(err.code != ERR_NONE && strstr(err.text, "picture") && !im.rgb);
        return 0;
    }
    PROMISE(im.width >= 1 && im.width <= IMAGE_MAX_EDGE && im.height >= 1);
    if ((int64_t)im.width * im.height <= PIXELS_MAX) {
        PROMISE(image_fit(&fit, &im, 7, 3, &err) == 0 && fit.width == 7 && fit.height == 3);
        image_free(&fit);
    }
    image_free(&im);
    return 0;
}
