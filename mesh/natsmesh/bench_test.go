package natsmesh_test

import (
	"slices"
	"testing"
	"time"

	"agentstateloop/internal/testkit/fleettest"
	"agentstateloop/mesh"
)

// BenchmarkWatch measures the time from the call that sends a message until the watch of
// its recipient returns, on one server and on three. The server has the message on disk
// before it rings. It reports the median and the 99th percentile in milliseconds.
//
//	go test -bench Watch -benchtime 1000x -run '^$' ./mesh/natsmesh
func BenchmarkWatch(b *testing.B) {
	for name, start := range map[string]func(testing.TB, ...string) *fleettest.Engine{"one": fleettest.Start, "three": fleettest.StartCluster} {
		b.Run(name, func(b *testing.B) {
			e := start(b, "alice", "bob")
			alice, bob := e.Client("alice"), e.Client("bob")
			if _, err := bob.Watch(b.Context(), 0); err != nil { // begins to listen
				b.Fatal(err)
			}
			var times []time.Duration
			for range b.N {
				woken := make(chan error, 1)
				go func() {
					mailbox, err := bob.Watch(b.Context(), time.Minute)
					if err == nil && (len(mailbox.Messages) != 1 || mailbox.Messages[0].From != "alice") {
						b.Errorf("heard %+v", mailbox)
					}
					woken <- err
				}()
				began := time.Now()
				send(b, alice, mesh.Message{To: "bob", Text: "hello"})
				if err := <-woken; err != nil {
					b.Fatal(err)
				}
				times = append(times, time.Since(began))
				ack(b, bob, take(b, bob))
			}
			slices.Sort(times)
			ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
			b.ReportMetric(ms(times[len(times)/2]), "p50-ms")
			b.ReportMetric(ms(times[len(times)*99/100]), "p99-ms")
			b.ReportMetric(0, "ns/op")
		})
	}
}
