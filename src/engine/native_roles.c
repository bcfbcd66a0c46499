/* Which functions of the interpreter are worth showing. Between two Python functions lie several of
 * its own that only carry the call; they would bury the rest. What does work (a sort, a
 * multiplication, a collection) stays. */
#include <string.h>

#include "engine/native_private.h"

/* Suffixes that compilers and linkers add to parts and clones of a function. */
static bool is_function(const char *symbol, const char *name)
{
    size_t len = strlen(name);
    return strncmp(symbol, name, len) == 0 && (!symbol[len] || symbol[len] == '.');
}

static bool is_evaluator(const char *symbol)
{
    return is_function(symbol, "_PyEval_EvalFrameDefault") ||
           strncmp(symbol, "_TAIL_CALL_", 11) == 0;
}

/* Before 3.6 the evaluator bears the name of what is a wrapper since. */
static bool is_old_evaluator(const char *symbol)
{
    return is_function(symbol, "PyEval_EvalFrameEx");
}

/* In whatever binary: how threads and programs start. */
static bool is_start(const char *symbol)
{
    static const char *const names[] = {"_start",
                                        "__libc_start_main",
                                        "__libc_start_main_impl",
                                        "__libc_start_main@@GLIBC_2.34",
                                        "__libc_start_call_main",
                                        "start_thread",
                                        "clone",
                                        "clone3",
                                        "__clone",
                                        "__clone3"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (is_function(symbol, names[i]))
            return true;
    return false;
}

/* By how their names begin, in the interpreter's own binary. */
static const char *const plumbing[] = {
    /* calling */
    "PyEval_",
    "_PyEval_",
    "PyObject_Call",
    "_PyObject_Call",
    "_PyObject_FastCall",
    "_PyObject_MakeTpCall",
    "_PyObject_Vectorcall",
    "PyObject_Vectorcall",
    "PyVectorcall_",
    "_PyVectorcall_",
    "_PyFunction_",
    "PyFunction_",
    "_PyMethodDef_",
    "_PyMethodDescr_",
    "_PyCFunction_",
    "PyCFunction_",
    "_PyStack_",
    "_Py_CheckFunctionResult",
    "PyCall",
    "_PyCall",
    "_Py_BuiltinCall",
    "_Py_VectorCall",
    "function_code_fastcall",
    "function_call",
    "fast_function",
    "call_function",
    "do_call",
    "ext_do_call",
    "cfunction_",
    "method_vectorcall",
    "method_call",
    "instancemethod_call",
    "instance_call",
    "classobj_call",
    "vectorcall_",
    "object_vectorcall",
    "slot_",
    "wrap_",
    "wrapper_call",
    "wrapperdescr_",
    "wrapperdescr",
    "classmethoddescr_",
    "methoddescr_",
    "trampoline_",
    "py_trampoline",
    "builtin___build_class__",
    "cfunction",
    "lookup_maybe_method",
    "type_call",
    "type_vectorcall",
    "partial_call",
    "partial_vectorcall",
    "gen_send_ex",
    "gen_iternext",
    "gen_send",
    "_PyGen_Send",
    "PyIter_Send",
    "_PyGen_",
    "coro_",
    "async_gen_",
    "property_descr_get",
    "builtin_exec",
    "builtin_eval",
    "run_eval_code_obj",
    "run_mod",
    "builtin_exec_impl",
    "builtin_eval_impl",
    "bounded_lru_cache_wrapper",
    "lru_cache_call",
    "context_run",
    "Py_EnterRecursiveCall",
    /* starting */
    "PyRun_",
    "_PyRun_",
    "Py_RunMain",
    "Py_BytesMain",
    "Py_Main",
    "_Py_UnixMain",
    "pymain_",
    "pyrun_",
    "run_file",
    "run_command",
    "main",
    "thread_run",
    "pythread_wrapper",
    "t_bootstrap",
    "PyImport_Import",
    "import_",
    "PyImport_",
    "_PyImport_",
    "builtin___import__",
    "interpreter_update_config",
    "thread_bootstrap",
};

static bool is_plumbing(const char *symbol)
{
    for (size_t i = 0; i < ARRAY_LEN(plumbing); i++)
        if (strncmp(symbol, plumbing[i], strlen(plumbing[i])) == 0)
            return true;
    return false;
}

/* The little program that starts the interpreter in a library. */
static bool is_launcher(const char *symbol, const char *module)
{
    const char *slash = strrchr(module, '/');
    return is_function(symbol, "main") && strncmp(slash ? slash + 1 : module, "python", 6) == 0;
}

static bool before_36(const struct native_code *code)
{
    return strstr(code->module, "python2.") != NULL;
}

enum native_role native_role(struct native_code *code, const char *python_binary)
{
    if (code->role != ROLE_UNKNOWN)
        return (enum native_role)code->role;
    bool own = strcmp(code->module, python_binary) == 0;
    /* The symbol is that of the function which others are inlined into. */
    const char *name = code->inlined || !code->symbol[0] ? code->name : code->symbol;
    bool named = code->symbol[0] || code->line;
    enum native_role role = ROLE_ORDINARY;
    if (is_evaluator(name) || (is_old_evaluator(name) && before_36(code)))
        role = ROLE_EVALUATOR;
    else if (is_start(name) || is_launcher(name, code->module) || code->helper ||
             (own && (!named || is_plumbing(name))))
        role = ROLE_PLUMBING;
    code->role = (uint8_t)role;
    return role;
}
