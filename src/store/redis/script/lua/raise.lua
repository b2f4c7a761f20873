-- Raises the fencing tokens of locks that this token holds: the servers of a quorum gave different ones, and the
-- highest is the one that counts. ARGV 4 and on: the fencing token of each lock.
for number = 1, #KEYS / KEYS_OF_A_LOCK do
  select_lock(number)
  local fence = tonumber(ARGV[3 + number])
  local last = last_grant().fence
  if redis.call('GET', lock) == me then
    redis.call('HSET', state, 'fence', integer(math.max(last, fence)), 'exclusive', 1)
  else
    read_holders(redis.call('HGET', state, 'kind'))
    if not held_by[me] then return 0 end
    held_by[me].fence = integer(fence)
    write_holder(me)
    redis.call('HSET', state, 'fence', integer(math.max(last, fence)))
  end
end
return 1
