-- Marks a record that is being processed, so that whoever ends it publishes its name.
-- KEYS: record. Its first three bytes are the version, the state and the mark.
if redis.call('GETRANGE', KEYS[1], 0, 2) == '\1P\0' then
  redis.call('SETRANGE', KEYS[1], 2, '\1')
end
return 1
