package present

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/cycle/view"
	"agentstateloop/internal/plain"
	"agentstateloop/mail/trust"
	"agentstateloop/state"
)

// WhyLetIn tells in one line why a mail was let in as a message: by whom despite a gate, which field
// makes it one for the agent, and the evidence about its sender. by is the history line of a person who
// let it in, or zero.
func WhyLetIn(e cycle.Explanation, by state.Line) string {
	var parts []string
	switch by.Kind {
	case state.LineQuarantine:
		parts = append(parts, "it was released from quarantine"+reasonSuffix(plain.Brief(by.Reason)))
	case state.LineChallenge:
		parts = append(parts, "your answer to a challenge proved it")
	}
	switch {
	case e.Addressee.Mine:
		parts = append(append(parts, addresseeWords(&e)), evidenceWords(&e)...)
	case by.Kind == "":
		parts = append(parts, "the configuration of today would not take it: "+addresseeWords(&e))
	}
	return plain.Line(strings.Join(parts, "; "))
}

// maxOwnText is how many characters of a mail's own text an explanation quotes.
const maxOwnText = 300

// gateWords describes what each gate rejects, in one sentence without its full stop.
func gateWords(gate string) string {
	switch gate {
	case trust.GateFrom:
		return "it does not have exactly one sender"
	case trust.GateSelf:
		return "it is this agent's own mail"
	case trust.GateAuto:
		return "a program wrote it as an automatic reply"
	case trust.GateBounce:
		return "it is a delivery report"
	case trust.GateList:
		return "it is mail to many recipients"
	case trust.GateSize:
		return "it is larger than the limit"
	case trust.GateTrust:
		return "nothing proves that the operator wrote it"
	case state.GateRestored:
		return "it may have been answered before the restore"
	case "peer":
		return "its sender is not listed in mesh.peers"
	case "proof":
		return "nothing proves its sender"
	case "hops":
		return "it passed through too many agents"
	case "form":
		return "it does not have the form of a message"
	}
	return "the gate " + plain.Line(gate) + " rejected it"
}

// WhyQuarantined tells in one line why an item is in quarantine, in the words of `explain`. field is
// the header field with the evidence, or nil.
func WhyQuarantined(row view.InboxRow, field *string) string {
	gate := OneLine(row.Gate)
	text := "It was set aside, because " + gateWords(gate) + ". " + gateDecided(gate, OneLine(row.Reason), OneLine(field), OneLine(row.Evidence))
	if row.Source == state.Mail {
		return text + " " + gateRemedy(gate, OneLine(row.Reason), OneLine(row.Evidence), OneLine(row.Number))
	}
	return text
}

// gateDecided tells which gate decided and by which field.
func gateDecided(gate, reason, field, read string) string {
	text := "The " + plain.Line(gate) + " gate rejected it"
	if !strings.EqualFold(reason, field+": "+read) {
		text += reasonSuffix(plain.Brief(reason))
	}
	text += "."
	switch field, read = plain.Line(field), plain.Brief(read); {
	case field != "" && read != "":
		text += " " + field + " says: " + read + "."
	case read != "":
		text += " Evidence: " + read + "."
	}
	return text
}

// gateRemedy tells the operator the next step for a mail that a gate has rejected for a reason, by the
// evidence. number is its number in quarantine, or "" for a mail that is not there.
func gateRemedy(gate, reason, evidence, number string) string {
	release := "`agentstateloop inbox list --quarantined` has its number, and `agentstateloop inbox release NUMBER` lets it in."
	if number != "" {
		release = "`agentstateloop inbox release " + plain.Line(number) + "` lets it in."
	}
	switch gate {
	case trust.GateFrom:
		return "Send it from one address that is listed as operator in [agent]."
	case trust.GateSelf, trust.GateBounce:
		return "There is nothing to do."
	case trust.GateAuto, trust.GateList:
		return "If you wrote it by hand: " + release
	case trust.GateSize:
		return "Send it with smaller attachments."
	case trust.GateTrust:
		return trustRemedy(reason+": "+evidence) + " If you wrote it: " + release
	case state.GateRestored:
		return "If it was not answered: " + release
	}
	return ""
}

