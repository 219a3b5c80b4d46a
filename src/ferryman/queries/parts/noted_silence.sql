-- needs: row known
-- gives: a column
-- For how many seconds the silence of a worker was observed and noted; 0 if a heartbeat came since. See
-- note_silence.sql: the note names a heartbeat, so the next heartbeat makes it void.
case
    when
        known.metadata #> '{silence,beat}'
        = to_jsonb(cast(extract(epoch from known.last_heartbeat_at) * 1000000 as bigint))
        and jsonb_typeof(known.metadata #> '{silence,seconds}') = 'number'
        then cast(greatest(0, least(86400, cast(known.metadata #> '{silence,seconds}' as numeric))) as float8)
    else 0
end as noted_silence
