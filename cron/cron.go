// Package cron keeps one line per agent in the user's crontab (DESIGN 9).
//
// It has two halves. The pure half ([Expr], [Next], [Job.Line], [Find], [Set]
// and [Unset]) turns an interval into a line and edits the text of a table.
// The other half, [Table], talks to crontab(1): it reads the table, writes it
// under a lock shared by all agents of the user, reads it back, and puts the
// old table back when the new one is not there.
//
// One promise holds over both: whatever is not our line stays byte-identical
// (DESIGN 13, promise 5).
package cron
