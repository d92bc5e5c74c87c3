package trust

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"agentstateloop/internal/testkit/limittest"
	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/mail/message"
)

// arrivalTime is the arrival time of the mails in these tests.
var arrivalTime = time.Date(2026, 1, 5, 10, 0, 0, 0, time.UTC)

// dkimField returns a well-formed, invalid DKIM-Signature field of a domain.
func dkimField(domain string) string {
	return mailtest.Signature(domain, "from", "to", "date", "subject") + "\r\n"
}

// orderHeader returns the header of a mail from the operator.
func orderHeader(above string, at time.Time) string {
	return above + "From: op@example.com\r\nTo: agent@example.org\r\nDate: " + at.Format(time.RFC1123Z) + "\r\nSubject: @agent hello\r\n\r\n"
}

func TestTrustLimits(t *testing.T) {
	f := Filter{Handle: "agent", Operators: []string{"op@example.com"}, Own: "agent@example.org", Require: RequireDMARC, Verify: VerifyDKIM, Resolver: "127.0.0.1:1"}
	signatures := func(n int64) []message.Field {
		return message.Fields([]byte(orderHeader(strings.Repeat(dkimField("example.net"), int(n)-1)+dkimField("example.com"), arrivalTime)))
	}
	size := limittest.Limit{Max: 1000, Within: func(_ *testing.T, n int64) bool {
		f := Filter{Handle: "agent", Operators: []string{"op@example.com"}, Require: RequireFrom, MaxSize: 1000}
		_, gate, _ := f.Gate(message.ParseHeader([]byte(orderHeader("", arrivalTime))), n)
		return gate == ""
	}}
	limittest.Run(t, []limittest.Limit{
		{Const: "maxSignatures", Max: 10, Within: func(_ *testing.T, n int64) bool {
			proofs, _ := f.signatureProofs(signatures(n), "op@example.com")
			return len(proofs) == 1
		}},
		{Const: "maxNamed", Max: 50, Within: func(_ *testing.T, n int64) bool {
			_, reason := f.namedProofs(nil, signatures(n), "op@example.com")
			return reason == errNoDKIM+"example.com"
		}},
		{Const: "maxKnownKeys", Max: 1000, Within: func(_ *testing.T, n int64) bool {
			queries, keys := int64(0), &knownKeys{}
			for i := range n {
				for range 2 {
					_, _ = keys.lookup(fmt.Sprint(i), func(string) ([]string, error) { queries++; return nil, nil })
				}
			}
			return queries == n
		}},
		limittest.Duration("maxTravel", 7*24*time.Hour, time.Second, func(_ *testing.T, d time.Duration) bool {
			return replayable(message.Fields([]byte(orderHeader("", arrivalTime))), arrivalTime.Add(d)) == ""
		}),
		limittest.Duration("maxTravel", 7*24*time.Hour, time.Second, func(_ *testing.T, d time.Duration) bool { // dated in the future
			return replayable(message.Fields([]byte(orderHeader("", arrivalTime))), arrivalTime.Add(-d)) == ""
		}),
		size,
	})
}
