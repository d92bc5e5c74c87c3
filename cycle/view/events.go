package view

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentstateloop/state"
	"agentstateloop/state/store"
	"agentstateloop/turn"
)

// LiveEvent is one event of an agent, as `events` and GET /events show it: a committed event,
// or a step of a running agent (docs/events.md).
type LiveEvent struct {
	Event  string    `json:"event"`
	ID     string    `json:"id"` // a Cursor: the position after it
	Agent  string    `json:"agent"`
	At     time.Time `json:"at"`
	Serial uint64    `json:"serial"` // of the last commit before it
	Data   any       `json:"data"`   // state.Details or StepDetails

	turn string // the turn of the event, or ""
}

// StepDetails describes a step.
type StepDetails struct {
	TurnID string `json:"turn_id"`
	Epoch  uint64 `json:"turn_epoch"`
	turn.Step
}

// Cursor is a position among the events: after a line of the history and, if TurnID is set,
// after a step of an attempt.
type Cursor struct {
	Serial uint64
	N      int
	TurnID string
	Epoch  uint64
	Step   int
}

// String returns the id of an event: SERIAL.N, or SERIAL.N/TURN/EPOCH.STEP.
func (c Cursor) String() string {
	if c.TurnID == "" {
		return fmt.Sprintf("%d.%d", c.Serial, c.N)
	}
	return fmt.Sprintf("%d.%d/%s/%d.%d", c.Serial, c.N, c.TurnID, c.Epoch, c.Step)
}

// wholeSerial is the N of a cursor after all lines of its serial.
const wholeSerial = 1 << 30

// ParseCursor parses the id of an event, or a serial alone.
func ParseCursor(text string) (Cursor, error) {
	wrong := fmt.Errorf("%q is not the id of an event, such as 120.2, or a serial", text)
	c := Cursor{N: wholeSerial}
	line, step, steps := strings.Cut(text, "/")
	var err error
	serial, n, numbered := strings.Cut(line, ".")
	if c.Serial, err = strconv.ParseUint(serial, 10, 62); err != nil {
		return Cursor{}, wrong
	}
	if numbered {
		if c.N, err = strconv.Atoi(n); err != nil || c.N < 0 {
			return Cursor{}, wrong
		}
	}
	if !steps {
		return c, nil
	}
	parts := strings.Split(step, "/")
	if len(parts) != 2 || !isTurnID(parts[0]) {
		return Cursor{}, wrong
	}
	epoch, last, ok := strings.Cut(parts[1], ".")
	c.TurnID = parts[0]
	if c.Epoch, err = strconv.ParseUint(epoch, 10, 62); err != nil || !ok {
		return Cursor{}, wrong
	}
	if c.Step, err = strconv.Atoi(last); err != nil || c.Step < 0 {
		return Cursor{}, wrong
	}
	return c, nil
}

// maxTurnID is how many characters a turn id may have.
const maxTurnID = 64

