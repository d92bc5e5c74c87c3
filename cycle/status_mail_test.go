package cycle_test

import (
	"bytes"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	"agentstateloop/mail/message"
	"agentstateloop/state"
)

// partsOf returns the parts of a multipart/alternative mail, by their type.
func partsOf(t *testing.T, raw string) map[string]string {
	t.Helper()
	m, err := mail.ReadMessage(strings.NewReader(raw))
	check(t, err)
	kind, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	check(t, err)
	if kind != "multipart/alternative" {
		t.Fatalf("the mail is %s", kind)
	}
	parts := map[string]string{}
	for r := multipart.NewReader(m.Body, params["boundary"]); ; {
		p, err := r.NextRawPart()
		if err == io.EOF {
			return parts
		}
		check(t, err)
		var body io.Reader = p
		if p.Header.Get("Content-Transfer-Encoding") == "quoted-printable" {
			body = quotedprintable.NewReader(p)
		}
		text, err := io.ReadAll(body)
		check(t, err)
		kind, _, _ := strings.Cut(p.Header.Get("Content-Type"), ";")
		parts[kind] = strings.ReplaceAll(string(text), "\r\n", "\n")
	}
}

// TestStatusMailHasPage sends STATUS twice, with and without [replies] html: the text is the same, and
// the page has it, with the week.
func TestStatusMailHasPage(t *testing.T) {
	t.Parallel()
	var texts []string
	for _, html := range []bool{false, true} {
		h := newAwakeFixture(t)
		h.agent.Replies.HTML = html
		h.receive(letter{id: "<one@example.com>", body: "work"})
		h.pollAfter(time.Minute)
		h.halt()
		h.receive(letter{id: "<halt@example.com>", body: "STOP"})
		h.receive(letter{id: "<status@example.com>", body: "STATUS"})
		h.pollAfter(time.Minute)
		answers := h.sentOf("answer")
		if len(answers) != 2 || strings.Contains(answers[0].raw, "text/html") {
			t.Fatalf("answers: %+v", answers)
		}
		text, _, _ := strings.Cut(answers[1].text, "history: ")
		texts = append(texts, text)
		if !html {
			if strings.Contains(answers[1].raw, "multipart") {
				t.Errorf("the mail has parts: %s", answers[1].raw)
			}
			continue
		}
		parts := partsOf(t, answers[1].raw)
		page := parts["text/html"]
		if strings.TrimSpace(parts["text/plain"]) != answers[1].text {
			t.Errorf("a reader of text gets %q", parts["text/plain"])
		}
		wantWords(t, page, ">PREP</span>", ">HALTED</span>", ">turn</td>", ">idle</td>", "The last week: ACTIVE for 0:00 h, PREP for 0:01 h, 1 message, 1 turn, 1 answer.", ">Mon 05</td>")
		for _, bad := range []string{"<style", "<script", "<img", "http"} {
			if strings.Contains(page, bad) {
				t.Errorf("the page has %s:\n%s", bad, page)
			}
		}
	}
	if texts[0] != texts[1] {
		t.Errorf("the texts differ:\n%s\n%s", texts[0], texts[1])
	}
}

// TestQueuedStatusMailIsUnchanged queues a mail without a page, as an older version did, and sends it
// with a version that makes pages.
func TestQueuedStatusMailIsUnchanged(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	busy := func(string) error {
		return &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 3, 0}, Message: "busy"}
	}
	h.onRcpt.Store(&busy)
	h.receive(letter{id: "<status@example.com>", body: "STATUS"})
	h.poll()
	queued := h.state().Outbox
	if len(queued) != 1 {
		t.Fatalf("queued: %+v", queued)
	}
	bytesOf, err := os.ReadFile(h.agent.Store.Path(queued[0].File))
	check(t, err)
	h.agent.Replies.HTML = true
	h.onRcpt.Store(nil)
	h.pollAfter(30 * time.Minute)
	answers := h.sentOf("answer")
	if len(answers) != 1 || !bytes.Equal([]byte(answers[0].raw), bytesOf) {
		t.Errorf("sent %+v, queued %s", answers, bytesOf)
	}
}

// TestReplyToStatusPage answers a status mail with GO, above the page as mail programs quote it: GO is a
// control, and no turn reads the quotation.
func TestReplyToStatusPage(t *testing.T) {
	t.Parallel()
	for name, quote := range map[string]func(text string) string{
		"marked": func(text string) string {
			return "On Mon, 5 Jan 2026 at 09:02, goulard3120 <" + address + "> wrote:\n\n> " + strings.ReplaceAll(text, "\n", "\n> ")
		},
		"unmarked": func(text string) string {
			return "________________________________\nFrom: goulard3120 <" + address + ">\nSent: Monday, 5 January 2026 09:02\nTo: " + operator + "\nSubject: Re: @goulard3120 hello\n\n" + text
		},
	} {
		h := newAwakeFixture(t)
		h.agent.Replies.HTML = true
		h.receive(letter{id: "<one@example.com>", body: "work"})
		h.pollAfter(time.Minute)
		h.halt()
		h.receive(letter{id: "<status@example.com>", body: "STATUS"})
		h.pollAfter(time.Minute)
		answer := h.sentOf("answer")[0]
		shown := message.ReadContent(strings.NewReader("Content-Type: text/html; charset=utf-8\r\n\r\n"+partsOf(t, answer.raw)["text/html"]), message.Sent{}).Full
		wantWords(t, shown, "The last week", "Mon 05")
		h.receive(letter{id: "<go@example.com>", body: "GO\n\n" + quote(shown), fields: "In-Reply-To: " + answer.head.MessageID + "\r\nReferences: " + answer.head.MessageID + "\r\n"})
		h.pollAfter(time.Minute)
		if s := h.state(); s.Halted() || len(s.Inbox) != 0 {
			t.Errorf("%s: halted %v, inbox %+v", name, s.Halted(), s.Inbox)
		}
		h.wantTasks(state.Success) // of the work
	}
}
