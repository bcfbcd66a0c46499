#include "http/guard.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <gnutls/crypto.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define TOKEN_BYTES 32
#define TOKEN_MIN   16

/* ---- the token ---- */

static void write_hex(const unsigned char *data, size_t len, char *to)
{
    for (size_t i = 0; i < len; i++)
        sprintf(to + 2 * i, "%02x", data[i]);
}

static int make_token(const char *path, struct error *err)
{
    unsigned char bytes[TOKEN_BYTES];
    char text[2 * TOKEN_BYTES + 2];
    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
        return error_set(err, -SCRY_E_IO, "the kernel gives no random numbers");
    write_hex(bytes, sizeof(bytes), text);
    text[2 * TOKEN_BYTES] = '\n';
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return error_set(err, -SCRY_E_OUTPUT, "cannot make the token file '%s': %s", path,
                         strerror(errno));
    bool written = write(fd, text, sizeof(text) - 1) == (ssize_t)sizeof(text) - 1;
    if (fsync(fd) != 0 || close(fd) != 0 || !written)
        return error_set(err, -SCRY_E_OUTPUT, "cannot write the token file '%s'", path);
    return 0;
}

static int check_mode(int fd, const char *path, struct error *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return error_set(err, -SCRY_E_USAGE, "the token file '%s' is no file", path);
    /* A Secret that Kubernetes mounts belongs to root and is read through a group. */
    if (st.st_mode & 0007) {
        error_set(err, -SCRY_E_USAGE, "the token file '%s' can be read by everybody", path);
        error_hint(err, "chmod 600 '%s'", path);
        return -SCRY_E_USAGE;
    }
    return 0;
}

static int take_token(struct guard *g, int fd, const char *path, struct error *err)
{
    char text[GUARD_TOKEN_MAX + 2];
    ssize_t n = read(fd, text, sizeof(text) - 1);
    size_t len = n > 0 ? (size_t)n : 0;
    while (len && isspace((unsigned char)text[len - 1]))
        len--;
    text[len] = '\0';
    for (size_t i = 0; i < len; i++)
        if (text[i] <= ' ' || text[i] > '~')
            len = 0;
    if (len < TOKEN_MIN || len > GUARD_TOKEN_MAX) {
        error_set(err, -SCRY_E_USAGE,
                  "the token file '%s' must hold one word of %d to %d letters, digits and signs",
                  path, TOKEN_MIN, GUARD_TOKEN_MAX);
        error_hint(err, "remove it, and a new one is made");
        return -SCRY_E_USAGE;
    }
    memcpy(g->token, text, len + 1);
    return 0;
}

/* The cookie must not be the token: what a browser keeps cannot be used elsewhere. */
static int make_session(struct guard *g, struct error *err)
{
    static const char purpose[] = "scry session";
    unsigned char digest[32];
    if (gnutls_hmac_fast(GNUTLS_MAC_SHA256, g->token, strlen(g->token), purpose, sizeof(purpose),
                         digest) != 0)
        return error_set(err, -SCRY_E_INTERNAL, "HMAC is not available");
    write_hex(digest, sizeof(digest), g->session);
    return 0;
}

int guard_read_token(struct guard *g, const char *path, struct error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT) {
        int r = make_token(path, err);
        if (r < 0)
            return r;
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    }
    if (fd < 0)
        return error_set(err, -SCRY_E_USAGE, "cannot read the token file '%s': %s", path,
                         strerror(errno));
    int r = check_mode(fd, path, err);
    if (r == 0)
        r = take_token(g, fd, path, err);
    if (r == 0)
        r = make_session(g, err);
    close(fd);
    return r;
}

/* Whatever is compared takes as long as the longest. */
static bool equal(const char *a, const char *b)
{
    size_t a_len = strlen(a), b_len = strlen(b);
    unsigned char differ = a_len != b_len;
    for (size_t i = 0; i <= GUARD_TOKEN_MAX; i++)
        differ |= (unsigned char)(a[i < a_len ? i : a_len] ^ b[i < b_len ? i : b_len]);
    return differ == 0;
}

bool guard_token_is(const struct guard *g, const char *token)
{
    return g->token[0] && token && strlen(token) <= GUARD_TOKEN_MAX && equal(g->token, token);
}

/* ---- names ---- */

