/* Completion scripts, made from the tables. Each offers commands, then the options of the command,
 * then values: words to choose from, process ids, files, programs. */
#include "tool/help.h"

#include <string.h>
#include <strings.h>

#include "util/buf.h"

const char *const completion_shells[] = {"bash", "zsh", "fish", "elvish", "powershell", NULL};

/* The shell's name for a function: py-spy becomes _py_spy. */
static const char *function_name(const char *tool)
{
    return strcmp(tool, "py-spy") == 0 ? "_py_spy" : "_scry";
}

/* Text inside single quotes of a POSIX shell, fish or zsh. fish takes \' inside single quotes, the
 * others need to leave the quotes; leaving them works everywhere. */
static void quoted(FILE *out, const char *text)
{
    fputc('\'', out);
    for (; *text; text++) {
        if (*text == '\'')
            fputs("'\\''", out);
        else
            fputc(*text, out);
    }
    fputc('\'', out);
}

static bool takes_pid(const struct option *o)
{
    return o->kind == OPT_PID || o->kind == OPT_PIDS;
}

static bool takes_file(const struct option *o)
{
    return o->kind == OPT_FILE;
}

/* ---- bash ---- */

static void bash_words(FILE *out, const struct command *c)
{
    fprintf(out, "        %s) words='", c->name);
    for (const struct option *o = c->options; o->name; o++) {
        if (!option_visible(o))
            continue;
        if (o->letter)
            fprintf(out, "-%c ", o->letter);
        fprintf(out, "--%s ", o->name);
    }
    for (size_t i = 0; c->words == WORDS_CHOICE && c->word_choices[i]; i++)
        fprintf(out, "%s ", c->word_choices[i]);
    for (size_t i = 0; c->words == WORDS_COMMAND && commands[i]; i++)
        fprintf(out, "%s ", commands[i]->name);
    fputs("'", out);
    if (c->words == WORDS_PROGRAM)
        fputs("; other=-c", out);
    if (c->words == WORDS_FILES)
        fputs("; other=-f", out);
    fputs(" ;;\n", out);
}

/* One branch for a value of this option of this command. */
static void bash_value(FILE *out, const struct command *c, const struct option *o)
{
    fprintf(out, "        %s,--%s", c->name, o->name);
    if (o->letter)
        fprintf(out, "|%s,-%c", c->name, o->letter);
    fputs(")\n            ", out);
    const char *names[CHOICES_MAX];
    size_t count = option_choices(o, names, CHOICES_MAX);
    if (count > 0) {
        fputs("COMPREPLY=($(compgen -W '", out);
        for (size_t i = 0; i < count; i++)
            fprintf(out, "%s%s", i ? " " : "", names[i]);
        fputs("' -- \"$current\"))", out);
    } else if (takes_pid(o)) {
        fputs("COMPREPLY=($(compgen -W \"$(cd /proc && printf '%s ' [0-9]*)\" -- \"$current\"))",
              out);
    } else if (takes_file(o)) {
        fputs("COMPREPLY=($(compgen -f -- \"$current\"))", out);
    } else {
        fputs("COMPREPLY=()", out);
    }
    fputs("\n            return ;;\n", out);
}

