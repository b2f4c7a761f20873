-- What is left of the lease of this token, in milliseconds (-1: it never expires); nil when it holds nothing.
if redis.call('GET', lock) == me then
  return redis.call('PTTL', lock)
end
return nil
