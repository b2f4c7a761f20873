-- Asks all waiters to show themselves when a claim was not confirmed in time.
probe(last_grant())
return 1
