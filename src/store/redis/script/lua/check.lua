-- The time left of the lease of this token, in milliseconds (-1: it never expires); nil when it holds nothing.
if read_owner() == me then
  return redis.call('PTTL', lock)
end
read_holders(redis.call('HGET', state, 'kind'))
local mine = held_by[me]
if mine and not mine.broken then
  return mine['until'] - now()
end
return nil
