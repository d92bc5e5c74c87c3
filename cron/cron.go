// Package cron keeps the line of each agent, and sometimes its alarm line, in the user's
// crontab (docs/design.md, "The crontab").
//
// It has two halves. The pure half ([Expr], [Job.Line], [Find], [Set] and [Unset]) turns an
// interval into a line and edits the text of a table. The other half, [Table], runs crontab(1).
// It reads the table, writes it under a lock shared by all agents of the user, reads it back,
// and restores the old table if the new one was not installed.
//
// Both halves keep one promise: every line that is not ours stays byte-identical
// (docs/design.md, "Promises" 5).
package cron
