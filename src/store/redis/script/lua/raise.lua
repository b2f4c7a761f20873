-- Raises the fencing tokens of locks that this token holds: the servers of a quorum gave different ones, and the
-- highest is the one that counts. ARGV 4 and on: the fencing token of each lock.
for number = 1, #KEYS / KEYS_OF_A_LOCK do
  select_lock(number)
  local fence = tonumber(ARGV[3 + number])
  if read_owner() ~= me then
    read_holders(redis.call('HGET', state, 'kind'))
    if not held_by[me] then return 0 end
    held_by[me].fence = integer(fence)
    write_holder(me)
  end
  redis.call('HSET', state, 'fence', integer(math.max(last_grant().fence, fence)))
end
return 1
