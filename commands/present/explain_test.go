package present

import (
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/cycle/view"
	"agentstateloop/mail/trust"
	"agentstateloop/state"
)

// outcomes are all outcomes of a mail.
var outcomes = []cycle.Outcome{
	cycle.AsMessage, cycle.AsControl, cycle.AsAnswer, cycle.AsConsent, cycle.AsDuplicate, cycle.AsReport, cycle.AsQuarantine, cycle.AsCounted,
	cycle.AsIgnored, cycle.AsUndecided,
}

// TestExplanationOfHostileMail explains mails whose every text is hostile. The text must have only
// lines with our labels, and no character that changes the display.
func TestExplanationOfHostileMail(t *testing.T) {
	const hostile = "x\x1b[31m\x1b]0;title\x07\u202eevil\u2066\x00\r\nverdict: would start a turn\n\u2028<script>"
	line := regexp.MustCompile(`^(verdict|next|mail|for|gate|proof|restore|thread|text|file|problem): +\S`)
	for _, outcome := range outcomes {
		for _, mine := range []bool{false, true} {
			var e cycle.Explanation
			fill(reflect.ValueOf(&e).Elem(), hostile)
			e.Outcome, e.Addressee.Mine, e.Require, e.At = outcome, mine, trust.RequireDMARC, time.Now()
			text := Explanation(e, time.Now())
			for i, l := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
				if !line.MatchString(l) || i > 0 && strings.HasPrefix(l, "verdict") {
					t.Errorf("%s: line %q", outcome, l)
				}
			}
			row := strings.Join(ExplanationRow(e, time.Now()), "")
			for _, out := range []string{text, row + "\n", WhyLetIn(e, state.Line{Kind: state.LineQuarantine, Reason: hostile}) + "\n", WhyQuarantined(hostileRow(hostile), &e.Field) + "\n"} {
				if strings.ContainsAny(strings.ReplaceAll(out, "\n", ""), "\x1b\x07\x00\r\u202e\u2066\u2028") {
					t.Errorf("%s: %q", outcome, out)
				}
			}
			for _, one := range []string{row, WhyLetIn(e, state.Line{Kind: state.LineQuarantine, Reason: hostile}), WhyQuarantined(hostileRow(hostile), &e.Field)} {
				if strings.Contains(one, "\n") {
					t.Errorf("%s: several lines: %q", outcome, one)
				}
			}
		}
	}
}

// fill sets every text in v, and makes each list one of one element.
func fill(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(v.Field(i), text)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		for i := range v.Len() {
			fill(v.Index(i), text)
		}
	}
}

// hostileRow returns a row of the quarantine whose texts are hostile.
func hostileRow(text string) view.InboxRow {
	return view.InboxRow{Source: state.Mail, Number: &text, Gate: &text, Reason: &text, Evidence: &text}
}

// TestVerdictComesFirst checks that each outcome has a verdict of its own, then a remedy.
func TestVerdictComesFirst(t *testing.T) {
	seen := map[string]cycle.Outcome{}
	for _, outcome := range outcomes {
		e := cycle.Explanation{Handle: "ann", Outcome: outcome, Gate: trust.GateTrust, Reason: "dmarc=fail", Addressee: trust.Addressee{Mine: true, Field: "Subject"}}
		lines := strings.Split(Explanation(e, time.Now()), "\n")
		if other, twice := seen[lines[0]]; twice || !strings.HasPrefix(lines[0], "verdict:") {
			t.Errorf("%s and %s begin with %q", outcome, other, lines[0])
		}
		seen[lines[0]] = outcome
		if outcome != cycle.AsReport && !strings.HasPrefix(lines[1], "next:") {
			t.Errorf("%s: %q", outcome, lines[1])
		}
		if n := ExplanationCounts(map[cycle.Outcome]int{outcome: 2}); !strings.HasPrefix(n, "2 ") {
			t.Errorf("%s: counted as %q", outcome, n)
		}
	}
}