// trustRemedy tells how a mail of the operator gets its proof.
func trustRemedy(reason string) string {
	switch {
	case strings.Contains(reason, "authserv_id"), strings.HasPrefix(reason, "no Authentication-Results"):
		return "A mail from a folder of sent mail has no verdict of the server: explain the copy in the agent's mailbox. If it is that copy, correct authserv_id in [trust]: `agentstateloop doctor` suggests one."
	case strings.HasPrefix(reason, "the server gave no DMARC result"):
		return "The agent's mail server did not check DMARC: `agentstateloop doctor` tells how your mails can be proved."
	case strings.Contains(reason, "its key is not in the DNS"):
		return "Providers remove the keys of older mail, and the mail may have been valid when it came."
	case strings.Contains(reason, "signature has expired"):
		return "Its signature had a time limit (x=), and may have been valid when it came: send the mail again."
	case strings.Contains(reason, "(l=)"):
		return "Send it by a server that signs the whole body: see docs/mail-proof.md."
	case strings.HasPrefix(reason, "the DKIM signature of ") && strings.Contains(reason, " does not cover "):
		return "Send it by a server that signs this field too: see docs/mail-proof.md."
	case strings.HasPrefix(reason, "no signed field shows"):
		return "Write the agent's callsign into Subject, or its address into To."
	case strings.HasPrefix(reason, "dated "):
		return "Send it again: a mail counts for a week."
	}
	return "Send it by your provider's own server, which signs it: see docs/mail-proof.md."
}

// explanationVerdict is the first line of an explanation.
func explanationVerdict(e *cycle.Explanation, now time.Time) string {
	switch e.Outcome {
	case cycle.AsMessage:
		switch {
		case e.Waits != "" && e.Until != nil:
			return "would wait until " + terminal.Clock(*e.Until, now) + ": " + plain.Line(e.Waits)
		case e.Waits != "":
			return "would wait: " + plain.Line(e.Waits)
		case e.Ahead > 0:
			return "would start a turn after " + terminal.Count(e.Ahead, "other message")
		}
		return "would start a turn"
	case cycle.AsControl:
		return "would be obeyed: " + plain.Line(e.Control)
	case cycle.AsAnswer:
		return "would answer the agent's question " + plain.Line(e.Question)
	case cycle.AsConsent:
		return "would let in " + plain.Line(e.Releases) + " from quarantine, by your YES"
	case cycle.AsDuplicate:
		if e.Copy != "" {
			return "would be ignored: it is a copy of " + copyWords(e) + ", which was taken before"
		}
		return "would be ignored: it is a copy of a mail that was taken before"
	case cycle.AsReport:
		return "would be read as a delivery report about a mail of the agent"
	case cycle.AsQuarantine:
		return "would be set aside: " + gateWords(e.Gate)
	case cycle.AsCounted:
		return "would be rejected without a copy: " + gateWords(e.Gate) + ", and the quarantine has no room for it"
	case cycle.AsUndecided:
		return "not checked: " + plain.Line(e.Reason)
	}
	return "would be ignored: " + ignoredWords(e)
}

// ignoredWords tells why a mail is not for the agent.
func ignoredWords(e *cycle.Explanation) string {
	switch {
	case e.Forged:
		return "it is a delivery report about a mail that only looks like one of @" + e.Handle
	case e.Addressee.Field == "From" && e.From == "":
		return "it has no sender"
	case e.Addressee.Field == "From":
		return "its sender is not an operator of @" + e.Handle
	case e.Addressee.Read != "":
		return "its subject calls only " + plain.Line(e.Addressee.Read)
	}
	return "its subject does not call @" + e.Handle + ", and it answers no mail of @" + e.Handle
}

