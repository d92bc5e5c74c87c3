package cycle_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/mail/message"
	"agentstateloop/mail/trust"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// newAskingFixture returns a fixture whose agent has require = "challenge" and has
// polled once.
func newAskingFixture(t testing.TB) *fixture {
	t.Helper()
	h := newRequiringFixture(t, trust.RequireChallenge)
	h.poll()
	return h
}

// newRequiringFixture returns a fixture whose agent has this require in [trust] and has never polled.
func newRequiringFixture(t testing.TB, require string) *fixture {
	t.Helper()
	h := newFixture(t)
	h.blueprint.Require, h.blueprint.ScheduleMode = require, cycle.ModeNone
	self := h.agent.Self
	h.agent = h.blueprint.agent(h.clock.Now)
	h.agent.Self = self
	return h
}

// lastChallenge returns the newest challenge that was sent, and its token.
func (h *fixture) lastChallenge() (m sentMail, token string) {
	h.t.Helper()
	all := h.sentOf("challenge")
	if len(all) == 0 {
		h.t.Fatalf("no challenge was sent, only %q", h.kinds())
	}
	m = all[len(all)-1]
	token = regexp.MustCompile(`(?m)^YES ([a-z2-7]{26})\r?$`).FindStringSubmatch(m.raw)[1]
	return m, token
}

// newChallengedFixture returns a fixture whose operator was asked about a mail, with the challenge
// and its token.
func newChallengedFixture(t testing.TB, l letter) (h *fixture, asked sentMail, token string) {
	t.Helper()
	h = newAskingFixture(t)
	h.receive(l)
	h.poll()
	asked, token = h.lastChallenge()
	return h, asked, token
}

// replyTo returns an answer to a mail of ours as a phone writes it.
func replyTo(m sentMail, text string) letter {
	quoted := "On Mon, Jan 5, 2026 at 9:00 AM goulard3120 <" + address + "> wrote:\r\n> " + strings.ReplaceAll(m.text, "\n", "\r\n> ")
	return letter{
		subject: "Re: " + m.head.Subject,
		fields:  "In-Reply-To: " + m.head.MessageID + "\r\nReferences: " + m.head.MessageID + "\r\n",
		body:    text + "\r\n\r\nSent from my iPhone\r\n\r\n" + quoted + "\r\n",
	}
}

// wantUntouched fails if anything came of what was received: a turn, a change
// of phase, or a mail other than challenges to the operator.
func (h *fixture) wantUntouched() {
	h.t.Helper()
	s := h.state()
	if s.Phase != state.IDLE || len(s.Inbox) != 0 || s.Arrivals != 0 || s.Epoch != 0 || s.Halted() || s.Turn.Status != state.HeadIdle {
		h.t.Errorf("phase %s, inbox %+v, turn %+v, halted %v", s.Phase, s.Inbox, s.Turn, s.Halted())
	}
	h.wantRuns(0)
	for _, m := range h.sent() {
		if m.kind != "challenge" || m.to != operator {
			h.t.Errorf("a %s was sent to %s", m.kind, m.to)
		}
	}
}

// An unproven mail only causes a challenge to the operator, and YES releases it.
func TestChallengeAnsweredWithYes(t *testing.T) {
	h := newAskingFixture(t)
	h.receive(letter{id: "<one@example.com>", subject: "@goulard3120 the build", body: "is it green?\r\nsee http://ci.example.com/7"})
	h.poll()
	h.wantUntouched()
	h.wantCounted(1)

	asked, token := h.lastChallenge()
	if asked.to != operator || !strings.Contains(asked.raw, "> is it green? see http[:]//ci[.]example[.]com/7") || !strings.Contains(asked.text, "Mon, 05 Jan 2026 09:00:00 UTC, with 40 characters and 0 attachments,\nand begins:") {
		t.Errorf("to %s:\n%s", asked.to, asked.text)
	}
	if want := h.ids().Make(trust.ChallengeID(token), asked.head.Subject); asked.head.MessageID != want {
		t.Errorf("Message-ID %s, want %s", asked.head.MessageID, want)
	}
	if asked.head.AutoSubmitted != "auto-generated" {
		t.Errorf("Auto-Submitted: %s", asked.head.AutoSubmitted)
	}
	h.wantNowhere(token)

	uid := h.receive(replyTo(asked, "Yes "+token))
	if r := h.pollAfter(time.Minute); r.Arrived != 1 || r.Turns != 1 || r.After != state.PREP {
		t.Errorf("report: %+v", r)
	}
	h.wantSent("challenge ack reply")
	reply := h.sentOf("reply")[0]
	if reply.to != operator || !strings.HasPrefix(reply.text, "I read: is it green?") || reply.head.InReplyTo != "<one@example.com>" {
		t.Errorf("reply: %+v", reply)
	}
	h.wantCounted(0)
	for _, u := range h.unread() {
		if u == uid {
			t.Error("the YES is unread")
		}
	}

	// The same YES again does nothing.
	h.receive(replyTo(asked, "Yes "+token))
	if r := h.pollAfter(time.Minute); r.Turns != 0 || r.Rejected != 1 {
		t.Errorf("report: %+v", r)
	}
	h.wantSent("challenge ack reply")
}

