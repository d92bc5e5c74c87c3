package state_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"agentstateloop/internal/members"
	"agentstateloop/internal/testkit/statetest"
	"agentstateloop/state"
)

// FuzzStep steps a life of random events, from a new or a random state, and checks
// after every step what must always hold.
func FuzzStep(f *testing.F) {
	f.Add([]byte(nil), []byte{1, 0, 0, 12, 3, 17, 2, 1, 40, 9, 10, 21, 13, 5, 30})
	f.Add([]byte(nil), []byte("an ordinary sentence makes a life of some length, too"))
	f.Add([]byte(`{"version":1,"agent":"a","phase":"PREP","turn":{"status":"suspended","waiting":[{"tool_call_id":"x"}]}}`), []byte{1, 2, 3, 4, 5, 6})
	for _, content := range statetest.BadStates {
		f.Add([]byte(content), []byte{1, 2, 3})
	}
	files, err := filepath.Glob("testdata/*.txt")
	check(f, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		check(f, err)
		story := statetest.New()
		if _, err := story.Tell(string(text)); err != nil {
			f.Fatal(err)
		}
		data, err := json.Marshal(story.S)
		check(f, err)
		f.Add(data, text[:120])
	}
	f.Fuzz(func(t *testing.T, data, script []byte) {
		life := randomLife(t, script[:min(len(script), 400)]) // several short lives find as much as a long one
		var s state.State
		if json.Unmarshal(data, &s) == nil && s.Valid() == nil {
			life.s, life.sane = s, false
		}
		if life.s.Serial > math.MaxUint64/2 || life.s.Epoch > math.MaxUint64/2 || life.s.Arrivals > math.MaxUint64/2 {
			t.Skip("counters at their end")
		}
		life.live()
	})
}

// life is a sequence of steps made of bytes.
type life struct {
	t      *testing.T
	s      state.State
	p      state.Policy
	now    time.Time
	script []byte
	sane   bool // begun by New, so that what each step preserves holds from the start

	unchecked state.StepFunc // replaces state.Step and the checks of its results, if set
	asked     int

	waits  map[string]bool   // message keys: accepted, and not ended
	queued map[string]bool   // effect ids: made, and not done
	tasks  map[string]bool   // turn ids: ended
	told   map[string]string // effect ids by outage and recipient
	chains map[string]string // ids of chains, by message key
	fired  []string          // keys of the last firings of prompts
}

// randomLife returns a new agent that lives by a script.
func randomLife(t *testing.T, script []byte) *life {
	return &life{
		t: t, s: state.New("goulard3120", "seed"), p: withAckAfter(withCollect(withBudget(statetest.Policy()), script), script),
		now: time.Date(2026, 3, 2, 9, 30, 0, 0, time.UTC), script: script, sane: true,
	}
}

// withCollect is a policy that lets messages share turns in half of the lives.
func withCollect(p state.Policy, script []byte) state.Policy {
	if len(script)%2 == 1 {
		p.Collect = 20 * time.Second
	}
	return p
}

// withBudget is a policy with budgets that a life can use up.
func withBudget(p state.Policy) state.Policy {
	p.Budget = state.Budget{HasCredit: true, Credit: 3 * state.Dollar, Day: state.Dollar, Low: state.Dollar / 2, Critical: state.Dollar / 10}
	return p
}

// next takes a byte and returns a number below n.
func (l *life) next(n int) int {
	if len(l.script) == 0 {
		return 0
	}
	b := l.script[0]
	l.script = l.script[1:]
	return int(b) % n
}

func (l *life) pick(of ...string) string { return of[l.next(len(of))] }

var leaps = []time.Duration{
	0, time.Second, 20 * time.Second, time.Minute, time.Minute, 5 * time.Minute, 10 * time.Minute, 31 * time.Minute,
	2 * time.Hour, 49 * time.Hour, 400 * 24 * time.Hour, -time.Second, -30 * time.Minute, -26 * time.Hour, -400 * 24 * time.Hour,
}

func (l *life) live() {
	l.waits, l.queued, l.tasks = map[string]bool{}, map[string]bool{}, map[string]bool{}
	l.told, l.chains = map[string]string{}, map[string]string{}
	l.p.Peers = []string{"boreas3120", l.s.Agent}
	l.p.EventRate = 2
	l.p.Hooks = []state.HookPolicy{{Name: "log", On: []string{"*"}}, {Name: "ops", On: []string{"task", "blocker"}}}
	l.p.Prompts, _ = statetest.Prompts("morning@08:00+often@10:00/1h?")
	for len(l.script) > 0 {
		if leap := leaps[l.next(len(leaps))]; l.now.Year() > 1990 && l.now.Year() < 2200 || leap == 0 {
			l.now = l.now.Add(leap)
		}
		var events []state.Event
		for range 1 + l.next(4) {
			events = append(events, l.event())
		}
		if l.unchecked != nil {
			l.s = l.unchecked(l.s, events, l.p, l.now)
			continue
		}
		l.step(events)
	}
}

func (l *life) at() time.Time { return l.now.Add(leaps[l.next(len(leaps))]) }

// gate returns the turn and epoch of an event: mostly the right ones.
func (l *life) gate() (string, uint64) {
	switch l.next(8) {
	case 0:
		return "tother", l.s.Turn.Epoch
	case 1:
		return l.s.Turn.TurnID, l.s.Turn.Epoch - 1
	}
	return l.s.Turn.TurnID, l.s.Turn.Epoch
}

