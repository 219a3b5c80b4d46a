-- Part of the claims: when it is, by the caller's clock or the database's. The token of a claim is this moment.
moment as (
    select coalesce(cast(:now as timestamptz), now()) as at
),
