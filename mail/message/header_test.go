package message

import (
	"bufio"
	"bytes"
	"io"
	"mime"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestManyEncodedWordsAreCheap checks that encoded words in an expensive charset cost about as much
// as plain ones, so that no mail delays a poll.
func TestManyEncodedWordsAreCheap(t *testing.T) {
	const n = 5000
	header := func(field, word, end string) []byte {
		return []byte(field + strings.TrimSuffix(strings.Repeat(word+end, n), ",") + "\r\n\r\nx")
	}
	part := func(word string) []byte {
		name := "Content-Type: application/pdf\r\nContent-Disposition: attachment; filename=\""
		return bytes.Join([][]byte{[]byte("Content-Type: multipart/mixed; boundary=a\r\n"), header(name, word, ""), nil}, []byte("\r\n--a\r\n"))
	}
	const expensive, cheap = "=?shift_jis?q?a?=", "=!shift_jis!q!a!="
	for name, c := range map[string]struct {
		make func(word string) []byte
		read func([]byte)
	}{
		"Subject": {func(w string) []byte { return header("Subject: ", w, " ") }, func(b []byte) { ParseHeader(b) }},
		"From":    {func(w string) []byte { return header("From: ", w, " <a@b.example>,") }, func(b []byte) { ParseHeader(b) }},
		"a file":  {part, func(b []byte) { ReadContent(bytes.NewReader(b), Sent{}) }},
	} {
		cost := func(word string) float64 {
			raw := c.make(word)
			return testing.AllocsPerRun(1, func() { c.read(raw) })
		}
		if expensive, cheap := cost(expensive), cost(cheap); expensive > cheap+1*n {
			t.Errorf("%s: %.0f allocations, and %.0f without those words", name, expensive, cheap)
		}
	}
}

// TestManyFoldedLinesAreCheap checks that a field of 50,000 folded lines is not copied at each
// line, nor at each line that is not a field.
func TestManyFoldedLinesAreCheap(t *testing.T) {
	folds := "X: x\r\n" + strings.Repeat(" y\r\n", 50_000)
	for name, raw := range map[string]string{
		"folds": folds, "no fields": "X: " + strings.Repeat("x", 200_000) + "\r\n" + strings.Repeat("y\r\n", 15_000),
	} {
		raw := []byte(raw + "\r\n")
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		ParseHeader(raw)
		StrictFields(raw)
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 50<<20 {
			t.Errorf("%s: %d MiB are allocated for a header of %d KiB", name, n>>20, len(raw)>>10)
		}
	}
}

// TestOverlongDomainIsNotMapped checks that a text that is too long for a domain stays unchanged.
func TestOverlongDomainIsNotMapped(t *testing.T) {
	long := "a@" + strings.Repeat("ä", 600) + ".example"
	if got := NormalAddress(long); got != long {
		t.Errorf("NormalAddress gives %s", got)
	}
	if got := NormalAddress("A@" + strings.Repeat("ä.", 30) + "Example"); !strings.HasSuffix(got, ".xn--4ca.example") {
		t.Errorf("NormalAddress gives %s", got)
	}
}

// TestLongSubjectIsDecoded checks that a subject of the maximum length is decoded.
func TestLongSubjectIsDecoded(t *testing.T) {
	word := "=?utf-8?b?w6TDtsO8w6TDtsO8w6TDtsO8w6TDtsO8w6TDtsO8?= " // fifteen umlauts
	h := ParseHeader([]byte("Subject: " + strings.Repeat(word, 40) + "\r\n\r\n"))
	if want := strings.Repeat("äöü", maxSubject); h.Subject != want[:len(h.Subject)] || len(h.Subject) < maxSubject-10 {
		t.Errorf("%d bytes: %s", len(h.Subject), h.Subject)
	}
}

func TestParseHeader(t *testing.T) {
	h := ParseHeader([]byte("From operator Mon Jan  5\r\n" +
		": no name\r\n folded onto nothing\r\n" +
		"From : Op\x00 <operator@example.com>\r\n" +
		"SUBJECT: =?iso-8859-1?q?Gr=FC=DFe?=\r\n\tand a \x01 second line\r\n" +
		"Message-Id: <a@b>\r\n" +
		"References: <1@b>\r\n <2@b> junk <3@b\r\n" +
		"Content-Type: Multipart/Mixed; boundary=\r\n" +
		"\r\nSubject: not this\r\n"))
	if h.From != "operator@example.com" || h.FromFields != 1 {
		t.Errorf("From %q of %d fields", h.From, h.FromFields)
	}
	if h.Subject != "Grüße and a second line" {
		t.Errorf("Subject %q", h.Subject)
	}
	if h.MessageID != "<a@b>" || strings.Join(h.References, " ") != "<1@b> <2@b>" || h.MediaType != "multipart/mixed" {
		t.Errorf("%+v", h)
	}
	if h := ParseHeader([]byte("Subject: Gr\xfc\xdfe\n\n")); h.Subject != "Grüße" {
		t.Errorf("raw Latin-1 subject: %q", h.Subject)
	}
}

// TestSeveralValues checks which value counts if a field occurs several times.
func TestSeveralValues(t *testing.T) {
	for raw, want := range map[string]Header{
		"Subject: one\nSubject: two\n":                                     {Subject: "one"},
		"From: a@example.com, b@example.com\nFrom: c@example.com\n":        {From: "a@example.com", Froms: []string{"a@example.com", "b@example.com", "c@example.com"}, FromFields: 2},
		"From: op@example.com <eve@example.net>\n":                         {From: "eve@example.net", Froms: []string{"eve@example.net"}, FromFields: 1},
		"Message-ID: <1@b> <2@b>\nMessage-ID: <3@b>\n":                     {MessageID: "<1@b>"},
		"Message-ID: one\nMessage-ID: <2@b>\n":                             {MessageID: "<2@b>"},
		"In-Reply-To: <1@b> <2@b>\nIn-Reply-To: <3@b>\n":                   {InReplyTo: "<1@b>", References: []string{"<1@b>", "<2@b>", "<3@b>"}},
		"In-Reply-To: <1@b>\nReferences: <2@b>\nReferences: <3@b> <4@b>\n": {InReplyTo: "<1@b>", References: []string{"<2@b>", "<3@b>", "<4@b>"}},
		"References: <a <1@b>\n":                                           {References: []string{"<1@b>"}},
		"Auto-Submitted: auto-generated\nAuto-Submitted: auto-replied\n":   {AutoSubmitted: "auto-generated", Automatic: true},
		"Auto-Submitted: no\nAuto-Submitted: auto-replied\n":               {AutoSubmitted: "auto-replied", Automatic: true},
		"Auto-Submitted: no\nAuto-Submitted: NO\n":                         {AutoSubmitted: "no"},
		"X-Autorespond: one\nX-Autoreply: two\n":                           {AutoReply: "x-autorespond: one"},
		"Precedence: normal\nPrecedence: special\n":                        {Precedence: "normal", PrecedenceWord: "normal"},
		"Precedence: normal\nPrecedence: list\nPrecedence: bulk\n":         {Precedence: "list", PrecedenceWord: "list"},
		"List-Post: one\nList-Id: two\n":                                   {ListID: "list-post: one"},
		"Return-Path: <a@b>\nReturn-Path: <c@d>\n":                         {ReturnPath: "<a@b>"},
		"Content-Type: text/plain\nContent-Type: text/html\n":              {MediaType: "text/plain"},
		"X-AgentStateLoop: one\nX-AgentStateLoop: two\n":                   {Agent: "one"},
	} {
		got := ParseHeader([]byte(raw))
		got.stable = ""
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, want %+v", raw, got, want)
		}
	}
	if got := thin([]string{"1", "2", "3", "4"}, 3); !slices.Equal(got, []string{"1", "3", "4"}) {
		t.Errorf("of four references %q are kept", got)
	}
}