static void print_bash(FILE *out, const char *tool)
{
    const char *function = function_name(tool);
    fprintf(out, "# bash completion for %s\n%s() {\n", tool, function);
    fputs("    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
          "    local command='' words='' other='' i\n"
          "    COMPREPLY=()\n"
          "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
          "        case ${COMP_WORDS[i]} in\n"
          "            -*) ;;\n"
          "            *) command=${COMP_WORDS[i]}; break ;;\n"
          "        esac\n"
          "    done\n"
          "    case $command in\n",
          out);
    /* An abbreviated command completes like the whole one. */
    for (size_t i = 0; commands[i]; i++)
        if (commands[i]->letter)
            fprintf(out, "        %c) command=%s ;;\n", commands[i]->letter, commands[i]->name);
    fputs("    esac\n    case $command,$before in\n", out);
    for (size_t i = 0; commands[i]; i++)
        for (const struct option *o = commands[i]->options; o->name; o++)
            if (option_visible(o) && option_takes_value(o))
                bash_value(out, commands[i], o);
    fputs("    esac\n    case $command in\n        '') words='", out);
    for (size_t i = 0; commands[i]; i++)
        fprintf(out, "%s ", commands[i]->name);
    for (const struct option *o = global_options; o->name; o++)
        fprintf(out, "-%c --%s ", o->letter, o->name);
    fputs("' ;;\n", out);
    for (size_t i = 0; commands[i]; i++)
        bash_words(out, commands[i]);
    fputs("    esac\n"
          "    COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
          "    if [ -n \"$other\" ] && [ ${#COMPREPLY[@]} -eq 0 ]; then\n"
          "        COMPREPLY=($(compgen \"$other\" -- \"$current\"))\n"
          "    fi\n"
          "}\n",
          out);
    fprintf(out, "complete -o bashdefault -F %s %s\n", function, tool);
}

/* ---- zsh ---- */

/* Inside an _arguments specification brackets and colons have a meaning. */
static void zsh_text(FILE *out, const char *text)
{
    for (; *text; text++) {
        if (strchr("[]:\\", *text))
            fputc('\\', out);
        if (*text == '\'')
            fputs("'\\''", out);
        else
            fputc(*text, out);
    }
}

static void zsh_value(FILE *out, const struct option *o)
{
    const char *names[CHOICES_MAX];
    size_t count = option_choices(o, names, CHOICES_MAX);
    fprintf(out, ":%s:", o->argument);
    if (count > 0) {
        fputc('(', out);
        for (size_t i = 0; i < count; i++)
            fprintf(out, "%s%s", i ? " " : "", names[i]);
        fputc(')', out);
    } else if (takes_pid(o)) {
        fputs("_pids", out);
    } else if (takes_file(o)) {
        fputs("_files", out);
    }
}

static void zsh_option(FILE *out, const struct option *o, const char *indent)
{
    bool value = option_takes_value(o);
    const char *repeat = option_repeats(o) ? "*" : "";
    if (o->letter) {
        fprintf(out, "%s'%s-%c%s[", indent, repeat, o->letter, value ? "+" : "");
        zsh_text(out, o->help);
        fputc(']', out);
        if (value)
            zsh_value(out, o);
        fputs("' \\\n", out);
    }
    fprintf(out, "%s'%s--%s%s[", indent, repeat, o->name, value ? "=" : "");
    zsh_text(out, o->help);
    fputc(']', out);
    if (value)
        zsh_value(out, o);
    fputs("' \\\n", out);
}

static void zsh_words(FILE *out, const struct command *c)
{
    switch (c->words) {
    case WORDS_PROGRAM:
        fputs("                '*::program:_normal'\n", out);
        break;
    case WORDS_FILES:
        fputs("                '*:file:_files'\n", out);
        break;
    case WORDS_COMMAND:
    case WORDS_CHOICE:
        fputs("                '1:word:(", out);
        for (size_t i = 0; c->words == WORDS_CHOICE && c->word_choices[i]; i++)
            fprintf(out, "%s%s", i ? " " : "", c->word_choices[i]);
        for (size_t i = 0; c->words == WORDS_COMMAND && commands[i]; i++)
            fprintf(out, "%s%s", i ? " " : "", commands[i]->name);
        fputs(")'\n", out);
        break;
    case WORDS_NONE:
        fputs("                ':: :'\n", out);
        break;
    }
}

