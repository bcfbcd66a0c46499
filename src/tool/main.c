#include <stdio.h>

#include "version.h"

int main(void)
{
    puts("scry " SCRY_VERSION);
    return 0;
}
