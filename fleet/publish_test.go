package fleet

import (
	"errors"
	"testing"
)

// TestTemporaryRefusals checks which refusals of a message are temporary. Their code must not end the
// retries of an outbox.
func TestTemporaryRefusals(t *testing.T) {
	for _, test := range []struct {
		code, number int
		want         int
		lost, full   bool
		text         string
	}{
		{409, 10158, 503, true, false, "no"}, // the same message is in progress
		{503, 10163, 503, true, false, "no"},
		{503, 10008, 503, true, false, "no"},
		{503, 10077, 503, false, true, "maximum bytes exceeded"},
		{503, 10077, 503, true, false, "store is closed"}, // the other servers may store it
		{400, 10071, 400, false, false, "no"},
	} {
		err, ok := errors.AsType[*Error]((&link{}).refusal(apiError{Code: test.code, Number: test.number, Text: test.text}))
		if !ok || err.Code != test.want || err.Lost != test.lost || err.Full() != test.full {
			t.Errorf("%d %d: %+v", test.code, test.number, err)
		}
	}
}
