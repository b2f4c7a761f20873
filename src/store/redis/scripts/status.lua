-- How the lock is held, by whom, and who waits for it: the kind or '', the holders, the members of the queue.
local known = redis.call('HMGET', state, 'owner', 'until', 'kind')
look(known[3])
if not owner and not held and known[1] and tonumber(known[2] or 0) > now() then
  owner, held = known[1], 'exclusive'
end
local described = {}
for _, holder in pairs(several) do
  described[#described + 1] = describe_one(holder)
end
if held == 'exclusive' then
  described[1] = describe()
end
return {held or '', described, redis.call('ZRANGE', queue, 0, -1)}
