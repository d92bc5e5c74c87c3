package fleet

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// TestParseDelivery checks the number and the time in the subject of an acknowledgement.
func TestParseDelivery(t *testing.T) {
	at := time.Unix(1, 500).UTC()
	for reply, want := range map[string]uint64{
		"$JS.ACK.ASL_BOX.goulard.1.7.3.1000000500.0":              7,
		"$JS.ACK._.hash.ASL_BOX.goulard.1.7.3.1000000500.0":       7,
		"$JS.ACK.hub.hash.ASL_BOX.goulard.1.7.3.1000000500.0.rnd": 7,
		"$JS.ACK.ASL_BOX.goulard.1.x.3.1000000500.0":              0,
		"$JS.ACK.ASL_BOX.goulard.1.7.3.x.0":                       0,
		"$JS.ACK.ASL_BOX.goulard":                                 0,
		"":                                                        0,
	} {
		stored, sequence := delivery(reply)
		if sequence != want || want > 0 && !stored.Equal(at) || want == 0 && !stored.IsZero() {
			t.Errorf("%s: %v, %d", reply, stored, sequence)
		}
	}
}

// TestParseHalt checks that an unreadable value does not count as GO.
func TestParseHalt(t *testing.T) {
	for value, want := range map[string]string{
		`{"halted":true,"by":"a","at":"2026-01-02T03:04:05Z"}`: "true",
		`{"halted":false}`:      "false",
		`{}`:                    "error",
		`{"halted":null}`:       "error",
		`{"halted":"true"}`:     "error",
		`{"halted":true`:        "error",
		``:                      "error",
		`true`:                  "error",
		`{"halted":true} trail`: "error",
	} {
		h := parseHalt(&nats.Msg{Data: []byte(value)})
		got := "false"
		switch {
		case h.Broken:
			got = "error"
		case h.Halted:
			got = "true"
		}
		if got != want {
			t.Errorf("%s: %s, want %s", value, got, want)
		}
	}
}