// wantNowhere fails if a file of the state directory holds text.
func (h *fixture) wantNowhere(text string) {
	h.t.Helper()
	check(h.t, filepath.WalkDir(h.agent.Store.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), text) || strings.Contains(path, text) {
			h.t.Errorf("%s holds %s", path, text)
		}
		return err
	}))
}

// An answer to a challenge other than YES is a proven message, and leaves the challenged item in
// quarantine.
func TestChallengeAnswerProvesItself(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(asked sentMail, token string) letter{
		"an answer": func(asked sentMail, _ string) letter { return replyTo(asked, "no, but tell me the time") },
		"an answer whose program knows no In-Reply-To": func(asked sentMail, _ string) letter {
			l := replyTo(asked, "no, but tell me the time")
			l.fields = ""
			return l
		},
		"an answer that quotes nothing": func(asked sentMail, _ string) letter {
			l := replyTo(asked, "")
			l.body = "no, but tell me the time"
			return l
		},
		"an answer in HTML": func(asked sentMail, token string) letter {
			return letter{subject: "Re: " + asked.head.Subject, fields: "Content-Type: text/html\r\n",
				body: "<p>no, but tell me the time</p><blockquote>YES <b>" + strings.ToUpper(token) + "</b></blockquote>"}
		},
		"a large answer": func(asked sentMail, _ string) letter {
			return replyTo(asked, "no, but tell me the time\r\n"+strings.Repeat("and more of it\r\n", 30000))
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newAskingFixture(t)
			h.receive(letter{body: "rm -rf"})
			h.poll()
			h.receive(answer(h.lastChallenge()))
			if r := h.pollAfter(time.Minute); r.Arrived != 1 || r.Turns != 1 {
				t.Fatalf("report: %+v", r)
			}
			h.wantSent("challenge ack reply")
			if reply := h.sentOf("reply")[0]; !strings.HasPrefix(reply.text, "I read: no, but tell me the time") {
				t.Errorf("reply: %s", reply.text)
			}
			if item := h.quarantinedItem(); item.Gate != trust.GateTrust {
				t.Errorf("in quarantine: %+v", item)
			}
			h.wantCounted(1)

			// Its token is used up.
			asked, token := h.lastChallenge()
			h.receive(replyTo(asked, "and do that"))
			h.receive(replyTo(asked, "YES "+token))
			if r := h.pollAfter(time.Minute); r.Turns != 0 || r.Rejected != 2 {
				t.Errorf("report: %+v", r)
			}
		})
	}
}

// A control is obeyed when an answer to a challenge says it or releases it, and not before.
func TestChallengeOfControl(t *testing.T) {
	for _, answer := range []string{"HALT", "YES "} {
		h, asked, token := newChallengedFixture(t, letter{body: "HALT"})
		h.wantUntouched()
		if answer == "YES " {
			answer += token
		}
		h.receive(replyTo(asked, answer))
		h.pollAfter(time.Minute)
		if !h.state().Halted() {
			t.Errorf("%s did not halt the agent", answer)
		}
		h.wantSent("challenge answer")
		h.wantRuns(0)
	}
}

