/* Runs a fuzz target over the files named on the command line, without a fuzzer: to see again what
 * one has found, and under any compiler. */
#include <stdio.h>
#include <stdlib.h>

#include "util/buf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int run(const char *path)
{
    FILE *in = fopen(path, "rbe");
    if (!in) {
        perror(path);
        return 1;
    }
    SCOPED_BUF all;
    buf_init(&all);
    char part[4096];
    size_t n;
    while ((n = fread(part, 1, sizeof(part), in)) > 0)
        buf_add(&all, part, n);
    fclose(in);
    LLVMFuzzerTestOneInput((const uint8_t *)all.data, all.len);
    return 0;
}

int main(int argc, char **argv)
{
    int failed = 0;
    for (int i = 1; i < argc; i++)
        failed |= run(argv[i]);
    return failed;
}
