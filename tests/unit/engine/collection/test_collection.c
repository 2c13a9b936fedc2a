/* SPDX-License-Identifier: Apache-2.0 */
/* test_collection.c - layouts are distinguished, wrong samples named, captions chosen exactly as by Sana's readers */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/err.h"
#include "engine/collection/collection.h"
#include "engine/image/image.h"
#include "tests/unit/engine/contract/scratch_dir.h"
#include "tests/verify/verify.h"

#define GOLDEN "tests/golden/data/"

static char dir[256];

static int make_dir(void **state)
{
    (void)state;
    scratch_dir_create(dir, sizeof(dir), "collection");
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    return scratch_dir_remove(dir);
}

static const char *at(const char *name)
{
    static char path[4][600];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof(path[0]), "%s/%s", dir, name);
    return path[turn];
}

static void put(const char *name, const char *text)
{
    FILE *f = fopen(at(name), "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void put_picture(const char *name, int width, int height)
{
    struct image im;
    assert_int_equal(image_create(&im, width, height, NULL), 0);
    assert_int_equal(image_write_png(&im, at(name), NULL), 0);
    image_free(&im);
}

/* Members of a tar file: names and texts, ended by NULL. */
static void put_tar(const char *name, const char *const *members)
{
    FILE *f = fopen(at(name), "w");
    static const char zeros[1024];
    assert_non_null(f);
    for (; *members; members += 2) {
        char block[512] = "";
        unsigned sum = 8 * ' ';
        const size_t n = strlen(members[1]);
        snprintf(block, 100, "%s", members[0]);
        snprintf(block + 124, 12, "%011o", (unsigned)n);
        memcpy(block + 257, "ustar", 6);
        for (int i = 0; i < 512; i++)
            sum += (unsigned char)block[i];
        snprintf(block + 148, 8, "%06o", sum);
        block[155] = ' ';
        fwrite(block, 1, 512, f);
        fwrite(members[1], 1, n, f);
        fwrite(zeros, 1, (512 - n % 512) % 512, f);
    }
    fwrite(zeros, 1, 1024, f);
    fclose(f);
}

static struct collection_options options_for(const char *name)
{
    static char path[600];
    snprintf(path, sizeof(path), "%s", at(name));
    return (struct collection_options){.path = path, .recipe = COLLECTION_SANA, .step = 32, .rule = {0, 1}};
}

static struct collection *open_at(const char *name)
{
    struct collection_options o = options_for(name);
    struct collection *c = NULL;
    struct err err = {0};
    if (collection_open(&c, &o, NULL, NULL, &err) < 0)
        fail_msg("%s", err.text);
    return c;
}

static void expect_refusal(const char *name, const char *says)
{
    struct collection_options o = options_for(name);
    struct collection *c;
    struct err err = {0};
    assert_int_equal(collection_open(&c, &o, NULL, NULL, &err), -1);
    assert_int_equal(err.code, ERR_DATA);
    if (!strstr(err.text, says))
        fail_msg("gave: %s\n expected: %s", err.text, says);
}

static void expect_sample(const struct collection *c, int64_t i, const char *name, const char *caption)
{
    struct collection_sample s;
    struct err err = {0};
    if (collection_sample(&s, c, i, &err) < 0)
        fail_msg("%s", err.text);
    assert_string_equal(s.name, name);
    assert_string_equal(s.caption[collection_best(&s)].text, caption);
    collection_sample_free(&s);
}

static void expect_wrong(const struct collection *c, int64_t i, const char *says)
{
    struct collection_sample s;
    struct err err = {0};
    assert_int_equal(collection_sample(&s, c, i, &err), -1);
    assert_int_equal(err.code, ERR_DATA);
    if (!strstr(err.text, says))
        fail_msg("gave: %s\n expected: %s", err.text, says);
}

static void the_authors_samples_are_exact(void **state)
{
    (void)state;
    struct verify_result r;
    struct err err = {0};
    if (verify_case(&r, GOLDEN "expected.json", NULL, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(r.failed, 0);
    assert_true(r.tensors > 400);
}

static void a_folder_takes_txt_and_json(void **state)
{
    (void)state;
    mkdir(at("both"), 0700);
    put_picture("both/b.png", 10, 20);
    put("both/b.txt", " two\nlines \n");
    put_picture("both/a.x.png", 10, 20);
    put("both/a.x.json", "{\"prompt\": \"from json\", \"height\": 64, \"width\": 16}");
    put_picture("both/c.png", 10, 20);
    put("both/c.json", "{\"prompt\": null}");
    struct collection *c = open_at("both");
    assert_int_equal(collection_layout(c), COLLECTION_FOLDER);
    assert_int_equal(collection_len(c), 3);
    expect_sample(c, 0, "a.x.png", "from json");
    expect_sample(c, 1, "b.png", "two lines");
    expect_sample(c, 2, "c.png", "");
    collection_close(c);
}

static void a_name_without_extension_has_the_last_one(void **state)
{
    (void)state;
    mkdir(at("meta"), 0700);
    put("meta/meta_data.json", "{\"img_names\": [\"a\", \"b.3\", \"c.webp\", \"d\"]}");
    put("meta/a.txt", "\xc2\xa0 first \xe3\x80\x80\r\nsecond");
    put_picture("meta/a.png", 4, 4);
    put("meta/b.3.txt", "b");
    put_picture("meta/b.3.png", 4, 4);
    put("meta/c.txt", "c");
    put_picture("meta/c.webp", 4, 4);
    put("meta/d.txt", "d");
    put_picture("meta/d.png", 4, 4);
    struct collection *c = open_at("meta");
    assert_int_equal(collection_layout(c), COLLECTION_META);
    expect_sample(c, 0, "a.png", "first");
    expect_sample(c, 1, "b.3.png", "b");
    expect_sample(c, 2, "c.webp", "c");
    expect_wrong(c, 3, "d.webp: No such file");
    collection_close(c);
    put("meta/meta_data.json", "{\"img_names\": 3}");
    expect_refusal("meta", "meta_data.json: expected {\"img_names\"");
    put("meta/meta_data.json", "{\n\n]");
    expect_refusal("meta", "meta_data.json:3: not JSON");
}

static void lines_are_named(void **state)
{
    (void)state;
    mkdir(at("hub"), 0700);
    mkdir(at("hub/sub"), 0700);
    put_picture("hub/a.png", 4, 4);
    put_picture("hub/sub/b.png", 4, 4);
    put("hub/metadata.jsonl", "{\"file_name\": \"a.png\", \"text\": \"A\", \"other\": \"x\"}\n\n"
                              "{\"file_name\": \"sub/b.png\", \"additional_feature\": \"B\"}\n");
    struct collection *c = open_at("hub");
    assert_int_equal(collection_layout(c), COLLECTION_HUB);
    expect_sample(c, 0, "a.png", "A");
    expect_sample(c, 1, "sub/b.png", "B");
    collection_close(c);
    put("hub/metadata.jsonl",
        "{\"file_name\": \"a.png\", \"text\": \"A\"}\n{\"file_name\": \"c.png\", \"text\": \"C\"}\n");
    expect_refusal("hub", "metadata.jsonl:2: cannot read the picture");
    put("hub/metadata.jsonl", "{\"file_name\": \"a.png\", \"one\": \"A\", \"two\": \"B\"}\n");
    expect_refusal("hub", "metadata.jsonl:1: several columns could be the caption");
    put("hub/metadata.jsonl", "{\"file_name\": \"a.png\"\n");
    expect_refusal("hub", "metadata.jsonl:1: expected {\"file_name\"");
}

static void csv_is_read(void **state)
{
    (void)state;
    mkdir(at("csv"), 0700);
    mkdir(at("csv/sub"), 0700);
    put_picture("csv/a.png", 4, 4);
    put_picture("csv/sub/b.png", 4, 4);
    put("csv/metadata.csv", "\xef\xbb\xbf" "file_name,width,height,text\r\na.png,4,4,\"A, with \"\"b\"\"\r\nand more\"\r\n\r\n"
                            "sub/b.png,8,,B\r\n");
    struct collection *c = open_at("csv");
    assert_int_equal(collection_layout(c), COLLECTION_CSV);
    expect_sample(c, 0, "a.png", "A, with \"b\"  and more");
    expect_sample(c, 1, "sub/b.png", "B");
    struct collection_sample s;
    assert_int_equal(collection_sample(&s, c, 0, NULL), 0);
    assert_true(s.height == 4 && s.width == 4);
    assert_string_equal(s.where, "metadata.csv:2");
    collection_sample_free(&s);
    assert_int_equal(collection_sample(&s, c, 1, NULL), 0);
    assert_string_equal(s.where, "metadata.csv:5");
    collection_sample_free(&s);
    collection_close(c);
    static const struct {
        const char *text, *says;
    } wrong[] = {{"", "metadata.csv is empty"},
                 {"a.png,A\n", "metadata.csv:1: expected a first line with the names of the columns"},
                 {"file_name\na.png\n", "metadata.csv:1: there is no column with the caption: name it text"},
                 {"file_name,one,two\n", "metadata.csv:1: several columns could be the caption: name it text"},
                 {"file_name,text\na.png,A, B\n", "metadata.csv:2: the line has 3 columns, the first line 2"},
                 {"file_name,text\na.png,A\nc.png,C\n", "metadata.csv:3: cannot read the picture"},
                 {"file_name,text\na.png,\xff\n", "metadata.csv:2: the line is not UTF-8"},
                 {"file_name,text\na.png,\"A\nsub/b.png,B\n", "metadata.csv:2: column 2: a quoted text must end"}};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        put("csv/metadata.csv", wrong[i].text);
        expect_refusal("csv", wrong[i].says);
    }
}

static void folders_in_a_folder_are_named(void **state)
{
    (void)state;
    mkdir(at("classes"), 0700);
    mkdir(at("classes/dogs"), 0700);
    mkdir(at("classes/cats"), 0700);
    mkdir(at("classes/notes"), 0700);
    put_picture("classes/cats/a.png", 4, 4);
    put_picture("classes/dogs/b.png", 4, 4);
    put("classes/notes/a.txt", "");
    expect_refusal("classes",
                   "folders with some, which are not read: cats, dogs; name one of them in train.data.path, or list");
    put_picture("classes/c.png", 4, 4);
    put("classes/c.txt", "C");
    struct collection *c = open_at("classes");
    char said[400] = "";
    FILE *to = fmemopen(said, sizeof(said), "w");
    assert_non_null(to);
    collection_print(c, to);
    fclose(to);
    assert_non_null(strstr(said, "1 samples\nfolders in it are not read: cats, dogs\n"));
    collection_close(c);
}

static void expect_suffix(struct collection_options *o, const char *says)
{
    struct collection *c = NULL;
    struct err err = {0};
    if (collection_open(&c, o, NULL, NULL, &err) == 0) {
        collection_close(c);
        assert_null(says);
    } else if (!says || err.code != ERR_USAGE || !strstr(err.text, says)) {
        fail_msg("gave: %s\n expected: %s", err.text, says ? says : "nothing");
    }
}

static void suffixes_without_files_are_refused(void **state)
{
    (void)state;
    mkdir(at("side"), 0700);
    put_picture("side/a.png", 4, 4);
    put_picture("side/a_b.png", 4, 4);
    put("side/a.txt", "A");
    put("side/a_b.txt", "AB");
    struct collection_options o = options_for("side");
    o.suffixes_needed = true;
    o.caption_suffixes = 1;
    snprintf(o.caption_suffix[0], COLLECTION_SUFFIX, "_vlm");
    expect_suffix(&o, "train.data.caption_suffixes: there is no file NAME_vlm.json beside the pictures in");
    expect_suffix(&o, "; there are none with any suffix");
    put("side/a_b_vlm2.json", "{\"a_b\": {\"x\": \"X\"}}");
    put("side/a_score.json", "{\"a\": {\"x\": 1}}");
    expect_suffix(&o, "; suffixes that are there: _vlm2, _score");
    put("side/a_b_vlm.json", "{\"a_b\": {\"x\": \"X\"}}");
    expect_suffix(&o, NULL);
    o.score_suffixes = 1;
    snprintf(o.score_suffix[0], COLLECTION_SUFFIX, "_scores");
    expect_suffix(&o, "train.data.score_suffixes: there is no file NAME_scores.json");
    mkdir(at("sidetar"), 0700);
    const char *const members[] = {"k.png", "x", "k.json", "{\"height\": 4, \"width\": 4, \"prompt\": \"K\"}", NULL};
    put_tar("sidetar/0.tar", members);
    put("sidetar/0_vlm.json", "{}");
    o = options_for("sidetar");
    o.suffixes_needed = true;
    o.caption_suffixes = 1;
    snprintf(o.caption_suffix[0], COLLECTION_SUFFIX, "_vim");
    expect_suffix(&o, "there is no file SHARD_vim.json beside the shards in");
    expect_suffix(&o, "; suffixes that are there: _vlm");
    snprintf(o.caption_suffix[0], COLLECTION_SUFFIX, "_vlm");
    expect_suffix(&o, NULL);
}

static void several_layouts_are_ambiguous(void **state)
{
    (void)state;
    mkdir(at("two"), 0700);
    put("two/captions.jsonl", "");
    put("two/00000.tar", "");
    expect_refusal("two", "two holds both captions.jsonl and 00000.tar, which are different layouts");
    put("two/metadata.jsonl", "");
    remove(at("two/captions.jsonl"));
    expect_refusal("two", "holds both metadata.jsonl and 00000.tar");
    remove(at("two/00000.tar"));
    expect_refusal("two", "holds no pictures");
    mkdir(at("outer"), 0700);
    mkdir(at("outer/train"), 0700);
    put("outer/train/metadata.jsonl", "");
    expect_refusal("outer", "outer has its pictures in");
    put("two/metadata.jsonl", "");
    remove(at("two/metadata.jsonl"));
    put("two/data.tar.gz", "");
    expect_refusal("two", "but data.tar.gz: unpack it");
    expect_refusal("nowhere", "cannot read the data folder");
}

static void shards_have_keys_in_order(void **state)
{
    (void)state;
    static const char *const members[] = {"d/a.json", "{\"prompt\": \"A\", \"height\": 2, \"width\": 1}", "b.png", "x",
                                          "d/a.jpg", "y", "b.json", "{\"prompt\": \"B\"}", "c.txt", " text of c\n",
                                          "c.jpg", "z", "e.json", "{\"prompt\": \"E\"}", NULL, NULL};
    mkdir(at("shards.tar.d"), 0700);
    put_tar("shards.tar.d/1.tar", members);
    struct collection *c = open_at("shards.tar.d");
    assert_int_equal(collection_layout(c), COLLECTION_SHARDS);
    assert_int_equal(collection_len(c), 4);
    expect_sample(c, 0, "1.tar/d/a", "A");
    expect_sample(c, 1, "1.tar/b", "B");
    expect_sample(c, 2, "1.tar/c", "text of c");
    expect_wrong(c, 3, "1.tar/e.json has no .png");
    collection_close(c);
    put("shards.tar.d/wids-meta.json", "{\"shardlist\": [{\"url\": \"1.tar\", \"nsamples\": 3}]}");
    expect_refusal("shards.tar.d", "1.tar holds 4 keys, but wids-meta.json says 3 samples");
    put("shards.tar.d/wids-meta.json", "{\"shardlist\": [{\"url\": \"s3://1.tar\", \"nsamples\": 3}]}");
    expect_refusal("shards.tar.d", "s3://1.tar is not a file");
    put("shards.tar.d/wids-meta.json", "{\"shardlist\": [{\"url\": \"2.tar\", \"nsamples\": 3}]}");
    expect_refusal("shards.tar.d", "2.tar");
}

static void damaged_shards_are_refused(void **state)
{
    (void)state;
    static const char *const twice[] = {"a.json", "{}", "a.json", "{}", NULL, NULL};
    static const char *const wrong[] = {"a.json", "{\n]", "a.png", "x", NULL, NULL};
    mkdir(at("bad"), 0700);
    put_tar("bad/1.tar", twice);
    expect_refusal("bad", "bad/1.tar: a.json occurs twice");
    put("bad/1.tar", "\x1f\x8b compressed, and long enough for a header: .......................................... "
                     "................................................................................................"
                     "................................................................................................"
                     "................................................................................................"
                     "................................................................................................"
                     "................................................................................................");
    expect_refusal("bad", "is not a plain tar archive");
    put("bad/1.tar", "short");
    expect_refusal("bad", "bad/1.tar: the archive is cut off");
    put_tar("bad/1.tar", wrong);
    struct collection *c = open_at("bad");
    expect_wrong(c, 0, "1.tar/a.json:2: not JSON");
    char *where = collection_where(c, 0);
    assert_string_equal(where, "1.tar/a.json");
    free(where);
    collection_close(c);
}

static void on_bad(void *arg, const char *where, const char *what)
{
    assert_non_null(what);
    snprintf(arg, 64, "%s", where);
}

/* With a listener the opening goes on; the wrong sample keeps its number. */
static void wrong_samples_can_be_collected(void **state)
{
    (void)state;
    char where[64] = "";
    struct collection *c;
    mkdir(at("some"), 0700);
    put_picture("some/a.png", 4, 4);
    put_picture("some/b.png", 4, 4);
    put("some/b.txt", "B");
    struct collection_options o = options_for("some");
    assert_int_equal(collection_open(&c, &o, on_bad, where, NULL), -1);
    struct err err = {0};
    assert_int_equal(collection_open(&c, &o, on_bad, where, &err), 0);
    assert_string_equal(where, "a.png");
    assert_int_equal(collection_len(c), 2);
    expect_wrong(c, 0, "some/a.png has no caption: there is no a.txt, and no a.json");
    expect_sample(c, 1, "b.png", "B");
    collection_close(c);
}

/* Draws follow the probabilities, and depend on seed, epoch and sample alone. */
static void draws_follow_the_scores(void **state)
{
    (void)state;
    const struct caption_score scores[] = {{0, 30}, {1, 10}, {2, 20}};
    const struct caption_rule rule = {15, 1};
    int count[3] = {0};
    for (uint32_t e = 0; e < 5000; e++) {
        const int k = caption_choice_draw(&rule, scores, 3, 7, e, 11);
        assert_int_equal(k, caption_choice_draw(&rule, scores, 3, 7, e, 11));
        count[k]++;
    }
    assert_int_equal(count[1], 0); /* below the threshold */
    assert_in_range(count[0], 2850, 3150);
    assert_int_equal(caption_choice_at(&rule, scores, 3, 0.599), 0);
    assert_int_equal(caption_choice_at(&rule, scores, 3, 0.601), 2);
    assert_int_equal(caption_choice_at(&(struct caption_rule){99, 1}, scores, 3, 0.5), 0); /* the best one */
    assert_int_equal(caption_choice_at(&rule, scores, 0, 0.5), -1);
}

static void digests_follow_contents(void **state)
{
    (void)state;
    char a[DIGEST_TEXT], b[DIGEST_TEXT];
    mkdir(at("digest"), 0700);
    put_picture("digest/a.png", 40, 20);
    put("digest/a.txt", "A");
    put_picture("digest/b.png", 40, 20);
    put("digest/b.txt", "B");
    struct collection *c = open_at("digest");
    assert_int_equal(collection_picture_digest(a, c, 0, NULL), 0);
    assert_int_equal(collection_picture_digest(b, c, 1, NULL), 0);
    assert_string_equal(a, b); /* the same bytes */
    collection_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_authors_samples_are_exact),
        cmocka_unit_test(a_folder_takes_txt_and_json),
        cmocka_unit_test(a_name_without_extension_has_the_last_one),
        cmocka_unit_test(lines_are_named), cmocka_unit_test(csv_is_read),
        cmocka_unit_test(folders_in_a_folder_are_named), cmocka_unit_test(suffixes_without_files_are_refused),
        cmocka_unit_test(several_layouts_are_ambiguous),
        cmocka_unit_test(shards_have_keys_in_order),
        cmocka_unit_test(damaged_shards_are_refused),
        cmocka_unit_test(wrong_samples_can_be_collected),
        cmocka_unit_test(draws_follow_the_scores),
        cmocka_unit_test(digests_follow_contents),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