static void print_zsh(FILE *out, const char *tool)
{
    const char *function = function_name(tool);
    fprintf(out, "#compdef %s\n\n%s() {\n", tool, function);
    fputs("    local context state state_descr line\n"
          "    typeset -A opt_args\n"
          "    local -a names\n"
          "    _arguments -C \\\n",
          out);
    for (const struct option *o = global_options; o->name; o++)
        zsh_option(out, o, "        ");
    fputs("        '1:command:->command' \\\n"
          "        '*::argument:->argument'\n"
          "    case $state in\n"
          "    command)\n"
          "        names=(\n",
          out);
    for (size_t i = 0; commands[i]; i++) {
        fprintf(out, "            '%s:", commands[i]->name);
        zsh_text(out, commands[i]->summary);
        fputs("'\n", out);
    }
    fputs("        )\n"
          "        _describe command names ;;\n"
          "    argument)\n"
          "        case $words[1] in\n",
          out);
    for (size_t i = 0; commands[i]; i++) {
        const struct command *c = commands[i];
        fprintf(out, "        %s", c->name);
        if (c->letter)
            fprintf(out, "|%c", c->letter);
        fputs(")\n            _arguments -s \\\n", out);
        for (const struct option *o = c->options; o->name; o++)
            if (option_visible(o))
                zsh_option(out, o, "                ");
        zsh_words(out, c);
        fputs("            ;;\n", out);
    }
    fputs("        esac ;;\n    esac\n}\n\n", out);
    /* Works both autoloaded from $fpath and sourced. */
    fprintf(out,
            "if [ \"$funcstack[1]\" = \"%s\" ]; then\n    %s \"$@\"\nelse\n    compdef %s %s\nfi\n",
            function, function, function, tool);
}

/* ---- fish ---- */

static void fish_option(FILE *out, const char *tool, const char *condition, const struct option *o)
{
    fprintf(out, "complete -c %s -n %s", tool, condition);
    if (o->letter)
        fprintf(out, " -s %c", o->letter);
    fprintf(out, " -l %s", o->name);
    if (option_takes_value(o)) {
        const char *names[CHOICES_MAX];
        size_t count = option_choices(o, names, CHOICES_MAX);
        fputs(takes_file(o) ? " -r -F" : " -x", out);
        if (count > 0) {
            fputs(" -a '", out);
            for (size_t i = 0; i < count; i++)
                fprintf(out, "%s%s", i ? " " : "", names[i]);
            fputc('\'', out);
        } else if (takes_pid(o)) {
            fputs(" -a '(__fish_complete_pids)'", out);
        }
    }
    fputs(" -d ", out);
    quoted(out, o->help);
    fputc('\n', out);
}

static void fish_words(FILE *out, const char *tool, const char *condition, const struct command *c)
{
    if (c->words == WORDS_PROGRAM)
        fprintf(out, "complete -c %s -n %s -a '(__fish_complete_command)'\n", tool, condition);
    else if (c->words == WORDS_FILES)
        fprintf(out, "complete -c %s -n %s -F\n", tool, condition);
    for (size_t i = 0; c->words == WORDS_CHOICE && c->word_choices[i]; i++)
        fprintf(out, "complete -c %s -n %s -a %s\n", tool, condition, c->word_choices[i]);
    for (size_t i = 0; c->words == WORDS_COMMAND && commands[i]; i++)
        fprintf(out, "complete -c %s -n %s -a %s\n", tool, condition, commands[i]->name);
}

static void print_fish(FILE *out, const char *tool)
{
    fprintf(out, "# fish completion for %s\ncomplete -c %s -f\n", tool, tool);
    for (const struct option *o = global_options; o->name; o++)
        fish_option(out, tool, "__fish_use_subcommand", o);
    for (size_t i = 0; commands[i]; i++) {
        const struct command *c = commands[i];
        fprintf(out, "complete -c %s -n __fish_use_subcommand -a %s -d ", tool, c->name);
        quoted(out, c->summary);
        fputc('\n', out);

        char condition[80];
        snprintf(condition, sizeof(condition), "'__fish_seen_subcommand_from %s%s%c'", c->name,
                 c->letter ? " " : "", c->letter ? c->letter : ' ');
        for (const struct option *o = c->options; o->name; o++)
            if (option_visible(o))
                fish_option(out, tool, condition, o);
        fish_words(out, tool, condition, c);
    }
}

