DELETE FROM redlock.history WHERE ended < clock_timestamp() - '30 days'::interval
