package commands

import (
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// BenchmarkNudge measures how long it takes from the start of the installed `nudge` until
// the poll that it makes asks the mailbox of the mesh, next to the start of a program that
// does nothing. It reports the median and the 99th percentile, in milliseconds.
//
//	go test -bench Nudge -benchtime 300x -run '^$' ./commands
func BenchmarkNudge(b *testing.B) {
	program, nothing := installProgram(b), emptyProgram(b, b.TempDir())
	asked := make(chan time.Time, 64)
	mesh := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, "/mailbox") {
			asked <- time.Now()
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write([]byte("{}"))
	}))
	b.Cleanup(mesh.Close)
	config := filepath.Join(agentsOnMesh(b, 1, mesh.URL), "a0.toml")
	nudge := func() float64 {
		for len(asked) > 0 {
			<-asked
		}
		began := time.Now()
		if out, err := exec.Command(program, "nudge", "--config", config).CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
		return ms((<-asked).Sub(began))
	}
	empty := func() float64 {
		began := time.Now()
		noError(b, exec.Command(nothing).Run())
		return ms(time.Since(began))
	}
	nudge() // registers, and wakes
	var nudges, empties []float64
	for b.Loop() {
		nudges, empties = append(nudges, nudge()), append(empties, empty())
	}
	b.ReportMetric(median(nudges), "ms-p50")
	b.ReportMetric(nudges[len(nudges)*99/100], "ms-p99") // median has sorted them
	b.ReportMetric(median(empties), "empty-ms-p50")
	b.ReportMetric(0, "ns/op")
}

// ms returns a duration in milliseconds.
func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