func (l *life) credential() string {
	return l.pick(state.CredentialIMAP, state.CredentialSMTP, state.CredentialMesh, "agent:exec")
}

func (l *life) effect() string {
	if n := len(l.s.HookCalls); n > 0 && l.next(4) == 0 {
		return l.s.HookCalls[l.next(n)].ID
	}
	if len(l.s.Outbox) == 0 {
		return "ack.none"
	}
	return l.s.Outbox[l.next(len(l.s.Outbox))].ID
}

// wait returns the id of something that is to report: mostly one that exists.
func (l *life) wait() string {
	waits := slices.Clone(l.s.Turn.Waiting)
	for _, x := range l.s.Expected {
		waits = append(waits, x.Wait)
	}
	if len(waits) == 0 || l.next(4) == 0 {
		return fmt.Sprint("ask.", l.next(l.asked+1))
	}
	return waits[l.next(len(waits))].ID
}

func (l *life) message() state.Arrived {
	key := l.pick("k1", "k2", "k3", "k4", "k5", "k6", "k7", "k8")
	a := state.Arrived{Message: state.Message{Key: key, At: l.at(), Trace: l.pick("", "", "trace.of.another")}}
	switch l.next(5) {
	case 4:
		a.Message.Source, a.Message.From, a.Message.Proof = state.EventSource, "backup", state.ByProgram
	case 0:
		a.Message.Source, a.Message.From, a.MeshID = state.Mesh, "dorlange3120", key
	case 1:
		a.Message.Source, a.Message.From, a.Message.Operator = state.CLI, "op", true
	default:
		a.Message.Source, a.Message.From, a.Message.Operator = state.Mail, "op@example.com", true
		a.UID, a.Digest = uint32(l.next(9)), l.pick("", "d1", "d2", "d3")
	}
	return a
}

// refusal makes an event of an item that the gate rejects, or that is let in anyway.
func (l *life) refusal() state.Event {
	refused := state.Rejected{Key: l.pick("k1", "r1", "r2", "r3"), Source: state.Mail, At: l.at(), Digest: l.pick("", "d1"), Unkept: l.next(3) == 0, Ask: l.next(2) == 0}
	switch l.next(8) {
	case 0:
		e := l.message()
		e.Digest = ""
		return state.Released{Key: e.Message.Key, Event: e}
	case 1:
		return state.Discarded{Key: l.pick("k1", "r1")}
	case 2, 3:
		l.asked++
		key, _ := l.s.ToChallenge(l.p, l.now)
		return state.Challenged{Key: key, Hash: state.HashToken(fmt.Sprint(l.asked % 7)), Mail: state.Effect{ID: fmt.Sprint("challenge.", l.asked)}}
	case 4:
		e := l.message()
		refused.Key = e.Message.Key
		v := state.Vouched{Key: refused.Key, Hash: state.HashToken(fmt.Sprint(l.next(7))), At: l.at(), Then: e, Else: refused}
		if l.next(2) == 0 {
			v.Then = state.Released{Key: "r1", Event: state.Arrived{Message: state.Message{Key: "r1", Source: state.Mail, Operator: true, At: l.at()}}}
		}
		return v
	}
	return refused
}

