-- needs: row known
-- gives: an expression
-- The seconds between two heartbeats of a worker, as its row says: null if it does not, at most a day. Other workers may
-- write anything into their metadata.
case jsonb_typeof(known.metadata -> 'beat_interval')
    when 'number'
        then cast(greatest(0, least(86400, cast(known.metadata -> 'beat_interval' as numeric))) as float8)
end