// TestDigest checks that all copies of one mail have the same digest, and other mails have another.
func TestDigest(t *testing.T) {
	const mail = "From: a@b\r\nMessage-ID: <1@b>\r\nSubject: x\r\nDate: today\r\n"
	same := ParseHeader([]byte("Return-Path: <z@b>\r\n" + mail + "\r\n")).stable
	if got := ParseHeader([]byte(mail + "Received: elsewhere\r\n\r\n")).stable; got != same {
		t.Error("another digest after another way")
	}
	if got := ParseHeader([]byte(mail + "To: c@d\r\nIn-Reply-To: <2@b>\r\nContent-Type: text/html\r\n\r\n")).stable; got != same {
		t.Error("another digest with fields that anybody can change")
	}
	if got := ParseHeader([]byte(strings.Replace(mail, ": x", ": y", 1) + "\r\n")).stable; got == same {
		t.Error("the same digest with another subject under the same Message-ID")
	}
	// With a Message-ID, the digest does not depend on time and size.
	for raw, same := range map[string]bool{mail: true, "From: a@b\r\n": false} {
		h, at := ParseHeader([]byte(raw)), time.Unix(1, 0)
		if (Digest(h, at, 1) == Digest(h, at.Add(time.Second), 1)) != same || (Digest(h, at, 1) == Digest(h, at, 2)) != same {
			t.Errorf("%q: %s", raw, Digest(h, at, 1))
		}
	}
}

