// Package statetest interprets transcripts of an agent's life, for the tests of the
// packages state and store. It also lists what a broken disk may leave of a state.
package statetest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"agentstateloop/state"
)

// Policy returns a policy with mail and mesh (docs/design.md, "Configuration").
func Policy() state.Policy {
	return state.Policy{
		IdleInterval: 30 * time.Minute, EngagedInterval: time.Minute,
		PrepTimeout: 5 * time.Minute, ActiveTimeout: 10 * time.Minute, Cooldown: 5 * time.Minute,
		Location: time.UTC,
		HasMail:  true, HasMesh: true, Operator: "op@example.com", Keymaster: "dorlange3120",
		Ack: true, QuietPrep: true, QuietActive: true, Notices: true, Working: true,
		Turns: true, MaxAttempts: 3, Challenge: true,
	}
}

// Story is the life of one agent.
type Story struct {
	S     state.State
	P     state.Policy
	day   time.Time
	Now   time.Time
	names map[string]string // of random ids, as they are told
	count map[string]int
	asked int               // challenges
	shown map[string]string // by heading, the list that was last shown
	out   strings.Builder
}

func New() *Story {
	return &Story{
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

// Play plays one line and writes down the result.
func (st *Story) Play(line string) error {
	if word, question, _ := strings.Cut(line, " "); question == "due?" {
		now, err := st.clock(word)
		st.Now = now
		fmt.Fprintf(&st.out, "=> due: %s\n", cmp.Or(st.S.Due(st.P, now), "no"))
		return err
	}
	events, err := st.Read(line)
	if err != nil || events == nil {
		return err
	}
	st.S = state.Step(st.S, events, st.P, st.Now)
	st.Name()
	st.show()
	return nil
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
	case word == "policy":
		return nil, st.setPolicy(strings.Fields(rest))
	}
	now, err := st.clock(word)
	if err != nil || rest == "due?" {
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
		"mail": &st.P.HasMail, "mesh": &st.P.HasMesh, "challenge": &st.P.Challenge,
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
		case "login":
			st.P.Login = value
		case "rate":
			st.P.Rate, err = strconv.Atoi(value)
		case "idle":
			st.P.IdleInterval, err = time.ParseDuration(value)
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

// phrase is one event in words: a verb, plain words, name=value options.
type phrase struct {
	verb  string
	words []string
	opts  map[string]string
}

func parsePhrase(s string) phrase {
	p := phrase{opts: map[string]string{}}
	p.verb, s, _ = strings.Cut(strings.TrimSpace(s), " ")
	if before, quoted, ok := strings.Cut(s, `"`); ok { // one quoted text, at the end
		s = before
		p.opts["text"] = strings.TrimSuffix(quoted, `"`)
	}
	for _, word := range strings.Fields(s) {
		if name, value, ok := strings.Cut(word, "="); ok {
			p.opts[name] = value
			continue
		}
		p.words = append(p.words, word)
	}
	return p
}

func (p phrase) word(i int) string {
	if i < len(p.words) {
		return p.words[i]
	}
	return ""
}

func (p phrase) has(word string) bool { return slices.Contains(p.words, word) }

// event converts a phrase to events.
func (st *Story) event(p phrase) ([]state.Event, error) {
	switch p.verb {
	case "mail", "mesh", "tell":
		return st.arrival(p)
	case "nudge":
		return []state.Event{state.Nudged{Key: p.word(0), From: p.opts["from"], Reason: p.opts["text"], MeshID: p.opts["id"], At: st.Now}}, nil
	case "nudges":
		return []state.Event{state.NudgeFiles{Keys: p.words}}, nil
	case "refused":
		return []state.Event{st.rejection(p)}, nil
	case "challenge": // about the mail, with a token of that name
		st.asked++
		return []state.Event{state.Challenged{Key: p.word(0), Hash: state.HashToken(p.word(1)), Mail: state.Effect{ID: fmt.Sprint("challenge.", st.asked)}}}, nil
	case "token":
		e, err := st.vouched(p)
		return []state.Event{e}, err
	case "release":
		e, err := st.released(p)
		return []state.Event{e}, err
	case "discard":
		return []state.Event{state.Discarded{Key: p.word(0), Reason: p.opts["text"]}}, nil
	case "noted":
		return []state.Event{state.Noted{Key: p.word(0), Kind: "report", From: "dorlange3120", Source: state.Mesh, MeshID: p.opts["id"]}}, nil
	case "unreadable":
		return []state.Event{state.Unreadable{Key: p.word(0)}}, nil
	case "poll": // mail was read to its end; "poll again" is a further round
		return []state.Event{state.SourceRead{Source: state.Mail, Cursor: &state.Cursor{Mailbox: "box", Validity: 7, Next: 1, Complete: st.Now}}, state.Polled{Again: p.has("again")}}, nil
	case "blind": // mail could not be read
		return []state.Event{state.SourceFailed{Source: state.Mail}, state.Polled{Again: p.has("again")}}, nil
	case "transition":
		return []state.Event{state.Ordered{To: state.Phase(p.word(0)), Reason: p.opts["text"], NoMail: p.has("no-mail")}}, nil
	case "halt", "go":
		return []state.Event{state.Switched{On: p.verb == "halt", Mesh: p.has("mesh"), Reason: p.opts["text"]}}, nil
	case "flagged":
		return []state.Event{state.Flagged{Mailbox: "box", Validity: 7, UIDs: []uint32{uint32(atoi(p.word(0)))}}}, nil
	case "acked":
		return []state.Event{state.MeshAcked{IDs: p.words}}, nil
	case "uninstall", "install":
		return []state.Event{state.Unscheduled{Removed: p.verb == "uninstall"}}, nil
	case "crontab":
		return []state.Event{state.Scheduled{Line: p.opts["text"], Binary: "/bin/asl", Reason: p.opts["error"]}}, nil
	case "recovered":
		return []state.Event{state.Recovered{Reason: p.opts["text"]}}, nil
	case "credential":
		if p.word(1) == "works" {
			return []state.Event{state.CredentialWorked{Name: p.word(0), Reading: p.has("reading")}}, nil
		}
		return []state.Event{state.CredentialFailed{Name: p.word(0), Reason: p.opts["text"]}}, nil
	case "relay":
		return []state.Event{state.RelayAsked{Key: p.word(0), From: cmp.Or(p.opts["from"], "dorlange3120"), Text: p.opts["text"], MeshID: p.opts["id"]}}, nil
	case "online":
		return []state.Event{state.Online{Handles: p.words}}, nil
	case "sending", "sent", "failed":
		return st.sending(p)
	case "claim", "start", "end", "reap":
		return st.turning(p)
	case "pull":
		return []state.Event{state.Claimed{Pull: true}}, nil
	case "ask", "post", "submit", "sleep", "remember", "suspend", "giveback":
		return st.inside(p)
	case "report":
		return []state.Event{state.Reported{
			Key: p.word(0), From: cmp.Or(p.opts["from"], "dorlange3120"), ToolCallID: st.id(p.opts["to"]),
			Payload: "messages/" + p.word(0), MeshID: p.opts["id"],
		}}, nil
	case "stop":
		return []state.Event{state.Stopped{Reason: p.opts["text"]}}, nil
	case "control":
		arrived, err := st.arrival(phrase{verb: "mail", words: p.words, opts: p.opts})
		if err != nil {
			return nil, err
		}
		return []state.Event{state.Controlled{Arrived: arrived[0].(state.Arrived), Control: p.word(1)}}, nil
	case "reset":
		return []state.Event{state.MemoryReset{Note: p.opts["text"], Origin: "op"}}, nil
	case "spent":
		return st.spending(p)
	case "credit":
		amount, err := money(p.word(0))
		return []state.Event{state.Credited{Amount: amount, By: "op"}}, err
	case "compact": // compact session=s1 through=1 "the summary"; without one it came to nothing
		e := state.Compacted{Session: p.opts["session"], Through: uint64(atoi(p.opts["through"])), Text: p.opts["text"]}
		if e.Text != "" {
			e.File = "messages/summary"
		}
		return []state.Event{e}, nil
	case "retry":
		return []state.Event{state.Retried{Message: state.Message{Key: p.word(0), Source: state.Mail, From: st.P.Operator, Operator: true, At: st.Now}}}, nil
	case "drop":
		return []state.Event{state.Dropped{Key: p.word(0), Reason: p.opts["text"]}}, nil
	}
	return nil, fmt.Errorf("no such event: %q", p.verb)
}

// rejection reads `refused k1 trust "no word"`; with unkept, quarantine/ is full.
func (st *Story) rejection(p phrase) state.Rejected {
	return state.Rejected{
		Key: p.word(0), Source: state.Mail, From: "mallory@example.com", Gate: p.word(1), Reason: p.opts["text"], At: st.Now,
		Digest: p.opts["digest"], Unkept: p.has("unkept"), Ask: p.has("ask"),
	}
}

// vouched reads `token x1 m2`: a mail m2 that shows the token of that name and comes
// in by it. With control=STOP it is a control, and `token x1 m2 yes=m1` releases m1.
// Without the token it would be rejected; with proven it comes in anyway.
func (st *Story) vouched(p phrase) (state.Event, error) {
	reply := phrase{verb: "mail", words: p.words[1:], opts: p.opts}
	e, err := st.released(reply)
	v := state.Vouched{Key: reply.word(0), Hash: state.HashToken(p.word(0)), UID: uint32(atoi(p.opts["uid"])), At: st.Now, Then: e.Event}
	v.Else = st.rejection(phrase{words: []string{v.Key, "trust"}, opts: map[string]string{"text": "no word"}})
	if p.has("proven") {
		v.Else = e.Event
	}
	if key := p.opts["yes"]; key != "" && err == nil {
		v.Then, err = st.released(phrase{words: []string{key}, opts: map[string]string{"text": "YES"}})
	}
	return v, err
}

// released reads `release k1` as a mail of the operator, `release k1 as=mesh` as a
// message of a peer, and `release k1 control=STOP`. same= identifies its bytes.
func (st *Story) released(p phrase) (state.Released, error) {
	e := state.Released{Key: p.word(0), Reason: p.opts["text"], Same: p.opts["same"]}
	arrived, err := st.arrival(phrase{verb: cmp.Or(p.opts["as"], "mail"), words: p.words, opts: p.opts})
	if err != nil {
		return e, err
	}
	e.Event = arrived[0]
	if control := p.opts["control"]; control != "" {
		e.Event = state.Controlled{Arrived: arrived[0].(state.Arrived), Control: control}
	}
	return e, nil
}

// arrival reads `mail m1`, `mesh q1 from=dorlange3120` and `tell c1`. at=09:29:10 is
// the time of the item, uid= and id= are what its server is to be informed about.
func (st *Story) arrival(p phrase) ([]state.Event, error) {
	at := st.Now
	if s, ok := p.opts["at"]; ok {
		var err error
		if at, err = st.clock(s); err != nil {
			return nil, err
		}
	}
	e := state.Arrived{
		Message: state.Message{Key: p.word(0), At: at, Payload: "messages/" + p.word(0)},
		Digest:  p.opts["digest"], UID: uint32(atoi(p.opts["uid"])), MeshID: p.opts["id"],
	}
	switch p.verb {
	case "mail":
		e.Message.Source, e.Message.From, e.Message.Operator = state.Mail, st.P.Operator, true
		e.Thread = state.Thread{Subject: "re " + p.word(0), MessageID: "<" + p.word(0) + "@example.com>"}
	case "mesh":
		e.Message.Source, e.Message.From, e.Message.Kind = state.Mesh, cmp.Or(p.opts["from"], "dorlange3120"), "message"
	case "tell":
		e.Message.Source, e.Message.From, e.Message.Operator = state.CLI, "op", true
	}
	return []state.Event{e}, nil
}

// sending reads `sending ack.1`, `sent ack.1`, `failed ack.1 permanent "550 no"`,
// `failed ack.1 unknown`, `failed ack.1 after=2m` and `failed ack.1 refused`.
func (st *Story) sending(p phrase) ([]state.Event, error) {
	id := st.id(p.word(0))
	switch p.verb {
	case "sending":
		return []state.Event{state.Sending{ID: id}}, nil
	case "sent":
		return []state.Event{state.Sent{ID: id}}, nil
	}
	after, err := time.ParseDuration(cmp.Or(p.opts["after"], "0s"))
	return []state.Event{state.SendFailed{
		ID: id, Permanent: p.has("permanent"), Unknown: p.has("unknown"), Denied: p.has("refused"),
		Reason: p.opts["text"], RetryAfter: after,
	}}, err
}

// turning reads `claim`, `start`, `end success` and `reap`, for the turn at the head
// unless turn= and epoch= name another. A reply goes to the message's sender, unless
// to=nobody.
func (st *Story) turning(p phrase) ([]state.Event, error) {
	turn, epoch := st.S.Turn.TurnID, st.S.Turn.Epoch
	if name, ok := p.opts["turn"]; ok {
		turn = st.id(name)
	}
	if n, ok := p.opts["epoch"]; ok {
		epoch = uint64(atoi(n))
	}
	switch p.verb {
	case "claim":
		return []state.Event{state.Claimed{}}, nil
	case "start":
		return []state.Event{state.Started{TurnID: turn, Epoch: epoch}}, nil
	case "reap":
		return []state.Event{state.Reaped{TurnID: turn, Epoch: epoch, Reason: p.opts["text"]}}, nil
	}
	box := fmt.Sprintf("turns/%s/%d/output", turn, epoch)
	e := state.Ended{TurnID: turn, Epoch: epoch, Outcome: state.Outcome(p.word(0)), Reason: p.opts["text"], OutputBox: box, Deliverable: "answer.md"}
	if id := p.opts["session"]; id != "" {
		e.Session = state.Session{Runner: "claude", ID: id}
	}
	msg, _ := st.S.TurnMessage()
	switch {
	case p.opts["to"] == "nobody" || msg.Source == state.CLI:
	case msg.Source == state.Mesh:
		e.Reply = &state.Effect{ID: "reply." + turn, Kind: state.Reply, Channel: state.ByMesh, To: msg.From, TurnID: turn, File: "outbox/reply"}
	default:
		e.Reply = &state.Effect{ID: "reply." + turn, Kind: state.Reply, Channel: state.ByMail, To: msg.From, TurnID: turn, File: "outbox/reply"}
	}
	return []state.Event{e}, nil
}

// inside reads what the agent, or its runner, does from inside its turn:
// `ask dorlange3120 for=10m "which commit?"`, `post dorlange3120 "done"`,
// `submit`, `sleep for=10m`, `remember "text"`, `suspend`, `giveback for=1m "not logged in"`,
// `giveback forget`. turn= and epoch= name another turn.
func (st *Story) inside(p phrase) ([]state.Event, error) {
	turn, epoch := st.S.Turn.TurnID, st.S.Turn.Epoch
	if name, ok := p.opts["turn"]; ok {
		turn = st.id(name)
	}
	if n, ok := p.opts["epoch"]; ok {
		epoch = uint64(atoi(n))
	}
	span, err := time.ParseDuration(cmp.Or(p.opts["for"], "0s"))
	if err != nil {
		return nil, err
	}
	e := state.Effect{Channel: state.ByMesh, To: p.word(0), Text: p.opts["text"], TurnID: turn}
	switch p.verb {
	case "ask":
		e.Kind = state.Question
		return []state.Event{state.Asked{TurnID: turn, Epoch: epoch, Question: e, Patience: span}}, nil
	case "post":
		e.Kind = state.Post
		return []state.Event{state.Posted{TurnID: turn, Epoch: epoch, Effect: e}}, nil
	case "submit":
		return []state.Event{state.Submitted{TurnID: turn, Epoch: epoch, Deliverable: "submitted.txt"}}, nil
	case "remember":
		return []state.Event{state.Remembered{TurnID: turn, Epoch: epoch, Text: p.opts["text"]}}, nil
	case "sleep":
		return []state.Event{state.Slept{TurnID: turn, Epoch: epoch, For: span}}, nil
	case "suspend":
		box := fmt.Sprintf("turns/%s/%d/output", turn, epoch)
		return []state.Event{state.Suspended{TurnID: turn, Epoch: epoch, Box: box, Session: state.Session{Runner: "claude", ID: "s1"}}}, nil
	default:
		return []state.Event{state.GivenBack{TurnID: turn, Epoch: epoch, Reason: p.opts["text"], Wait: span, Forget: p.has("forget")}}, nil
	}
}

// spending reads `spent 0.30 id=c1 model=gpt-4o basis=dearest input=1000`, for the
// turn at the head unless turn= names another.
func (st *Story) spending(p phrase) ([]state.Event, error) {
	cost, err := money(p.word(0))
	turn, epoch := st.S.Turn.TurnID, st.S.Turn.Epoch
	if name, ok := p.opts["turn"]; ok {
		turn = st.id(name)
	}
	msg, _ := st.S.TurnMessage()
	e := state.Spent{TurnID: turn, Epoch: epoch, From: cmp.Or(p.opts["from"], msg.From), Spending: state.Spending{
		ID: p.opts["id"], Model: p.opts["model"], Cost: cost, Basis: cmp.Or(p.opts["basis"], state.BasisTable),
		Tokens: state.Tokens{Input: int64(atoi(p.opts["input"]))},
	}}
	if session, ok := p.opts["session"]; ok {
		e.Meter = state.Meter{Session: session, Tokens: e.Spending.Tokens}
	}
	return []state.Event{e}, err
}

// money parses dollars, negative ones too.
func money(s string) (state.Micros, error) {
	usd, err := strconv.ParseFloat(s, 64)
	return state.Micros(math.Round(usd * float64(state.Dollar))), err
}

func atoi(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

// id returns the random id that the transcript shows under this name. A reply's id
// contains its turn's.
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
		if l.Kind == state.LineTurn && l.What == "dispatched" {
			number(l.TurnID, "t")
		}
		if l.Kind == state.LineEffect && l.Effect.Kind != state.Reply && l.Effect.Kind != state.Challenge {
			number(l.ID, string(l.Effect.Kind)+".")
		}
	}
}

// say formats text and replaces random ids by their names.
func (st *Story) say(format string, args ...any) string {
	text := fmt.Sprintf(format, args...)
	for _, id := range slices.Sorted(maps.Keys(st.names)) {
		text = strings.ReplaceAll(text, id, st.names[id])
	}
	return text
}

// at formats a time, with the date if it is another day's.
func (st *Story) at(t time.Time) string {
	layout := "15:04"
	if t.Second() != 0 {
		layout = "15:04:05"
	}
	if t.Format(time.DateOnly) != st.Now.Format(time.DateOnly) {
		layout = "2006-01-02 " + layout
	}
	return t.Format(layout)
}

// span formats a duration as short as possible.
func span(d time.Duration) string {
	s := d.String()
	s = strings.Replace(s, "m0s", "m", 1)
	return strings.Replace(s, "h0m", "h", 1)
}

// show writes the state after a step.
func (st *Story) show() {
	s := st.S
	facts := []string{string(s.Phase), "every " + span(s.Interval(st.P))}
	if !s.NextDue.IsZero() {
		facts = append(facts, "next "+st.at(s.NextDue))
	}
	if deadline, ok := s.Deadline(st.P); ok {
		facts = append(facts, "silence ends it at "+st.at(deadline))
	}
	if s.HaltedHere {
		facts = append(facts, "HALT here")
	}
	if s.HaltedMesh {
		facts = append(facts, "HALT on the mesh")
	}
	if s.Turn.Status != state.HeadIdle {
		facts = append(facts, fmt.Sprintf("%s %s epoch %d", s.Turn.TurnID, s.Turn.Status, s.Turn.Epoch))
	}
	if s.Turn.Stop != "" {
		facts = append(facts, "to stop: "+s.Turn.Stop)
	}
	if st.Now.Before(s.CooldownUntil) {
		facts = append(facts, "cooling down until "+st.at(s.CooldownUntil))
	}
	if left, limited := s.Left(st.P, st.Now); limited {
		facts = append(facts, fmt.Sprintf("%s with %v left", s.Tier(st.P, st.Now), left))
	}
	fmt.Fprintf(&st.out, "=> %s\n", st.say("%s", strings.Join(facts, ", ")))
	for _, l := range s.Lines {
		fmt.Fprintf(&st.out, "    %s\n", st.say("%s", st.line(l)))
	}
	st.showChanged("inbox", st.inbox())
	st.showChanged("outbox", st.outbox())
	st.showChanged("owed", st.owed())
	st.showChanged("waits", st.waits())
	st.showChanged("failing", st.failing())
	st.showChanged("quarantine", st.quarantine())
	st.showChanged("spent", st.spent())
}

// spent returns the totals.
func (st *Story) spent() []string {
	p := st.S.Purse
	if p.Total == 0 && p.Granted == 0 {
		return nil
	}
	today, month := st.S.SpentOn(st.P, st.Now)
	rows := []string{fmt.Sprintf("%v today, %v this month, %v in all", today, month, p.Total)}
	for _, m := range st.S.Inbox {
		if m.Cost > 0 {
			rows = append(rows, fmt.Sprintf("%v on %s", m.Cost, m.Key))
		}
	}
	if len(p.Unpriced) > 0 {
		rows = append(rows, "no price of "+strings.Join(p.Unpriced, ", "))
	}
	if p.Meter.Session != "" {
		rows = append(rows, fmt.Sprintf("meter of %s at %d", p.Meter.Session, p.Meter.Tokens.Input))
	}
	return rows
}

// showChanged writes a list if it differs from the one shown before.
func (st *Story) showChanged(what string, items []string) {
	text := strings.Join(items, "\n             ")
	if text == st.shown[what] {
		return
	}
	st.shown[what] = text
	fmt.Fprintf(&st.out, "    %-8s %s\n", what+":", st.say("%s", cmp.Or(text, "nothing")))
}

func (st *Story) inbox() []string {
	var rows []string
	for _, m := range st.S.Inbox {
		row := fmt.Sprintf("%s %s", m.Key, m.Status)
		if !m.NextRetryAt.IsZero() {
			row += " until " + st.at(m.NextRetryAt)
		}
		if m.Attempts > 1 {
			row += fmt.Sprintf(", attempt %d", m.Attempts)
		}
		if m.Note != "" {
			row += ", with a note"
		}
		rows = append(rows, row)
	}
	return rows
}

func (st *Story) outbox() []string {
	due := st.S.DueEffects(st.Now)
	var rows []string
	for _, e := range st.S.Outbox {
		row := fmt.Sprintf("%s to %s", e.ID, e.To)
		if slices.ContainsFunc(due, func(d state.Effect) bool { return d.ID == e.ID }) {
			row += ", due"
		}
		if !e.NotBefore.IsZero() && e.NotBefore.After(st.Now) {
			row += ", not before " + st.at(e.NotBefore)
		}
		if !e.Expires.IsZero() {
			row += ", expires " + st.at(e.Expires)
		}
		if e.Copies > 1 {
			row += fmt.Sprintf(", %d copies", e.Copies)
		}
		if e.Sending {
			row += ", on its way"
		}
		if e.Unknown && !e.Sending {
			row += ", may have arrived"
		}
		rows = append(rows, row)
	}
	return rows
}

// owed returns what servers and files are to be informed about.
func (st *Story) owed() []string {
	var owed []string
	if len(st.S.ToFlag.UIDs) > 0 {
		owed = append(owed, fmt.Sprintf(`\Seen %v`, st.S.ToFlag.UIDs))
	}
	if len(st.S.ToAck) > 0 {
		owed = append(owed, fmt.Sprintf("mesh ack %v", st.S.ToAck))
	}
	if st.S.Schedule.Removed {
		owed = append(owed, "no crontab line")
	}
	return owed
}

// waits returns what a turn has asked, its session, and whether the agent sleeps.
func (st *Story) waits() []string {
	var rows []string
	for _, w := range st.S.Turn.Waiting {
		row := fmt.Sprintf("%s of %s", w.ID, w.To)
		switch {
		case w.Report != "":
			row += ", answered by " + w.Report
		case w.Missed != "":
			row += ", " + w.Missed
		default:
			row += ", until " + st.at(st.S.Turn.ResumeBy)
		}
		rows = append(rows, row)
	}
	if id := st.S.Session.ID; id != "" {
		row := "session " + id
		if vain := st.S.Session.FailedSummaries; vain > 0 {
			row += fmt.Sprintf(", %d failed summaries", vain)
		}
		rows = append(rows, row)
	}
	if through := st.S.Compacted.Through; through > 0 {
		rows = append(rows, fmt.Sprintf("a summary through epoch %d", through))
	}
	if !st.S.SleepUntil.IsZero() {
		rows = append(rows, "sleeps until "+st.at(st.S.SleepUntil))
	}
	return rows
}

func (st *Story) quarantine() []string {
	var rows []string
	if n := st.S.Quarantined; n > 0 {
		rows = append(rows, fmt.Sprintf("%d kept", n))
	}
	if n := st.S.Unkept; n > 0 {
		rows = append(rows, fmt.Sprintf("%d not kept", n))
	}
	for _, t := range st.S.Challenges {
		rows = append(rows, fmt.Sprintf("%s asks about %s until %s", t.ID, t.Key, st.at(t.Until)))
	}
	if len(st.S.Unasked) > 0 {
		rows = append(rows, "to be asked about: "+strings.Join(st.S.Unasked, " "))
	}
	return rows
}

func (st *Story) failing() []string {
	var rows []string
	for _, name := range slices.Sorted(maps.Keys(st.S.Credentials)) {
		c := st.S.Credentials[name]
		row := fmt.Sprintf("%s, failure %d since %s", name, c.Failures, st.at(c.Since))
		if c.Keymaster.Sent {
			row += ", keymaster told"
		}
		if c.Operator.Sent {
			row += ", operator told"
		}
		rows = append(rows, row)
	}
	return rows
}

// line formats a history line.
func (st *Story) line(l state.Line) string {
	reason := ""
	if l.Reason != "" {
		reason = ": " + l.Reason
	}
	switch l.Kind {
	case state.LineTransition:
		return fmt.Sprintf("%s → %s%s", l.Old, l.New, reason)
	case state.LineMessage:
		return fmt.Sprintf("message %s from %s", l.Key, l.From)
	case state.LineEffect:
		text := l.Effect.Text
		if text != "" {
			text = fmt.Sprintf(": %q", text)
		}
		if subject := l.Effect.Thread.Subject; subject != "" {
			text = fmt.Sprintf(", subject %q%s", subject, text)
		}
		return fmt.Sprintf("%s %s for %s by %s%s", l.ID, l.What, l.Effect.To, l.Effect.Channel, text)
	case state.LineDelivery:
		return fmt.Sprintf("%s %s%s", l.ID, l.What, reason)
	case state.LineTurn:
		return strings.TrimSpace(fmt.Sprintf("turn %s epoch %d %s %s", l.TurnID, l.Epoch, l.What, l.Key)) + reason
	case state.LineSpend:
		return fmt.Sprintf("spend %s %v of %s for %s by %s, on %s%s", l.Spending.ID, l.Spending.Cost, l.TurnID, l.From, l.Spending.Basis, l.Day, reason)
	case state.LineCredit:
		return fmt.Sprintf("credit %s %v", l.What, l.Amount)
	case state.LineTier:
		return fmt.Sprintf("tier %s → %s%s", l.From, l.What, reason)
	case state.LineMemory:
		return fmt.Sprintf("memory of turn %s epoch %d: %q", l.TurnID, l.Epoch, l.Text)
	case state.LineCompaction:
		text := ""
		if l.Text != "" {
			text = fmt.Sprintf(" through epoch %d: %q", l.Epoch, l.Text)
		}
		return "compaction " + l.What + text + reason
	case state.LineTask:
		return fmt.Sprintf("task %s epoch %d %s %s: %s/%s%s", l.TurnID, l.Epoch, l.Outcome, l.Key, l.OutputBox, l.Deliverable, reason)
	}
	words := []string{string(l.Kind)}
	to := ""
	if l.To != "" {
		to = "to " + l.To
	}
	id := ""
	if l.Kind == state.LineChallenge {
		id = l.ID
	}
	for _, w := range []string{id, l.Key, l.From, to, l.Gate, l.What, l.Request, l.Response} {
		if w != "" {
			words = append(words, w)
		}
	}
	return strings.Join(words, " ") + reason
}

func SameState(t *testing.T, got, want state.State) {
	t.Helper()
	if g, w := JSON(t, got), JSON(t, want); g != w {
		t.Errorf("state is\n%s\nwant\n%s", g, w)
	}
}

func JSON(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// BadStates are contents that a broken state file may have.
var BadStates = map[string]string{
	"empty":           "",
	"truncated":       `{"version":1,"serial":7,"agent":"goul`,
	"zeros":           strings.Repeat("\x00", 512),
	"binary":          "\x7fELF\x02\x01\x01",
	"another type":    `[1,2,3]`,
	"null":            `null`,
	"empty object":    `{}`,
	"no agent":        `{"version":1,"phase":"IDLE","turn":{"status":"idle"}}`,
	"unknown phase":   `{"version":1,"agent":"goulard3120","phase":"NAP","turn":{"status":"idle"}}`,
	"unknown turn":    `{"version":1,"agent":"goulard3120","phase":"IDLE","turn":{"status":"napping"}}`,
	"no turn":         `{"version":1,"agent":"goulard3120","phase":"IDLE"}`,
	"a field's type":  `{"version":1,"agent":"goulard3120","phase":"IDLE","turn":{"status":"idle"},"inbox":"none"}`,
	"a wrong time":    `{"version":1,"agent":"goulard3120","phase":"IDLE","turn":{"status":"idle"},"phase_since":"yesterday"}`,
	"two states":      `{"version":1,"agent":"goulard3120","phase":"IDLE","turn":{"status":"idle"}}{"version":1}`,
	"version in text": `{"version":"1"}`,
}