// An answer that is not from the operator neither releases nor proves a mail, even with the right
// token.
func TestChallengeIgnoresOtherAnswers(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(l *letter, token string){
		"a stranger":         func(l *letter, _ string) { l.from = "evil@example.net" },
		"two addresses":      func(l *letter, _ string) { l.from = "evil@example.net>, <" + operator },
		"two From fields":    func(l *letter, _ string) { l.fields += "From: evil@example.net\r\n" },
		"an auto-reply":      func(l *letter, _ string) { l.fields += "Auto-Submitted: auto-replied\r\n" },
		"a vacation program": func(l *letter, _ string) { l.fields += "X-Autoreply: yes\r\n" },
		"a bounce":           func(l *letter, _ string) { l.fields += "Return-Path: <>\r\n" },
		"a report":           func(l *letter, _ string) { l.fields += "Content-Type: multipart/report; boundary=x\r\n" },
		"a list":             func(l *letter, _ string) { l.fields += "List-Id: <x.example.com>\r\n" },
		"bulk":               func(l *letter, _ string) { l.fields += "Precedence: bulk\r\n" },
		"a guess": func(l *letter, token string) {
			guess := strings.Repeat("a", 26)
			l.body = strings.ReplaceAll(l.body, token, guess)
			l.fields = strings.ReplaceAll(l.fields, token, guess)
			l.subject = "Re: @" + handle
		},
		"a part of the token": func(l *letter, token string) {
			l.body = strings.ReplaceAll(l.body, token, token[:25])
			l.fields = strings.ReplaceAll(l.fields, token, token[:25])
			l.subject = "Re: @" + handle
		},
		"the hash of the token": func(l *letter, token string) {
			l.body = strings.ReplaceAll(l.body, token, state.HashToken(token))
			l.fields = strings.ReplaceAll(l.fields, token, state.HashToken(token))
			l.subject = "Re: @" + handle
		},
	} {
		for _, text := range []string{"YES %s", "do this"} {
			t.Run(name+", "+text, func(t *testing.T) {
				h, asked, token := newChallengedFixture(t, letter{body: "rm -rf"})
				l := replyTo(asked, strings.Replace(text, "%s", token, 1))
				change(&l, token)
				h.receive(l)
				h.pollAfter(time.Minute)
				h.wantUntouched()
				if len(h.state().Challenges) != 1 {
					t.Error("the challenge is closed")
				}
			})
		}
	}
}

// Of two answers with one token that come together, the first counts.
func TestChallengeTokenCountsOnce(t *testing.T) {
	h, asked, token := newChallengedFixture(t, letter{body: "do it"})
	h.receive(replyTo(asked, "YES "+token))
	h.receive(replyTo(asked, "and this"))
	h.receive(replyTo(asked, "YES "+token))
	if r := h.pollAfter(time.Minute); r.Turns != 1 || r.Rejected != 2 {
		t.Errorf("report: %+v", r)
	}
	if reply := h.sentOf("reply"); len(reply) != 1 || reply[0].text != "I read: do it" {
		t.Errorf("replies: %+v", reply)
	}
	h.wantCounted(2)
}

// A renumbered mailbox brings an unproven mail under another key. However often
// the operator says YES to it, it runs once. The operator is not asked about a
// mail that they have released.
func TestRenumberedMailIsReleasedOnce(t *testing.T) {
	t.Parallel()
	for _, answered := range []bool{true, false} {
		t.Run(fmt.Sprintf("answered before %v", answered), func(t *testing.T) {
			h := newAskingFixture(t)
			unproven := letter{id: "<one@example.com>", body: "do it"}
			h.receive(unproven)
			h.poll()
			came := h.clock.Now()
			asked, token := h.lastChallenge()
			yes := replyTo(asked, "YES "+token)
			if answered {
				h.receive(yes)
				h.pollAfter(time.Minute)
			}
			check(t, h.mail.Renumber())
			_, err := h.mail.Append(unproven.raw(), came)
			check(t, err)
			h.pollAfter(20 * time.Minute)
			if !answered {
				h.receive(yes)
				again, token := h.lastChallenge()
				h.receive(replyTo(again, "YES "+token))
				h.pollAfter(time.Minute)
			}
			if reply := h.sentOf("reply"); len(reply) != 1 {
				t.Errorf("replies: %+v", reply)
			}
			want := map[bool]int{true: 1, false: 2}[answered]
			if n := len(h.sentOf("challenge")); n != want {
				t.Errorf("%d challenges, want %d", n, want)
			}
			h.wantCounted(0)
		})
	}
}

// The token of a challenge expires after a day.
func TestChallengeTokenExpires(t *testing.T) {
	for late, turns := range map[time.Duration]int{24*time.Hour - time.Minute: 1, 24 * time.Hour: 0} {
		h, asked, token := newChallengedFixture(t, letter{body: "do it"})
		h.receive(replyTo(asked, "YES "+token))
		if r := h.pollAfter(late); r.Turns != turns {
			t.Errorf("after %v: %+v", late, r)
		}
	}
}

