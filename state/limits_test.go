package state_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"agentstateloop/internal/testkit/limittest"
	"agentstateloop/internal/testkit/statetest"
	"agentstateloop/state"
)

// TestLimits tries each limit of the machine at its edge.
func TestLimits(t *testing.T) {
	const day = 24 * time.Hour
	before := func(d time.Duration) time.Duration { return d - 1 } // the last time before d has passed
	limittest.Run(t, []limittest.Limit{
		// The operator is asked.
		{Const: "MaxOperatorQuestion", Max: 4096, Within: func(_ *testing.T, n int64) bool {
			return state.CheckOperatorQuestion(text(n), nil) == nil
		}},
		{Const: "MaxOptions", Max: 9, Within: func(_ *testing.T, n int64) bool {
			return state.CheckOperatorQuestion("?", many(n, func(i int) string { return fmt.Sprint("option ", i) })) == nil
		}},
		{Const: "MaxOption", Max: 60, Within: func(_ *testing.T, n int64) bool {
			return state.CheckOperatorQuestion("?", []string{strings.Repeat("é", int(n))}) == nil
		}},
		{Const: "maxOperatorOpen", Max: 5, Within: func(_ *testing.T, n int64) bool {
			s := agentInTurn("")
			s.Turn.Waiting = many(n-1, func(i int) state.Wait { return wait(i, state.Wait{Operator: true}) })
			return asksOperator(s)
		}},
		{Const: "maxOperatorTurn", Max: 16, Within: func(_ *testing.T, n int64) bool {
			s := agentInTurn("")
			s.Turn.Waiting = many(n-1, func(i int) state.Wait { return wait(i, state.Wait{Operator: true, Report: "messages/a"}) })
			return asksOperator(s)
		}},
		{Const: "maxOperatorHour", Max: 20, Within: func(_ *testing.T, n int64) bool {
			s := agentInTurn("")
			s.OperatorAsked = many(n-1, func(int) state.AskedOperator { return state.AskedOperator{At: nine} })
			return asksOperator(s)
		}},
		{Const: "maxOperatorOther", Max: 6, Within: func(_ *testing.T, n int64) bool {
			s := agentInTurn("boreas3120")
			s.OperatorAsked = many(n-1, func(int) state.AskedOperator { return state.AskedOperator{At: nine, By: "peer:boreas3120"} })
			return asksOperator(s)
		}},

		// A restore.
		limittest.Duration("meshKnows", before(7*day), 1, func(_ *testing.T, d time.Duration) bool {
			s := agent()
			s.Outbox = []state.Effect{{ID: "send.1", Kind: state.Post, Channel: state.ByMesh, To: "boreas3120", Created: nine}}
			return len(step(s, nine.Add(d), state.Restored{}).Outbox) == 1
		}),
		limittest.Duration("restoreKept", before(30*day), 1, func(_ *testing.T, d time.Duration) bool {
			s := agent()
			s.Restore = &state.Restore{At: nine, Over: true}
			return step(s, nine.Add(d)).Restore != nil
		}),

		// Turns.
		{Const: "maxAwaited", Max: 16, Within: func(_ *testing.T, n int64) bool {
			s := agentInTurn("")
			s.Turn.Waiting = many(n-1, func(i int) state.Wait { return wait(i, state.Wait{Outside: true}) })
			s = step(s, nine, state.Awaited{TurnID: "t1", Epoch: 1, What: "submit", Patience: time.Hour})
			return len(s.Turn.Waiting) == int(n)
		}},
		{Const: "maxExpected", Max: 32, Within: func(_ *testing.T, n int64) bool {
			lines := many(n, func(i int) state.Line {
				return state.Line{Serial: 1, Kind: state.LineEdge, What: "expected", Expected: &state.Expected{Wait: wait(i, state.Wait{Outside: true})}}
			})
			return len(state.Replay(agent(), lines).Expected) == int(n)
		}},
		{Const: "coolAfter", Max: 4, Within: func(_ *testing.T, n int64) bool { // turns that fail without a cool-down
			s := agentInTurn("")
			s.FailedTurns = int(n) - 1
			return step(s, nine, state.Ended{TurnID: "t1", Epoch: 1, Outcome: state.Failed}).CooldownUntil.IsZero()
		}},
		{Const: "maxCollected", Max: 20, Within: func(_ *testing.T, n int64) bool {
			return len(leaseOf(many(n, func(int) int { return 1 }))) == int(n)
		}},
		{Const: "maxCollectedBytes", Max: 262_144, Within: func(_ *testing.T, n int64) bool {
			return len(leaseOf([]int{1, int(n) - 1})) == 2
		}},
		limittest.Duration("maxOutage", 8*day, 1, func(_ *testing.T, d time.Duration) bool {
			return outage(state.UsageLimit, 1, d).Wait == d
		}),
		{Const: "maxParked", Max: 64, Within: func(_ *testing.T, n int64) bool { return len(parkedSessions(int(n))) == int(n) }},
		{Const: "tellAtTry", Max: 1, Within: func(_ *testing.T, n int64) bool { return !outage(state.Overload, int(n), 0).Told }},
		limittest.Duration("collectTimes", time.Minute, 1, func(_ *testing.T, d time.Duration) bool {
			p := statetest.Policy()
			p.Collect = 20 * time.Second // three times this
			s, at := agent(), nine.Add(d-p.Collect)
			first := cliMessage(0, 1)
			first.Seq, first.Status, first.Reason, first.Observed = 1, state.Deferred, state.CollectReason, nine
			s.Arrivals, s.Inbox = 1, []state.Message{first}
			s = state.Step(s, []state.Event{state.Arrived{Message: cliMessage(1, 1)}}, p, at)
			return s.Inbox[1].NextRetryAt.Equal(nine.Add(d))
		}),
		limittest.Duration("workingAfter", before(2*time.Minute), 1, func(_ *testing.T, d time.Duration) bool {
			return !step(agentInTurn(""), nine.Add(d)).Turn.Working
		}),
		limittest.Duration("elsewhereFor", before(day), 1, func(_ *testing.T, d time.Duration) bool {
			_, two := signedAt(10*time.Minute + 1).TwoMachines(nine.Add(10*time.Minute + 1 + d))
			return two
		}),
		limittest.Duration("elsewhereSlack", 10*time.Minute, 1, func(_ *testing.T, d time.Duration) bool {
			return signedAt(d).Elsewhere.Sign.At.IsZero()
		}),
		limittest.Duration("MaxSleep", day, 1, func(_ *testing.T, d time.Duration) bool {
			return step(agentInTurn(""), nine, state.Slept{TurnID: "t1", Epoch: 1, For: d}).SleepFor == d
		}),
		limittest.Duration("MaxSleep", day, 1, func(_ *testing.T, d time.Duration) bool { return plannedFor(state.KindSleep, d) == d }),
		limittest.Duration("MaxReminder", 366*day, 1, func(_ *testing.T, d time.Duration) bool { return plannedFor(state.KindReminder, d) == d }),
		limittest.Duration("MaxReminder", 366*day, 1, func(_ *testing.T, d time.Duration) bool {
			s := step(agent(), nine, state.Planned{Key: "self:1", From: "op", Kind: state.KindReminder, At: nine.Add(d)})
			return s.Inbox[0].Span == d
		}),
		{Const: "MaxSelfRows", Max: 50, Within: func(_ *testing.T, n int64) bool { return roomForSelf(n, "") }},
		{Const: "MaxSelfRows", Max: 25, Within: func(_ *testing.T, n int64) bool { return roomForSelf(n, "boreas3120") }},
		limittest.Duration("MaxPatience", day, 1, func(_ *testing.T, d time.Duration) bool {
			e := state.Asked{TurnID: "t1", Epoch: 1, Question: state.Effect{Kind: state.Question, Channel: state.ByMesh, To: "boreas3120"}, Patience: d}
			return step(agentInTurn(""), nine, e).Turn.Waiting[0].Span == d
		}),
		limittest.Duration("MaxPatience", day, 1, func(_ *testing.T, d time.Duration) bool {
			return step(agentInTurn(""), nine, state.Awaited{TurnID: "t1", Epoch: 1, Patience: d}).Turn.Waiting[0].Span == d
		}),
		limittest.Duration("MaxPatience", day, 1, func(_ *testing.T, d time.Duration) bool { // after a clock was set back
			s, w := agentInTurn(""), state.Wait{ID: "w", Asked: nine, By: nine.Add(d), Span: d, Outside: true}
			s.Turn.Waiting, s.Expected = []state.Wait{w}, []state.Expected{{Wait: w}}
			s.Undelivered = []state.Effect{{ID: "question.1", Kind: state.OperatorQuestion, Expires: nine.Add(d)}}
			s = step(s, nine)
			return s.Turn.Waiting[0].By.Equal(w.By) && s.Expected[0].By.Equal(w.By) && s.Undelivered[0].Expires.Equal(w.By)
		}),

		// Mail that arrives.
		{Const: "MaxEventMessages", Max: 200, Within: func(_ *testing.T, n int64) bool {
			event := func(i int) state.Message {
				return state.Message{Key: fmt.Sprint("event:", i), Source: state.EventSource, From: "backup", Proof: state.ByProgram, Status: state.Queued}
			}
			s := agent()
			s.Inbox = many(n-1, event)
			return len(step(s, nine, state.Arrived{Message: event(-1), IfRoom: true}).Inbox) == int(n)
		}},
		{Const: "maxLastSubject", Max: 120, Within: func(_ *testing.T, n int64) bool {
			m := state.Arrived{Message: mailOf("m1"), Thread: state.Thread{Subject: text(n)}}
			return step(agent(), nine, m).LastMail.Subject == text(n)
		}},
		{Const: "firstYear", Max: 1969, Within: func(_ *testing.T, year int64) bool { // that is not believed
			m := mailOf("m1")
			m.At = time.Date(int(year), 6, 1, 0, 0, 0, 0, time.UTC)
			return step(agent(), nine, state.Arrived{Message: m}).Inbox[0].At.Equal(nine)
		}},
		limittest.Duration("unreadPatience", before(30*time.Minute), 1, func(_ *testing.T, d time.Duration) bool {
			s := agent()
			s.Phase, s.PhaseSince, s.LastMailRead = state.PREP, nine, nine
			return step(s, nine.Add(d), state.SourceFailed{Source: state.Mail}, state.Polled{}).Phase == state.PREP
		}),
		{Const: "maxRefetches", Max: 2, Within: func(_ *testing.T, n int64) bool { // after which a mail is not given up
			s := agent()
			m := mailOf("m1")
			m.Status, m.Damaged = state.Deferred, true
			s.Inbox = []state.Message{m}
			return len(step(s, nine, many(n, func(int) state.Event { return state.NotMended{Key: "m1"} })...).Inbox) == 1
		}},
		limittest.Duration("maxRefetch", 6*time.Hour, 1, func(_ *testing.T, d time.Duration) bool { // the longest pause
			return !nine.Add(d).After(failingCursor(1, 100).Failures[1].Next)
		}),
		{Const: "tellAfter", Max: 2, Within: func(_ *testing.T, n int64) bool { // failures that are not told
			return notices(stepWithCursor(agent(), failingCursor(1, int(n)), nine)) == 0
		}},
		limittest.Duration("tellAgain", before(day), 1, func(_ *testing.T, d time.Duration) bool {
			c := failingCursor(1, 3)
			f := c.Failures[1]
			f.Told = state.ToldFirst
			c.Failures[1] = f
			return notices(stepWithCursor(agent(), c, nine.Add(d))) == 0
		}),
		{Const: "listedAtAll", Max: 20, Within: func(_ *testing.T, n int64) bool {
			return !strings.Contains(stepWithCursor(agent(), failingCursor(int(n), 3), nine).Outbox[0].Text, " more:")
		}},
		{Const: "maxUIDRanges", Max: 200, Within: func(_ *testing.T, n int64) bool {
			var all state.UIDRanges
			for i := range uint32(n) {
				all = append(all, state.UIDRange{First: 3*i + 1, Last: 3*i + 1})
			}
			return len(all.Bounded()) == int(n)
		}},

		// What is remembered.
		limittest.Duration("seenFor", 14*day, time.Second, func(_ *testing.T, d time.Duration) bool {
			s := agent()
			s.Seen = map[string]int64{"m1": nine.Add(-d).Unix()}
			return len(step(s, nine).Seen) == 1
		}),
		{Const: "pruneAtOnce", Max: 100, Within: func(_ *testing.T, n int64) bool {
			return len(step(agentWithSeen("m", n), nine.AddDate(1, 0, 0)).Seen) == 0
		}},
		{Const: "maxRejections", Max: 500, Within: func(_ *testing.T, n int64) bool { return len(step(agentWithSeen("refused ", n), nine).Seen) == int(n) }},
		{Const: "MaxConversations", Max: 32, Within: func(_ *testing.T, n int64) bool {
			return len(step(agent(), nine, many(n, func(i int) state.Event {
				return state.Compacted{Talk: state.Talk{With: state.Principal(fmt.Sprint("peer:", i))}, Through: 1, File: "messages/s"}
			})...).Others) == int(n)
		}},

		{Const: "MaxThreads", Max: 100, Within: func(_ *testing.T, n int64) bool {
			s := step(agent(), nine, state.Compacted{Talk: state.Talk{With: "peer:1"}, Through: 1, File: "messages/s"})
			return len(step(s, nine, many(n, func(i int) state.Event {
				return state.Compacted{Talk: state.Talk{With: state.OperatorPrincipal, Thread: fmt.Sprint("t", i)}, Through: 1, File: "messages/s"}
			})...).Others) == int(n)+1
		}},

		// Challenges.
		limittest.Duration("tokenLife", before(day), 1, func(_ *testing.T, d time.Duration) bool {
			s := agent()
			s.Unasked = []string{"m1"}
			s = step(s, nine, state.Challenged{Key: "m1", Hash: state.HashToken("x"), Mail: state.Effect{ID: "challenge.1"}})
			_, open := s.ChallengeOf("x", nine.Add(d))
			return open
		}),
		limittest.Duration("challengeEvery", before(10*time.Minute), 1, func(_ *testing.T, d time.Duration) bool { // in which no other one is made
			s := agent()
			s.Unasked, s.LastChallenge = []string{"m1"}, nine
			_, asks := s.ToChallenge(statetest.Policy(), nine.Add(d))
			return !asks
		}),
		{Const: "maxOpen", Max: 5, Within: func(_ *testing.T, n int64) bool {
			s := agent()
			s.Unasked = []string{"m1"}
			s.Challenges = many(n-1, func(int) state.OpenChallenge { return state.OpenChallenge{Until: nine.Add(time.Hour)} })
			_, asks := s.ToChallenge(statetest.Policy(), nine)
			return asks
		}},
		{Const: "maxUnasked", Max: 5, Within: func(_ *testing.T, n int64) bool {
			return len(step(agent(), nine, many(n, func(i int) state.Event { return state.Rejected{Key: fmt.Sprint("m", i), Ask: true} })...).Unasked) == int(n)
		}},

		{Const: "maxOpenDoubtful", Max: 20, Within: func(_ *testing.T, n int64) bool {
			s := agent()
			s.Doubtful = []string{"m1"}
			s.Challenges = many(n-1, func(int) state.OpenChallenge { return state.OpenChallenge{Until: nine.Add(time.Hour), Doubtful: true} })
			_, asks := s.ToChallenge(statetest.Policy(), nine)
			return asks
		}},
		{Const: "maxDoubtful", Max: 20, Within: func(_ *testing.T, n int64) bool {
			return len(step(agent(), nine, many(n, func(i int) state.Event {
				return state.Rejected{Key: fmt.Sprint("m", i), Digest: fmt.Sprint("d", i), Doubtful: true}
			})...).Doubtful) == int(n)
		}},

		// The outbox.
		limittest.Duration("ackLife", before(10*time.Minute), 1, func(_ *testing.T, d time.Duration) bool {
			return len(step(step(agent(), nine, state.Ordered{To: state.PREP}), nine.Add(d)).Outbox) == 1
		}),
		limittest.Duration("giveUpAfter", before(5*day), 1, func(_ *testing.T, d time.Duration) bool {
			return len(step(agentWithRow(state.Effect{ID: "reply.t1", Kind: state.Reply, Waited: d, Attempts: 1}), nine).Undelivered) == 0
		}),
		limittest.Duration("giveUpAfter", before(5*day), 1, func(_ *testing.T, d time.Duration) bool { // a notice that is not made again
			s := agentWithRow(state.Effect{ID: "alarm.1", Kind: state.Alarm, Channel: state.ByMesh, To: "dorlange3120", Waited: d})
			s.Credentials = map[string]state.Credential{"imap": {Failures: 1, Keymaster: state.Notification{ID: "alarm.1"}}}
			return len(step(s, nine, state.SendFailed{ID: "alarm.1", Permanent: true}).Outbox) == 0
		}),
		{Const: "maxCopies", Max: 4, Within: func(_ *testing.T, n int64) bool { // after which another one may leave
			return len(agentWithRow(state.Effect{Kind: state.Reply, Copies: int(n)}).DueEffects(nine)) == 1
		}},
		{Const: "undeliveredKept", Max: 100, Within: func(_ *testing.T, n int64) bool {
			return len(step(agentWithUndelivered(n), nine).Undelivered) == int(n)
		}},
		{Const: "maxUnfiled", Max: 100, Within: func(_ *testing.T, n int64) bool {
			return len(stepWithCopies(agentWithUnfiled(n), nine).Unfiled) == int(n)
		}},
		limittest.Duration("unfiledLife", before(day), 1, func(_ *testing.T, d time.Duration) bool {
			s := stepWithCopies(agentWithUnfiled(1), nine, state.Filed{ID: "reply.0", Failed: "no such folder"})
			return len(stepWithCopies(s, nine.Add(d)).Unfiled) == 1
		}),
		{Const: "toldAtOnce", Max: 20, Within: func(_ *testing.T, n int64) bool {
			s := agentWithUndelivered(n)
			s.Outbox = []state.Effect{{ID: "ack.1", Kind: state.Ack, Channel: state.ByMail, To: "op@example.com"}}
			return len(step(s, nine, state.Sent{ID: "ack.1"}).Outbox[0].Tells) == int(n)
		}},
		{Const: "maxLost", Max: 100, Within: func(_ *testing.T, n int64) bool { return len(step(agent(), nine, bounces(n)...).Lost) == int(n) }},
		{Const: "maxTold", Max: 5, Within: func(_ *testing.T, n int64) bool {
			return !strings.Contains(step(agent(), nine, bounces(n)...).Outbox[0].Text, " more.")
		}},
		limittest.Duration("lostFor", 90*day, 1, func(_ *testing.T, d time.Duration) bool {
			s := agent()
			s.Lost = []state.Returned{{ID: "ack.1", At: nine.Add(-d)}}
			return len(step(s, nine).Lost) == 1
		}),
		{Const: "mailsAnHour", Max: 6, Within: func(_ *testing.T, n int64) bool { // acks
			s := agent()
			s.Acks = timesWithinHour(n - 1)
			return len(step(s, nine, state.Ordered{To: state.PREP}).Outbox) == 1
		}},
		{Const: "mailsAnHour", Max: 6, Within: func(_ *testing.T, n int64) bool { // quiets
			s := agent()
			s.Phase, s.Quiets = state.PREP, timesWithinHour(n-1)
			return len(step(s, nine, state.Ordered{To: state.IDLE}).Outbox) == 1
		}},
		{Const: "mailsAnHour", Max: 6, Within: func(_ *testing.T, n int64) bool { // alarms
			s := agent()
			s.Alarms = timesWithinHour(n - 1)
			return len(step(s, nine, state.CredentialFailed{Name: "imap"}).Outbox) == 1
		}},
		{Const: "mailsAnHour", Max: 6, Within: func(_ *testing.T, n int64) bool { // notices about losses
			s := agent()
			for i, told := range timesWithinHour(n - 1) {
				s.Lost = append(s.Lost, state.Returned{ID: fmt.Sprint("reply.before", i), At: told, Told: told})
			}
			return len(step(s, nine, bounces(1)...).Outbox) == 1
		}},
		{Const: "mailsAnHour", Max: 6, Within: func(_ *testing.T, n int64) bool { // texts of one peer
			s := agent()
			s.Relays = many(n-1, func(int) state.Relaying { return state.Relaying{From: "boreas3120", At: nine} })
			return len(step(s, nine, state.RelayAsked{Key: "r", From: "boreas3120", Text: "hello"}).Outbox) == 1
		}},
		{Const: "maxRelay", Max: 4096, Within: func(_ *testing.T, n int64) bool {
			return strings.Contains(step(agent(), nine, state.RelayAsked{Key: "r", From: "boreas3120", Text: text(n)}).Outbox[0].Text, text(n))
		}},
		{Const: "postsAMinute", Max: 5, Within: func(_ *testing.T, n int64) bool {
			s := agentWithRow(state.Effect{Kind: state.Post, Channel: state.ByMesh})
			s.Posts = many(n-1, func(int) time.Time { return nine })
			return len(s.DueEffects(nine)) == 1
		}},
		{Const: "blockerAfter", Max: 2, Within: func(_ *testing.T, n int64) bool { return !credentialAfterFailures(n - 1).Blocks }},
		{Const: "blockerAfter", Max: 2, Within: func(_ *testing.T, n int64) bool { return credentialAfterFailures(n-1).Operator.ID == "" }},

		// Nudges, hooks and prompts.
		{Const: "maxRings", Max: 10, Within: func(_ *testing.T, n int64) bool {
			return len(step(agent(), nine, many(n, func(i int) state.Event { return state.Nudged{Key: fmt.Sprint("n", i)} })...).Rings) == int(n)
		}},
		{Const: "maxRingReason", Max: 200, Within: func(_ *testing.T, n int64) bool {
			reason := strings.Repeat("é", int(n))
			return step(agent(), nine, state.Nudged{Key: "n1", Reason: reason}).LastRing.Reason == reason
		}},
		{Const: "maxReason", Max: 500, Within: func(_ *testing.T, n int64) bool {
			a, _ := state.Line{Kind: state.LineHalt, What: "halt", Reason: text(n)}.Announcement("goulard3120")
			return a.Data.Reason == text(n)
		}},
		{Const: "maxHookCalls", Max: 200, Within: func(_ *testing.T, n int64) bool {
			s := agent()
			s.HookCalls = many(n-1, func(i int) state.Effect { return state.Effect{ID: fmt.Sprint("hook.", i), To: "ops"} })
			return len(stepWithHook(s, state.MemoryReset{}).HookCalls) == int(n)
		}},
		limittest.Duration("hookGiveUp", before(day), 1, func(_ *testing.T, d time.Duration) bool {
			s := agent()
			s.HookCalls = []state.Effect{{ID: "hook.1", To: "ops", Waited: d, Attempts: 1}}
			return len(stepWithHook(s).HookCalls) == 1
		}),
		limittest.Duration("hookToldEvery", before(day), 1, func(_ *testing.T, d time.Duration) bool {
			s := agent()
			s.FailingHooks = map[string]state.FailingHook{"ops": {Since: nine.Add(-d), Untold: 1, Told: nine.Add(-d)}}
			return len(stepWithHook(s).Outbox) == 0
		}),
		limittest.Duration("hookToldEvery", before(day), 1, func(_ *testing.T, d time.Duration) bool { // a hook that works again
			s := agent()
			s.FailingHooks = map[string]state.FailingHook{"ops": {Told: nine.Add(-d)}}
			return len(stepWithHook(s).FailingHooks) == 1
		}),
		{Const: "maxDone", Max: 16, Within: func(_ *testing.T, n int64) bool {
			s, p, at := morning("24h")
			s.Prompts[0].Done = many(n-1, func(i int) time.Time { return at.AddDate(0, 0, i-int(n)) })
			s = state.Step(s, []state.Event{state.Prompted{Name: "morning", At: at, Skipped: "no"}}, p, nine)
			return len(s.Prompts[0].Done) == int(n)
		}},
		limittest.Duration("PromptLease", before(2*time.Minute), 1, func(_ *testing.T, d time.Duration) bool {
			s, p, _ := morning("24h")
			s = state.Step(s, []state.Event{state.PromptAsked{Name: "morning", ID: "p1"}}, p, nine)
			return len(s.DuePrompts(p, nine.Add(d))) == 0
		}),
		limittest.Duration("PromptLease", 2*time.Minute, 1, func(_ *testing.T, d time.Duration) bool { // after a clock was set back
			s, p, _ := morning("24h")
			s.Prompts[0].AskedUntil = nine.Add(d)
			return state.Step(s, nil, p, nine).Prompts[0].AskedUntil.Equal(nine.Add(d))
		}),
		limittest.Duration("PromptSlack", 15*time.Minute, 1, func(_ *testing.T, d time.Duration) bool {
			s, p, at := morning("0s")
			return len(s.DuePrompts(p, at.Add(d))) == 1
		}),

		// The next poll.
		limittest.Duration("alarmLead", before(5*time.Second), 1, func(_ *testing.T, d time.Duration) bool { // too late for this minute
			minute := nine.Add(2 * time.Minute)
			at, _ := agentWithRow(state.Effect{Kind: state.Reply, NotBefore: minute}).NextAlarm(statetest.Policy(), minute.Add(-d))
			return at.After(minute)
		}),
		limittest.Duration("day", before(day), 1, func(_ *testing.T, d time.Duration) bool { // polled by the hour
			p := statetest.Policy()
			p.IdleInterval = d
			return state.Step(agent(), []state.Event{state.Polled{}}, p, nine).NextDue.Hour() == 23
		}),
		limittest.Duration("dueSlack", 30*time.Second, 1, func(_ *testing.T, d time.Duration) bool {
			s := agent()
			s.NextDue = nine
			return s.Due(statetest.Policy(), nine.Add(-d)) != ""
		}),
		limittest.Duration("dueSlack", 30*time.Second, 1, func(_ *testing.T, d time.Duration) bool { // so far ahead only if the clock was set back
			s := agent()
			s.NextDue = nine.Add(30*time.Minute + d)
			return s.Due(statetest.Policy(), nine) == ""
		}),
		limittest.Duration("dueSlack", 30*time.Second, 1, func(_ *testing.T, d time.Duration) bool {
			return state.Failure{Next: nine}.Due(nine.Add(-d))
		}),

		// Money.
		{Const: "maxMoney", Max: 1_000_000_000_000_000, Within: func(_ *testing.T, n int64) bool {
			return step(agent(), nine, state.Credited{Amount: state.Micros(n)}).Purse.Granted == state.Micros(n)
		}},
		{Const: "maxMoney", Max: 1_000_000_000, Within: func(_ *testing.T, n int64) bool { _, ok := state.Dollars(float64(n)); return ok }},
		{Const: "fourPlaces", Max: 99, Within: func(_ *testing.T, n int64) bool { return len(state.Micros(n).String()) == len("$0.000099") }},
		{Const: "MaxSpent", Max: 1_000_000_000, Within: func(_ *testing.T, n int64) bool {
			return stepSpent(agent(), state.Spending{Cost: state.Micros(n)}).Purse.Total == state.Micros(n)
		}},
		{Const: "maxTokens", Max: 1_000_000_000, Within: func(_ *testing.T, n int64) bool {
			return stepSpent(agent(), state.Spending{Tokens: state.Tokens{Output: n}}).Lines[0].Spending.Tokens.Output == n
		}},
		{Const: "daysKept", Max: 8, Within: func(_ *testing.T, n int64) bool {
			s := agent()
			s.Purse.Days = many(n-1, func(i int) state.Account { return state.Account{Period: fmt.Sprint("2026-02-0", i)} })
			return len(stepSpent(s, state.Spending{}).Purse.Days) == int(n)
		}},
		{Const: "monthsKept", Max: 3, Within: func(_ *testing.T, n int64) bool {
			s := agent()
			s.Purse.Months = many(n-1, func(i int) state.Account { return state.Account{Period: fmt.Sprint("2025-0", i)} })
			return len(stepSpent(s, state.Spending{}).Purse.Months) == int(n)
		}},
		{Const: "countedKept", Max: 256, Within: func(_ *testing.T, n int64) bool {
			s := agent()
			s.Purse.Counted = many(n-1, func(i int) string { return fmt.Sprint("before", i) })
			return len(stepSpent(s, state.Spending{}).Purse.Counted) == int(n)
		}},
		{Const: "countedBefore", Max: 16, Within: func(_ *testing.T, n int64) bool {
			s := agent()
			s.Inbox = []state.Message{cliMessage(0, 1)}
			s.Purse.Counted = many(n, func(i int) string { return fmt.Sprint("before", i) })
			return len(step(s, nine, state.Claimed{}).Purse.Counted) == int(n)
		}},
		{Const: "unpricedKept", Max: 8, Within: func(_ *testing.T, n int64) bool {
			s := agent()
			s.Purse.Unpriced = many(n-1, func(i int) string { return fmt.Sprint("before", i) })
			return len(stepSpent(s, state.Spending{Model: "new", Basis: state.BasisDearest}).Purse.Unpriced) == int(n)
		}},
		{Const: "metersKept", Max: 133, Within: func(_ *testing.T, n int64) bool { // besides that of the last session
			meters := many(n+1, func(i int) state.Event {
				return state.Spent{Spending: state.Spending{ID: fmt.Sprint("s", i)}, Meter: state.Meter{Session: fmt.Sprint("session", i)}}
			})
			return len(step(agent(), nine, meters...).Purse.Meters) == int(n)
		}},

		// Names.
		{Const: "MaxHandle", Max: 32, Within: func(_ *testing.T, n int64) bool { return state.ValidHandle(text(n)) }},
		{Const: "MaxResultFields", Max: 32, Within: func(_ *testing.T, n int64) bool {
			return state.CheckResultFields(many(n, func(i int) state.ResultField { return state.ResultField{Name: fmt.Sprint("f", i)} })) == nil
		}},
		{Const: "maxFieldName", Max: 64, Within: func(_ *testing.T, n int64) bool { return state.ValidFieldName(text(n)) }},
		{Const: "maxFieldDescription", Max: 500, Within: func(_ *testing.T, n int64) bool {
			return state.CheckResultFields([]state.ResultField{{Name: "f", Description: text(n)}}) == nil
		}},
	})
}

