// Package statetest interprets transcripts of an agent's life, for the tests of the packages state
// and store. It also lists the states that a broken disk may leave.
package statetest

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"agentstateloop/state"
)

// Policy returns a policy with mail and mesh (docs/protocol.md, "Configuration").
func Policy() state.Policy {
	return state.Policy{
		IdleInterval: 30 * time.Minute, EngagedInterval: time.Minute,
		PrepTimeout: 5 * time.Minute, ActiveTimeout: 10 * time.Minute, Cooldown: 5 * time.Minute,
		Location: time.UTC,
		HasMail:  true, HasMesh: true, Operator: "op@example.com", Keymaster: "dorlange3120",
		Ack: true, QuietPrep: true, QuietActive: true, Notices: true, Working: true,
		Turns: true, SelfTurns: 3, MaxAttempts: 3, Challenge: true,
	}
}

// Story is the life of one agent.
type Story struct {
	S     state.State
	P     state.Policy
	day   time.Time
	Now   time.Time
	names map[string]string // of random ids, as the transcript shows them
	count map[string]int
	asked int               // challenges
	shown map[string]string // the list last shown, by heading
	out   strings.Builder

	chains bool // show chains
	step   state.StepFunc
}

func New() *Story { return NewWith(state.Step) }

// NewWith returns a story that uses step in the place of state.Step.
func NewWith(step state.StepFunc) *Story {
	return &Story{step: step,
		S: state.New("goulard3120", "seed"), P: Policy(),
		day:   time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC),
		names: map[string]string{}, count: map[string]int{}, shown: map[string]string{},
	}
}

// Tell plays a transcript and returns it with the machine's answers.
func (st *Story) Tell(transcript string) (string, error) {
	for i, line := range strings.Split(strings.TrimRight(transcript, "\n"), "\n") {
		if Expected(line) {
			continue
		}
		fmt.Fprintln(&st.out, line)
		if err := st.Play(strings.TrimSpace(line)); err != nil {
			return "", fmt.Errorf("line %d: %s: %w", i+1, line, err)
		}
	}
	return st.out.String(), nil
}

func Expected(line string) bool {
	return strings.HasPrefix(line, "=>") || strings.HasPrefix(line, "    ")
}

// Play plays one line and writes the result.
func (st *Story) Play(line string) error {
	if word, question, _ := strings.Cut(line, " "); isQuestion(question) {
		now, err := st.clock(word)
		st.Now = now
		switch question {
		case "due?":
			fmt.Fprintf(&st.out, "=> due: %s\n", cmp.Or(st.S.Due(st.P, now), "no"))
		case "last?":
			fmt.Fprintf(&st.out, "=> %s\n", st.last())
		default:
			fmt.Fprintf(&st.out, "=> alarm line: %s\n", st.alarm())
		}
		return err
	}
	events, err := st.Read(line)
	if err != nil || events == nil {
		return err
	}
	st.S = st.step(st.S, events, st.P, st.Now)
	st.Name()
	st.show()
	return nil
}

// isQuestion reports whether words are a question about the state, not an event.
func isQuestion(words string) bool { return words == "due?" || words == "alarm?" || words == "last?" }

// last returns the last mail of the operator and the last answer to them.
func (st *Story) last() string {
	text := "no mail"
	if m := st.S.LastMail; m.Key != "" {
		text = fmt.Sprintf("mail %s of %s at %s, subject %q", m.Key, m.From, st.at(m.At), m.Subject)
	}
	a := st.S.LastAnswer
	if a.TurnID == "" {
		return text + "; no answer"
	}
	text += fmt.Sprintf("; answer to %s (%s) at %s: %s after %s, %v", a.Key, a.Source, st.at(a.At), a.Outcome, span(a.Took), a.Cost)
	switch {
	case a.Reply == "":
	case a.Ended != "":
		text += fmt.Sprintf(", %s %s", a.Reply, a.Ended)
	case a.Sent.IsZero():
		text += fmt.Sprintf(", %s waits", a.Reply)
	default:
		text += fmt.Sprintf(", %s sent at %s", a.Reply, st.at(a.Sent))
	}
	return st.say("%s", text)
}

// alarm returns when the alarm line fires, and the reason for a poll then.
func (st *Story) alarm() string {
	at, ok := st.S.NextAlarm(st.P, st.Now)
	if !ok {
		return "none"
	}
	return st.at(at) + " for " + cmp.Or(st.S.Due(st.P, at), "nothing")
}

// Read reads one line: a directive, or the events of one Step.
func (st *Story) Read(line string) ([]state.Event, error) {
	word, rest, _ := strings.Cut(line, " ")
	switch {
	case line == "" || strings.HasPrefix(line, "#"):
		return nil, nil
	case word == "day":
		day, err := time.Parse("2006-01-02", rest)
		st.day = day
		return nil, err
	case word == "chains":
		st.chains = true
		return nil, nil
	case word == "policy":
		return nil, st.setPolicy(strings.Fields(rest))
	}
	now, err := st.clock(word)
	if err != nil || isQuestion(rest) {
		return nil, err
	}
	st.Now = now
	var events []state.Event
	for phrase := range strings.SplitSeq(rest, ";") {
		more, err := st.event(parsePhrase(phrase))
		if err != nil {
			return nil, err
		}
		events = append(events, more...)
	}
	return events, nil
}

