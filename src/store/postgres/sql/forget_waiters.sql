DELETE FROM redlock.waiter WHERE alive_until < clock_timestamp() - '1 hour'::interval
