package relay

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
	"testing/iotest"
	"time"
)

// FuzzRequest checks that the bytes of an agent are an error or a request, which is the same after it is
// written and read again. The result does not depend on the number of reads, nor on the bytes after the
// line.
func FuzzRequest(f *testing.F) {
	for _, r := range []Request{
		{Verb: Submit, Text: "text\n\x00\"\u2028", Fields: []Field{{Name: "verdict", Text: "green"}, {Value: []byte("7")}}},
		{Verb: Ask, To: "dorlange3120", Text: "why?", For: time.Hour},
		{Verb: Search, Text: "lighthouse", Most: -1},
	} {
		var b bytes.Buffer
		if err := writeMessage(&b, r); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
		f.Add(b.Bytes()[:b.Len()-1])
		f.Add(append(b.Bytes(), b.Bytes()...))
	}
	for _, line := range []string{
		"", "\n", "null\n", "[]\n", "{}\n", "GET / HTTP/1.1\r\n\r\n", "{\"verb\":7}\n", "{\"for\":1e400}\n", "{\"most\":9223372036854775808}\n",
		"{\"verb\":\"submit\",\"VERB\":\"sleep\",\"turn\":\"another\",\"epoch\":7}\n", "{\"text\":\"\xff\\ud800\"}\n", "{\"fields\":[null,{}]}\n",
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		const limit = 1 << 10
		var r, pieces Request
		err := readMessage(bytes.NewReader(input), limit, &r)
		if again := readMessage(iotest.OneByteReader(bytes.NewReader(input)), limit, &pieces); (again == nil) != (err == nil) || !reflect.DeepEqual(r, pieces) {
			t.Errorf("%q: %+v, %v, and in pieces %+v, %v", input, r, err, pieces, again)
		}
		end := bytes.IndexByte(input, '\n')
		if isLong := end >= limit || end < 0 && len(input) > limit; isLong != errors.Is(err, errTooLong) {
			t.Errorf("%d bytes, the line ends at %d: %v", len(input), end, err)
		}
		if err != nil {
			return
		}
		if end < 0 {
			t.Errorf("%q is a request without the end of its line", input)
		}
		var b bytes.Buffer
		if err := writeMessage(&b, r); err != nil {
			t.Fatalf("%q: %v", input, err)
		}
		var same Request
		if err := readMessage(&b, maxRequest, &same); err != nil || !reflect.DeepEqual(r, normalize(same, r)) {
			t.Errorf("%q: %+v, sent again %+v, %v", input, r, same, err)
		}
	})
}

// normalize returns r with the empty list of fields that JSON leaves out, if like has one.
func normalize(r, like Request) Request {
	if like.Fields != nil && len(like.Fields) == 0 && r.Fields == nil {
		r.Fields = []Field{}
	}
	return r
}
