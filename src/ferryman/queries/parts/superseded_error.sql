-- The error of a superseded job that has none: it counts as failed, and whoever looks at it wants to know why.
'Superseded: its key was used again or removed while it was claimed'
