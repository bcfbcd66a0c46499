#include "access/permission.h"

#include <stdio.h>

void permission_diagnose(pid_t pid, struct diagnosis *ret)
{
    *ret = (struct diagnosis){.reason = "capability"};
    snprintf(ret->why, sizeof(ret->why), "no permission to look into process %d", pid);
    snprintf(ret->remedy, sizeof(ret->remedy), "run scry as root");
}

int permission_error(pid_t pid, struct error *err)
{
    struct diagnosis d;
    permission_diagnose(pid, &d);
    error_set(err, -SCRY_E_PERMISSION, "%s", d.why);
    error_hint(err, "%s", d.remedy);
    return -SCRY_E_PERMISSION;
}
