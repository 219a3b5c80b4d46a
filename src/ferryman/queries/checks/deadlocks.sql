-- How long a session waits for a lock before PostgreSQL looks for a deadlock: in this session, and by each setting of a
-- role or a database that sessions of this database may start with.
--
-- Columns: whose it is, milliseconds, and the statement that takes the setting back. The least comes first. A value in
-- another form than a decimal number and a unit, such as 1e2, is read only if it is that of this session. Locks nothing.
with written as (
    select
        role.rolname as role,
        database.datname as database,
        trim(substring(entry.config from 'deadlock_timeout=(.*)')) as value
    from
        pg_db_role_setting as setting
        cross join lateral unnest(setting.setconfig) as entry (config)
        left join pg_roles as role on role.oid = setting.setrole
        left join pg_database as database on database.oid = setting.setdatabase
    where entry.config like 'deadlock\_timeout=%' and (setting.setdatabase = 0 or database.datname = current_database())
),
kept as (
    select written.* from written where written.value ~ '^[0-9]*[.]?[0-9]+ *(us|ms|s|min|h|d)?$'
)
select found.place, found.milliseconds, found.remedy
from (
    select
        'this session' as place,
        cast(setting.setting as float8) as milliseconds,
        'alter system set deadlock_timeout = ''1s''; select pg_reload_conf();' as remedy
    from pg_settings as setting
    -- Those of roles and databases follow by their names.
    where
        setting.name = 'deadlock_timeout'
        and (
            setting.source not in ('global', 'database', 'user', 'database user') or not exists (select from kept)
        )
    union all
    select
        concat_ws(
            ' in ',
            case when kept.role is not null then 'the role ' || kept.role when kept.database is null then 'all roles' end,
            'the database ' || kept.database
        ),
        cast(
            1000 * extract(
                epoch from cast(kept.value || case when kept.value ~ '[a-z]$' then '' else 'ms' end as interval)
            ) as float8
        ),
        case
            when kept.role is null and kept.database is not null
                then format('alter database %I reset deadlock_timeout;', kept.database)
            else format(
                'alter role %s%s reset deadlock_timeout;',
                coalesce(quote_ident(kept.role), 'all'),
                ' in database ' || quote_ident(kept.database)
            )
        end
    from kept
) as found
order by found.milliseconds, found.place;
