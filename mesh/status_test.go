package mesh_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"agentstateloop/mesh"
)

// The mesh's clock is read off its answer, and is zero where it says nothing.
func TestStatusDate(t *testing.T) {
	noon := time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC)
	for date, want := range map[string]time.Time{noon.Format(http.TimeFormat): noon, "": {}, "at noon": {}} {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header()["Date"] = []string{date}
			io.WriteString(w, `{"online": 1}`)
		}))
		c := mesh.Client{URL: web.URL, Handle: "goulard3120"}
		s, err := c.Status(t.Context())
		if err != nil || !s.Date.Equal(want) || s.Online != 1 {
			t.Errorf("Date %q: %+v, %v; want %v", date, s, err, want)
		}
		web.Close()
	}
}
