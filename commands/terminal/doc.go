// Package terminal holds the rules of how the program speaks to people and to
// scripts, and what every command needs to follow them.
//
//   - Data goes to standard output. Warnings, errors, hints and questions go to
//     standard error.
//   - With --json standard output is JSON alone: a key is always there, null or
//     an empty list where it has nothing to say.
//   - An error line begins "agentstateloop: error:". A line "agentstateloop:
//     hint:" below it says what to do next. A warning is not a failure.
//   - Text that came from outside goes through plain.Line or Text before a
//     terminal gets it.
//   - Times are local, without the date if they are of today: 15:04:05. A
//     duration is shown by its two largest units: 1h30m.
//   - A question is asked only where standard input is a terminal. Elsewhere the
//     error names the flag that is missing. A password is never echoed.
package terminal

// Program is the name of the program, as a user types it.
const Program = "agentstateloop"
