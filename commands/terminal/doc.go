// Package terminal prints for people and scripts, and asks people. All commands follow its rules:
//
//   - Data goes to standard output. Warnings, errors, hints and questions go to
//     standard error.
//   - With --json only JSON goes to standard output: one document, or one line per
//     event. Each key is always present; its value may be null or an empty list. A
//     command that fails prints an error document, unless it has already printed
//     its own document. docs/json has the shape of each.
//   - An error line begins with "agentstateloop: error:". A line that begins with
//     "agentstateloop: hint:" may follow and states what to do next. A warning
//     does not make a command fail.
//   - Foreign text goes through plain.Line or Text before it is printed.
//   - Times are local, without the date if they are today: 15:04:05. Durations
//     have their two largest units: 1h30m.
//   - On a terminal, text is wrapped at words and tables are cut to its width.
//     Other output is neither wrapped nor cut.
//   - A command asks only if standard input is a terminal. Otherwise its error
//     names the missing flag. The terminal never echoes a password.
package terminal

// Program is the name of the program as a user types it.
const Program = "agentstateloop"
