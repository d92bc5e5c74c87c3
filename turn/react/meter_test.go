package react_test

import (
	"strings"
	"testing"
	"time"

	"agentstateloop/turn"
)

// An answer that broke off is charged, too, whether or not the API counted it.
func TestLostAnswersCost(t *testing.T) {
	long := strings.Repeat("word ", 600)
	for api, stream := range map[string]string{
		"openai": chat(`{"choices":[{"index":0,"delta":{"content":"` + long + `"}}]}`),
		"anthropic": messages(`{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"m","content":[],"usage":{"input_tokens":10,"output_tokens":1}}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"`+long+`"}}`),
	} {
		b := newFixtureOn(t, newServer(t, streamReply(stream)), api)
		b.Deadline = time.Now() // no second try
		_ = b.run(strings.Repeat("read this ", 300), false)
		if len(b.spent) != 1 || b.spent[0].Usage.Output < 500 || b.spent[0].Usage.Input < 10 {
			t.Errorf("%s: spent %+v", api, b.spent)
		}
	}
}

// Impossible figures are replaced by an estimate.
func TestImpossibleUsage(t *testing.T) {
	for _, usage := range []string{`{"prompt_tokens":-5,"completion_tokens":-7}`, `{"prompt_tokens":1000000000000000000,"completion_tokens":3}`} {
		a := chat(`{"choices":[{"index":0,"delta":{"content":"hi"}}]}`, chatStops, `{"choices":[],"usage":`+usage+`}`, done)
		b := newFixtureOn(t, newServer(t, streamReply(a)), "openai")
		err := b.run(strings.Repeat("read this ", 300), false)
		if u := b.spent[0].Usage; err != nil || u.Input < 900 || u.Input > 5000 || u.Output < 0 || u.Output > 100 || u == (turn.Usage{}) {
			t.Errorf("%s: %v, %+v", usage, err, b.spent)
		}
	}
}
