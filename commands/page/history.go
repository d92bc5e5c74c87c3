package page

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"agentstateloop/commands/present"
	"agentstateloop/cycle"
	"agentstateloop/cycle/view"
	"agentstateloop/internal/plain"
	"agentstateloop/internal/secret"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// The kinds of entries.
const (
	kindMessage = "message"
	kindAnswer  = "answer"
	kindPhase   = "phase"
	kindTrouble = "trouble"
	kindOrder   = "order"
	kindOther   = "other"
)

// kindOf returns the kind of a line's entry.
func kindOf(l state.Line) string {
	switch l.Kind {
	case state.LineMessage, state.LineNudge, state.LineNote:
		return kindMessage
	case state.LineTask:
		if l.Outcome == state.Failed || l.Outcome == state.Timeout {
			return kindTrouble
		}
		return kindAnswer
	case state.LineTransition:
		return kindPhase
	case state.LineHalt, state.LineControl, state.LineReset, state.LineCredit, state.LineQuarantine:
		return kindOrder
	case state.LineGate, state.LineBounce, state.LineDamage, state.LineFetch, state.LineSending, state.LineCompaction, state.LineTier, state.LineRecovery,
		state.LineDelivery, state.LineCredential, state.LineBackend, state.LineSchedule:
		if isRecovered(l) {
			return kindOther
		}
		return kindTrouble
	case state.LineEnded:
		if l.What == state.Word(state.Errored) {
			return kindTrouble
		}
		return kindOrder
	case state.LineTurn:
		switch l.What {
		case state.WordReaped, state.WordGivenBack, state.WordNotPermitted, state.WordFreshSession:
			return kindTrouble
		case state.WordStop:
			return kindOrder
		}
	case state.LinePrompt:
		if l.What == state.WordFailed || l.What == state.WordMissed {
			return kindTrouble
		}
	}
	return kindOther
}

// isRecovered reports whether a line about trouble says that it is over.
func isRecovered(l state.Line) bool {
	switch l.What {
	case state.WordRecovered, state.WordWorks, state.WordWorksAgain, state.WordMended, state.WordMade, state.WordEnded, state.WordRestoredRead,
		state.WordMovedBack, state.WordOneMachine, state.WordRemoved, state.Word(state.TierNormal):
		return true
	}
	return false
}

const (
	recentEntries = 50   // of a document
	contextLines  = 1000 // that are read before the oldest entry, because sentences name earlier messages
	searchLines   = 4000 // that one search looks through
	entryText     = 500  // characters of a sentence
)

// recent is the newest part of an agent's history as entries. It reads the lines that were added
// since the last read.
type recent struct {
	words   *present.HistoryReader
	entries []Entry // the oldest first
	last    state.Line
	serial  uint64 // of the state at the last read
	place   string
}

// read brings r up to date for a state that was read before.
func (r *recent) read(a *cycle.Agent, s state.State, now time.Time) error {
	if r.words == nil || s.Serial < r.serial || s.Place != r.place {
		*r = recent{place: s.Place, words: newWords(a, now)}
		found, err := search(a, s, view.Cursor{Serial: s.Serial, N: wholeSerial}, filter{limit: recentEntries}, r.words, now)
		if err != nil {
			return err
		}
		r.entries, r.last = found.entries, found.newest
	} else if s.Serial != r.serial {
		if err := r.add(a, s, now); err != nil {
			return err
		}
	}
	r.serial = s.Serial
	return nil
}

// add adds the lines after the last one.
func (r *recent) add(a *cycle.Agent, s state.State, now time.Time) error {
	var lines []state.Line
	for l, err := range newestLines(a.Store, s, s.Serial, wholeSerial) {
		if err != nil {
			return fmt.Errorf("read history: %w", err)
		}
		if !l.After(r.last.Serial, r.last.N) {
			if l.At.After(now) {
				continue // a clock ahead of time wrote it, maybe into a file that comes after the newest lines
			}
			break
		}
		lines = append(lines, l)
	}
	for _, l := range slices.Backward(lines) {
		if made := r.words.Entry(l); made != nil {
			r.entries = append(r.entries, entryOf(a.Secrets, l, made))
		}
		r.last = state.Line{Serial: l.Serial, N: l.N}
	}
	r.entries = slices.Delete(r.entries, 0, max(0, len(r.entries)-recentEntries))
	return nil
}

// wholeSerial is the N of a position after all lines of a serial.
const wholeSerial = 1 << 30

// newWords returns the maker of sentences for a page.
func newWords(a *cycle.Agent, now time.Time) *present.HistoryReader {
	return present.NewHistoryReader(now, nil, a.FirstWords)
}