func (l *life) event() state.Event {
	turn, epoch := l.gate()
	switch l.next(40) {
	case 0, 1, 2:
		return state.Polled{Again: l.next(4) == 0}
	case 3, 4:
		return state.SourceRead{Source: state.Mail, Cursor: &state.Cursor{Validity: uint32(l.next(3)), Next: 7, Complete: l.at()}}
	case 5:
		return state.SourceFailed{Source: state.Mail}
	case 6, 7, 8:
		return l.message()
	case 9:
		return state.Nudged{Key: l.pick("n1", "n2"), From: l.pick("sister3120", "dorlange3120"), MeshID: l.pick("", "n"), At: l.at()}
	case 10:
		return state.NudgeFiles{Keys: []string{l.pick("n1", "n2")}}
	case 11:
		return l.refusal()
	case 12:
		return state.Noted{Key: l.pick("k2", "r2"), MeshID: "r2"}
	case 13:
		return state.Ordered{To: state.Phase(l.pick("IDLE", "PREP", "ACTIVE", "NAP")), NoMail: l.next(2) == 0}
	case 14:
		return state.Switched{Mesh: l.next(2) == 0, On: l.next(2) == 0}
	case 15:
		return state.Sending{ID: l.effect()}
	case 16:
		return state.Sent{ID: l.effect()}
	case 17:
		return state.SendFailed{ID: l.effect(), Permanent: l.next(4) == 0, Unknown: l.next(2) == 0, Denied: l.next(8) == 0, Server: l.next(2) == 0, RetryAfter: leaps[l.next(len(leaps))]}
	case 18, 19, 20:
		return state.Claimed{Pull: l.next(8) == 0}
	case 21:
		return state.Started{TurnID: turn, Epoch: epoch}
	case 22, 23:
		e := state.Ended{TurnID: turn, Epoch: epoch, Outcome: state.Outcome(l.pick("success", "failed", "canceled", "timeout", "partial"))}
		if l.next(2) == 0 {
			e.Reply = &state.Effect{ID: "reply." + turn, Kind: state.Reply, Channel: state.Channel(l.pick("mail", "mesh")), To: "op@example.com", TurnID: turn}
			e.Lingers = len(l.script)%2 == 0
		}
		return e
	case 24:
		if l.s.Turn.Lingering() {
			return state.AgentEnded{TurnID: turn, Epoch: epoch}
		}
		return state.Reaped{TurnID: turn, Epoch: epoch}
	case 25:
		return state.Controlled{Arrived: l.message(), Control: l.pick(state.ControlStop, state.ControlHalt, state.ControlGo, state.ControlStatus)}
	case 26:
		if l.next(2) == 0 {
			return state.Awaited{TurnID: turn, Epoch: epoch, What: "tool deploy", Peers: []string{"boreas3120"}, Patience: leaps[l.next(len(leaps))]}
		}
		l.asked++
		q := state.Effect{ID: fmt.Sprint("ask.", l.asked), Kind: state.Question, Channel: state.ByMesh, To: "dorlange3120"}
		e := state.Asked{TurnID: turn, Epoch: epoch, Question: q, Patience: leaps[l.next(len(leaps))]}
		if l.next(3) == 0 {
			e.Question.Kind, e.Question.Channel, e.Permit = state.OperatorQuestion, state.ByMail, l.pick("", "rm", "ls")
		}
		return e
	case 27:
		return state.Suspended{TurnID: turn, Epoch: epoch}
	case 28:
		return state.Reported{
			Key: l.pick("p1", "p2", "p3", "p4", "p5"), From: l.pick("dorlange3120", "boreas3120"), Payload: "p", ToolCallID: l.wait(),
			Local: l.next(2) == 0, Proven: l.next(2) == 0, Status: state.Outcome(l.pick("", "success", "failed", "partial")), Trace: l.pick("", "trace.of.another"),
		}
	case 29:
		return l.givenBack(turn, epoch)
	case 30:
		return state.Slept{TurnID: turn, Epoch: epoch, For: leaps[l.next(len(leaps))]}
	case 38:
		l.asked++
		e := state.Planned{Key: fmt.Sprint("self:", l.asked%9), Kind: l.pick(state.KindSleep, state.KindRest, state.KindReminder), For: leaps[l.next(len(leaps))], At: l.at()}
		if l.next(4) > 0 {
			e.TurnID, e.Epoch = turn, epoch
		}
		return e
	case 31:
		return state.Dropped{Key: l.pick("k1", "k2", "k3")}
	case 33:
		cost := []state.Micros{0, 1, 40_000, 300_000, 2 * state.Dollar, -5 * state.Dollar, math.MaxInt64, math.MinInt64}[l.next(8)]
		return state.Spent{TurnID: turn, Epoch: epoch, From: "op@example.com", Spending: state.Spending{
			ID: fmt.Sprint("c", l.next(64)), Model: l.pick("gpt-4o", "llama"), Cost: cost, Basis: l.pick(state.BasisTable, state.BasisDearest),
			Tokens: state.Tokens{Input: int64(cost)},
		}}
	case 34:
		return state.Credited{Amount: []state.Micros{state.Dollar, 0, -state.Dollar, math.MaxInt64}[l.next(4)]}
	case 37:
		kept := l.effect()
		if n := len(l.s.Undelivered); n > 0 && l.next(2) == 0 {
			kept = l.s.Undelivered[l.next(n)].ID
		}
		if l.next(3) == 0 {
			return state.OutboxDropped{ID: kept, Alone: l.next(2) == 0}
		}
		return state.OutboxRetried{ID: kept}
	case 32:
		return state.CredentialFailed{Name: l.credential()}
	case 35:
		return state.CredentialWorked{Name: l.credential(), Reading: l.next(2) == 0}
	case 36:
		return state.RelayAsked{Key: l.pick("r1", "r2", "r3"), From: l.pick("dorlange3120", "boreas3120"), Text: l.pick("", "word"), MeshID: "r"}
	default:
		return l.any()
	}
}

// givenBack makes an event of an attempt that came to nothing, or of its backend.
func (l *life) givenBack(turn string, epoch uint64) state.Event {
	backend := l.p.BackendNames()[0]
	switch l.next(6) {
	case 0:
		return state.BackendFailed{Backend: backend, Kind: state.OutageKind(l.pick("limit", "overload", "login", "obstacle")), Until: l.at()}
	case 1:
		return state.BackendWorked{Backend: backend}
	case 2:
		return state.Permitted{TurnID: turn, Epoch: epoch, Question: l.wait()}
	}
	return state.GivenBack{TurnID: turn, Epoch: epoch, Wait: leaps[l.next(len(leaps))], Fresh: l.next(3) == 0, Worked: l.next(2) == 0, Counts: l.next(2) == 0}
}

// any makes one of all events, with fields that fit the state.
func (l *life) any() state.Event {
	v := settable(everyEvent[l.next(len(everyEvent))])
	eachField(v, "", l.fill)
	switch e := v.Interface().(type) {
	case state.Released, state.Vouched:
		return l.refusal() // their keys depend on each other
	case state.PromptAsked:
		return state.PromptAsked{Name: l.pick("morning", "often"), ID: l.pick("p1", "p2")}
	case state.Prompted:
		return l.prompted(e)
	case state.Event:
		return e
	}
	return nil
}

// prompted makes a firing: mostly one that is due.
func (l *life) prompted(e state.Prompted) state.Prompted {
	e.Name, e.ID, e.Hand = l.pick("morning", "often"), l.pick("", "", "p1"), l.pick("", "", "", "prompt:by-hand:1")
	e.Skipped, e.Failed = l.pick("", "", "", "no"), l.pick("", "", "", "broken")
	for _, f := range l.s.DuePrompts(l.p, l.now) {
		if f.Name == e.Name && l.next(4) > 0 {
			e.At = f.At
		}
	}
	return e
}

