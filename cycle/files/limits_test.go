package files

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"agentstateloop/internal/testkit/limittest"
	"agentstateloop/mesh"
	"agentstateloop/state/store"
)

var noon = time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC)

func TestLimits(t *testing.T) {
	limittest.Run(t, []limittest.Limit{
		{Const: "fileTries", Max: 2, Within: func(t *testing.T, n int64) bool { return waitsForFile(t, n, time.Hour) }},
		limittest.Duration("fileWait", 10*time.Minute-1, 1, func(t *testing.T, d time.Duration) bool { return waitsForFile(t, 5, d) }),
		{Const: "maxListed", Max: 50, Within: func(_ *testing.T, n int64) bool {
			return !strings.Contains(List(make([]ListedFile, n)), "more")
		}},
		{Const: "maxListedBytes", Max: 8192, Within: func(_ *testing.T, n int64) bool {
			name := strings.Repeat("x", int(n)-len(ListedFile{}.Line()))
			return !strings.Contains(List([]ListedFile{{Name: name}}), "more")
		}}})
}

// waitsForFile reports whether a message waits for its file after the nth try, when the
// first one was d ago.
func waitsForFile(t *testing.T, n int64, d time.Duration) bool {
	st, m := &store.Store{Dir: t.TempDir()}, mesh.Message{ID: "1", From: "boreas3120"}
	waits := fmt.Sprintf(`{"since": %q, "tries": %d}`, noon.Add(-d).Format(time.RFC3339Nano), n-1)
	if err := st.Keep(waitName(m.Key()), strings.NewReader(waits)); err != nil {
		t.Fatal(err)
	}
	again, err := Downloader{Store: st, Now: func() time.Time { return noon }}.waits(m)
	return err == nil && again
}
