-- Part of the claims: whether a job's row is worth a try. Its last mark (xmax) is not that of a transaction that was under
-- way when this statement began, nor of one that has begun since: such a row is being taken, or was a moment ago. To try it
-- all the same would cost more than a claim is worth, and hold up the one who took it, when it wants to complete the job.
-- The mark is only a reason not to try now, and the lock decides. Marks of transactions that have ended mean nothing, and
-- a mark that may be a multixact, which stands for several transactions and has a number of its own, says nothing about
-- any transaction of that number. So no open transaction can hide a free row.
(
    age(job.xmax) <> all (cast((select under_way from moment) as int[]))
    and age(job.xmax) not between -100 and (select youngest from moment)
    or mxid_age(job.xmax) between 1 and (select oldest from shared)
)
