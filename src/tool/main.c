/* scry: find the command, parse its options, run it, print its error. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <fcntl.h>

#include "tool/commands.h"
#include "tool/help.h"
#include "tool/text.h"
#include "util/json.h"
#include "util/limits.h"

/* For scry serve, whose jobs are scry itself: the same in a form that can be read back. */
static void complain_in_json(const struct error *err)
{
    struct json j;
    json_init(&j, stderr, 0);
    json_begin_object(&j);
    json_key(&j, "code");
    json_string(&j, error_symbol(err->code));
    json_key(&j, "message");
    json_string(&j, error_text(err));
    json_key(&j, "hint");
    json_string(&j, error_hint_text(err));
    json_end_object(&j);
    fputc('\n', stderr);
}

/* One line, whatever the text holds: the sentence, and the remedy in parentheses. */
static int complain(const char *tool, const struct error *err, int code)
{
    struct error with_code = *err;
    with_code.code = code;
    const char *hint = error_hint_text(&with_code);
    const char *form = getenv("SCRY_ERRORS");
    fflush(stdout);
    if (form && strcmp(form, "json") == 0) {
        complain_in_json(&with_code);
        return error_exit_status(code);
    }
    fprintf(stderr, "%s: error: ", tool);
    text_print(stderr, error_text(&with_code));
    if (*hint) {
        fputs(" (", stderr);
        text_print(stderr, hint);
        fputc(')', stderr);
    }
    fputc('\n', stderr);
    return error_exit_status(code);
}

static int refuse_words(const struct invocation *call, struct error *err)
{
    const char *word = call->words.items[0];
    error_set(err, -SCRY_E_USAGE, "%s does not know what to do with '%s'", call->command->name,
              word);
    if (word[strspn(word, "0123456789")] == '\0')
        error_hint(err, "for a process id write -p %s", word);
    else
        error_hint(err, "see: %s %s --help", call->tool, call->command->name);
    return -SCRY_E_USAGE;
}

/* Parse the command's own options and run it. Takes over call->words. */
static int run_command(struct invocation *call, char **args, struct error *err)
{
    const struct command *command = call->command;
    void *values = calloc(1, command->values_size + 1);
    if (!values)
        return error_set(err, -SCRY_E_NO_MEMORY, "out of memory");
    if (command->defaults)
        memcpy(values, command->defaults, command->values_size);

    int r = options_parse(command->options, args, false, values, &call->words, err);
    if (r == OPTIONS_HELP) {
        help_print_command(stdout, call->tool, command);
        r = 0;
    } else if (r == 0 && command->words == WORDS_NONE && call->words.count > 0) {
        r = refuse_words(call, err);
    } else if (r == 0) {
        r = command->run(call, values, err);
    }
    words_done(&call->words);
    free(values);
    return r;
}

static int dispatch(struct invocation *call, struct error *err)
{
    struct words words;
    int r = options_parse(global_options, call->argv + 1, true, NULL, &words, err);
    if (r == OPTIONS_HELP) {
        help_print_tool(stdout, call->tool);
        return 0;
    }
    if (r == OPTIONS_VERSION) {
        help_print_version(stdout, call);
        return 0;
    }
    if (r < 0)
        return r;
    if (words.count == 0) {
        help_print_tool(stderr, call->tool);
        r = error_exit_status(-SCRY_E_USAGE);
    } else {
        r = command_find(words.items[0], &call->command, err);
        if (r == 0)
            r = run_command(call, words.items + 1, err);
    }
    words_done(&words);
    return r;
}

static struct invocation invocation(char **argv)
{
    const char *path = argv[0] ? argv[0] : "scry";
    const char *slash = strrchr(path, '/');
    bool as_py_spy = strcmp(slash ? slash + 1 : path, "py-spy") == 0;
    return (struct invocation){
        .tool = as_py_spy ? "py-spy" : "scry",
        .as_py_spy = as_py_spy,
        .argv = argv,
    };
}

/* A file opened under the number of a missing standard stream would receive what is meant for the
 * stream. */
static void fill_standard_streams(void)
{
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) < 0)
            return;
}

int main(int argc, char **argv)
{
    if (argc < 1)
        argv = (char *[]){"scry", NULL};
    fill_standard_streams();
    limits_raise_files();
    struct invocation call = invocation(argv);
    struct error err = {0};
    int status = dispatch(&call, &err);
    if (status < 0)
        status = complain(call.tool, &err, status);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        error_set(&err, -SCRY_E_OUTPUT, "cannot write to standard output: %m");
        status = complain(call.tool, &err, -SCRY_E_OUTPUT);
    }
    return status;
}