// TestThreadIDsAsProgramsWriteThem checks that ids are read that programs fold or encode, although
// the RFC forbids it.
func TestThreadIDsAsProgramsWriteThem(t *testing.T) {
	const id = "<reply.t1.abcdefghijklmnopqrstuvwxyz234567.goulard3120@example.org>"
	for name, field := range map[string]string{
		"as it is":              id,
		"on a line of its own":  "\r\n " + id,
		"after another":         "<a@b>\r\n\t" + id + " <c@d>",
		"without a blank":       "<a@b>" + id,
		"folded at a dot":       strings.Replace(id, ".goulard", ".\r\n goulard", 1),
		"folded at the at sign": strings.Replace(id, "@", "\r\n\t@", 1),
		"folded in the MAC":     strings.Replace(id, "mn", "m\r\n  n", 1),
		"with blanks within":    "< " + strings.Trim(id, "<>") + " >",
		"with a phrase":         "Your message of Monday " + id,
		"with a comment":        id + " (Joe's message of \"Jan 5\")",
		"after a name":          "\"John Doe\" <John Doe> " + id,
		"encoded":               "=?utf-8?q?=3Creply=2Et1=2Eabcdefghijklmnopqrstuvwxyz234567=2E?=\r\n =?utf-8?q?goulard3120=40example=2Eorg=3E?=",
		"encoded in base64":     mime.BEncoding.Encode("utf-8", id),
	} {
		for _, in := range []string{"In-Reply-To", "References"} {
			h := ParseHeader([]byte(in + ": " + field + "\r\n\r\n"))
			if !slices.Contains(h.References, id) {
				t.Errorf("%s, in %s: %q", name, in, h.References)
			}
		}
	}
	// These fields contain no id.
	for _, field := range []string{"<John Doe>", "a <b c> d", "< >", "<", "<@", "=?utf-8?q?x?=", "=?utf-8?q?=3Ca b=3E?="} {
		if h := ParseHeader([]byte("References: " + field + "\r\n\r\n")); len(h.References) != 0 {
			t.Errorf("%q holds %q", field, h.References)
		}
	}
	// A Message-ID is repeated in our own header, so it must be valid.
	if h := ParseHeader([]byte("Message-ID: <a b@c>\r\n\r\n")); h.MessageID != "" {
		t.Errorf("Message-ID %q", h.MessageID)
	}
}

// TestManyFroms checks that all From fields are counted, and only the first ones are read.
func TestManyFroms(t *testing.T) {
	many := strings.Repeat("From: a@example.com\n", maxFroms+5) + "\n"
	if h := ParseHeader([]byte(many)); h.FromFields != maxFroms+5 || len(h.Froms) != maxFroms {
		t.Errorf("%d From fields, %d addresses", h.FromFields, len(h.Froms))
	}
}

// FuzzThreadIDs checks that each id in a field is valid in a header of ours, and that an id of ours
// after any text is found.
func FuzzThreadIDs(f *testing.F) {
	f.Add("<a@b> <c@\t d>", uint8(7))
	f.Add("=?utf-8?q?=3Ca=40b=3E?=", uint8(0))
	f.Add("<<a@b>> (<x@y>", uint8(30))
	f.Fuzz(func(t *testing.T, before string, fold uint8) {
		for _, id := range ThreadIDs(before) {
			if !validMessageID(id) {
				t.Errorf("%q holds %q", before, id)
			}
		}
		const id = "<reply.t1.abcdefghijklmnopqrstuvwxyz234567.goulard3120@example.org>"
		at := 1 + int(fold)%(len(id)-1)
		if after := before + " " + id[:at] + " " + id[at:]; !slices.Contains(ThreadIDs(after), id) {
			t.Errorf("%q does not hold the id", after)
		}
	})
}

func TestCutHeader(t *testing.T) {
	long := "X-Y: " + strings.Repeat("x", 4096-len("X-Y: ")) // fills the buffer of a reader
	for header, body := range map[string]string{
		"":                                "",
		"A: b\r\n":                        "",
		"A: b":                            "",
		"A: b\r\n\r\n":                    "c\r\n\r\nd",
		"A: b\n\n":                        "c",
		"\r\n":                            "c",
		long + "\r\nFrom: a@b.cd\r\n\r\n": "c",
		long + "x\r\nA: b\r\n\r\n":        "c",
	} {
		br := bufio.NewReader(strings.NewReader(header + body))
		got, err := CutHeader(br)
		rest, _ := io.ReadAll(br)
		if err != nil || string(got) != header || string(rest) != body {
			t.Errorf("%.40q... cut to %d bytes, and %d left; want %d and %d", header, len(got), len(rest), len(header), len(body))
		}
	}
	endless := strings.NewReader(strings.Repeat("x", 10*MaxHeader))
	if got, err := CutHeader(bufio.NewReader(endless)); err != nil || len(got) < MaxHeader || len(got) > 2*MaxHeader {
		t.Errorf("cut to %d bytes, %v", len(got), err)
	}
}
