/* A program that has Python inside: it calls the interpreter from a function of its own, twice. */
#include <Python.h>

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    Py_Initialize();
    FILE *script = fopen(argv[1], "r");
    if (!script)
        return 3;
    return PyRun_SimpleFileEx(script, argv[1], 1) ? 1 : 0;
}