// text returns n bytes, which are a word.
func text(n int64) string { return strings.Repeat("x", int(n)) }

// many returns n values.
func many[T any](n int64, value func(i int) T) []T {
	var all []T
	for i := range int(n) {
		all = append(all, value(i))
	}
	return all
}

func agent() state.State {
	s := state.New("goulard3120", "seed")
	s.LastStep = nine
	return s
}

func step(s state.State, now time.Time, events ...state.Event) state.State {
	return state.Step(s, events, statetest.Policy(), now)
}

// mailOf returns a mail of the operator.
func mailOf(key string) state.Message {
	return state.Message{Key: key, Source: state.Mail, From: "op@example.com", Operator: true, At: nine}
}

// cliMessage returns a message of the user op, with a payload of size bytes.
func cliMessage(i, size int) state.Message {
	return state.Message{Key: fmt.Sprint("cli:", i), Source: state.CLI, From: "op", Operator: true, Status: state.Queued, Size: size}
}

// agentInTurn returns an agent with the turn t1 of a peer, or of the operator.
func agentInTurn(peer string) state.State {
	s, m := agent(), mailOf("m1")
	if peer != "" {
		m.Source, m.From, m.Operator, m.Proof = state.Mesh, peer, false, state.ByToken
	}
	m.Status, m.TurnID, m.Epoch = state.Processing, "t1", 1
	s.Inbox, s.Epoch = []state.Message{m}, 1
	s.Turn = state.Head{Status: state.HeadRunning, TurnID: "t1", Epoch: 1, Key: "m1", Since: nine}
	return s
}