// wantPrompted checks that a time of a prompt has one message, as far as its row remembers.
func (l *life) wantPrompted(events []state.Event) {
	for _, line := range l.s.Lines {
		if line.Kind != state.LineMessage || line.Source != state.Clock || line.What != "" || line.Message == nil || line.Message.ByHand || !l.sane {
			continue
		}
		if slices.Contains(l.fired, line.Key) {
			l.t.Fatalf("%v: %s has a message again", events, line.Key)
		}
		l.fired = append(l.fired, line.Key)
		l.fired = l.fired[max(0, len(l.fired)-16):]
	}
}

// fill sets one field of an event.
func (l *life) fill(name string, v reflect.Value) {
	owner, field, _ := strings.Cut(name, ".")
	turn, epoch := l.gate()
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(l.next(2) == 0)
	case reflect.Interface:
		v.Set(reflect.ValueOf(l.message()))
	case reflect.Int, reflect.Int64:
		v.SetInt([]int64{0, 1, int64(time.Hour), -1, int64(state.Dollar), math.MaxInt64, math.MinInt64}[l.next(7)])
	case reflect.Uint32:
		v.SetUint(uint64(l.next(9)))
	case reflect.Uint64:
		v.SetUint(epoch)
	case reflect.String:
		switch {
		case owner == "Effect" && field == "ID":
			l.asked++
			v.SetString(fmt.Sprint("any.", l.asked))
		case field == "Key":
			v.SetString(l.pick("k1", "k2", "k3", "k9"))
		case field == "ID":
			v.SetString(l.effect())
		case field == "TurnID":
			v.SetString(turn)
		case field == "To" && owner == "Ordered", field == "Phase":
			v.SetString(l.pick("IDLE", "PREP", "ACTIVE", "NAP"))
		case field == "Channel":
			v.SetString(l.pick("mail", "mesh"))
		case field == "Name":
			v.SetString(l.credential())
		case field == "Session":
			v.SetString(l.s.Session.ID)
		case field == "Outcome":
			v.SetString(l.pick("success", "failed", "canceled", "timeout", "partial"))
		default:
			v.SetString(l.pick("", "x", "dorlange3120", "boreas3120"))
		}
	}
}

func (l *life) step(events []state.Event) {
	t, before := l.t, l.s
	input := statetest.JSON(t, before)
	after := state.Step(before, events, l.p, l.now)
	if statetest.JSON(t, before) != input {
		t.Fatalf("%v: Step changed its input", events)
	}
	text := statetest.JSON(t, after)
	if again := statetest.JSON(t, state.Step(before, events, l.p, l.now)); again != text {
		t.Fatalf("%v: Step is not pure:\n%s\n%s", events, text, again)
	}
	var read state.State
	if err := json.Unmarshal([]byte(text), &read); err != nil || statetest.JSON(t, read) != text {
		t.Fatalf("%v: does not survive state.json: %v", events, err)
	}
	if data, ok := members.Append(nil, &after, (*state.State).Members); !ok || string(data) != text {
		t.Fatalf("%v: written as\n%s (%v), want\n%s", events, data, ok, text)
	}
	if read = (state.State{}); !members.Read([]byte(text), &read, (*state.State).Members) || statetest.JSON(t, read) != text {
		t.Fatalf("%v: read as %+v\n%s", events, read, text)
	}
	l.s = after
	l.wantShape(before, events)
	l.wantPrompted(events)
	l.wantTimes(events)
	l.wantMails(before, events)
	l.wantMoney(before, events)
	l.wantWords(events)
	l.wantAnswers(events)
	l.wantHooks(events)
	l.wantExpected(events)
	l.wantSelf(before, events)
	if l.sane {
		l.wantConserved(events)
		l.wantNoDuplicates(events)
	}
	// The methods of State must take whatever Step returns.
	_, _, _ = after.Due(l.p, l.now), after.DueEffects(l.now), after.CanRun(l.p, l.now)
	_ = after.DueHookCalls(l.now)
	l.wantAlarm()
}

// wantHooks checks that each line that announces something is queued for each hook
// that hears it, once, and that no line about a hook announces anything.
func (l *life) wantHooks(events []state.Event) {
	want, got := map[string]int{}, map[string]int{}
	for _, line := range l.s.Lines {
		if line.Effect != nil && line.Effect.Channel == state.ByHook && line.What == "queued" {
			got[line.Effect.To+" "+line.Effect.Announces.ID]++
		}
		a, announces := line.Announcement(l.s.Agent)
		if announces && (strings.HasPrefix(line.ID, "hook.") || line.Effect != nil && line.Effect.Channel == state.ByHook) {
			l.t.Fatalf("%v: a line about a hook announces %s", events, a.Event)
		}
		for _, h := range l.p.Hooks {
			if announces && state.Hears(h.On, a.Event) {
				want[h.Name+" "+a.ID]++
			}
		}
		if announces && !slices.Contains(state.EventNames(), a.Event) {
			l.t.Fatalf("%v: %s is not among the names of events", events, a.Event)
		}
	}
	if !maps.Equal(want, got) {
		l.t.Fatalf("%v: queued for hooks %v, want %v", events, got, want)
	}
	waiting := map[string]int{}
	for _, e := range l.s.HookCalls {
		if waiting[e.To]++; waiting[e.To] > state.MaxHookCalls && l.sane {
			l.t.Fatalf("%v: more than %d rows wait for %s", events, state.MaxHookCalls, e.To)
		}
	}
}

