package present

import (
	"fmt"
	"time"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/cycle/view"
	"agentstateloop/internal/plain"
	"agentstateloop/state"
)

// Waiting returns the reason why a message has no answer yet.
func Waiting(w view.Waiting, now time.Time) string {
	clock := func(t time.Time) string { return terminal.Clock(t, now) }
	until := func(format string) string {
		if w.Until.IsZero() {
			return ""
		}
		return fmt.Sprintf(format, clock(w.Until), terminal.Distance(w.Until, now))
	}
	switch w.Why {
	case view.WaitNoRunner:
		return "runner is \"none\": it must be taken from the inbox"
	case view.WaitHalted:
		return "the agent is HALTED, and answers after resume"
	case view.WaitMoney:
		return "the agent is out of money: " + w.Reason
	case view.WaitCooldown:
		return "too many turns failed in a row; the agent answers" + until(" after %s (%s)")
	case view.WaitBackend:
		return plain.Line(w.Reason) + until("; next try at %s (%s)")
	case view.WaitBlocked:
		return "no turn can run: " + plain.Line(w.Reason)
	case view.WaitCredential:
		return fmt.Sprintf("the agent's login %s has been refused since %s%s", w.Who, clock(w.Since), reasonSuffix(plain.Line(w.Reason)))
	case view.WaitWorking:
		return "the agent has been working on it since " + clock(w.Since)
	case view.WaitSuspended:
		return "its turn waits for a report from " + plain.Line(w.Who) + until(", until %s (%s) at the latest")
	case view.WaitTurn:
		return fmt.Sprintf("the agent has been working on %s since %s", messageName(w), clock(w.Since))
	case view.WaitReports:
		return "the previous turn waits for a report from " + plain.Line(w.Who) + until(", until %s (%s) at the latest")
	case view.WaitAnswer:
		return "the agent asks you: " + plain.Line(w.Reason) + until(", and waits until %s (%s)")
	case view.WaitQuestion:
		return "the previous turn asks you: " + plain.Line(w.Reason) + until(", and waits until %s (%s)")
	case view.WaitLingering:
		return "the agent of the previous turn has answered, but its process has not ended"
	case view.WaitBehind:
		return fmt.Sprintf("%s first: %s is next", messagesCome(w.Count), messageName(w))
	case view.WaitDeferred:
		return "it waits" + until(" until %s (%s)") + reasonSuffix(plain.Line(w.Reason))
	case view.WaitSource:
		return sourceText(w, now)
	case view.WaitOutbox:
		return fmt.Sprintf("%s in the outbox%s%s", terminal.Count(w.Count, "message"), reasonSuffix(plain.Line(w.Reason)), until("; next try %s (%s)"))
	}
	if w.Never {
		return "no poll picks it up" + until("; the last one was due at %s (%s)")
	}
	return "no poll has picked it up yet" + until("; the next regular one is at %s (%s)")
}

// sourceText describes a poll that is still reading mail before it runs turns.
func sourceText(w view.Waiting, now time.Time) string {
	switch {
	case w.Who != "":
		return fmt.Sprintf("the poll reads mail first, and the login %s has been refused since %s%s", w.Who, terminal.Clock(w.Since, now), reasonSuffix(plain.Line(w.Reason)))
	case w.Since.IsZero():
		return "the poll reads mail first, and mail could not be read yet"
	}
	return "the poll reads mail first, and mail was last read at " + terminal.Clock(w.Since, now)
}

// messageName describes the message that has its turn, or comes first.
func messageName(w view.Waiting) string {
	switch who := plain.Line(w.Who); {
	case w.Source == state.Clock:
		return "a scheduled prompt"
	case w.Source == state.Self:
		return "a plan of its own"
	case w.Source == state.Mail:
		return "a mail from " + who
	default:
		return "a message from " + who
	}
}

func messagesCome(n int) string {
	if n == 1 {
		return "1 message comes"
	}
	return fmt.Sprintf("%d messages come", n)
}

// WaitingHint returns the hint for a reason, or "".
func WaitingHint(w view.Waiting, mode string) string {
	switch w.Why {
	case view.WaitHalted:
		return "lift it with " + terminal.ResumeCommands(w.By)
	case view.WaitMoney:
		return "`" + terminal.Program + " credit USD` adds credit"
	case view.WaitCredential, view.WaitCooldown, view.WaitBlocked:
		return "`" + terminal.Program + " doctor` checks the agent"
	case view.WaitBackend:
		return "`" + terminal.Program + " poll` retries immediately"
	case view.WaitAnswer, view.WaitQuestion:
		return "`" + terminal.Program + " answer " + w.Key + " TEXT` answers, as does a reply to its mail"
	case view.WaitNoRunner:
		return "`" + terminal.Program + " inbox next` takes it"
	case view.WaitPoll:
		return terminal.OverdueHint(cycle.Starter(mode)) + " `" + terminal.Program + " poll` polls now"
	}
	return ""
}
