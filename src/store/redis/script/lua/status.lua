-- The mode of the lock, '' when it is free; its holders; the members of its queue.
local of_last = redis.call('HMGET', state, 'kind', 'fence')
read_holders(of_last[1])
local known = remembered_lease(of_last[1])
if known['until'] > now() then
  owner, held = known.owner, 'exclusive'
end
local described = {}
for _, holder in pairs(held_by) do
  described[#described + 1] = describe_one(holder)
end
if held == 'exclusive' then
  described[1] = describe(of_last[2])
end
return {held or '', described, redis.call('ZRANGE', queue, 0, -1)}
