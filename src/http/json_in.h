/* Reading JSON: jansson. Two of its names are also those of our own writer, util/json.h, which is
 * used for everything that is written; here jansson's are put out of the way. */
#ifndef SCRY_HTTP_JSON_IN_H
#define SCRY_HTTP_JSON_IN_H

#define json_string jansson_make_string
#define json_null   jansson_make_null
#include <jansson.h>
#undef json_string
#undef json_null

#endif
