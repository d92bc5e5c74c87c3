package cycle

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentstateloop/cron"
	"agentstateloop/cycle/hook"
	"agentstateloop/cycle/prompt"
	"agentstateloop/cycle/quarantine"
	"agentstateloop/internal/testkit/limittest"
	"agentstateloop/mail/message"
	"agentstateloop/mesh"
	"agentstateloop/state"
	"agentstateloop/state/store"
	"agentstateloop/turn"
)

var noon = time.Date(2026, time.May, 1, 12, 0, 0, 0, time.UTC)

// TestLimits tries each limit of the cycle at its edge.
func TestLimits(t *testing.T) {
	before := func(d time.Duration) time.Duration { return d - 1 } // the last time before d has passed
	limittest.Run(t, []limittest.Limit{
		// Accepted mail.
		{Const: "peekLength", Max: 262_143, Within: func(_ *testing.T, n int64) bool { // a mail that may be a control
			head, _, _ := peek(strings.NewReader(text(n)))
			return controlOf(len(head), "STOP") != ""
		}},
		{Const: "maxAtOnce", Max: 200, Within: func(_ *testing.T, n int64) bool {
			room, _ := takeLimits(state.State{})
			return int(n) <= room
		}},
		{Const: "maxWaiting", Max: 1000, Within: func(_ *testing.T, n int64) bool {
			room, _ := takeLimits(state.State{Received: state.Received{Inbox: make([]state.Message, n-1)}})
			return room > 0
		}},
		{Const: "maxFromPeers", Max: 500, Within: func(_ *testing.T, n int64) bool {
			_, forPeers := takeLimits(state.State{Received: state.Received{Inbox: many(n-1, func(int) state.Message { return state.Message{Source: state.Mesh} })}})
			return forPeers > 0
		}},
		{Const: "takenAMinute", Max: 5, Within: func(_ *testing.T, n int64) bool {
			p, taken := senderPace{now: noon}, int64(0)
			for i := range n {
				if p.admits(mesh.Message{ID: fmt.Sprint(i), From: "boreas3120", Kind: mesh.KindMessage}) {
					taken++
				}
			}
			return taken == n
		}},
		{Const: "firstYear", Max: 1969, Within: func(_ *testing.T, year int64) bool { // that is not believed
			ad := admission{now: at(noon)}
			m := mesh.Message{SentAt: time.Date(int(year), 6, 1, 0, 0, 0, 0, time.UTC)}
			return ad.rejectMesh(m, "trust", "", false).At.Equal(noon)
		}},
		{Const: "sentTries", Max: 1, Within: func(_ *testing.T, n int64) bool { // failures before this one
			r := restoredMail{restore: state.Restore{Tries: int(n)}}
			return r.mayRetry()
		}},
		{Const: "mostRestored", Max: 50, Within: func(t *testing.T, n int64) bool {
			r := renderer{core: core{store: &store.Store{Dir: t.TempDir(), Agent: "goulard3120"}, now: at(noon)}}
			var s state.State
			s.Restore = &state.Restore{}
			s.Inbox = many(n, func(i int) state.Message {
				return state.Message{Key: fmt.Sprint("cli:", i), Seq: uint64(1000 + i), Held: true}
			})
			return strings.Contains(r.restoredReport(s, true), fmt.Sprint("\n", 999+n, "\n"))
		}},
		{Const: "maxEventName", Max: 64, Within: func(_ *testing.T, n int64) bool { return eventName(text(n)) == text(n) }},
		{Const: "maxEventTitle", Max: 80, Within: func(_ *testing.T, n int64) bool { return eventTitle(EventMessage{Subject: wideText(n)}) == wideText(n) }},
		{Const: "excerptLength", Max: 200, Within: func(_ *testing.T, n int64) bool {
			return strings.Contains(challengeText("goulard3120", quarantine.Item{}, []byte("Subject: x\r\n\r\n"+text(n)), "token"), text(n)+"\n")
		}},

		{Const: "doubtLength", Max: 2000, Within: func(_ *testing.T, n int64) bool {
			doubt := quarantine.Item{Verdict: quarantine.Verdict{Doubtful: true}}
			said := challengeText("goulard3120", doubt, []byte("Subject: x\r\n\r\n"+text(n)), "token")
			return strings.Contains(said, text(n)+"\n") && !strings.Contains(said, "The rest is in")
		}},

		{Const: "maxAnswered", Max: 5, Within: func(t *testing.T, n int64) bool {
			ids := message.IDs{Handle: "goulard3120", Address: "bot@example.org", IDKey: message.IDKey{Secret: make([]byte, 16)}}
			st := &store.Store{Dir: t.TempDir(), Agent: "goulard3120"}
			var answers message.Header
			for i := range n {
				id := ids.Make(fmt.Sprint("reply.", i), "")
				check(t, st.Keep(sentFile(fmt.Sprint("reply.", i)), strings.NewReader("Message-ID: "+id+"\r\n\r\nx")))
				answers.References = append(answers.References, id)
			}
			return len(sentTexts(st, answers).Texts) == int(n)
		}},
		{Const: "maxSentMail", Max: 1_048_576, Within: func(t *testing.T, n int64) bool {
			id := message.IDs{Handle: "goulard3120", Address: "bot@example.org", IDKey: message.IDKey{Secret: make([]byte, 16)}}.Make("reply.1", "")
			head := "Message-ID: " + id + "\r\n\r\n"
			st := &store.Store{Dir: t.TempDir(), Agent: "goulard3120"}
			check(t, st.Keep(sentFile("reply.1"), strings.NewReader(head+strings.Repeat("x", int(n)-len(head)))))
			return len(sentTexts(st, message.Header{InReplyTo: id}).Texts) == 1
		}},

		// The poll.
		{Const: "maxRounds", Max: 3, Within: func(_ *testing.T, n int64) bool {
			last := 0
			_, _ = inRounds(func(round int) (bool, error) { last = round + 1; return true, nil })
			return int(n) <= last
		}},
		limittest.Duration("startWithin", before(20*time.Second), 1, func(_ *testing.T, d time.Duration) bool { return mayStart(noon, noon.Add(d)) }),
		limittest.Duration("overdueAfter", before(10*time.Second), 1, func(_ *testing.T, d time.Duration) bool { // that is left to cron
			return DueWithoutCron(state.State{Timers: state.Timers{NextDue: noon}}, state.Policy{}, noon.Add(d)) == ""
		}),
		limittest.Duration("lingerGap", 2*time.Second, 1, func(_ *testing.T, d time.Duration) bool { // too short to linger
			return !lingersUntil(noon.Add(time.Hour), noon.Add(d)).After(noon)
		}),
		limittest.Duration("republishEvery", before(6*time.Hour), 1, func(t *testing.T, d time.Duration) bool { // that is not published again
			p := projector{committer: committer{core: core{handle: "goulard3120", policy: &state.Policy{}, now: at(noon)}}, mesh: &Mesh{Carrier: &stubCarrier{}}}
			s := state.State{Timers: state.Timers{Phase: state.IDLE}, Published: state.Published{Phase: state.IDLE, At: noon.Add(-d)}}
			return len(p.publish(t.Context(), s, &observation{})) == 0
		}),
		limittest.Duration("verifyEvery", before(30*time.Minute), 1, func(t *testing.T, d time.Duration) bool { // that is not read again
			c := crontab{
				core:     core{handle: "goulard3120", store: &store.Store{Dir: t.TempDir()}, policy: &state.Policy{IdleInterval: time.Hour}, now: at(noon)},
				config:   "/home/you/agent.toml",
				schedule: Schedule{Mode: ModeCrontab, Binary: "/bin/agentstateloop", Table: cron.Table{Command: "/nonexistent"}},
			}
			s := state.State{Schedule: state.Schedule{Verified: noon.Add(-d)}}
			s.Schedule.Installed, _ = c.job(s).Line()
			return len(c.project(t.Context(), s)) == 0
		}),
		limittest.Duration("pruneEvery", before(24*time.Hour), 1, func(_ *testing.T, d time.Duration) bool { // that is not searched again
			p := pruner{keep: time.Hour, committer: committer{core: core{now: at(noon)}}}
			return !p.due(state.State{Pruned: noon.Add(-d)})
		}),
		{Const: "pruneAtOnce", Max: 100, Within: func(t *testing.T, n int64) bool {
			a := agentIn(t)
			for i := range n {
				keep(t, a, fmt.Sprint("messages/", i), 1)
			}
			a.Keep, a.Now = time.Hour, at(time.Now().Add(2*time.Hour))
			_, err := a.pruner().prune(t.Context(), state.State{})
			left, _ := os.ReadDir(a.Store.Path("messages"))
			return err == nil && len(left) == 0
		}},
		limittest.Duration("announcePatience", 5*time.Second, 1, func(t *testing.T, d time.Duration) bool {
			return d <= patienceOf(t, func(m *Mesh) { announcer{mesh: m}.publish(mesh.Task{}) })
		}),
		limittest.Duration("meshPatience", 50*time.Second, 1, func(t *testing.T, d time.Duration) bool {
			return d <= patienceOf(t, func(m *Mesh) {
				ctx, cancel := context.WithCancel(context.Background())
				m.Carrier.(*stubCarrier).enough = cancel
				watchMesh(ctx, m, &store.Store{Dir: t.TempDir()}, nil, nil, func() {})
			})
		}),
		{Const: "maxBurst", Max: 10, Within: func(_ *testing.T, n int64) bool { return inBurst(int(n)) }},

		// Turns and their sessions.
		limittest.Duration("deniedRest", 45*time.Second, 1, func(_ *testing.T, d time.Duration) bool {
			return d <= giveBackDenied(state.Head{}, &state.CredentialError{Err: io.EOF}).Wait
		}),
		{Const: "warnAt", Max: 74, Within: func(_ *testing.T, n int64) bool { ss, c := filledSession(n); return ss.warning(c.Session) == 0 }},
		{Const: "compactAt", Max: 89, Within: func(_ *testing.T, n int64) bool { ss, c := filledSession(n); return !ss.toCompact(c.Session) }},
		{Const: "maxFailedSummaries", Max: 1, Within: func(_ *testing.T, n int64) bool { // after which there is another try
			ss, c := filledSession(95)
			c.Session.FailedSummaries = int(n)
			return ss.toCompact(c.Session)
		}},
		limittest.Duration("SummaryTimeout", 5*time.Minute, 1, func(_ *testing.T, d time.Duration) bool { return summaryTimeout(d) == d }),
		{Const: "maxSummary", Max: 16_384, Within: func(_ *testing.T, n int64) bool { return new(compactor).cleanSummary(text(n)) == text(n) }},
		{Const: "maxSummarized", Max: 262_144, Within: func(t *testing.T, n int64) bool { return int(n) <= agentIn(t).summaryMaker(backend{}).recaller.bytes() }},
		{Const: "DefaultRecall", Max: 32_768, Within: func(t *testing.T, n int64) bool { return int(n) <= agentIn(t).recaller().bytes() }},
		{Const: "recallPart", Max: 4096, Within: func(t *testing.T, n int64) bool {
			a := agentIn(t)
			return strings.Contains(a.recaller().exchange(taskOf(t, a, n), recallPart).Message.Text, text(n))
		}},
		{Const: "searchRead", Max: 65_536, Within: func(t *testing.T, n int64) bool {
			a := agentIn(t)
			return strings.Contains(a.recaller().searchText(taskOf(t, a, n)), text(n))
		}},
		{Const: "searchMost", Max: 20, Within: func(_ *testing.T, n int64) bool { return clampResults(int(n)) == int(n) }},
		{Const: "boundaryLen", Max: 16, Within: func(_ *testing.T, n int64) bool { return int(n) <= len(newFences().Boundary) }},
		{Const: "meanwhileMost", Max: 20, Within: func(t *testing.T, n int64) bool {
			a := agentIn(t)
			_, err := a.journal().commit(t.Context(), many(n, func(i int) state.Event { return state.Nudged{Key: fmt.Sprint("n", i)} })...)
			_, lines := a.prompter(a.mainBackend()).meanwhile(newFences(), state.Message{Operator: true})
			return err == nil && len(lines) == int(n)
		}},

		{Const: "maxProblems", Max: 3, Within: func(_ *testing.T, n int64) bool {
			m := turnMessage{content: message.Content{Problems: many(n, func(int) string { return "a part" })}}
			return !strings.Contains(m.fencedText(prompt.Fences{Boundary: "b"}), "more")
		}},
		{Const: "maxRemembered", Max: 10, Within: func(_ *testing.T, n int64) bool {
			m := turnMessage{content: message.Content{Attachments: make([]message.Attachment, n)}}
			return !strings.Contains(m.textAndFiles(), "more")
		}},
		{Const: "maxPosted", Max: 61_440, Within: func(_ *testing.T, n int64) bool { return truncateJSON(text(n), roomFor(nil)) == text(n) }},

		// What the agent plans, and the clock.
		{Const: "maxSelfText", Max: 4096, Within: func(t *testing.T, n int64) bool {
			a := agentIn(t)
			a.Policy.SelfTurns = 1
			_, err := a.RemindByHand(t.Context(), "op", "10m", text(n))
			return err == nil
		}},
		{Const: "maxDays", Max: 36_500, Within: func(_ *testing.T, n int64) bool { _, err := parseSpan(fmt.Sprint(n, "d")); return err == nil }},
		{Const: "mostWakeups", Max: 5, Within: func(_ *testing.T, n int64) bool {
			var b strings.Builder
			r := renderer{core: core{policy: &state.Policy{}, now: at(noon)}}
			r.wakeups(&b, state.State{Received: state.Received{Inbox: many(n, func(int) state.Message { return state.Message{Source: state.Self, Status: state.Deferred} })}})
			return !strings.Contains(b.String(), "more")
		}},
		{Const: "MaxPromptText", Max: 65_536, Within: func(t *testing.T, n int64) bool {
			file := filepath.Join(t.TempDir(), "prompt.txt")
			check(t, os.WriteFile(file, []byte(text(n)), 0o600))
			_, err := ClockPrompt{File: file}.Words()
			return err == nil
		}},
		{Const: "maxAsked", Max: 1_048_576, Within: func(t *testing.T, n int64) bool { return printsInTime(t, n, "") }},
		{Const: "maxAsked", Max: 1_048_576, Within: func(t *testing.T, n int64) bool { return printsInTime(t, n, " >&2") }},

		// Replies.
		{Const: "maxAttached", Max: 18_874_368, Within: func(t *testing.T, n int64) bool {
			_, _, unsent := attached(t, n)
			return len(unsent) == 0
		}},
		{Const: "maxTwice", Max: 1_048_576, Within: func(t *testing.T, n int64) bool { // that stands in the mail
			m, _, _ := attached(t, n)
			return len(m.outgoing) == 0
		}},
		{Const: "maxTwice", Max: 1_048_576, Within: func(t *testing.T, n int64) bool { // that stays in the output box
			a, m := agentIn(t), turnMessage{head: state.Head{TurnID: "t1", Epoch: 1}}
			keep(t, a, "turns/t1/1/output/f", n)
			ref, err := a.replier().keepOutput(m.dir(), "f", "f", 0, mesh.MaxFilesBytes)
			return err == nil && ref.Place == ""
		}},
		{Const: "minApart", Max: 16_384, Within: func(t *testing.T, n int64) bool {
			m := attach(t, n, nil)
			return len(m.outgoing) == 0
		}},
		{Const: "maxApart", Max: 256, Within: func(t *testing.T, n int64) bool {
			m := attach(t, 20_000, make([]state.FileRef, n-1))
			return len(m.outgoing) == int(n)
		}},

		// What is shown.
		{Const: "wordsRead", Max: 262_144, Within: func(t *testing.T, n int64) bool { // read whole, and found damaged
			a := agentIn(t)
			keep(t, a, "messages/m", n)
			_, ok := a.FirstWords(state.Message{Source: state.CLI, Payload: "messages/m", Sum: "other"})
			return !ok
		}},
	})
}