/* ---- elvish and PowerShell: commands and options, no values ---- */

static void elvish_words(FILE *out, const struct option *options)
{
    for (const struct option *o = options; o->name; o++) {
        if (!option_visible(o))
            continue;
        if (o->letter)
            fprintf(out, " -%c", o->letter);
        fprintf(out, " --%s", o->name);
    }
}

static void print_elvish(FILE *out, const char *tool)
{
    fprintf(out, "# elvish completion for %s\n", tool);
    fputs("var words = [\n    &''=[", out);
    for (size_t i = 0; commands[i]; i++)
        fprintf(out, " %s", commands[i]->name);
    elvish_words(out, global_options);
    fputs("]\n", out);
    for (size_t i = 0; commands[i]; i++) {
        const struct command *c = commands[i];
        fprintf(out, "    &%s=[", c->name);
        elvish_words(out, c->options);
        for (size_t k = 0; c->words == WORDS_CHOICE && c->word_choices[k]; k++)
            fprintf(out, " %s", c->word_choices[k]);
        for (size_t k = 0; c->words == WORDS_COMMAND && commands[k]; k++)
            fprintf(out, " %s", commands[k]->name);
        fputs("]\n", out);
    }
    fprintf(out,
            "]\n"
            "set edit:completion:arg-completer[%s] = {|@line|\n"
            "    var command = ''\n"
            "    if (> (count $line) 2) {\n"
            "        set command = $line[1]\n"
            "    }\n"
            "    if (has-key $words $command) {\n"
            "        put $@words[$command]\n"
            "    }\n"
            "    edit:complete-filename $line[-1]\n"
            "}\n",
            tool);
}

static void powershell_list(FILE *out, const struct command *c)
{
    bool first = true;
    for (const struct option *o = c ? c->options : global_options; o->name; o++) {
        if (!option_visible(o))
            continue;
        fprintf(out, "%s'--%s'", first ? "" : ", ", o->name);
        first = false;
    }
    for (size_t i = 0; c && c->words == WORDS_CHOICE && c->word_choices[i]; i++)
        fprintf(out, ", '%s'", c->word_choices[i]);
    for (size_t i = 0; (!c || c->words == WORDS_COMMAND) && commands[i]; i++)
        fprintf(out, ", '%s'", commands[i]->name);
}

static void print_powershell(FILE *out, const char *tool)
{
    fprintf(out,
            "# PowerShell completion for %s\n"
            "Register-ArgumentCompleter -Native -CommandName '%s' -ScriptBlock {\n"
            "    param($word, $line, $cursor)\n"
            "    $command = ''\n"
            "    if ($line.CommandElements.Count -gt 1) {\n"
            "        $command = $line.CommandElements[1].ToString()\n"
            "    }\n"
            "    $names = switch ($command) {\n",
            tool, tool);
    for (size_t i = 0; commands[i]; i++) {
        fprintf(out, "        '%s' { @(", commands[i]->name);
        powershell_list(out, commands[i]);
        fputs(") }\n", out);
    }
    fputs("        default { @(", out);
    powershell_list(out, NULL);
    fputs(") }\n"
          "    }\n"
          "    $names | Where-Object { $_ -like \"$word*\" } | ForEach-Object {\n"
          "        [System.Management.Automation.CompletionResult]::new($_)\n"
          "    }\n"
          "}\n",
          out);
}

int completion_print(FILE *out, const char *tool, const char *shell, struct error *err)
{
    static void (*const printers[])(FILE *, const char *) = {print_bash, print_zsh, print_fish,
                                                             print_elvish, print_powershell};
    for (size_t i = 0; completion_shells[i]; i++) {
        if (strcasecmp(shell, completion_shells[i]) == 0) {
            printers[i](out, tool);
            return 0;
        }
    }
    error_set(err, -SCRY_E_USAGE, "no completions are known for the shell '%s'", shell);
    error_hint(err, "choose from: bash, zsh, fish, elvish, powershell");
    return -SCRY_E_USAGE;
}