// clock parses a time of day.
func (st *Story) clock(word string) (time.Time, error) {
	t, err := time.Parse("15:04:05", word)
	if err != nil {
		t, err = time.Parse("15:04", word)
	}
	return st.day.Add(t.Sub(time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC))), err
}

func (st *Story) setPolicy(settings []string) error {
	flags := map[string]*bool{
		"ack": &st.P.Ack, "quiet_prep": &st.P.QuietPrep, "quiet_active": &st.P.QuietActive,
		"notices": &st.P.Notices, "working": &st.P.Working, "turns": &st.P.Turns,
		"mail": &st.P.HasMail, "mesh": &st.P.HasMesh, "paces_mesh": &st.P.PacesMesh, "challenge": &st.P.Challenge, "no_peer_ack": &st.P.NoPeerAck,
	}
	for _, setting := range settings {
		name, value, _ := strings.Cut(setting, "=")
		if flag, ok := flags[name]; ok {
			*flag = value == "on"
			continue
		}
		var err error
		switch name {
		case "keymaster":
			st.P.Keymaster = value
		case "peers":
			st.P.Peers = strings.Split(value, ",")
		case "others":
			st.P.Others = strings.Split(value, ",")
		case "login":
			st.P.Login = value
		case "backends":
			st.P.Backends = strings.Split(value, ",")
		case "hooks": // hooks=ops:task,blocker+log:*
			st.P.Hooks = hooks(value)
		case "prompts": // prompts=morning@08:00/24h+check@09:30/0s?
			st.P.Prompts, err = Prompts(value)
		case "ack_after":
			st.P.AckAfter, err = time.ParseDuration(value)
		case "collect":
			st.P.Collect, err = time.ParseDuration(value)
		case "rate":
			st.P.Rate, err = strconv.Atoi(value)
		case "event_rate":
			st.P.EventRate, err = strconv.Atoi(value)
		case "idle":
			st.P.IdleInterval, err = time.ParseDuration(value)
		case "engaged":
			st.P.EngagedInterval, err = time.ParseDuration(value)
		case "zone":
			st.P.Location, err = time.LoadLocation(value)
		case "credit":
			if st.P.Budget.HasCredit = value != "none"; st.P.Budget.HasCredit {
				st.P.Budget.Credit, err = money(value)
			}
		case "day":
			st.P.Budget.Day, err = money(value)
		case "low":
			st.P.Budget.Low, err = money(value)
		case "critical":
			st.P.Budget.Critical, err = money(value)
		default:
			err = fmt.Errorf("no such setting: %s", name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// hooks reads the setting "hooks".
func hooks(value string) []state.HookPolicy {
	var all []state.HookPolicy
	for hook := range strings.SplitSeq(value, "+") {
		if name, on, ok := strings.Cut(hook, ":"); ok {
			all = append(all, state.HookPolicy{Name: name, On: strings.Split(on, ",")})
		}
	}
	return all
}

// Prompts reads the setting "prompts". Each prompt has a name, a time of day and a limit on its
// delay; with a ? its program is asked. "none" means no prompts.
func Prompts(value string) (all []state.PromptPolicy, err error) {
	for prompt := range strings.SplitSeq(value, "+") {
		name, at, ok := strings.Cut(prompt, "@")
		if !ok {
			continue
		}
		c := state.PromptPolicy{Name: name, Asks: strings.HasSuffix(at, "?")}
		at, late, _ := strings.Cut(strings.TrimSuffix(at, "?"), "/")
		if c.CatchUp, err = time.ParseDuration(cmp.Or(late, "24h")); err != nil {
			return nil, err
		}
		clock, err := time.Parse("15:04", at)
		if err != nil {
			return nil, err
		}
		c.At = at
		c.Next = func(after time.Time, zone *time.Location) time.Time {
			after = after.In(zone)
			for day := after.Day(); ; day++ {
				if next := time.Date(after.Year(), after.Month(), day, clock.Hour(), clock.Minute(), 0, 0, zone); next.After(after) {
					return next
				}
			}
		}
		all = append(all, c)
	}
	return all, nil
}

// id returns the random id that the transcript shows under this name. The id of a reply contains
// the id of its turn.
func (st *Story) id(name string) string {
	if turn, ok := strings.CutPrefix(name, "reply."); ok {
		return "reply." + st.id(turn)
	}
	for id, told := range st.names {
		if told == name {
			return id
		}
	}
	return name
}

// Name numbers every new random id of the step.
func (st *Story) Name() {
	number := func(id, kind string) {
		if _, known := st.names[id]; !known && id != "" {
			st.count[kind]++
			st.names[id] = kind + strconv.Itoa(st.count[kind])
		}
	}
	for _, l := range st.S.Lines {
		if l.Kind == state.LineTurn && l.What == state.WordDispatched {
			number(l.TurnID, "t")
		}
		if l.Kind == state.LineEdge && l.What == state.WordAwait {
			number(l.Request, "wait.")
		}
		if l.Kind == state.LineEffect && l.Effect.Kind != state.Reply && l.Effect.Kind != state.Challenge {
			number(l.ID, string(l.Effect.Kind)+".")
		}
	}
}
