/* What a node says about itself. */
#ifndef SCRY_HTTP_FACTS_H
#define SCRY_HTTP_FACTS_H

#include "http/state.h"

#define FACTS_IPS_MAX 256

struct ip_list {
    char items[FACTS_IPS_MAX][48];
    size_t count;
};

/* The addresses of the network a process lives in, its own and no others; adds to the list. */
void facts_addresses(pid_t pid, struct ip_list *list);
/* The same from the text of /proc/PID/net/fib_trie. */
void facts_parse_addresses(const char *fib_trie, struct ip_list *list);
bool ip_list_has(const struct ip_list *list, const char *ip);

/* This node, as the API shows it. */
void facts_json(struct server *s, struct buf *to);

#endif
