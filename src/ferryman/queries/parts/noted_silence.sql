case
    -- A worker that beats makes its note void, since that names the beat; see note_silence.sql.
    when
        other.metadata #> '{silence,beat}'
        = to_jsonb(cast(extract(epoch from other.last_heartbeat_at) * 1000000 as bigint))
        and jsonb_typeof(other.metadata #> '{silence,seconds}') = 'number'
        then cast(greatest(0, least(86400, cast(other.metadata #> '{silence,seconds}' as numeric))) as float8)
    else 0
end as noted_silence
