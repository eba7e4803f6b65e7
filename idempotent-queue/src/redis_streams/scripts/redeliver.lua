-- Takes entries that this consumer has had since, as one more delivery.
-- ARGV: the id of each entry, and the number of the delivery that it was.
for i = 3, #ARGV, 2 do
  local entry = redis.call('XPENDING', stream, group, ARGV[i], ARGV[i], 1)[1]
  if entry and entry[2] == consumer and entry[4] == tonumber(ARGV[i + 1]) then
    take(entry[1], entry[4])
  end
end
return {taken, gone, ''}
