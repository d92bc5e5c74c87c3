package message_test

import (
	"agentstateloop/mail/message"
	"bufio"
	"io"
	"strings"
	"testing"
)

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
		got, err := message.CutHeader(br)
		rest, _ := io.ReadAll(br)
		if err != nil || string(got) != header || string(rest) != body {
			t.Errorf("%.40q... cut to %d bytes, and %d left; want %d and %d", header, len(got), len(rest), len(header), len(body))
		}
	}
	endless := strings.NewReader(strings.Repeat("x", 10*message.MaxHeader))
	if got, err := message.CutHeader(bufio.NewReader(endless)); err != nil || len(got) < message.MaxHeader || len(got) > 2*message.MaxHeader {
		t.Errorf("cut to %d bytes, %v", len(got), err)
	}
}