// wantAlarm checks the minute of the alarm line: it lies ahead and before the next poll
// of the interval, a row is due at it, and none becomes due more than a minute before.
func (l *life) wantAlarm() {
	at, ok := l.s.NextAlarm(l.p, l.now)
	if !ok {
		return
	}
	due := l.s
	due.NextDue = at.Add(time.Hour) // of itself no poll is due
	switch {
	case !at.After(l.now) || at.Sub(l.now) > l.s.Interval(l.p)+time.Minute || at.Second() != 0:
		l.t.Fatalf("at %v the alarm line fires at %v", l.now, at)
	case due.Due(l.p, at) == "":
		l.t.Fatalf("nothing is due at %v, when the alarm line fires: %s", at, statetest.JSON(l.t, l.s))
	}
	early := at.Add(-2 * time.Minute)
	if early.After(l.now) && due.Due(l.p, l.now) == "" && due.Due(l.p, early) != "" {
		l.t.Fatalf("%q is due at %v, and the alarm line fires only at %v: %s", due.Due(l.p, early), early, at, statetest.JSON(l.t, l.s))
	}
}

// wantShape checks counters, phase and head.
func (l *life) wantShape(before state.State, events []state.Event) {
	t, s := l.t, l.s
	switch {
	case s.Serial != before.Serial+1:
		t.Fatalf("%v: serial %d after %d", events, s.Serial, before.Serial)
	case s.Valid() != nil:
		t.Fatalf("%v: %v", events, s.Valid())
	case s.Epoch < before.Epoch:
		t.Fatalf("%v: the epoch fell from %d to %d", events, before.Epoch, s.Epoch)
	}
	for i, line := range s.Lines {
		if line.Serial != s.Serial || line.N != i {
			t.Fatalf("%v: line %d is numbered %d.%d", events, i, line.Serial, line.N)
		}
	}
	if !l.sane {
		return
	}
	keys := map[string]bool{}
	var seq uint64
	for _, m := range s.Inbox {
		if keys[m.Key] || m.Seq <= seq || m.Status.Ended() {
			t.Fatalf("%v: inbox %+v", events, s.Inbox)
		}
		keys[m.Key], seq = true, m.Seq
		active := m.Status == state.Pending || m.Status == state.Processing
		if active != (s.Turn.Status != state.HeadIdle && (s.Turn.Key == m.Key || slices.Contains(s.Turn.With, m.Key))) {
			t.Fatalf("%v: %s is %s, the head %+v", events, m.Key, m.Status, s.Turn)
		}
	}
	if s.Turn.Status != state.HeadIdle && !keys[s.Turn.Key] {
		t.Fatalf("%v: a turn without a message: %+v", events, s.Turn)
	}
}

// wantExpected checks the reports that no active turn waits for. One that has come waits
// with a message in the inbox for its turn, and nothing waits twice. The operator waits for
// no report. Questions to the operator are expected as well when their turn is reaped.
func (l *life) wantExpected(events []state.Event) {
	if state.QuestionsBlockOperator(l.s, l.p, l.now) {
		l.t.Fatalf("%v: the operator waits for the reports of a turn: %+v", events, l.s.Turn)
	}
	if !l.sane {
		return
	}
	ids := map[string]bool{}
	for _, w := range l.s.Turn.Waiting {
		ids[w.ID] = w.Missed == ""
	}
	for _, x := range l.s.Expected {
		if _, waits := l.s.Message(x.For); x.Report != "" && !waits {
			l.t.Fatalf("%v: the report on %s waits for a message that is gone: %+v", events, x.ID, x)
		}
		if ids[x.ID] || !x.Outside && !x.Operator || x.Handed {
			l.t.Fatalf("%v: %s waits twice, or is not to: %+v", events, x.ID, x)
		}
		ids[x.ID] = true
	}
	if len(l.s.Expected) > state.MaxExpected {
		l.t.Fatalf("%v: %d reports are expected", events, len(l.s.Expected))
	}
}

// future holds the times that may lie ahead, and how far.
var future = map[string]time.Duration{
	"Timers.NextDue": 31 * time.Minute, "Effect.NotBefore": state.MaxBackoff, "Unfiled.NotBefore": state.MaxBackoff, "Failure.Next": state.MaxRefetch,
	"Effect.Expires": state.MaxPatience, "OpenChallenge.Until": state.TokenLife, "Outage.Until": state.MaxOutage, "WaitingAck.Until": ackAfter,
	"Message.NextRetryAt": state.MaxReminder, "TimedPrompt.AskedUntil": state.PromptLease,
	"TimedPrompt.Next": math.MaxInt64, "TimedPrompt.Done": math.MaxInt64, // which no clock makes true or false
	"Work.CooldownUntil": 5 * time.Minute, "Work.SleepUntil": state.MaxSleep, "Wait.By": state.MaxPatience, "Head.ResumeBy": state.MaxPatience,
}

// TestEveryTimeIsRepaired checks that a step after the clock was set back by years repairs every
// time of a state.
func TestEveryTimeIsRepaired(t *testing.T) {
	l := randomLife(t, nil)
	fill(reflect.ValueOf(&l.s).Elem())
	l.s.Phase, l.s.Turn.Status, l.p.AckAfter, l.p.Copies = state.PREP, state.HeadSuspended, ackAfter, true
	l.s.Cursor.Reread, l.s.Schedule.Alarm = nil, time.Time{}                   // days of the mailbox, a line of the crontab
	l.s.Outbox[1].GivenUp, l.s.HookCalls[1].GivenUp = time.Time{}, time.Time{} // only Undelivered has these
	l.s.Undelivered[1].NotBefore = time.Time{}
	for key := range l.s.Seen {
		l.s.Seen[key] = l.now.Unix()
	}
	l.now = l.now.AddDate(-5, 0, 0)
	l.s = state.Step(l.s, nil, l.p, l.now)
	l.wantTimes(nil)
}

