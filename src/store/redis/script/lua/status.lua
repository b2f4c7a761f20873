-- For each lock its mode, '' when it is free; its holders; the members of its queue. False for one that cannot be read.
local function status()
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
end

if #KEYS == KEYS_OF_A_LOCK then
  return {status()}
end
local all = {}
for number = 1, #KEYS / KEYS_OF_A_LOCK do
  select_lock(number)
  local done, answer = pcall(status)
  all[number] = done and answer
end
return all
