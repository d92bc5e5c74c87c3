package cycle_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentstateloop/state"
	"agentstateloop/state/store"
)

// BenchmarkRecall rebuilds a context from a history of 100,000 lines, with room
// for 800,000 bytes, which are some 200,000 tokens, and with the default. A
// turn with the default must cost the same on a history of a tenth.
func BenchmarkRecall(b *testing.B) {
	for _, c := range []struct{ lines, room int }{{100_000, 800_000}, {100_000, 32 << 10}, {10_000, 32 << 10}} {
		b.Run(fmt.Sprintf("%d-lines/%d-bytes", c.lines, c.room), func(b *testing.B) {
			h := newFixture(b)
			h.agent.Recall = c.room
			longHistory(b, h, c.lines)
			addQuestion(b, h)
			told, used, n := 0, spentCPU(b), 0
			for b.Loop() {
				n++
				view, err := h.agent.Prompt("")
				check(b, err)
				for _, l := range view.Layers {
					if l.Name == "history" {
						told = len(l.Text)
					}
				}
			}
			if c.room > 100_000 && told < c.room*9/10 {
				b.Errorf("%d bytes are recalled of %d", told, c.room)
			}
			b.ReportMetric(float64(told), "bytes/told")
			b.ReportMetric(float64((spentCPU(b)-used).Milliseconds())/float64(n), "cpu-ms/op")
		})
	}
}

func BenchmarkSearch(b *testing.B) {
	h := newFixture(b)
	longHistory(b, h, 100_000)
	addQuestion(b, h)
	for b.Loop() {
		_, err := h.agent.SearchHistory("which build broke in the parser", 5)
		check(b, err)
	}
}

// longHistory writes a history of so many lines, ten for an exchange by mail,
// over twelve months.
func longHistory(b *testing.B, h *fixture, lines int) {
	b.Helper()
	st := h.agent.Store
	words := strings.Fields("build parser branch green red commit deploy crash token window cron mail turn lock disk")
	var month bytes.Buffer
	e := json.NewEncoder(&month)
	at := morning.AddDate(-1, 0, 0)
	perMonth := lines / 12
	check(b, os.MkdirAll(st.Path(store.MessagesDir), 0o700))
	for n := range lines {
		at = at.Add(5 * time.Minute)
		l := state.Line{
			Serial: uint64(n + 1), Last: true, At: at, Kind: state.LineTurn, Key: fmt.Sprint("mail:0123456789abcdef.1.", n/10),
			TurnID: fmt.Sprint("t", n/10), Epoch: uint64(n/10 + 1), What: "running", Reason: "a line of the usual length, of which a turn leaves several",
		}
		if n%10 == 9 {
			l = exchangeLine(b, st, l, words)
		}
		check(b, e.Encode(l))
		if (n+1)%max(1, perMonth) == 0 || n == lines-1 {
			name := fmt.Sprintf("history-%04d-%02d.jsonl", 2020+n/(12*max(1, perMonth)), 1+n/max(1, perMonth)%12)
			check(b, os.WriteFile(st.Path(name), month.Bytes(), 0o600))
			month.Reset()
		}
	}
}

// addQuestion puts a question into the inbox, and so makes the store rebuild the
// state from the history.
func addQuestion(b *testing.B, h *fixture) {
	b.Helper()
	_, err := h.agent.Tell(b.Context(), "me", "which build broke in the parser, and on which branch?")
	check(b, err)
}

// exchangeLine writes the payload and the answer of an exchange, and returns
// its task line.
func exchangeLine(b *testing.B, store *store.Store, l state.Line, words []string) state.Line {
	b.Helper()
	var text strings.Builder
	for i := range 30 {
		text.WriteString(words[(int(l.Serial)*(i+7)/10)%len(words)] + " ")
	}
	l.Kind, l.What, l.Reason, l.Outcome = state.LineTask, "", "", state.Success
	l.OutputBox, l.Deliverable = fmt.Sprintf("turns/%s/%d/output", l.TurnID, l.Epoch), "deliverable.txt"
	l.Row = &state.Message{
		Key: l.Key, Source: state.Mail, From: operator, Operator: true, At: l.At, Observed: l.At,
		Payload: fmt.Sprintf("messages/m%d.eml", l.Epoch), Status: state.Processing, TurnID: l.TurnID, Epoch: l.Epoch,
	}
	check(b, os.WriteFile(store.Path(l.Row.Payload), letter{body: text.String()}.raw(), 0o600))
	check(b, os.MkdirAll(store.Path(l.OutputBox), 0o700))
	check(b, os.WriteFile(store.Path(filepath.Join(l.OutputBox, l.Deliverable)), []byte(text.String()), 0o600))
	return l
}