// explanationRemedy tells the operator the next step.
func explanationRemedy(e *cycle.Explanation, now time.Time) string {
	switch e.Outcome {
	case cycle.AsMessage, cycle.AsControl, cycle.AsAnswer, cycle.AsConsent:
		if e.Waits == state.HaltedReason {
			return missingRemedy(e, now) + " Its turn waits until HALT is lifted: `agentstateloop resume`."
		}
		return missingRemedy(e, now)
	case cycle.AsDuplicate:
		show := "`agentstateloop history` has the first copy."
		if e.Copy != "" && !strings.Contains(e.Copy, ":") {
			show = "`agentstateloop inbox show " + plain.Line(e.Copy) + "` shows it, with its answer."
		}
		return show + " To have it done again, send it as a new mail."
	case cycle.AsQuarantine, cycle.AsCounted:
		if e.Asks {
			return "The agent asks you by mail whether you wrote it: answer with the line YES TOKEN of that mail."
		}
		return gateRemedy(e.Gate, e.Reason, e.Read, "")
	case cycle.AsUndecided:
		return "Explain it again with a connection to the DNS, and without --offline."
	case cycle.AsIgnored:
		if e.Forged {
			return ""
		}
		if e.Addressee.Field == "From" {
			return "Send it from an address that is listed as operator in [agent], or add the address there."
		}
		return "Write @" + e.Handle + " into its subject, or answer a mail of the agent."
	}
	return ""
}

// missingRemedy tells the operator where to look for a mail that the agent would take and has not
// taken.
func missingRemedy(e *cycle.Explanation, now time.Time) string {
	box := "the mailbox of " + plain.Line(e.Address)
	switch {
	case e.ReadAt == nil:
		return "The agent has not read its mailbox yet: run `agentstateloop poll`."
	case e.ReadAt.Before(e.At):
		return "The agent last read its mailbox at " + terminal.Clock(*e.ReadAt, now) + ", before this mail arrived: run `agentstateloop poll`."
	}
	return "The agent has read its inbox since, at " + terminal.Clock(*e.ReadAt, now) + ", and has not taken this mail: it is in another folder of " + box +
		", such as spam, or somebody had read it before the agent's first poll. Move it to the inbox, or send it again."
}

// copyWords names the first copy of a mail.
func copyWords(e *cycle.Explanation) string {
	if strings.Contains(e.Copy, ":") {
		return plain.Line(e.Copy) // the key of a control or of an answer
	}
	return "message " + plain.Line(e.Copy)
}

// Explanation tells in plain sentences, one a line, the fate of a mail in a poll and the reason. The
// first line is the verdict, and the second the remedy if there is one.
func Explanation(e cycle.Explanation, now time.Time) string {
	var b strings.Builder
	line := func(label, text string) {
		if text != "" {
			fmt.Fprintf(&b, "%-9s %s\n", label+":", plain.Line(text))
		}
	}
	line("verdict", explanationVerdict(&e, now))
	line("next", explanationRemedy(&e, now))
	if e.Restored && e.Outcome != cycle.AsIgnored && e.Outcome != cycle.AsReport {
		line("restore", "polls still compare the mailbox with the restored backup: one may hold this mail, or set it aside")
	}
	line("mail", explainedMail(&e, now))
	line("for", addresseeWords(&e))
	if e.Gate != "" {
		line("gate", gateDecided(e.Gate, e.Reason, e.Field, e.Read))
	}
	for _, text := range evidenceWords(&e) {
		line("proof", text)
	}
	line("thread", threadWords(&e))
	line("text", textWords(&e))
	for _, f := range e.Files {
		line("file", f.Line())
	}
	for _, p := range e.Problems {
		line("problem", plain.Line(p))
	}
	return b.String()
}

// explainedMail names the mail.
func explainedMail(e *cycle.Explanation, now time.Time) string {
	return fmt.Sprintf("from %s, subject %s, arrived %s, %s", cmp.Or(plain.Brief(e.From), "an unknown sender"),
		cmp.Or(inQuotes(plain.Brief(e.Subject)), "none"), terminal.Clock(e.At, now), plain.Size(e.Size))
}

// addresseeWords tells which field makes the mail one for this agent, or keeps it from being one.
func addresseeWords(e *cycle.Explanation) string {
	a := e.Addressee
	read := plain.Brief(a.Read)
	switch {
	case a.Mine && a.Field == "Subject":
		return "@" + e.Handle + ", because Subject calls " + read
	case a.Mine:
		return "@" + e.Handle + ", because " + a.Field + " names a mail of the agent: " + read
	case a.Field == "From":
		return "not this agent: From is " + cmp.Or(read, "empty")
	case read != "":
		return "not this agent: Subject calls " + read
	case e.Uncalled:
		return "not this agent: To has its address, but Subject does not call an agent"
	}
	return "not this agent: Subject does not call an agent"
}

