/* Prints the stacks of a Python process through libscry alone.
 *
 *     cc stacks.c $(pkg-config --cflags --libs scry) -o stacks && ./stacks PID */
#include <scry/scry.h>

#include <stdio.h>
#include <stdlib.h>

static void print_thread(const scry_target *target, size_t index)
{
    struct scry_thread thread = {.size = sizeof(thread)};
    struct scry_frame frame = {.size = sizeof(frame)};
    if (!scry_get_thread(target, index, &thread))
        return;
    printf("thread %d \"%s\" %s\n", thread.os_thread_id, thread.name,
           thread.active ? "runs" : thread.wait);
    for (size_t i = 0; scry_get_frame(target, index, i, &frame); i++)
        printf("    %s (%s:%d)\n", frame.qualified_name, frame.filename, frame.line);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s PID\n", argv[0]);
        return 2;
    }
    scry_target *target;
    struct scry_error error = {.size = sizeof(error)};
    if (scry_attach(atoi(argv[1]), NULL, &target, &error) < 0) {
        fprintf(stderr, "%s\n%s\n", error.text, error.hint);
        return 1;
    }
    int r = scry_sample(target);
    if (r == 0) {
        printf("Python %s, %s\n", scry_python_version(target), scry_command_line(target));
        for (size_t i = 0; i < scry_thread_count(target); i++)
            print_thread(target, i);
    } else {
        fprintf(stderr, "%s\n", scry_strerror(r));
    }
    scry_detach(target);
    return r == 0 ? 0 : 1;
}
