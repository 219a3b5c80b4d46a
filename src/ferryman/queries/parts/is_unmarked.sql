-- needs: row job, moment, shared
-- gives: a condition
-- True if no other session seems to be taking the job, so that its row is worth a try.
--
-- PostgreSQL leaves the number of the last transaction that locked a row in the row: its mark (xmax). A row is passed by if
-- that transaction was under way when this statement began, or has begun since: the row is being taken, or was a moment ago.
-- To try it all the same would cost more than a claim is worth, and hold up the session that took it when it completes the job.
-- The mark is only a reason not to try now; the lock decides. Marks of transactions that have ended mean nothing. A mark
-- may be a multixact, which stands for several transactions and has a number of its own: it says nothing about a
-- transaction of that number. So no open transaction can hide a free row.
(
    age(job.xmax) <> all (cast((select under_way from moment) as int[]))
    and age(job.xmax) not between -100 and (select youngest from moment)
    or mxid_age(job.xmax) between 1 and (select oldest from shared)
)
