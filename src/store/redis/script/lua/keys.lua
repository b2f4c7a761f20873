-- Every script begins with this file. KEYS: KEYS_OF_A_LOCK for each lock, in the order of this list. ARGV 1 to 3: the least
-- fencing token of a grant in a quorum, or '' on a single server; the owner token; the name of the index or ''.
--
-- lock     string with a PX expiry. An exclusive lock holds the owner token: the format of the Redis documentation,
--          which other libraries share. "broken:" before the token: broken, and its owner has not stopped yet;
--          "released:": released before the end of its min-hold. "shared:" and "permits:N": see holders.
-- state    hash. "fence" and "kind" (the mode) of the last grant, the mode '' after a release; "exclusive", when a grant
--          was; "broken", the fence of the last lease that was taken away at once. For a while: "keep", the end of the
--          min-hold; "breaker", who broke the lock, and why; "call", the last call that broke it, and what it did;
--          "permits", how many a semaphore has since `redlock resize`, while it is in use;
--          "restarted", when a holder first found the data of the server gone; "claim",
--          until the waiter that was handed the lock confirms it: since when nobody has the lock, and when all waiters
--          were probed. Times are in milliseconds. It outlives the lock, and so is small.
-- lease    string: "until ttl since owner metadata" of the last exclusive lease. It goes with the release, or a little
--          after the end of the lease.
-- queue    sorted set: "token mode metadata" by ticket: the time of arrival, less the head start of the priority.
-- holders  hash: the holders of a shared lock or a semaphore, as JSON by owner token; of a semaphore with the numbers of their
--          permits.
-- asked    hash: when each waiter asked last, by owner token, and any of them, by ''. In milliseconds.
-- claimed  list: filled for a second when a claim is confirmed, for the holder that released the lock.
-- The list "history" is for record.lua only.
--
-- index    sorted set, one for all locks of the database: those that are held or waited for, by the time, in milliseconds,
--          from which they no longer are unless somebody enters them again. For `status`, which else would have to read
--          the names of all keys, and which enters the member '' once it has done that and found what was missing: see
--          survey.rs. In a cluster there is none. It is not among KEYS: a user who may not write it could not call the
--          script.

-- The fencing counter is kept for a day behind its lease, and until the clock of the server has come to it. After
-- that the clock makes the tokens grow, also when the server lost its data: that of the server, in microseconds. In a quorum
-- it is that of the requester, so that all servers grant the same token, or the server's less half a day.
local RETENTION = 86400000
-- The first grant in each slot of this length sets the expiry of the state, with two slots to spare, and tidies the index:
-- the other quick grants need not.
local SLOT = 1200000
-- A lease is remembered this long after its end.
local AFTERWARDS = 10000
-- A lock waits this long for the waiters to which it is handed over, in all, and at least for the last of them.
-- A waiter confirms before its job starts. Without that the job would run under the claim alone, whose age the waiter knows
-- only from the server's clock; and SIGTERM is due before the claim ends by --kill-after, which is 5 s unless the TTL is short.
local CLAIM, LAST_CLAIM = 2500, 500
-- A claim that is not confirmed sooner is doubted: all waiters are asked to show themselves, within ANSWER.
local DOUBT, ANSWER = 300, 200
-- Two of the intervals at which a waiter asks: see `fallback` in queue_place.rs.
local MISSED = 12500
-- A queue that no waiter has asked about for a minute is forgotten.
local QUEUE_RETENTION = 60000
-- A holder has so many permits at most: see `Metadata::MOST_PERMITS`.
local MOST_PERMITS = 1000
-- Numbers in Lua are exact up to here.
local HIGHEST_FENCE = 9007199254740991

local KEYS_OF_A_LOCK = 7
local INDEX = ARGV[3]
-- So many are removed from it at once.
local MOST_OVER = '100'

-- The functions of this file are few: making one costs the server a tenth of a command. Commands get their numbers as text,
-- which the server reads faster than it writes a number of Lua.

-- The fencing token of a grant that follows this one.
local function next_fence(before, time)
  local least = time[1] * 1000000 + time[2]
  if ARGV[1] ~= '' then
    least = math.max(tonumber(ARGV[1]), least - RETENTION * 500)
  end
  return math.max((tonumber(before) or 0) + 1, least)
end

-- Enters a lock into the index for `ttl` from now on. Unless it has to be quick, it removes some of those that have ended:
-- of many that ended at once the next ones remove the rest.
local function enter(name, now, ttl, is_quick)
  local entered = INDEX ~= '' and redis.pcall('ZADD', INDEX, 'GT', string.format('%.0f', now + ttl), name)
  if type(entered) ~= 'number' or is_quick then return end
  local over = redis.pcall('ZRANGE', INDEX, '-inf', string.format('%.0f', now), 'BYSCORE', 'LIMIT', '0', MOST_OVER)
  if #over > 0 then
    redis.pcall('ZREM', INDEX, unpack(over))
  end
  redis.pcall('PEXPIRE', INDEX, string.format('%.0f', RETENTION))
end

-- Writes an exclusive lease of this length from now on.
local function write_lease(lease, now, ttl, since, token, metadata)
  local words = string.format('%.0f %.0f %s %s %s', now + ttl, ttl, since, token, metadata)
  redis.call('SET', lease, words, 'PX', string.format('%.0f', ttl + AFTERWARDS))
end

-- Writes down an exclusive grant, after the lock itself; with `claim` it is handed to a waiter, which has to confirm it.
-- `before` is the fencing token of the grant before. Returns the token, and whether the index should be tidied.
local function record(state, lease, before, number, token, metadata, now, ttl, claim)
  local fence = string.format('%.0f', number)
  if claim then
    redis.call('HSET', state, 'fence', fence, 'kind', 'exclusive', 'exclusive', '1', 'claim', claim)
  else
    redis.call('HSET', state, 'fence', fence, 'kind', 'exclusive', 'exclusive', '1')
  end
  write_lease(lease, now, ttl, string.format('%.0f', now), token, metadata)
  local slot_before = math.floor((tonumber(before) or 0) / 1000 / SLOT)
  local is_due = ttl > SLOT or number / 1000 >= now + 1 or slot_before ~= math.floor(now / SLOT)
  if is_due then
    redis.call('PEXPIRE', state, string.format('%.0f', RETENTION + 2 * SLOT + math.max(ttl, number / 1000 - now)))
  end
  return fence, is_due
end