// wait returns w with an id, open for an hour.
func wait(i int, w state.Wait) state.Wait {
	w.ID, w.Asked, w.By, w.Span = fmt.Sprint("wait.", i), nine, nine.Add(time.Hour), time.Hour
	return w
}

// asksOperator reports whether the running turn may ask the operator.
func asksOperator(s state.State) bool {
	e := state.Asked{TurnID: "t1", Epoch: 1, Question: state.Effect{Kind: state.OperatorQuestion, To: "op@example.com"}, Patience: time.Hour}
	return len(step(s, nine, e).Turn.Waiting) > len(s.Turn.Waiting)
}

// leaseOf returns the messages of one sender, of these sizes, that have one turn.
func leaseOf(sizes []int) []state.Message {
	s, p := agent(), statetest.Policy()
	p.Collect = 20 * time.Second
	for i, size := range sizes {
		s.Inbox = append(s.Inbox, cliMessage(i, size))
	}
	return s.LeaseOf(p, "cli:0")
}

// plannedFor returns how far ahead a row is that the operator wants after d.
func plannedFor(kind string, d time.Duration) time.Duration {
	return step(agent(), nine, state.Planned{Key: "self:1", From: "op", Kind: kind, For: d}).Inbox[0].Span
}

// roomForSelf reports whether the turn of a peer, or of the operator, may plan the nth
// row of its kind.
func roomForSelf(n int64, peer string) bool {
	s := agentInTurn(peer)
	s.Inbox = append(s.Inbox, many(n-1, func(i int) state.Message {
		return state.Message{Key: fmt.Sprint("self:", i), Source: state.Self, Kind: state.KindReminder, Operator: peer == "", Status: state.Deferred, NextRetryAt: nine.Add(time.Hour), Span: time.Hour}
	})...)
	s = step(s, nine, state.Planned{TurnID: "t1", Epoch: 1, Key: "self:new", Kind: state.KindReminder, For: time.Hour})
	return len(s.Inbox) == 1+int(n)
}

