/* How many files scry may have open. Watching a thread takes two, and the customary limit is far below what the
 * kernel would grant; a launched program gets back the limit that scry was started with. */
#ifndef SCRY_UTIL_LIMITS_H
#define SCRY_UTIL_LIMITS_H

void limits_raise_files(void);
void limits_restore_files(void); /* does nothing unless raised */

#endif
