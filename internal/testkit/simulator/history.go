package simulator

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// line is a history line as the checker reads it. It is an outsider's reading of the
// JSON, not the type of the program.
type line struct {
	Serial  uint64    `json:"serial"`
	N       int       `json:"n"`
	At      time.Time `json:"at"`
	Kind    string    `json:"kind"`
	Key     string    `json:"key"`
	Source  string    `json:"source"`
	From    string    `json:"from"`
	To      string    `json:"to"`
	What    string    `json:"what"`
	Reason  string    `json:"reason"`
	Old     string    `json:"old"`
	New     string    `json:"new"`
	TurnID  string    `json:"turn_id"`
	Epoch   uint64    `json:"turn_epoch"`
	Status  string    `json:"status"`
	Box     string    `json:"output_box"`
	File    string    `json:"deliverable"`
	Fields  string    `json:"fields"`
	Trace   string    `json:"trace_id"`
	Request string    `json:"request"`
	Answer  string    `json:"response"`
	ID      string    `json:"id"`
	Message *struct {
		Trace    string `json:"trace_id"`
		Operator bool   `json:"operator"`
		Status   string `json:"status"`
		Reason   string `json:"reason"`
	} `json:"message"`
	Row       *row  `json:"row"`
	Collected []row `json:"collected"`
	Effect    *struct {
		Kind    string `json:"kind"`
		Channel string `json:"channel"`
		TurnID  string `json:"turn_id"`
		Cause   string `json:"cause"`

		To        string
		Announces announced
	} `json:"effect"`
	Ack *struct {
		Until time.Time `json:"until"`
	} `json:"ack"`
	Outage   *backendOutage `json:"outage"`
	Amount   int64          `json:"micros"`
	Spending *struct {
		ID     string `json:"id"`
		Micros int64  `json:"micros"`
	} `json:"spending"`
}

// history is the history after reading.
type history struct {
	lines []line
	tasks map[string][]line // by message key
}

func (w *World) readHistory() (history, error) {
	h := history{tasks: map[string][]line{}}
	names, err := filepath.Glob(filepath.Join(w.stateDir(), "history-*.jsonl"))
	if err != nil {
		return h, err
	}
	slices.Sort(names)
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return h, err
		}
		var last line
		for raw := range bytes.Lines(data) {
			if !bytes.HasSuffix(raw, []byte("\n")) {
				continue // torn by a crash; the next commit overwrites it
			}
			var l line
			if err := json.Unmarshal(raw, &l); err != nil {
				return h, fmt.Errorf("%s: %q: %w", filepath.Base(name), raw, err)
			}
			if !last.before(l) {
				w.violate("state", "history: %s: %s stands after %s", filepath.Base(name), l, last)
			}
			last = l
			h.lines = append(h.lines, l)
			if l.Kind == "task" {
				h.tasks[l.Key] = append(h.tasks[l.Key], l)
				for _, other := range l.Collected {
					h.tasks[other.Key] = append(h.tasks[other.Key], l)
				}
			}
		}
	}
	// After the clock is set back, lines may go to the file of an earlier month.
	slices.SortStableFunc(h.lines, func(a, b line) int {
		return cmp.Or(cmp.Compare(a.Serial, b.Serial), cmp.Compare(a.N, b.N))
	})
	return h, nil
}

// before reports whether next may follow l: (serial, n) is unique and rises.
func (l line) before(next line) bool {
	return next.Serial > l.Serial || next.Serial == l.Serial && next.N > l.N || l.Kind == ""
}

// undeliverable reports whether an effect whose id has the prefix was given up. The
// operator is informed of that, so it excuses that the effect did not arrive.
func (h history) undeliverable(prefix string) bool {
	return slices.ContainsFunc(h.lines, func(l line) bool {
		return l.Kind == "delivery" && l.What == "undeliverable" && strings.HasPrefix(l.ID, prefix) && !l.isAboutHook()
	})
}

// says reports whether a line of that kind, with a key of that ending, has a reason
// with that prefix.
func (h history) says(kind, ending, reason string) bool {
	return slices.ContainsFunc(h.lines, func(l line) bool {
		return l.Kind == kind && strings.HasSuffix(l.Key, ending) && strings.HasPrefix(l.Reason, reason)
	})
}

// loggedLines is the number of history lines that are logged with a broken promise.
const loggedLines = 60

// logHistory adds the end of the history to the log.
func (w *World) logHistory() {
	h, err := w.readHistory()
	if err != nil {
		w.logf("history: %v", err)
	}
	w.logf("history:")
	for _, l := range h.lines[max(0, len(h.lines)-loggedLines):] {
		w.logf("  %s", l)
	}
}

func (l line) String() string {
	words := []string{fmt.Sprintf("%d.%d", l.Serial, l.N), l.At.Format("15:04:05"), l.Kind}
	for _, word := range []string{l.What, l.Key, l.ID, l.Old + "→" + l.New, l.TurnID, l.Status, l.Reason} {
		if word != "" && word != "→" {
			words = append(words, word)
		}
	}
	if l.Epoch > 0 {
		words = append(words, fmt.Sprintf("epoch %d", l.Epoch))
	}
	if l.Request != "" {
		words = append(words, "about", l.Request)
	}
	for _, other := range l.Collected {
		words = append(words, "with", other.Key)
	}
	return strings.Join(words, " ")
}
