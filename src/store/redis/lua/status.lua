-- How the lock is held, by whom, and who waits for it: the kind or '', the holders, the members of the queue.
look(redis.call('HGET', state, 'kind'))
local known = not owner and not held and read_lease()
if known and known['until'] > now() then
  owner, held = known.owner, 'exclusive'
end
local described = {}
for _, holder in pairs(several) do
  described[#described + 1] = describe_one(holder)
end
if held == 'exclusive' then
  described[1] = describe()
end
return {held or '', described, redis.call('ZRANGE', queue, 0, -1)}