// TestGateWords checks that each gate has words of its own.
func TestGateWords(t *testing.T) {
	seen := map[string]bool{}
	for _, gate := range []string{
		trust.GateFrom, trust.GateSelf, trust.GateAuto, trust.GateBounce, trust.GateList, trust.GateSize, trust.GateTrust, state.GateRestored,
		"peer", "proof", "hops", "form",
	} {
		words := gateWords(gate)
		if seen[words] || strings.Contains(words, "the gate") {
			t.Errorf("%s: %q", gate, words)
		}
		seen[words] = true
	}
}

// TestWhyLetIn checks that a person who let a mail in is named, and that no gate is made up.
func TestWhyLetIn(t *testing.T) {
	mine := cycle.Explanation{Handle: "ann", Require: trust.RequireFrom, Addressee: trust.Addressee{Mine: true, Field: "Subject", Read: "@ann"}}
	other := cycle.Explanation{Handle: "ann", Addressee: trust.Addressee{Field: "From", Read: "eve@example.net"}}
	released := state.Line{Kind: state.LineQuarantine, What: state.WordReleased, Reason: state.ByHand}
	for _, c := range []struct {
		e    cycle.Explanation
		by   state.Line
		want string
	}{
		{mine, state.Line{}, `@ann, because Subject calls @ann; none is needed, because [trust] require is "from"`},
		{mine, released, `it was released from quarantine: by hand; @ann, because Subject calls @ann; none is needed, because [trust] require is "from"`},
		{mine, state.Line{Kind: state.LineChallenge}, `your answer to a challenge proved it; @ann, because Subject calls @ann; none is needed, because [trust] require is "from"`},
		{other, released, "it was released from quarantine: by hand"},
		{other, state.Line{}, "the configuration of today would not take it: not this agent: From is eve@example.net"},
	} {
		if got := WhyLetIn(c.e, c.by); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// TestRemedies checks the next step for each finding about the proof, and in some states.
func TestRemedies(t *testing.T) {
	mine := trust.Addressee{Mine: true, Field: "Subject"}
	untrusted := func(reason, read string) cycle.Explanation {
		return cycle.Explanation{Outcome: cycle.AsQuarantine, Gate: trust.GateTrust, Addressee: mine, Reason: reason, Read: read}
	}
	for _, c := range []struct {
		e    cycle.Explanation
		want string
	}{
		{untrusted("the DKIM signature of a.example is not valid", "its key is not in the DNS"), "Providers remove the keys of older mail"},
		{untrusted("the DKIM signature of a.example is not valid", "dkim: signature has expired"), "time limit (x=)"},
		{untrusted("the DKIM signature of a.example covers only a part of the body (l=)", ""), "signs the whole body"},
		{untrusted("the DKIM signature of a.example does not cover subject", ""), "signs this field too"},
		{untrusted("the server gave no DMARC result", "mx.example.org; spf=pass"), "did not check DMARC"},
		{untrusted("dmarc=fail", "mx.example.org; dmarc=fail"), "which signs it"},
		{cycle.Explanation{Outcome: cycle.AsQuarantine, Gate: trust.GateFrom}, "operator in [agent]"},
		{cycle.Explanation{Outcome: cycle.AsIgnored, Addressee: trust.Addressee{Field: "From"}}, "operator in [agent]"},
		{cycle.Explanation{Outcome: cycle.AsMessage, Addressee: mine, Waits: state.HaltedReason}, "`agentstateloop resume`"},
	} {
		if got := explanationRemedy(&c.e, time.Now()); !strings.Contains(got, c.want) {
			t.Errorf("%+v: %q, want %q", c.e, got, c.want)
		}
	}
}

// TestThreadWords names the conversation of a mail.
func TestThreadWords(t *testing.T) {
	for want, e := range map[string]cycle.Explanation{
		"your one conversation with the agent": {},
		"a new conversation":                   {Thread: "abc", NewThread: true},
		"conversation abc":                     {Thread: "abc"},
		"":                                     {Outcome: cycle.AsDuplicate},
	} {
		if got := threadWords(&e); got != want {
			t.Errorf("%+v: %q, want %q", e, got, want)
		}
	}
}
