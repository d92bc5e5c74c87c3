package fleet

import (
	"errors"
	"testing"
)

// TestRefusals checks which refusals of a message pass, and that none of those has a code
// that ends the tries of an outbox.
func TestRefusals(t *testing.T) {
	for _, test := range []struct {
		code, number int
		want         int
		lost, full   bool
	}{
		{409, 10158, 503, true, false}, // a repeat is in process
		{503, 10163, 503, true, false},
		{503, 10008, 503, true, false},
		{503, 10077, 503, false, true},
		{400, 10071, 400, false, false},
	} {
		err, ok := errors.AsType[*Error]((&link{}).refusal(apiError{Code: test.code, Number: test.number, Text: "no"}))
		if !ok || err.Code != test.want || err.lost != test.lost || err.Full() != test.full {
			t.Errorf("%d %d: %+v", test.code, test.number, err)
		}
	}
}
