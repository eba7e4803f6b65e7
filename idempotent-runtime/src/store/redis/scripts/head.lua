-- The beginning of a record, its length and its time to live, of one moment.
-- KEYS: record. ARGV: how many bytes.
return { redis.call('GETRANGE', KEYS[1], 0, ARGV[1] - 1), redis.call('STRLEN', KEYS[1]), redis.call('PTTL', KEYS[1]) }