void guard_init(struct guard *g, bool loopback, const char *const *hosts, size_t host_count)
{
    g->loopback = loopback;
    g->hosts[g->host_count++] = "localhost";
    if (gethostname(g->own_names[0], sizeof(g->own_names[0]) - 1) == 0)
        g->hosts[g->host_count++] = g->own_names[0];
    for (size_t i = 0; i < host_count && g->host_count < GUARD_HOSTS_MAX; i++)
        g->hosts[g->host_count++] = hosts[i];
}

/* The name in "name:port", "[::1]:port", without the port. */
static bool split_host(const char *host, char *to, size_t cap)
{
    const char *end;
    if (*host == '[') {
        host++;
        end = strchr(host, ']');
        if (!end || (end[1] && end[1] != ':'))
            return false;
    } else {
        end = host + strcspn(host, ":");
        if (*end == ':' && end[1 + strspn(end + 1, "0123456789")])
            return false;
    }
    size_t len = (size_t)(end - host);
    if (len == 0 || len >= cap)
        return false;
    memcpy(to, host, len);
    to[len] = '\0';
    if (len > 1 && to[len - 1] == '.') /* a full name may end with a dot */
        to[len - 1] = '\0';
    return true;
}

static bool is_address(const char *name)
{
    struct in6_addr room;
    return inet_pton(AF_INET, name, &room) == 1 || inet_pton(AF_INET6, name, &room) == 1;
}

static bool is_loopback(const char *name)
{
    return strncmp(name, "127.", 4) == 0 || strcmp(name, "::1") == 0;
}

/* DNS rebinding works by a name of the attacker's that points here: addresses are safe. */
static bool host_known(const struct guard *g, const char *name)
{
    if (is_address(name))
        return !g->loopback || is_loopback(name);
    for (size_t i = 0; i < g->host_count; i++) {
        const char *known = g->hosts[i];
        size_t len = strlen(name), tail = strlen(known);
        if (strcasecmp(name, known) == 0)
            return true;
        /* "*.example.org", and names below localhost, which never leave the machine */
        if (known[0] == '*' && len >= tail && strcasecmp(name + len - (tail - 1), known + 1) == 0)
            return true;
    }
    return false;
}

/* "http://name:port" against the Host header. */
static bool same_origin(const char *origin, const char *host)
{
    const char *name = strstr(origin, "://");
    return name && strcasecmp(name + 3, host) == 0;
}

bool guard_check_origin(const struct guard *g, const struct guard_headers *h, struct reply *re)
{
    char name[256];
    if (!h->host || !split_host(h->host, name, sizeof(name)) || !host_known(g, name)) {
        reply_error(re, 421, "wrong_host", NULL,
                    "call it by its address or by localhost, or name the host with --host-name",
                    "this server does not answer for the host '%.200s'", h->host ? h->host : "");
        return false;
    }
    bool foreign = h->origin && !same_origin(h->origin, h->host);
    /* Browsers that say where a request comes from need not be guessed about. */
    if (h->fetch_site && h->changes && strcmp(h->fetch_site, "same-origin") != 0 &&
        strcmp(h->fetch_site, "none") != 0)
        foreign = true;
    if (foreign) {
        reply_error(re, 403, "forbidden", NULL, "", "requests from other sites are refused");
        return false;
    }
    return true;
}

/* The value of a cookie; false if it is not there. */
static bool read_cookie(const char *cookies, const char *name, char *to, size_t cap)
{
    size_t len = strlen(name);
    for (const char *at = cookies; at && *at; at = strchr(at, ';')) {
        at += strspn(at, "; ");
        if (strncmp(at, name, len) != 0 || at[len] != '=')
            continue;
        size_t n = strcspn(at + len + 1, ";");
        if (n >= cap)
            return false;
        memcpy(to, at + len + 1, n);
        to[n] = '\0';
        return true;
    }
    return false;
}

bool guard_check_token(const struct guard *g, const struct guard_headers *h, struct reply *re)
{
    char value[GUARD_TOKEN_MAX + 1];
    if (!g->token[0])
        return true;
    if (h->authorization && strncasecmp(h->authorization, "Bearer ", 7) == 0 &&
        guard_token_is(g, h->authorization + 7))
        return true;
    if (h->cookie && read_cookie(h->cookie, "scry_session", value, sizeof(value)) &&
        equal(value, g->session))
        return true;
    reply_error(re, 401, "unauthorized", NULL, "send it as Authorization: Bearer TOKEN",
                h->authorization || h->cookie ? "the token is wrong" : "a token is needed");
    reply_header(re, "WWW-Authenticate", "Bearer");
    return false;
}
