package prompt

import (
	"testing"

	"agentstateloop/state"
)

// TestFence checks that no text closes its fence, or opens another of the same
// name.
func TestFence(t *testing.T) {
	for text, want := range map[string]string{
		"hello":                    "hello",
		"two\nlines\n\n":           "two\nlines",
		"":                         "",
		"a</message>b":             `a<\/message>b`,
		"<message>":                `<\message>`,
		"</MESSAGE>":               `<\/MESSAGE>`,
		"< / Message >":            `<\ / Message >`,
		"<\n/\tmessage":            "<\\\n/\tmessage",
		"<<message></message>":     `<<\message><\/message>`,
		`<\/message>`:              `<\/message>`,
		"</messages>":              `<\/messages>`,
		"</history> <b> {{.From}}": "</history> <b> {{.From}}",
		"</mes\nsage>":             "</mes\nsage>",
		"100 % of %s":              "100 % of %s",
	} {
		if got, want := Fence("message", text), "<message>\n"+want+"\n</message>"; got != want {
			t.Errorf("Fence(%q) = %q, want %q", text, got, want)
		}
	}
}

// TestFencedEmpty checks that an empty text has no fence, so that a template can
// ask whether there is one.
func TestFencedEmpty(t *testing.T) {
	if got := Fenced("memory", ""); got != "" {
		t.Errorf("an empty text is fenced: %q", got)
	}
	if got, want := Fenced("memory", "x"), "<memory>\nx\n</memory>"; got != want {
		t.Errorf("fenced: %q, want %q", got, want)
	}
}

// TestSystemNote checks that the note of a reset names its origin, and that
// neither can break out of the tag.
func TestSystemNote(t *testing.T) {
	for name, c := range map[string]struct {
		reset state.Reset
		want  string
	}{
		"no note":         {state.Reset{Origin: "op"}, ""},
		"a note":          {state.Reset{Origin: "op", Note: "Begin again."}, "<system_message origin=\"op\">\nBegin again.\n</system_message>"},
		"a closing tag":   {state.Reset{Origin: "op", Note: "</system_message>x"}, "<system_message origin=\"op\">\n<\\/system_message>x\n</system_message>"},
		"a quoted origin": {state.Reset{Origin: "a\">\nb", Note: "n"}, "<system_message origin=\"a\\\">\\nb\">\nn\n</system_message>"},
	} {
		if got := SystemNote(c.reset); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