// agentWithSeen returns an agent that has seen n keys.
func agentWithSeen(prefix string, n int64) state.State {
	s := agent()
	s.Seen = map[string]int64{}
	for i := range n {
		s.Seen[fmt.Sprint(prefix, i)] = nine.Unix()
	}
	return s
}

// agentWithRow returns an agent with one row in its outbox, a mail unless it says otherwise.
func agentWithRow(e state.Effect) state.State {
	s := agent()
	if e.Channel == "" {
		e.Channel, e.To = state.ByMail, "op@example.com"
	}
	e.Created, s.NextDue = nine, nine.Add(30*time.Minute)
	s.Outbox = []state.Effect{e}
	return s
}

// agentWithUndelivered returns an agent with n rows that were given up.
func agentWithUndelivered(n int64) state.State {
	s := agent()
	s.Undelivered = many(n, func(i int) state.Effect { return state.Effect{ID: fmt.Sprint("reply.t", i), Kind: state.Reply} })
	return s
}

// bounces returns delivery reports about n answers.
func bounces(n int64) []state.Event {
	return many(n, func(i int) state.Event {
		return state.Bounced{Key: fmt.Sprint("b", i), ID: fmt.Sprint("reply.t", i), To: "op@example.com", Reason: "550"}
	})
}

// timesWithinHour returns n times of the last hour, all different.
func timesWithinHour(n int64) []time.Time {
	return many(n, func(i int) time.Time { return nine.Add(-time.Duration(i+1) * time.Minute) })
}

