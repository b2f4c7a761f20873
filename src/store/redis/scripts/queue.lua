-- What every script begins with. KEYS: the lock, its state, its queue. ARGV 1 to 3: the prefix of the
-- channels on which waiters listen, the wall clock of the caller in microseconds, the owner token.
--
-- lock   string: the owner token, with a PX expiry: the format of the Redis documentation, which other
--        libraries share. "broken:" before the token: broken, and its owner has not stopped yet;
--        "released:": given back before the end of its min-hold.
-- state  hash: what redlock knows of the last grant (owner, fence, since, until, ttl, metadata; times in
--        milliseconds). "owner" goes with the release, "fence" stays. "broken": the last fence that was
--        taken away at once.
-- queue  sorted set: "token metadata" by ticket. Tickets grow, so the order is that of arrival.

local lock, state, queue = KEYS[1], KEYS[2], KEYS[3]
local channel, clock, me = ARGV[1], tonumber(ARGV[2]), ARGV[3]

-- For a week after the last grant the fencing counter is kept; after that the wall clock makes the
-- tokens grow.
local RETENTION = 604800000
-- How long a lock that was handed over waits for its new holder to confirm.
local CLAIM = 3000
-- A queue that no waiter has asked about for a minute is forgotten.
local QUEUE_RETENTION = 60000

local function integer(number)
  return string.format('%.0f', number)
end

local function now()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function token_of(member)
  return string.match(member, '^%S+')
end

local function metadata_of(member)
  return string.match(member, '^%S+ (.*)$') or ''
end

-- What is known of the last grant: its fence, and the time before which a release leaves the lock to its time.
local function last_grant()
  local known = redis.call('HMGET', state, 'fence', 'keep')
  return {fence = tonumber(known[1]) or 0, keep = tonumber(known[2])}
end

local function grant(token, metadata, ttl, last)
  local fence = integer(math.max(last.fence + 1, clock))
  local since = now()
  -- The first write of the script is one that a server without memory refuses: after another one it would
  -- let everything pass.
  redis.call('SET', lock, token, 'PX', ttl)
  redis.call('HSET', state, 'owner', token, 'fence', fence, 'since', integer(since),
    'until', integer(since + ttl), 'ttl', integer(ttl), 'metadata', metadata)
  if last.keep then
    redis.call('HDEL', state, 'keep')
  end
  redis.call('PEXPIRE', state, RETENTION)
  return fence
end

-- Tells the first in line how long the lease lasts, so that it need not ask; without a ttl, to ask.
-- PUBLISH answers how many received it: nobody does when the waiter is dead.
local function tell_first(ttl)
  local news = ttl and integer(ttl) or 'ask'
  while true do
    local first = redis.call('ZRANGE', queue, 0, 0)[1]
    if not first then return end
    if redis.call('PUBLISH', channel .. token_of(first), news) > 0 then return end
    redis.call('ZREM', queue, first)
  end
end

-- Gives the lock to the first waiter that is alive, and wakes it. Its lease is short until it confirms; that also
-- tells the next one that it is the first now.
local function hand_over(last)
  while true do
    local first = redis.call('ZPOPMIN', queue)[1]
    if not first then return false end
    local token = token_of(first)
    if redis.call('PUBLISH', channel .. token, 'ask') > 0 then
      grant(token, metadata_of(first), CLAIM, last)
      return true
    end
  end
end

-- The lock is free for the next one.
local function set_free(last)
  if not hand_over(last or last_grant()) then
    redis.call('DEL', lock)
    redis.call('HDEL', state, 'owner', 'until', 'keep')
  end
end

-- Who holds the lock: metadata ('' for one that is not a redlock), fence, since, what is left (-1: never
-- expires), ttl, broken.
local function describe(owner)
  local known = redis.call('HMGET', state, 'owner', 'metadata', 'fence', 'since', 'ttl', 'until')
  local broken = string.match(owner, '^broken:(.*)$')
  local left = redis.call('PTTL', lock)
  if left == -2 then
    left = math.max(tonumber(known[6] or 0) - now(), 0)
  end
  if known[1] and (owner == known[1] or broken == known[1]) then
    return {known[2] or '', known[3] or '', known[4] or '', left, known[5] or '0', broken and 1 or 0}
  end
  return {'', '', '', left, '0', 0}
end