// A sender who never stops causes one challenge in ten minutes, and at most
// five unanswered ones in a day. The mails do not fill the quarantine.
func TestChallengesOfFloodAreLimited(t *testing.T) {
	t.Parallel()
	h := newAskingFixture(t)
	var last time.Time
	for i := range 24 * 6 {
		h.receive(letter{id: fmt.Sprintf("<%d@evil.example.net>", i), body: "rm -rf"})
		h.receive(letter{id: fmt.Sprintf("<%d.b@evil.example.net>", i), body: "rm -rf"})
		before := len(h.sentOf("challenge"))
		h.pollAfter(7 * time.Minute)
		switch sent := len(h.sentOf("challenge")) - before; {
		case sent > 1, sent == 1 && h.clock.Now().Sub(last) < 10*time.Minute:
			t.Fatalf("%d challenges at %v, the last one was at %v", sent, h.clock.Now(), last)
		case sent == 1:
			last = h.clock.Now()
		}
	}
	h.wantUntouched()
	if n := len(h.sentOf("challenge")); n != 5 {
		t.Errorf("%d challenges", n)
	}
	s := h.state()
	if len(s.Challenges) != 5 || len(s.Unasked) != 5 || s.Quarantined != 50 || s.Unkept != 24*6*2-50 {
		t.Errorf("%d open, %d wait, %d kept, %d not kept", len(s.Challenges), len(s.Unasked), s.Quarantined, s.Unkept)
	}

	// An answer to any of the challenges still proves the operator.
	asked, _ := h.lastChallenge()
	h.receive(replyTo(asked, "what is going on?"))
	if r := h.pollAfter(time.Minute); r.Turns != 1 {
		t.Errorf("report: %+v", r)
	}
}

// Under HALT no challenge is made or sent.
func TestHaltHoldsChallenges(t *testing.T) {
	h := newAskingFixture(t)
	h.halt()
	h.receive(letter{})
	h.poll()
	h.pollAfter(time.Hour)
	h.wantSent("")
	h.resume()
	h.poll()
	h.wantSent("challenge")
}

// A released or dropped item is not asked about again.
func TestReleaseEndsChallenge(t *testing.T) {
	h, _, token := newChallengedFixture(t, letter{body: "do it"})
	h.release(h.quarantinedItem().Key)
	h.receive(letter{body: "YES " + token})
	if r := h.pollAfter(time.Minute); r.Turns != 1 || r.Rejected != 1 {
		t.Errorf("report: %+v", r)
	}
}

// An item that was removed from the folder by hand causes no error.
func TestChallengeAboutRemovedItem(t *testing.T) {
	h := newAskingFixture(t)
	h.halt()
	h.receive(letter{})
	h.poll()
	check(t, os.RemoveAll(h.agent.Store.Path(store.QuarantineDir)))
	h.resume()
	h.poll()
	h.wantSent("")

	h.receive(letter{})
	h.poll()
	asked, token := h.lastChallenge()
	check(t, os.RemoveAll(h.agent.Store.Path(store.QuarantineDir)))
	h.receive(replyTo(asked, "YES "+token))
	h.pollAfter(time.Minute)
	h.wantUntouched()
}

// With fallback = "challenge", a mail that DMARC proves is accepted at once,
// and also answers a challenge.
func TestFallbackToChallenge(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	f := &h.agent.Mail.Filter
	f.Require, f.AuthservID, f.Fallback = trust.RequireDMARC, "mx.example.org", true
	h.agent.Policy.Challenge = true
	proved := func(l letter) []byte {
		l.fields += "Date: " + h.clock.Now().Format(time.RFC1123Z) + "\r\n"
		signed := mailtest.Signature("example.com", "From", "To", "Subject", "Date")
		return append([]byte(mailtest.Verdict("mx.example.org", "example.com")+"\r\n"+signed+"\r\n"), l.raw()...)
	}
	h.receive(letter{id: "<one@example.com>", body: "do it"})
	h.poll()
	h.wantUntouched()
	asked, token := h.lastChallenge()
	h.receiveRaw(proved(replyTo(asked, "YES "+token)))
	if r := h.pollAfter(time.Minute); r.Arrived != 1 || r.Turns != 1 {
		t.Errorf("report: %+v", r)
	}
	h.wantReplies("I read: do it")
	// A second YES is answered as such, and is not a message for the agent.
	h.receiveRaw(proved(replyTo(asked, "Yes, "+token)))
	if r := h.pollAfter(time.Minute); r.Turns != 0 {
		t.Errorf("report: %+v", r)
	}
	if answers := h.sentOf("answer"); len(answers) != 1 || !strings.Contains(answers[0].text, "YES: nothing was done") {
		t.Errorf("answers: %+v", answers)
	}
	h.receiveRaw(proved(letter{id: "<two@example.com>", body: "hello"}))
	if r := h.pollAfter(time.Minute); r.Turns != 1 {
		t.Errorf("report: %+v", r)
	}
}