// evidenceWords describes the evidence about the sender.
func evidenceWords(e *cycle.Explanation) (lines []string) {
	if !e.Addressee.Mine {
		return nil
	}
	switch e.Require {
	case trust.RequireFrom:
		return []string{"none is needed, because [trust] require is \"from\""}
	case trust.RequireChallenge:
		return []string{"only your answer to a challenge proves a mail, because [trust] require is \"challenge\""}
	}
	if e.Evidence.Results != "" {
		lines = append(lines, "the server's Authentication-Results: "+plain.Brief(e.Evidence.Results))
	}
	for i := range e.Evidence.Signatures {
		lines = append(lines, signatureWords(&e.Evidence.Signatures[i]))
	}
	switch {
	case e.Evidence.Whole:
		lines = append(lines, "the server vouches for the whole mail")
	case len(e.Evidence.Uncovered) > 0:
		lines = append(lines, "the proof does not cover "+plain.Brief(strings.Join(e.Evidence.Uncovered, ", ")))
	}
	return lines
}

// signatureWords describes one DKIM signature.
func signatureWords(s *trust.SignatureEvidence) string {
	text := "DKIM signature of " + cmp.Or(plain.Brief(s.Domain), "an unknown domain")
	if s.Selector != "" {
		text += ", selector " + plain.Brief(s.Selector)
	}
	if len(s.Fields) > 0 {
		text += ", covers " + plain.Brief(strings.Join(s.Fields, ", "))
		if s.Length != "" {
			text += " and the first " + plain.Brief(s.Length) + " bytes of the body"
		} else {
			text += " and the whole body"
		}
	}
	if s.Result == trust.NotVerified {
		return text
	}
	return text + ": " + plain.Brief(s.Result)
}

// threadWords names the conversation of a mail.
func threadWords(e *cycle.Explanation) string {
	if e.Outcome == cycle.AsIgnored || e.Outcome == cycle.AsReport {
		return ""
	}
	text := "your one conversation with the agent"
	switch {
	case e.NewThread:
		text = "a new conversation"
	case e.Thread != "":
		text = "conversation " + plain.Line(e.Thread)
	case e.Outcome == cycle.AsDuplicate:
		return ""
	}
	if e.Answers != "" {
		text += "; it answers a mail of the agent (" + plain.Line(e.Answers) + ")"
	}
	return text
}

// textWords describes the text that the agent would get.
func textWords(e *cycle.Explanation) string {
	if e.Outcome == cycle.AsIgnored || e.Outcome == cycle.AsReport || e.Gate == trust.GateSize {
		return ""
	}
	text := "none"
	if e.Text != "" {
		text = `"` + plain.Shorten(plain.Line(plain.Cut(e.Text, 8*maxOwnText)), maxOwnText) + `"`
	}
	if e.LeftOut != "" {
		text += "; left out: " + plain.Line(e.LeftOut)
	}
	return text
}

// ExplanationRow returns the cells of a mail in a table: arrival, sender, subject and verdict.
func ExplanationRow(e cycle.Explanation, now time.Time) []string {
	return []string{terminal.Clock(e.At, now), cmp.Or(plain.Line(e.From), "-"), cmp.Or(plain.Line(e.Subject), "(no subject)"), plain.Line(explanationVerdict(&e, now))}
}

// outcomeCounts are the words of a number of mails with each outcome, in the order of the summary.
var outcomeCounts = []struct {
	outcome cycle.Outcome
	words   string
}{
	{cycle.AsMessage, "would start a turn or wait for one"},
	{cycle.AsAnswer, "would answer a question"},
	{cycle.AsConsent, "would let in a mail from quarantine"},
	{cycle.AsControl, "would be obeyed"},
	{cycle.AsQuarantine, "would be set aside"},
	{cycle.AsCounted, "would be rejected without a copy"},
	{cycle.AsDuplicate, "are copies"},
	{cycle.AsReport, "are delivery reports"},
	{cycle.AsUndecided, "were not checked"},
	{cycle.AsIgnored, "would be ignored"},
}

// ExplanationCounts returns the numbers of mails with each outcome in one line.
func ExplanationCounts(count map[cycle.Outcome]int) string {
	var parts []string
	for _, o := range outcomeCounts {
		if n := count[o.outcome]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, o.words))
		}
	}
	return strings.Join(parts, ", ")
}