// wantTimes checks that no past event lies in the future and no deadline is out of
// its span.
func (l *life) wantTimes(events []state.Event) {
	walkTimes(reflect.ValueOf(l.s), "", func(name string, at time.Time) {
		if at.After(l.now.Add(future[name])) {
			l.t.Fatalf("%v: now it is %v, and %s is %v", events, l.now, name, at)
		}
	})
	for key, at := range l.s.Seen {
		if at > l.now.Unix() {
			l.t.Fatalf("%v: %s was seen in the future", events, key)
		}
	}
	polled := slices.ContainsFunc(events, func(e state.Event) bool { _, ok := e.(state.Polled); return ok })
	if polled && !l.s.NextDue.After(l.now) {
		l.t.Fatalf("%v: the next poll was due at %v, now it is %v", events, l.s.NextDue, l.now)
	}
	if limit := l.now.Add(l.s.Interval(l.p) + time.Minute); l.s.NextDue.After(limit) {
		l.t.Fatalf("%v: the next poll is due at %v, now it is %v", events, l.s.NextDue, l.now)
	}
}

// wantSelf checks what the agent plans itself: no more rows wait than may, one sleep for
// each conversation, and no turn of its own begins under HALT, without money to spare or
// above the limit of a streak.
func (l *life) wantSelf(before state.State, events []state.Event) {
	rows, sleeps := 0, map[state.Principal]int{}
	for _, m := range l.s.Inbox {
		if m.Source != state.Self {
			if limit := l.now.Add(state.MaxDeferral); m.NextRetryAt.After(limit) && m.Reason != state.OverRate && m.Span == 0 {
				l.t.Fatalf("%v: %s waits until %v, now it is %v", events, m.Key, m.NextRetryAt, l.now)
			}
			continue
		}
		rows++
		if m.Kind != state.KindReminder && m.TurnID == "" {
			sleeps[m.Principal()]++
		}
	}
	if !l.sane {
		return
	}
	for who, n := range sleeps {
		if n > 1 {
			l.t.Fatalf("%v: %d sleeps of %s: %s", events, n, who, statetest.JSON(l.t, l.s))
		}
	}
	if rows > state.MaxSelfRows || l.s.Streak.Turns > l.p.SelfTurns || l.s.Streak.Peers > l.s.Streak.Turns {
		l.t.Fatalf("%v: %d rows of the agent itself, %+v", events, rows, l.s.Streak)
	}
	if len(events) == 1 && l.s.Streak.Turns > before.Streak.Turns && (l.s.Halted() || l.s.Tier(l.p, l.now) != state.TierNormal) {
		l.t.Fatalf("%v: a turn of the agent itself begins: %s", events, statetest.JSON(l.t, l.s))
	}
}

func walkTimes(v reflect.Value, name string, visit func(string, time.Time)) {
	if at, ok := v.Interface().(time.Time); ok {
		visit(name, at)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			walkTimes(v.Elem(), name, visit)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Name == "Announces" {
				continue // what is announced keeps the time of its line
			}
			walkTimes(v.Field(i), v.Type().Name()+"."+v.Type().Field(i).Name, visit)
		}
	case reflect.Slice:
		for i := range v.Len() {
			walkTimes(v.Index(i), name, visit)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			walkTimes(v.MapIndex(key), name, visit)
		}
	}
}

// wantAnswers checks what waits and what was given up. No quiet is made, and no silence
// ends a phase, while an answer waits that was ready less than an hour ago. That answer
// and what stands before it is tried within a minute, unless it may have arrived. A mail
// that cannot be sent is known to fail only as long as one waits. A row is in one place.
func (l *life) wantAnswers(events []state.Event) {
	t, s := l.t, l.s
	owed, byMail := false, false
	for i, e := range s.Outbox {
		byMail = byMail || e.Channel == state.ByMail
		if !state.OwedAnswer(s, e) || !l.now.Before(e.Created.Add(state.OwedFor)) {
			continue
		}
		owed = true
		for _, before := range s.Outbox[:i] {
			if before.Channel == e.Channel && before.To == e.To && !before.Unknown && before.NotBefore.After(l.now.Add(time.Minute)) {
				t.Fatalf("%v: %s waits until %v behind %s, which is not tried before %v", events, e.ID, l.now, before.ID, before.NotBefore)
			}
		}
	}
	for _, line := range s.Lines {
		quiet := beginsEffect(line) && line.Effect.Kind == state.Quiet
		silent := line.Kind == state.LineTransition && line.New == state.IDLE && strings.HasPrefix(line.Reason, "silence")
		if owed && l.sane && (quiet || silent) && !switchesHalt(events) && !queuesAnswer(events) {
			t.Fatalf("%v: going quiet while an answer is owed: %s", events, statetest.JSON(t, s))
		}
	}
	if s.SendingIsDown() && !byMail {
		t.Fatalf("%v: sending fails, and nothing is to be sent", events)
	}
	if len(s.Undelivered) > state.UndeliveredKept && l.sane {
		t.Fatalf("%v: %d rows are kept that were given up", events, len(s.Undelivered))
	}
	for _, e := range s.Undelivered {
		if _, waits := s.Effect(e.ID); waits && l.sane {
			t.Fatalf("%v: %s waits and was given up", events, e.ID)
		}
	}
}