// A dry run lists the mail, and shows the challenge that it does not send.
func TestDryRunSendsNoChallenge(t *testing.T) {
	h := newAskingFixture(t)
	h.receive(letter{body: "do it"})
	h.wantPreviewed("do it")
	h.poll()
	h.receive(letter{body: "and that"})
	h.wantPreviewed() // too soon for another challenge
	h.pollAfter(time.Minute)
	h.clock.advance(10 * time.Minute)
	h.wantPreviewed("and that") // the mail that is in quarantine already
	asked, token := h.lastChallenge()
	h.receive(replyTo(asked, "YES "+token))
	before := h.snapshot()
	p, err := h.agent.Preview(t.Context())
	check(t, err)
	if h.snapshot() != before {
		t.Error("it has changed something")
	}
	if len(p.Arrived) != 1 || p.After != state.PREP {
		t.Errorf("preview: %+v", p)
	}
}

// wantPreviewed fails unless a dry run shows a challenge for each quote and
// changes nothing.
func (h *fixture) wantPreviewed(quotes ...string) {
	h.t.Helper()
	before := h.snapshot()
	p, err := h.agent.Preview(h.t.Context())
	check(h.t, err)
	if h.snapshot() != before {
		h.t.Error("a dry run has changed something")
	}
	if len(p.Mails) != len(quotes) {
		h.t.Fatalf("it shows %+v, want %q", p.Mails, quotes)
	}
	for i, m := range p.Mails {
		if m.To != operator || m.Subject != "@"+handle+": did you write this?" || !strings.Contains(m.Text, "> "+quotes[i]+"\n") || !strings.Contains(m.Text, "\nYES TOKEN\n") {
			h.t.Errorf("it shows %+v", m)
		}
	}
}

// A process that dies at any moment asks once, and accepts once.
func TestChallengeSurvivesCrashAtAnyStep(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a hundred processes")
	}
	t.Parallel() // it mostly waits for the disk
	for n := 1; ; n += stepSize() {
		h := newAskingFixture(t)
		h.receive(letter{id: "<one@example.com>", body: "do it"})
		first := exitCode(h.poller(h.blueprintFile(), "die-at", strconv.Itoa(n)).Run())
		h.pollAfter(time.Minute)
		h.pollAfter(time.Minute)
		h.wantUntouched()
		asked, token := h.lastChallenge()
		if sent := h.sentOf("challenge"); len(sent) > 2 || sent[0].raw != asked.raw {
			t.Fatalf("died at step %d: %d challenges, the first is\n%s", n, len(sent), sent[0].raw)
		}
		h.wantCounted(1)

		h.receive(replyTo(asked, "YES "+token))
		second := exitCode(h.poller(h.blueprintFile(), "die-at", strconv.Itoa(n)).Run())
		h.pollAfter(time.Minute)
		h.pollAfter(time.Minute)
		if tasks := h.lines(state.LineTask); len(tasks) != 1 {
			t.Errorf("died at step %d: tasks %+v", n, tasks)
		}
		if s := h.state(); len(s.Inbox)+len(s.Challenges)+len(s.Unasked) != 0 {
			t.Errorf("died at step %d: left %+v, %+v, %+v", n, s.Inbox, s.Challenges, s.Unasked)
		}
		h.wantCounted(0)
		if first == exitDone && second == exitDone {
			if n < 10 {
				t.Fatalf("a poll has %d such moments only", n)
			}
			return
		}
	}
}

// signedMail returns a mail whose provider does not sign how its body is to be read.
func signedMail(h *fixture, l letter) []byte {
	l.fields += "Date: " + h.clock.Now().Format(time.RFC1123Z) + "\r\nX-Signed: yes\r\n"
	signed := mailtest.Signature("example.com", "From", "To", "Subject", "Date", "In-Reply-To", "References")
	return append([]byte(mailtest.Verdict("mx.example.org", "example.com")+"\r\n"+signed+"\r\n"), l.raw()...)
}

