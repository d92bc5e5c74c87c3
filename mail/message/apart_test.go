package message_test

import (
	"bytes"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"agentstateloop/mail/message"
)

// A mail whose attachments lie apart is, whole, the mail in which they do not, whatever
// their sizes and the text are.
func TestWholeIsTheSameMail(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	texts := []string{"", "=_apart 1\n", "a\n=_apart 1\r\n=_apart 2\nb", "Hello.\n", strings.Repeat("äöü =_apart 1\n", 50)}
	for n := range 60 {
		d := draft()
		d.Text = texts[n%len(texts)]
		apart := d
		var contents []io.Reader
		for i := range 1 + random.IntN(4) {
			data := make([]byte, []int{0, 1, 56, 57, 58, 57*512 - 1, 57 * 512, 57*512 + 1, 100_000}[random.IntN(9)])
			for j := range data {
				data[j] = byte(random.Uint32())
			}
			a := message.Attachment{Name: "=_apart 1", Type: "text/csv", Data: data}
			d.Attachments = append(d.Attachments, a)
			if i%3 == 2 {
				apart.Attachments = append(apart.Attachments, a) // a small one, which stands in the mail
				continue
			}
			contents = append(contents, iotest.OneByteReader(bytes.NewReader(data)))
			apart.Attachments = append(apart.Attachments, message.Attachment{Name: a.Name, Type: a.Type, Apart: len(contents), Foreign: n%2 == 0})
		}
		if n%2 == 0 {
			for i := range d.Attachments {
				d.Attachments[i].Type, apart.Attachments[i].Type = "application/pdf", "application/pdf"
			}
		}
		whole, err := message.Whole(render(t, apart), contents)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(whole)
		want := render(t, d)
		if n%2 == 1 { // random bytes are no text in UTF-8, unless there are none
			got, want = bytes.ReplaceAll(got, []byte("; charset=utf-8"), nil), bytes.ReplaceAll(want, []byte("; charset=utf-8"), nil)
		}
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%d: %v\n%.1000s\nwant\n%.1000s", n, err, got, want)
		}
	}
}

// Another number of files than the mail has places is an error, before anything is read.
func TestWholeNeedsEachFile(t *testing.T) {
	d := draft()
	d.Attachments = []message.Attachment{{Name: "a", Apart: 1}, {Name: "b", Apart: 2}}
	raw := render(t, d)
	for n := range 4 {
		contents := make([]io.Reader, n)
		for i := range contents {
			contents[i] = strings.NewReader("x")
		}
		if _, err := message.Whole(raw, contents); (err == nil) != (n == 2) {
			t.Errorf("%d files: %v", n, err)
		}
	}
	other := bytes.Replace(raw, []byte("=_apart 2"), []byte("=_apart 3"), 1)
	if _, err := message.Whole(other, []io.Reader{strings.NewReader(""), strings.NewReader("")}); err == nil {
		t.Error("a place that is not the mail's was filled")
	}
	broken, err := message.Whole(raw, []io.Reader{strings.NewReader("x"), iotest.ErrReader(io.ErrClosedPipe)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(broken); err != io.ErrClosedPipe {
		t.Errorf("%v: want the error of the file", err)
	}
}
