-- The mode of the lock, '' when it is free; its holders; the members of its queue.
read_holders(redis.call('HGET', state, 'kind'))
local known = not owner and not held and read_lease()
if known and known['until'] > now() then
  owner, held = known.owner, 'exclusive'
end
local described = {}
for _, holder in pairs(held_by) do
  described[#described + 1] = describe_one(holder)
end
if held == 'exclusive' then
  described[1] = describe()
end
return {held or '', described, redis.call('ZRANGE', queue, 0, -1)}