// newStrictFixture returns a fixture with [trust] as it is by default, that has polled once.
func newStrictFixture(t testing.TB) *fixture {
	t.Helper()
	h := newRequiringFixture(t, trust.RequireDMARC)
	h.agent.Mail.Filter.AuthservID = "mx.example.org"
	h.poll()
	return h
}

// The operator is asked about a signed mail with two readings, whatever [trust] says. YES runs
// the text that the challenge shows, once.
func TestDoubtfulSignedMailIsChallenged(t *testing.T) {
	t.Parallel()
	h := newStrictFixture(t)
	doubtful := letter{
		id: "<one@example.com>", subject: "@goulard3120 the build", body: "deploy h\xc3\xa4user\r\nand see ci.example.com",
		fields: "MIME-Version: 1.0\r\nContent-Type: text/plain; charset=iso-8859-1\r\nContent-Transfer-Encoding: 8bit\r\n",
	}
	raw := signedMail(h, doubtful)
	h.receiveRaw(raw)
	h.poll()
	h.wantUntouched()
	h.wantCounted(1)
	if st, err := h.agent.View().Status(); err != nil || st.Inbox.RefusedSigned != 1 {
		t.Errorf("status: %+v, %v", st.Inbox, err)
	}
	asked, token := h.lastChallenge()
	for _, want := range []string{"Its signature is valid", `the charset is "iso-8859-1", but the text may be in another one`, "> deploy hÃ¤user\n> and see ci[.]example[.]com\n", "send it again as plain text in UTF-8"} {
		if text := message.ContentOf([]byte(asked.raw), message.Sent{}).Full; !strings.Contains(text, want) {
			t.Errorf("the challenge lacks %q:\n%s", want, text)
		}
	}

	// Copies with other fields, and other mails, change nothing.
	for _, charset := range []string{"iso-8859-2", "koi8-r", "utf-16", "unknown"} {
		h.receiveRaw([]byte(strings.Replace(string(raw), "iso-8859-1", charset, 1)))
	}
	unsigned := replyTo(asked, "Yes "+token)
	h.receive(unsigned)
	h.pollAfter(time.Minute)
	h.wantSent("challenge")
	h.wantUntouched()

	// The program that wrote the doubtful mail writes the YES as well.
	yes := replyTo(asked, "Yes "+token+"\r\n\r\ngr\xc3\xbc\xc3\x9fe")
	yes.fields += doubtful.fields
	h.receiveRaw(signedMail(h, yes))
	if r := h.pollAfter(time.Minute); r.Turns != 1 || r.After != state.PREP {
		t.Errorf("after YES: %+v", r)
	}
	h.wantSent("challenge ack reply")
	if reply := h.sentOf("reply")[0]; !strings.HasPrefix(reply.text, "I read: deploy hÃ¤user") || reply.head.InReplyTo != "<one@example.com>" {
		t.Errorf("reply: %+v", reply)
	}

	// What came in by YES is known: a copy is not asked about, and does not run.
	h.receiveRaw([]byte(strings.Replace(string(raw), "iso-8859-1", "iso-8859-5", 1)))
	h.receiveRaw(signedMail(h, yes))
	h.pollAfter(time.Minute)
	h.wantSent("challenge ack reply")
}

// Doubtful signed mails are challenged at once, each once, and apart from unproven mail. HALT
// holds the challenges back.
func TestDoubtfulSignedMailsAreLimited(t *testing.T) {
	t.Parallel()
	h := newStrictFixture(t)
	h.agent.Mail.Filter.Fallback, h.agent.Policy.Challenge = true, true
	for i := range 7 {
		h.receive(letter{id: fmt.Sprintf("<forged%d@example.com>", i)})
	}
	h.poll()
	for i := range 3 {
		h.receiveRaw(signedMail(h, letter{id: fmt.Sprintf("<doubt%d@example.com>", i), body: fmt.Sprintf("h\xe4 %d", i)}))
	}
	h.pollAfter(time.Minute)
	doubts := 0
	for _, m := range h.sentOf("challenge") {
		if strings.Contains(m.text, "Its signature is valid") {
			doubts++
		}
	}
	if doubts != 3 || len(h.sentOf("challenge")) != 4 {
		t.Errorf("%d challenges about signed mails, %d in all", doubts, len(h.sentOf("challenge")))
	}
	h.wantUntouched()
}