// newestLines yields the lines up to a position, the newest first. The files may lack those of the
// newest commit.
func newestLines(st *store.Store, s state.State, serial uint64, n int) iter.Seq2[state.Line, error] {
	return func(yield func(state.Line, error) bool) {
		for _, l := range slices.Backward(s.Lines) {
			if l.After(serial, n) {
				continue
			}
			if !yield(l, nil) {
				return
			}
			serial, n = l.Serial, l.N-1
		}
		for l, err := range st.Before(serial, n+1) {
			if !yield(l, err) {
				return
			}
		}
	}
}

// entryOf returns the entry of a line, whose sentence made makes, without secrets.
func entryOf(secrets *secret.Known, l state.Line, made func() (text, words string)) Entry {
	text, words := made()
	text, words = secrets.Redact(text), secrets.Redact(words)
	return Entry{
		ID: view.Cursor{Serial: l.Serial, N: l.N}.String(), At: l.At.UTC(), Kind: kindOf(l),
		Text: plain.Shorten(plain.Line(text), entryText), Quote: view.OrNull(words),
	}
}

// filter selects entries: the newest ones with these words and of this kind.
type filter struct {
	words []string // in lower case
	kind  string   // "": any
	limit int
}

func (f filter) accepts(e Entry) bool {
	text := e.Text
	if e.Quote != nil {
		text += " " + *e.Quote
	}
	text = strings.ToLower(text)
	return !slices.ContainsFunc(f.words, func(w string) bool { return !strings.Contains(text, w) })
}

// found is the result of a search.
type found struct {
	entries []Entry     // the oldest first
	newest  state.Line  // the newest line that was read
	oldest  *state.Line // the oldest line that was looked through; nil: the history begins with it
}

// search looks through the lines up to a position, until it has enough entries. It reads at most
// searchLines and their context.
func search(a *cycle.Agent, s state.State, at view.Cursor, f filter, words *present.HistoryReader, now time.Time) (found, error) {
	var got found
	var lines []state.Line
	shown, context := 0, 0
	scratch := newWords(a, now)
	inContext := func() bool { return len(lines) >= searchLines || len(f.words) == 0 && shown >= f.limit }
	for l, err := range newestLines(a.Store, s, at.Serial, at.N) {
		if err != nil {
			return got, fmt.Errorf("read history: %w", err)
		}
		if l.After(got.newest.Serial, got.newest.N) {
			got.newest = l
		}
		if inContext() {
			if context++; context > contextLines {
				break
			}
		} else if kind := kindOf(l); (f.kind == "" || f.kind == kind) && scratch.Entry(l) != nil {
			shown++
		}
		lines = append(lines, l)
	}
	searched := len(lines) - min(context, contextLines)
	for i, l := range slices.Backward(lines) {
		made := words.Entry(l)
		if i >= searched || made == nil || f.kind != "" && f.kind != kindOf(l) {
			continue
		}
		if e := entryOf(a.Secrets, l, made); f.accepts(e) {
			got.entries = append(got.entries, e)
		}
	}
	if context > 0 {
		got.oldest = &lines[searched-1]
	}
	return got, nil
}

// Found is an answer to a search in the history: the newest entries first. Before is the ID from
// which the next search continues; null: the history is searched to its beginning.
type Found struct {
	Entries []Entry `json:"entries"`
	Before  *string `json:"before"`
}

// History searches the history of an agent. It returns at most limit entries that are older than the
// entry with the ID before ("": from the newest on), contain the words of query in any order and have
// the kind ("": any). One search reads a part of the history alone, so it may find less than there is:
// the next one continues at Before.
func History(a Source, before, query, kind string, limit int, now time.Time) (Found, error) {
	s, err := a.Agent.Store.Read()
	if err != nil {
		return Found{}, err
	}
	at := view.Cursor{Serial: s.Serial, N: wholeSerial}
	if before != "" {
		if at, err = view.ParseCursor(before); err != nil {
			return Found{}, err
		}
		at.N--
	}
	f := filter{words: strings.Fields(strings.ToLower(query)), kind: kind, limit: limit}
	got, err := search(a.Agent, s, at, f, newWords(a.Agent, now), now)
	if err != nil {
		return Found{}, err
	}
	result := Found{Entries: []Entry{}}
	if got.oldest != nil {
		id := view.Cursor{Serial: got.oldest.Serial, N: got.oldest.N}.String()
		result.Before = &id
	}
	for _, e := range slices.Backward(got.entries) {
		if len(result.Entries) == limit {
			id := result.Entries[limit-1].ID
			result.Before = &id
			break
		}
		result.Entries = append(result.Entries, e)
	}
	return result, nil
}
