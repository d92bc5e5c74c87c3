package apirunner

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentstateloop/commands/config"
	"agentstateloop/internal/testkit/limittest"
	"agentstateloop/turn/react"
)

// slowTransport answers requests after a time.
type slowTransport time.Duration

func (d slowTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	select {
	case <-time.After(time.Duration(d)):
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(`{"data":[]}`)), Header: http.Header{}}, nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// lessonOverhead is the length of the file of one lesson without its text.
const lessonOverhead = len("{\n\t\"a m\": {\n\t\t\"omit\": [\n\t\t\t\"\"\n\t\t]\n\t}\n}")

func TestLimits(t *testing.T) {
	original := http.DefaultTransport
	t.Cleanup(func() { http.DefaultTransport = original })
	limittest.Run(t, []limittest.Limit{
		{Const: "maxLessons", Max: 256<<10 - 1, Within: func(t *testing.T, n int64) bool {
			l := lessons{t.TempDir(), "a"}
			return l.Learn("m", react.Lesson{Omit: []string{strings.Repeat("x", int(n)-lessonOverhead)}}) == nil && l.Of("m").Omit != nil
		}},
		limittest.Duration("stallAfter", 5*time.Minute, 2, func(t *testing.T, d time.Duration) (answered bool) {
			synctest.Test(t, func(t *testing.T) {
				http.DefaultTransport = slowTransport(d - 1)
				model, err := new(Runner).model(t.Context(), config.API{})
				if err != nil {
					t.Fatal(err)
				}
				_, err = model.(config.Model).Models(t.Context())
				answered = err == nil
			})
			return answered
		}),
		{Const: "maxServerTools", Max: 100, Within: func(t *testing.T, n int64) bool {
			b := toolbox{watch: new(turnWatch)}
			tools := b.add(make([]react.Tool, 7), make([]react.Tool, n-7), "theirs")
			return len(tools) == int(n) && b.watch.notes == nil
		}},
	})
}
