package fleet

import (
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
)

// TestRefusedOffers checks what each error answer to an offer means.
func TestRefusedOffers(t *testing.T) {
	for _, test := range []struct {
		answer apiError
		last   int // of *Refused; -1 for another error
		unsure bool
	}{
		{apiError{400, 10071, "wrong last sequence: 12"}, 12, false},
		{apiError{400, 10071, "wrong last sequence"}, 0, false},
		{apiError{400, 10164, "wrong last sequence"}, 0, false},
		{apiError{409, 10158, "duplicate message id is in process"}, -1, true},
		{apiError{503, 10163, "temporarily unavailable"}, -1, true},
		{apiError{503, 10008, "JetStream system temporarily unavailable"}, -1, true},
		{apiError{503, 10077, "store is closed"}, -1, true},
		{apiError{503, 10077, "maximum bytes exceeded"}, -1, false},
		{apiError{400, 10054, "message size exceeds maximum allowed"}, -1, false},
		{apiError{400, 10060, "expected stream does not match"}, -1, false},
	} {
		err := (&link{}).offerRefusal(test.answer)
		refused, ok := errors.AsType[*Refused](err)
		if ok != (test.last >= 0) || ok && refused.Last != uint64(test.last) || Unsure(err) != test.unsure {
			t.Errorf("%+v: %v, unsure: %v", test.answer, err, Unsure(err))
		}
		if err := (&link{}).blockRefusal(err); Unsure(err) != (test.unsure || test.last == 0) {
			t.Errorf("a block, %+v: %v, unsure: %v", test.answer, err, Unsure(err))
		}
	}
}

// TestErrorsAfterPublishing checks that an error in the place of an answer leaves an offer unsure, unless
// the server has refused the publication itself.
func TestErrorsAfterPublishing(t *testing.T) {
	violation := func(text string) error {
		return connError("n1", fmt.Errorf("%w: Permissions Violation for %s", nats.ErrPermissionViolation, text))
	}
	for _, test := range []struct {
		err    error
		unsure bool
	}{
		{connError("n1", nats.ErrTimeout), true},
		{connError("n1", nats.ErrConnectionClosed), true},
		{lostError("n1", 503, errNoResponder), true},
		{&Error{Err: errInvalidAnswer}, true},
		{connError("n1", nats.ErrAuthorization), true}, // the user was removed after the publication
		{violation(`Publish to "$KV.asl-head.alice"`), false},
		{violation(`Publish to "$KV.asl-head.alice.wish"`), true},
		{violation(`Subscription to "_INBOX_alice.x.*"`), true},
	} {
		if err := unsure(test.err, headSubject("alice")); Unsure(err) != test.unsure || err.Error() != test.err.Error() {
			t.Errorf("%v: %v, unsure: %v", test.err, err, Unsure(err))
		}
	}
	l := &link{flights: map[*flight]bool{}, broken: connError("n1", nats.ErrConnectionClosed)}
	if _, err := l.offer(t.Context(), &nats.Msg{}); err == nil || Unsure(err) {
		t.Errorf("on a connection that was lost before: %v", err)
	}
}