// credentialAfterFailures returns the credential of the mailbox as it is when it fails once more
// after n cycles.
func credentialAfterFailures(n int64) state.Credential {
	s := agent()
	s.Credentials = map[string]state.Credential{"imap": {Failures: int(n)}}
	return step(s, nine, state.CredentialFailed{Name: "imap"}).Credentials["imap"]
}

// stepWithHook steps an agent with a hook that hears everything.
func stepWithHook(s state.State, events ...state.Event) state.State {
	return stepWithHookAt(s, nine, events...)
}

func stepWithHookAt(s state.State, now time.Time, events ...state.Event) state.State {
	p := statetest.Policy()
	p.Hooks = []state.HookPolicy{{Name: "ops", On: []string{"*"}}}
	return state.Step(s, events, p, now)
}

// morning returns an agent with a prompt that is due since eight.
func morning(catchUp string) (state.State, state.Policy, time.Time) {
	s, p, at := agent(), statetest.Policy(), nine.Add(-time.Hour)
	p.Prompts, _ = statetest.Prompts("morning@08:00/" + catchUp)
	s.Prompts = []state.TimedPrompt{{Name: "morning", At: "08:00", Next: at}}
	return s, p, at
}

// stepSpent steps an agent that has spent something.
func stepSpent(s state.State, sp state.Spending) state.State {
	sp.ID = "s1"
	return step(s, nine, state.Spent{Spending: sp})
}

