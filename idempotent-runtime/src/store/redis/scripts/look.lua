-- A record and its time to live, of one moment.
-- KEYS: record.
return { redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1]) }