// queuesAnswer reports whether events queue an answer, which may come in the same step
// after a phase has ended.
func queuesAnswer(events []state.Event) bool {
	return slices.ContainsFunc(events, func(e state.Event) bool {
		switch e.(type) {
		case state.Ended, state.Controlled, state.OutboxRetried, state.Released, state.Vouched:
			return true
		}
		return false
	})
}

// wantMoney checks the purse. No total is negative or falls; an account falls only
// when it is forgotten. What is spent is on the account of its day and on its line.
// The tier is one of four, and its notice comes once.
func (l *life) wantMoney(before state.State, events []state.Event) {
	t, was, is := l.t, before.Purse, l.s.Purse
	switch tier := l.s.Tier(l.p, l.now); tier {
	case state.TierNormal, state.TierLow, state.TierCritical, state.TierDead:
		if is.Tier != tier && (is.Tier != "" || tier != state.TierNormal) {
			t.Fatalf("%v: the tier is %s, and %q was told", events, tier, is.Tier)
		}
	default:
		t.Fatalf("%v: the tier is %q", events, tier)
	}
	if left, _ := l.s.Left(l.p, l.now); left < 0 {
		t.Fatalf("%v: %v is left", events, left)
	}
	if !l.sane {
		return
	}
	var spent state.Micros
	for _, line := range l.s.Lines {
		if line.Kind == state.LineSpend {
			spent += line.Spending.Cost
		}
	}
	if is.Total != was.Total+spent || spent < 0 || is.Granted < was.Granted || is.Base != was.Base && was.Opened {
		t.Fatalf("%v: %+v after %+v, and %v was spent", events, is, was, spent)
	}
	today, month := l.s.SpentOn(l.p, l.now)
	todayBefore, monthBefore := before.SpentOn(l.p, l.now)
	if today != todayBefore+spent || month != monthBefore+spent {
		t.Fatalf("%v: %v today, %v this month, after %v and %v and %v more", events, today, month, todayBefore, monthBefore, spent)
	}
	for _, a := range append(slices.Clone(is.Days), is.Months...) {
		if a.Cost < 0 {
			t.Fatalf("%v: %+v", events, is)
		}
	}
	if len(is.Days) > state.DaysKept || len(is.Months) > state.MonthsKept || len(is.Counted) > state.CountedKept || len(is.Unpriced) > state.UnpricedKept {
		t.Fatalf("%v: the purse grows: %+v", events, is)
	}
}

// wantMails checks acks and quiets: one ack for each IDLE→PREP, a quiet only on
// entering IDLE and never while there is work, neither under HALT, six an hour.
func (l *life) wantMails(before state.State, events []state.Event) {
	var wakes, sleeps, acks, quiets int
	if !before.AckWaits.Until.IsZero() {
		wakes++ // of an earlier step
	}
	for _, line := range l.s.Lines {
		switch {
		case line.Kind == state.LineTransition && line.Old == state.IDLE && line.New == state.PREP:
			wakes++
		case line.Kind == state.LineTransition && line.New == state.IDLE:
			sleeps++
		case beginsEffect(line) && line.Effect.Kind == state.Ack:
			acks++
		case beginsEffect(line) && line.Effect.Kind == state.Quiet:
			quiets++
		}
	}
	ordered := slices.ContainsFunc(events, func(e state.Event) bool { _, ok := e.(state.Ordered); return ok })
	switch {
	case acks > wakes || acks > 1 && !ordered:
		l.t.Fatalf("%v: %d acks for %d times IDLE→PREP", events, acks, wakes)
	case quiets > sleeps:
		l.t.Fatalf("%v: %d quiets for %d times IDLE", events, quiets, sleeps)
	case quiets > 0 && !ordered && state.HasWork(l.s, l.p, l.now):
		l.t.Fatalf("%v: going quiet on work: %s", events, statetest.JSON(l.t, l.s))
	case before.Halted() && l.s.Halted() && acks+quiets > 0 && !switchesHalt(events):
		l.t.Fatalf("%v: mails under HALT", events)
	case l.sane && (len(l.s.Acks) > state.MailsAnHour || len(l.s.Quiets) > state.MailsAnHour):
		l.t.Fatalf("%v: %d acks, %d quiets within an hour", events, len(l.s.Acks), len(l.s.Quiets))
	case l.sane && (len(l.s.Rung) > state.MailsAnHour || l.s.WokenBy != "" && l.s.Phase != state.PREP):
		l.t.Fatalf("%v: woken by %q in %s; acks for %v within an hour", events, l.s.WokenBy, l.s.Phase, l.s.Rung)
	}
	if l.sane {
		l.wantPatience(before, events)
	}
}

