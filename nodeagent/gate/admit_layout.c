/* Where the fields of admission's structures lie, for other languages: nobody copies a layout by hand. */
#include "admit.h"

#define FIELD(tag, name) {#tag, #name, offsetof(struct tag, name), sizeof(((struct tag *)0)->name)}

static const struct admit_field fields[] = {
    FIELD(admit_terms, max_slowdown_ppm), FIELD(admit_terms, budget_ppm), FIELD(admit_terms, max_stall_ns),
    FIELD(admit_terms, bucket_ns),        FIELD(admit_terms, switch_ns),  FIELD(admit_terms, slice_ns),
    FIELD(admit_unit, id),                FIELD(admit_unit, nodes),       FIELD(admit_unit, stream),
    FIELD(admit_answer, until_ns),        FIELD(admit_answer, go),        FIELD(admit_answer, reason),
    {"", "", 0, 0},
};

const struct admit_field *admit_fields(void) { return fields; }
