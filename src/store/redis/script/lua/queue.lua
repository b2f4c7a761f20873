-- The waiters of the selected lock, and what hands it over to them.

local function dequeue(member)
  redis.call('ZREM', queue, member)
  redis.call('HDEL', asked, token_of(member))
end

-- The first waiter. Waiters that missed two intervals are gone, unless none could ask; so are those that stayed silent
-- when all were probed. A waiter that comes back all the same has its ticket.
local function first_waiter(last)
  while true do
    local first = redis.call('ZRANGE', queue, 0, 0)[1]
    if not first then return end
    local times = redis.call('HMGET', asked, token_of(first), '')
    local time, since = tonumber(times[1]), (tonumber(times[2]) or 0) - MISSED
    if last and last.probed and now() >= math.max(last.claim + CLAIM, last.probed + ANSWER) then
      since = math.max(since, last.claim)
    end
    if not time or time >= since then return first end
    dequeue(first)
  end
end

-- Sends a message to a waiter. PUBLISH returns how many received it: none when the waiter is dead.
local function notify(member, news)
  return redis.call('PUBLISH', channel(token_of(member)), news) > 0
end

-- Tells the first waiter how long the lease lasts, so that it need not ask; without a ttl, to ask.
local function notify_first(ttl)
  local news = ttl and integer(ttl) or 'ask'
  while true do
    local first = first_waiter()
    if not first or notify(first, news) then return end
    dequeue(first)
    -- The one behind it may be a reader that can be let in.
    news = 'ask'
  end
end

-- The old and the new holder may vanish together, and the waiters would wait for both. So the next waiter and the last
-- one check the grant a little later: the next one unless it hears by then how long the lease lasts.
local function notify_watchers()
  local member
  for _, place in ipairs({0, -1}) do
    local before, is_told = member, nil
    repeat
      member = redis.call('ZRANGE', queue, place, place)[1]
      is_told = not member or member == before or notify(member, 'watch')
      if not is_told then
        dequeue(member)
      end
    until is_told
    if not member then return end
  end
end

-- Grants the lock to the first live waiters, as many as there is room for, and wakes them. Their leases are short until
-- they confirm. Stops before the member `mine`. `last.claim` is since when nobody has the lock, if not since now. Returns
-- whether there was such a waiter.
local function hand_over(last, mine)
  local served = false
  while true do
    local first = first_waiter(last)
    if not first or first == mine then break end
    local mode = current(mode_of(first), last)
    if not admits(mode, take_of(mode, metadata_of(first))) or fence_after(last) > HIGHEST_FENCE then break end
    last.claim = last.claim or now()
    dequeue(first)
    if notify(first, 'ask') then
      local ttl = math.max(last.claim + CLAIM - now(), LAST_CLAIM)
      grant(token_of(first), mode, metadata_of(first), ttl, last, true)
      served = true
      if mode == 'exclusive' then break end
    end
  end
  if served then
    notify_watchers()
  end
  return served
end

-- As `hand_over`, by the holder that releases the lock.
local function hand_over_now(last)
  last.claim, last.probed = nil, nil
  return hand_over(last)
end

-- When a claim was not confirmed in time, all waiters are asked to show themselves, once.
local function probe(last)
  if not last.claim or last.probed or now() < last.claim + DOUBT then return end
  last.probed = now()
  redis.call('HSET', state, 'claim', claim_of(last))
  for _, member in ipairs(redis.call('ZRANGE', queue, 0, -1)) do
    if token_of(member) ~= me and not notify(member, 'ask') then
      dequeue(member)
    end
  end
end

-- python-redis-lock, whose lock NAME is the key lock:NAME, waits for this list. The user may lack the permission to write
-- it, and in a cluster it may be on another server.
local function signal()
  local name = string.match(lock, '^lock:(.*)$')
  if name then
    name = 'lock-signal:' .. name
    if type(redis.pcall('DEL', name)) == 'number' then
      redis.pcall('LPUSH', name, 1)
      redis.pcall('PEXPIRE', name, 1000)
    end
  end
end

-- Hands the lock over, or frees it. Returns whether it was handed over.
local function free(last)
  held, last = nil, last or last_grant()
  local is_marked = last.keep or last.claim or last.permits
  if hand_over_now(last) then return true end
  redis.call('DEL', lock, lease)
  if last.fence > 0 then
    redis.call('HSET', state, 'kind', '')
  end
  if is_marked then
    redis.call('HDEL', state, 'keep', 'claim', 'permits')
  end
  leave()
  signal()
  return false
end

-- Removes one of `held_by`. Returns whether the lock was handed over to another.
local function remove_holder(token)
  drop_holder(token)
  if count == 0 then
    return free()
  end
  return hand_over_now(last_grant())
end