// stepWithCopies is step, with copies of sent mail.
func stepWithCopies(s state.State, now time.Time, events ...state.Event) state.State {
	p := statetest.Policy()
	p.Copies = true
	return state.Step(s, events, p, now)
}

// agentWithUnfiled returns a state in which n mails wait for their copy.
func agentWithUnfiled(n int64) state.State {
	s := agent()
	for i := range n {
		s.Unfiled = append(s.Unfiled, state.Unfiled{ID: fmt.Sprint("reply.", i), Sent: nine})
	}
	return s
}

// outage returns the outage of the only backend after so many failures, whose end is known if
// lasts is not zero.
func outage(kind state.OutageKind, failures int, lasts time.Duration) state.Outage {
	p := statetest.Policy()
	now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	var s state.State
	e := state.BackendFailed{Backend: p.Login, Kind: kind}
	if lasts > 0 {
		e.Until = now.Add(lasts)
	}
	for range failures {
		s = state.Step(s, []state.Event{e}, p, now)
	}
	return s.Outages[p.Login]
}

// parkedSessions returns the sessions that are parked when so many agents have each had a turn with one
// backend and then with another.
func parkedSessions(agents int) []state.ParkedSession {
	s, now := agent(), time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	for i := range agents {
		for _, runner := range []string{"claude", "codex:1"} {
			key := fmt.Sprintf("q%d.%s", i, runner)
			m := state.Message{Key: key, Source: state.Mesh, From: fmt.Sprint("peer", i), Proof: state.ByToken, At: now}
			s = step(s, now, state.Arrived{Message: m})
			s = step(s, now, state.Claimed{})
			s = step(s, now, state.Ended{TurnID: s.Turn.TurnID, Epoch: s.Turn.Epoch, Outcome: state.Success, Session: state.Session{Runner: runner, ID: key}})
		}
	}
	return s.Parked
}

// signedAt returns an agent whose state got its place at nine, and that saw another machine d later.
func signedAt(d time.Duration) state.State {
	return step(step(agent(), nine), nine.Add(time.Hour), state.ElsewhereSeen{Host: "mars", At: nine.Add(d)})
}
