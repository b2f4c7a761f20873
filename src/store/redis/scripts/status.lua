-- Who holds the lock and who waits for it: the description of the holder or nil, the members of the queue.
local owner = redis.call('GET', lock)
if not owner and redis.call('HGET', state, 'owner') and tonumber(redis.call('HGET', state, 'until') or 0) > now() then
  owner = redis.call('HGET', state, 'owner')
end
return {owner and describe(owner), redis.call('ZRANGE', queue, 0, -1)}