// TestPauses checks the pauses between the looks at a mesh that is away, that they
// begin again, and the pauses between the polls that HALT asks for.
func TestPauses(t *testing.T) {
	p := meshPauses()
	const ms, s = time.Millisecond, time.Second
	limittest.Pauses(t, p.Next, 250*ms, 500*ms, s, 2*s, 4*s, 8*s, 16*s, 30*s, 30*s)
	p.Reset()
	limittest.Pauses(t, p.Next, 250*ms, 500*ms)
	p = haltPauses()
	limittest.Pauses(t, p.Next, s, 2*s, 4*s, 8*s, 16*s, 32*s, 50*s, 50*s)
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// text returns n bytes, which are a word.
func text(n int64) string { return strings.Repeat("x", int(n)) }

// wideText returns n characters of two bytes each.
func wideText(n int64) string { return strings.Repeat("é", int(n)) }

// many returns n values.
func many[T any](n int64, value func(i int) T) []T {
	var all []T
	for i := range int(n) {
		all = append(all, value(i))
	}
	return all
}

// at returns a clock that does not move.
func at(t time.Time) func() time.Time { return func() time.Time { return t } }

// agentIn returns an agent with an empty folder.
func agentIn(t *testing.T) *Agent {
	return &Agent{Handle: "goulard3120", Store: &store.Store{Dir: t.TempDir(), Agent: "goulard3120"}, Now: at(noon)}
}

// keep keeps a file of n bytes.
func keep(t *testing.T, a *Agent, name string, n int64) {
	t.Helper()
	place := a.Store.Path(name)
	check(t, os.MkdirAll(filepath.Dir(place), 0o700))
	check(t, os.WriteFile(place, []byte(text(n)), 0o600))
}

// taskOf returns the line of a turn about a message of n bytes.
func taskOf(t *testing.T, a *Agent, n int64) state.Line {
	keep(t, a, "messages/m", n)
	return state.Line{Row: &state.Message{Source: state.CLI, Payload: "messages/m"}}
}

// filledSession returns a session of which so many percent are full.
func filledSession(percent int64) (sessions, state.Conversation) {
	return sessions{turn: &turn.Config{Runner: turn.Exec}, window: 100}, state.Conversation{Session: state.Session{Runner: turn.Exec, ID: "s", Context: percent}}
}

// printsInTime reports whether the program of a prompt may print n bytes.
func printsInTime(t *testing.T, n int64, to string) bool {
	c := ClockPrompt{If: &hook.Program{Command: []string{"/bin/sh", "-c", fmt.Sprintf("head -c %d /dev/zero%s", n, to)}, Dir: t.TempDir(), Env: os.Environ()}}
	_, err := c.runIf(t.Context(), noon)
	return err == nil
}

// attached returns what goes with a reply whose output box holds a file of n bytes.
func attached(t *testing.T, n int64) (turnMessage, []message.Attachment, []string) {
	a, m := agentIn(t), turnMessage{head: state.Head{TurnID: "t1", Epoch: 1}}
	keep(t, a, "turns/t1/1/output/f", n)
	list, unsent, err := a.replier().attachments(&m, []string{"f"})
	check(t, err)
	return m, list, unsent
}

// attach attaches a file of n bytes to a large mail whose row names these files already.
func attach(t *testing.T, n int64, outgoing []state.FileRef) turnMessage {
	a, m := agentIn(t), turnMessage{head: state.Head{TurnID: "t1", Epoch: 1}, outgoing: outgoing}
	keep(t, a, "turns/t1/1/output/f", n)
	if _, _, err := a.replier().attach(&m, "f", "f", maxAttached, true); err != nil {
		t.Fatal(err)
	}
	return m
}

// stubCarrier notes how long it may take.
type stubCarrier struct {
	Carrier
	patience time.Duration
	watches  int
	enough   func()
}

func (c *stubCarrier) Register(context.Context, mesh.Presence) error { return nil }

func (c *stubCarrier) Hosts(context.Context) (string, []mesh.HostSeen, error) { return "", nil, nil }

func (c *stubCarrier) Announce(ctx context.Context, _ mesh.Task) error {
	deadline, _ := ctx.Deadline()
	c.patience = time.Until(deadline)
	return nil
}

func (c *stubCarrier) Watch(_ context.Context, wait time.Duration) (mesh.Mailbox, error) {
	if c.watches++; c.watches == 2 { // the first one asks whether the mesh is there
		c.patience = wait
		c.enough()
	}
	return mesh.Mailbox{}, nil
}

// patienceOf returns how long a call lets the mesh take, by a clock that stands still.
func patienceOf(t *testing.T, call func(*Mesh)) time.Duration {
	carrier := &stubCarrier{}
	synctest.Test(t, func(*testing.T) { call(&Mesh{Carrier: carrier}) })
	return carrier.patience
}
