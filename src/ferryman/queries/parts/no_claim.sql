-- Part of the claims: what the row that tells about the claim has in the columns of parts/claim_rows.sql.
null, null, null, null, null, null, null, null, null, null, null, null, null, null, null,