// wantWords checks the notices of outages: one to the keymaster and one to the
// operator for each outage, on any route, and none to ourselves. Nothing may be due
// on a channel whose credential is denied.
func (l *life) wantWords(events []state.Event) {
	for _, line := range l.s.Lines {
		switch {
		case line.Kind == state.LineCredential:
			delete(l.told, line.From+" alarm")
			delete(l.told, line.From+" blocker")
		case line.Kind == state.LineDelivery && line.What != "sent":
			maps.DeleteFunc(l.told, func(_, id string) bool { return id == line.ID })
		case beginsEffect(line) && line.Effect.To == l.s.Agent:
			l.t.Fatalf("%v: we write to ourselves: %+v", events, line.Effect)
		case beginsEffect(line) && line.Effect.Kind == state.Alarm:
			l.tell(events, line.Effect.Credential+" alarm", line.ID)
		case beginsEffect(line) && strings.Contains(line.Effect.Text, " polls in a row, since "):
			l.tell(events, line.Effect.Credential+" blocker", line.ID)
		}
	}
	for _, e := range l.s.DueEffects(l.now) {
		if l.s.Denied(state.CredentialOf(e.Channel)) {
			l.t.Fatalf("%v: %s is due on a channel that refuses us", events, e.ID)
		}
	}
	if l.sane && (len(l.s.Alarms) > state.MailsAnHour || len(l.s.Relays) > 2*state.MailsAnHour) {
		l.t.Fatalf("%v: %d alarms, %d relays within an hour", events, len(l.s.Alarms), len(l.s.Relays))
	}
}

// beginsEffect reports whether a line begins an effect. The other lines of this kind tell
// of a row that is in the outbox already and was rendered again.
func beginsEffect(line state.Line) bool {
	return line.Kind == state.LineEffect && line.What == "queued"
}

func (l *life) tell(events []state.Event, what, id string) {
	if old, told := l.told[what]; told && l.sane {
		l.t.Fatalf("%v: %s is told as %s and as %s", events, what, old, id)
	}
	l.told[what] = id
}

func switchesHalt(events []state.Event) bool {
	return slices.ContainsFunc(events, func(e state.Event) bool {
		switch e.(type) {
		case state.Switched, state.Controlled:
			return true
		}
		return false
	})
}

// wantConserved checks that nothing is lost or repeated. An accepted message is in
// the inbox or has ended once. A queued effect is in the outbox or was done once. A
// turn ends once.
func (l *life) wantConserved(events []state.Event) {
	once := func(what string, set map[string]bool, id string, begins bool) {
		if set[id] == begins {
			l.t.Fatalf("%v: %s %s begins or ends twice", events, what, id)
		}
		set[id] = begins
	}
	for _, line := range l.s.Lines {
		l.wantChain(events, line)
		switch line.Kind {
		case state.LineMessage:
			once("message", l.waits, line.Key, true)
		case state.LineTask:
			once("message", l.waits, line.Key, false)
			for _, other := range line.Collected {
				once("message", l.waits, other.Key, false)
			}
			once("turn", l.tasks, line.TurnID, true)
		case state.LineEnded:
			delete(l.waits, line.Key) // may never have been accepted
		case state.LineEffect:
			if beginsEffect(line) {
				once("effect", l.queued, line.ID, true)
			}
		case state.LineEdge:
			l.wantEdge(events, line)
		case state.LineDelivery:
			once("effect", l.queued, line.ID, false)
		case state.LineGivenUp:
			if line.What == "retried" {
				once("effect", l.queued, line.ID, true)
			}
		}
	}
	for key, waits := range l.waits {
		if _, there := l.s.Message(key); there != waits {
			l.t.Fatalf("%v: message %s waits: %v, in the inbox: %v", events, key, waits, there)
		}
	}
	for id, queued := range l.queued {
		if _, there := l.s.Effect(id); there != queued {
			l.t.Fatalf("%v: effect %s queued: %v, in the outbox: %v", events, id, queued, there)
		}
	}
	if len(l.s.Inbox) > len(l.waits) || len(l.s.Outbox) > len(l.queued) {
		l.t.Fatalf("%v: rows without a history line", events)
	}
}

// wantChain checks that a message belongs to one chain as long as it is there, and so
// does its turn.
func (l *life) wantChain(events []state.Event, line state.Line) {
	if !l.sane {
		return
	}
	switch line.Kind {
	case state.LineMessage:
		l.chains[line.Key] = line.Message.Trace
	case state.LineTurn:
		if line.Key == "" {
			return // a stale write
		}
	case state.LineTask:
	default:
		return
	}
	if line.Trace == "" || line.Trace != l.chains[line.Key] {
		l.t.Fatalf("%v: the chain of %s is %q, and its %s line has %q", events, line.Key, l.chains[line.Key], line.Kind, line.Trace)
	}
}

// wantEdge checks that an edge belongs to a chain, and that a join has both its ids.
func (l *life) wantEdge(events []state.Event, line state.Line) {
	if l.sane && (line.Trace == "" || line.What == "join" && (line.Request == "" || line.Response == "")) {
		l.t.Fatalf("%v: an edge of no chain, or a join without its ids: %+v", events, line)
	}
}

// wantNoDuplicates checks that the same items, brought once more, change nothing.
func (l *life) wantNoDuplicates(events []state.Event) {
	var again []state.Event
	for _, e := range events {
		switch e.(type) {
		case state.Arrived, state.Rejected, state.Noted, state.Controlled, state.Reported, state.Released, state.Vouched, state.RelayAsked:
			again = append(again, e)
		}
	}
	// Deadlines that have passed take effect first.
	settled := state.Step(l.s, nil, l.p, l.now)
	twice := state.Step(settled, again, l.p, l.now)
	for _, line := range twice.Lines {
		if line.Kind != state.LineDuplicate {
			l.t.Fatalf("%v: a duplicate has made a line: %+v", events, line)
		}
	}
	strip := func(s state.State) string {
		s.Serial, s.Lines, s.ToAck, s.ToFlag = 0, nil, nil, state.ToFlag{}
		return statetest.JSON(l.t, s)
	}
	if a, b := strip(settled), strip(twice); a != b {
		l.t.Fatalf("%v: duplicates change\n%s\nto\n%s", events, a, b)
	}
}
