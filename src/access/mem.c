#include "access/mem.h"

#include <string.h>

int mem_readv(struct mem *mem, const struct mem_range *ranges, int count)
{
    return count > 0 ? mem->ops->readv(mem, ranges, count) : 0;
}

int mem_read(struct mem *mem, scry_addr addr, void *to, size_t len)
{
    struct mem_range range = {addr, to, len};
    int n = mem->ops->readv(mem, &range, 1);
    if (n < 0)
        return n;
    return n == 1 ? 0 : -SCRY_E_READ;
}

int mem_read_u64(struct mem *mem, scry_addr addr, uint64_t *ret_value)
{
    uint64_t value;
    int rc = mem_read(mem, addr, &value, sizeof(value));
    if (!rc)
        *ret_value = value;
    return rc;
}

int mem_read_u32(struct mem *mem, scry_addr addr, uint32_t *ret_value)
{
    uint32_t value;
    int rc = mem_read(mem, addr, &value, sizeof(value));
    if (!rc)
        *ret_value = value;
    return rc;
}

/* In steps that never cross a page, so that a string at the very end of a mapping is read in full.
 * The smallest page size of any supported machine serves for all. */
int mem_read_cstr(struct mem *mem, scry_addr addr, char *to, size_t cap)
{
    const size_t page = 4096, step = 256;
    size_t len = 0;
    if (!cap)
        return -SCRY_E_READ;
    while (len < cap - 1) {
        size_t n = page - (size_t)((addr + len) % page);
        if (n > step)
            n = step;
        if (n > cap - 1 - len)
            n = cap - 1 - len;
        int rc = mem_read(mem, addr + len, to + len, n);
        if (rc)
            return rc;
        if (memchr(to + len, '\0', n))
            return 0;
        len += n;
    }
    to[len] = '\0';
    return 0;
}

void mem_close(struct mem *mem)
{
    if (mem)
        mem->ops->close(mem);
}