// isTurnID reports whether text can be the id of a turn, and so the name of a folder.
func isTurnID(text string) bool {
	return text != "" && len(text) <= maxTurnID && !strings.ContainsFunc(text, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
}

// EventsRead limits how many bytes of the history are read for the events since a cursor.
const EventsRead = 8 << 20

// FollowEvery is how often a follower looks for events.
const FollowEvery = 100 * time.Millisecond

// Events iterates over the events of an agent, from a cursor on.
type Events struct {
	agent string
	store *store.Store
	at    Cursor
	seen  uint64 // serial of the state at the last walk
	feed  *turn.FeedReader
	read  []turn.Step // steps of the feed that were not passed on yet
	from  time.Time   // steps of the feed up to this time precede the cursor
	begun bool
}

// Events returns the events after a cursor.
func (r Reader) Events(after Cursor) *Events {
	e := &Events{agent: r.Handle, store: r.Store, at: after}
	if after.TurnID != "" {
		e.open(after.TurnID, after.Epoch, after.Step)
	}
	return e
}

// EventsFromNow returns the events from now on, including those of the running attempt.
func (r Reader) EventsFromNow() (*Events, error) {
	s, err := r.Store.Read()
	if err != nil {
		return nil, err
	}
	e := &Events{agent: r.Handle, store: r.Store, at: Cursor{Serial: s.Serial, N: wholeSerial}, seen: s.Serial, begun: true}
	if s.Turn.NeedsRunner() {
		e.open(s.Turn.TurnID, s.Turn.Epoch, 0)
		steps, err := e.feed.Next()
		if err != nil {
			return nil, err
		}
		for _, step := range steps {
			e.at.Step = step.N
		}
	}
	return e, nil
}

// LastEvents returns the last n events and those that follow. If n is 0, it starts with the
// oldest event within EventsRead.
func (r Reader) LastEvents(n int) (*Events, error) {
	var at Cursor
	for l, err := range r.Store.Newest(EventsRead) {
		if err != nil {
			return nil, fmt.Errorf("read history: %w", err)
		}
		if _, ok := l.Announcement(r.Handle); !ok {
			continue
		}
		if at = (Cursor{Serial: l.Serial, N: l.N}); n > 0 {
			if n--; n == 0 {
				break
			}
		}
	}
	if at.N--; at.N < 0 {
		at.Serial, at.N = max(at.Serial, 1)-1, wholeSerial
	}
	return r.Events(at), nil
}

// open starts to follow an attempt, after one of its steps.
func (e *Events) open(turnID string, epoch uint64, step int) {
	e.at.TurnID, e.at.Epoch, e.at.Step, e.read, e.from = turnID, epoch, step, nil, time.Time{}
	e.feed = &turn.FeedReader{Dir: e.store.Path(store.AttemptDir(turnID, epoch))}
}

// Next returns the events since the last call, without waiting.
func (e *Events) Next() ([]LiveEvent, error) {
	s, err := e.store.Read()
	if err != nil {
		return nil, err
	}
	if e.begun && s.Serial+1 < e.seen { // a damaged state is one commit behind at most
		e.at, e.feed, e.read = Cursor{Serial: max(s.Serial, 1) - 1, N: wholeSerial}, nil, nil // a new state, or an older copy
	}
	var found []LiveEvent
	if !e.begun || s.Serial != e.seen {
		lines, err := e.lines(s)
		if err != nil {
			return nil, err
		}
		for _, l := range lines {
			if found, err = e.take(found, l); err != nil {
				return nil, err
			}
		}
		e.begun, e.seen = true, s.Serial
	}
	steps, err := e.steps(time.Time{})
	return append(found, steps...), err
}

// take adds the event of a history line, after the steps before it. The steps of an attempt
// come before those of the next attempt.
func (e *Events) take(found []LiveEvent, l state.Line) ([]LiveEvent, error) {
	a, ok := l.Announcement(e.agent)
	if !ok {
		e.at.Serial, e.at.N = l.Serial, l.N
		return found, nil
	}
	before := a.At
	next := a.Event == "turn.started" && l.Epoch > e.at.Epoch
	if next {
		before = time.Time{}
	}
	steps, err := e.steps(before)
	if err != nil {
		return nil, err
	}
	found = append(found, steps...)
	e.at.Serial, e.at.N = l.Serial, l.N
	if next {
		e.open(l.TurnID, l.Epoch, 0)
	}
	found = append(found, LiveEvent{Event: a.Event, ID: e.at.String(), Agent: a.Agent, At: a.At, Serial: a.Serial, Data: a.Data, turn: a.Data.TurnID})
	return found, nil
}

// lines returns the history lines after the cursor, the oldest first. The lines of the newest
// commit may exist only in the state.
func (e *Events) lines(s state.State) ([]state.Line, error) {
	var lines []state.Line
	at, known := e.at, e.begun || e.at.TurnID != ""
	for _, l := range slices.Backward(s.Lines) {
		known = known || !l.After(at.Serial, at.N) && e.findAttempt(l)
	}
	for l, err := range e.store.Newest(EventsRead) {
		if err != nil {
			return nil, fmt.Errorf("read history: %w", err)
		}
		if l.After(at.Serial, at.N) {
			lines = append(lines, l)
			continue
		}
		if known = known || e.findAttempt(l); known {
			break
		}
	}
	slices.Reverse(lines)
	last := state.Line{Serial: e.at.Serial, N: e.at.N}
	if n := len(lines); n > 0 {
		last = lines[n-1]
	}
	for _, l := range s.Lines {
		if l.After(last.Serial, last.N) {
			lines = append(lines, l)
		}
	}
	return lines, nil
}

// findAttempt looks for the attempt that was running at the cursor, and follows its steps from
// there on. It is called with the lines before the cursor, the newest first, until it returns
// true.
func (e *Events) findAttempt(l state.Line) (known bool) {
	if e.from.IsZero() {
		e.from = l.At
	}
	if l.Kind != state.LineTurn {
		return false
	}
	switch l.What {
	case state.WordRunning:
		from := e.from
		e.open(l.TurnID, l.Epoch, 0)
		e.from = from
		return true
	case state.WordExited, state.WordSuspended, state.WordReaped, state.WordGivenBack:
		return true
	}
	return false
}

// steps returns the new steps of the followed attempt: those up to until, or all if until is
// zero.
func (e *Events) steps(until time.Time) ([]LiveEvent, error) {
	if e.feed == nil {
		return nil, nil
	}
	steps, err := e.feed.Next()
	if err != nil {
		return nil, err
	}
	e.read = append(e.read, steps...)
	var found []LiveEvent
	for len(e.read) > 0 {
		s := e.read[0]
		if !until.IsZero() && s.At.After(until) {
			break
		}
		e.read = e.read[1:]
		if s.N <= e.at.Step {
			continue
		}
		e.at.Step = s.N
		if !s.At.After(e.from) {
			continue
		}
		name := "step." + string(s.Kind)
		if s.Kind == turn.StepState {
			name = "state." + s.Name()
		}
		found = append(found, LiveEvent{
			Event: name, ID: e.at.String(), Agent: e.agent, At: s.At, Serial: e.at.Serial, turn: e.at.TurnID,
			Data: StepDetails{TurnID: e.at.TurnID, Epoch: e.at.Epoch, Step: s},
		})
	}
	return found, nil
}

// OfTurn reports whether an event belongs to a turn.
func (e LiveEvent) OfTurn(id string) bool { return e.turn == id }

// Follow passes events to take as they happen, until ctx ends or take returns an error.
func (e *Events) Follow(ctx context.Context, take func([]LiveEvent) error) error {
	tick := time.NewTicker(FollowEvery)
	defer tick.Stop()
	for {
		found, err := e.Next()
		if err == nil {
			err = take(found)
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
