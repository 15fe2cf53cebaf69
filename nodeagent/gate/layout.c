/* The layout of pages.h as a table, for Python; and what Python cannot do itself: publish. */
#include "pages.h"

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SHOWN __attribute__((visibility("default")))

#define ROW(record, type, name, count) {#record, #name, offsetof(struct pillion_##record, name), sizeof(type), count},
#define LEASE_ROW(type, name, count) ROW(lease, type, name, count)
#define CLIENT_ROW(type, name, count) ROW(client, type, name, count)
#define LEDGER_ROW(type, name, count) ROW(ledger, type, name, count)
#define ACTIVITY_ROW(type, name, count) ROW(activity, type, name, count)
#define MESSAGE_ROW(type, name, count) ROW(message, type, name, count)

SHOWN const struct pillion_field pillion_layout[] = {
    PILLION_LEASE_FIELDS(LEASE_ROW) PILLION_CLIENT_FIELDS(CLIENT_ROW) PILLION_LEDGER_FIELDS(LEDGER_ROW)
        PILLION_ACTIVITY_FIELDS(ACTIVITY_ROW) PILLION_MESSAGE_FIELDS(MESSAGE_ROW){"protocol", "", PILLION_PROTOCOL, 0, 0},
    {NULL, NULL, 0, 0, 0},
};

SHOWN void pillion_publish(uint32_t *news, uint32_t value) {
  atomic_store_explicit((_Atomic uint32_t *)news, value, memory_order_seq_cst);
  syscall(SYS_futex, news, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}
