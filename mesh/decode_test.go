package mesh

import (
	"fmt"
	"strings"
	"testing"
)

// TestUndecodedAlone checks that a message that cannot be decoded does not affect the two good ones
// around it, and is acknowledged only by its own id.
func TestUndecodedAlone(t *testing.T) {
	for _, tt := range []struct{ name, raw, id, from, reason string }{
		{"a number for the text", `{"id":"bad","from":"dorlange","message":7}`, "bad", "dorlange", "cannot unmarshal number"},
		{"a number for the id", `{"id":42,"from":"dorlange"}`, "42", "dorlange", "cannot unmarshal number"},
		{"a number that cannot be an id", `{"id":-1.5e3}`, "", "", "cannot unmarshal number"},
		{"an object for the id", `{"id":{"a":"b"}}`, "", "", "cannot unmarshal object"},
		{"a list for the sender", `{"id":"bad","from":["x"]}`, "bad", "", "cannot unmarshal array"},
		{"hops that are no list", `{"id":"bad","hops":"x"}`, "bad", "", "cannot unmarshal string"},
		{"a word for the time", `{"id":"bad","sent_at":"yesterday"}`, "bad", "", "parsing time"},
		{"a word for proven", `{"id":"bad","proven":"yes"}`, "bad", "", "cannot unmarshal string"},
		{"bytes that are not UTF-8", "{\"id\":\"bad\",\"message\":\"\xff\xfe\"}", "bad", "", "not valid UTF-8"},
		{"an id that is not UTF-8", "{\"id\":\"b\xffd\"}", "", "", "not valid UTF-8"},
		{"two texts", `{"id":"bad","message":"a","message":"b"}`, "bad", "", "contains message twice"},
		{"two texts in another case", `{"id":"bad","message":"a","MESSAGE":"b"}`, "bad", "", "contains message twice"},
		{"two ids", `{"id":"bad","ID":"first"}`, "", "", "contains id twice"},
		{"the id of a good one", `{"id":"first","message":1}`, "", "", "cannot unmarshal number"},
		{"an id that no path can hold", `{"id":"a/b","message":1}`, "", "", "cannot unmarshal number"},
		{"null", `null`, "", "", "not an object"},
		{"a number", `1e400`, "", "", "not an object"},
		{"a text", `"{\"id\":\"bad\"}"`, "", "", "not an object"},
		{"a list", `[{"id":"bad"}]`, "", "", "not an object"},
		{"a word", `nothing`, "", "", "not an object"},
		{"no JSON inside", `{"id":"bad","message":no,,"}":[}`, "", "", ""},
		{"garbage in brackets", `{"id":"bad","message":{?!,"a" 'b'}}`, "bad", "", "invalid character"},
		{"a control character", "{\"id\":\"bad\",\"message\":\"a\nb\"}", "bad", "", "invalid character"},
		{"too deep", `{"id":"bad","x":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`, "bad", "", "exceeded max depth"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			mailbox := `{"halted":true,"messages":[{"id":"first","message":"one"}, ` + tt.raw + ` ,{"id":"last","message":"two"}]}`
			got, err := serve(t, answerWith(200, "application/json", mailbox)).Mailbox(t.Context(), 0)
			if tt.reason == "" { // the end of unmatched brackets is unknown
				if err == nil {
					t.Errorf("%+v", got)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !got.Halted || len(got.Messages) != 2 || got.Messages[0].Text != "one" || got.Messages[1].Text != "two" || len(got.Undecoded) != 1 {
				t.Fatalf("%+v", got)
			}
			u := got.Undecoded[0]
			if u.ID != tt.id || u.From != tt.from || !strings.Contains(u.Reason, tt.reason) || string(u.Raw) != tt.raw {
				t.Errorf("id %q from %q: %s\n%.200s", u.ID, u.From, u.Reason, u.Raw)
			}
			if _, err := Decode(u.Raw); err == nil {
				t.Error("it can be decoded alone")
			}
		})
	}
}

// TestAnswerWithoutMessages checks that an answer without a valid list of messages is an error.
func TestAnswerWithoutMessages(t *testing.T) {
	for _, body := range []string{
		`{"messages":{}}`, `{"messages":7}`, `{"messages":"x"}`, `{"messages":[}`, `{"messages":[{]}`, `{"messages":[{}`, `{"messages":[{} {}]}`,
		`{"messages":[],"messages":[]}`, `{"halted":"yes","messages":[]}`, `{"messages":[]`, `{"messages":[]} x`, `{"messages" []}`, `[]`, `{,}`, `{"a":1,}`,
	} {
		if mailbox, err := serve(t, answerWith(200, "application/json", body)).Mailbox(t.Context(), 0); err == nil {
			t.Errorf("%s: %+v", body, mailbox)
		}
	}
	for _, body := range []string{`{}`, ` { } `, `{"messages":null}`, `{"messages":[ ]}`, `{"Messages":[],"x":{"y":["}"]}}`} {
		if mailbox, err := serve(t, answerWith(200, "application/json", body)).Mailbox(t.Context(), 0); err != nil || !mailbox.Empty() {
			t.Errorf("%s: %+v, %v", body, mailbox, err)
		}
	}
}

// TestUndecodedBlocksNoMessage checks that messages that are never acknowledged do not hide a good
// one.
func TestUndecodedBlocksNoMessage(t *testing.T) {
	var b strings.Builder
	for i := range 5_000 {
		fmt.Fprintf(&b, `[%d],{"message":"%d"},`, i, i)
	}
	c := serve(t, answerWith(200, "application/json", `{"messages":[`+b.String()+`{"id":"good","message":"x"}]}`))
	mailbox, err := c.Mailbox(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if last := mailbox.Messages[len(mailbox.Messages)-1]; last.ID != "good" || len(mailbox.Messages)+len(mailbox.Undecoded) != MaxMessages+1 {
		t.Errorf("%d messages, %d others, the last message is %q", len(mailbox.Messages), len(mailbox.Undecoded), last.ID)
	}
}
