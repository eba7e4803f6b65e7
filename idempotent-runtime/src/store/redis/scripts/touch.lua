-- Writes a record's time to live as it is: servers wait for replicas only to have what a connection itself has written.
-- KEYS: record. Answers 1, or 0 if there is none.
local ttl = redis.call('PTTL', KEYS[1])
if ttl < 0 then
  return 0
end
redis.call('PEXPIRE', KEYS[1], math.max(ttl, 1))
return 1
